//! `idb move`: the tables of a home go from its file to the server that its settings name.

use std::path::Path;

use capstan_engine::entropy::Entropy;
use capstan_idb::{Idb, Moved};

use crate::error::{CellError, Result};
use crate::media::identity;
use crate::session::presence::end_dead_sessions;

/// Moves the tables. Catalogs stay in the home.
pub fn move_database(home: &Path) -> Result<Moved> {
    let idb = Idb::open_to_move(home)?;
    end_dead_sessions(&idb)?;
    if idb.has_running_session()? {
        return Err(CellError::BadInput(
            "a session is running and has the tables in use; move them when it is done".to_owned(),
        ));
    }
    // By its cell it is known again on the server.
    let entropy = Entropy::system().map_err(CellError::io("open", "/dev/urandom"))?;
    identity(&idb, &entropy)?;
    Ok(idb.move_to_server()?)
}
