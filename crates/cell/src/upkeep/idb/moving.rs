//! `idb move`: the tables of a home go from its file to the server that its settings name.

use std::path::Path;

use capstan_engine::entropy::Entropy;
use capstan_idb::{Idb, Moved};

use crate::error::{CellError, IdbRefusal, Result};
use crate::media::identity;
use crate::session::presence::end_dead_sessions;

/// Moves the tables. Catalogs stay in the home.
pub fn move_database(home: &Path) -> Result<Moved> {
    let idb = Idb::open_to_move(home)?;
    end_dead_sessions(&idb)?;
    if idb.has_running_session()? {
        return Err(IdbRefusal::SessionRuns.into());
    }
    // By its cell it is known again on the server.
    let entropy = Entropy::system().map_err(CellError::io("open", "/dev/urandom"))?;
    identity(&idb, &entropy)?;
    Ok(idb.move_to_server()?)
}
