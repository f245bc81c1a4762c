//! Where the cell of this machine lives, and what opens its keys.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use capstan_cell::keyring::Secrets;
use capstan_cell::{Cell, CellError};
use capstan_devices::host::LocalDevices;
use capstan_port::Agents;

use crate::args::Global;
use crate::exit::Failure;
use crate::output::ask_secret;
use crate::process::environment;

/// The home that the options and the environment name; refused while a recovery into it is not done.
pub fn home(global: &Global) -> Result<PathBuf, Failure> {
    let home = home_to_recover(global)?;
    capstan_cell::idb_admin::refuse_half_recovered(&home)?;
    Ok(home)
}

/// The same, for a recovery.
pub fn home_to_recover(global: &Global) -> Result<PathBuf, Failure> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let root = rustix::process::geteuid().is_root();
    let given = global.home.clone().filter(|home| !home.as_os_str().is_empty());
    let home = choose(given, root, var("XDG_DATA_HOME"), var("HOME")).ok_or_else(|| {
        Failure::bad_input(
            "there is no place for the internal database",
            "give --home DIR or set CAPSTAN_HOME",
        )
    })?;
    // Sessions record it, and it must not change its meaning with the working directory.
    std::path::absolute(&home).map_err(|e| {
        Failure::bad_input(
            format!("cannot resolve {}: {e}", home.display()),
            "give --home with an absolute path",
        )
    })
}

fn choose(
    given: Option<PathBuf>,
    root: bool,
    xdg: Option<OsString>,
    user: Option<OsString>,
) -> Option<PathBuf> {
    // The XDG specification has relative paths ignored.
    let xdg = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    given
        .or_else(|| root.then(|| PathBuf::from("/var/lib/capstan")))
        .or_else(|| xdg.map(|data| data.join("capstan")))
        .or_else(|| user.map(|user| PathBuf::from(user).join(".local/share/capstan")))
}

/// What opens keys: what the environment says, else somebody at the terminal.
pub fn secrets() -> Result<Secrets, Failure> {
    Ok(Secrets::from_variables(&environment::variable)?.with_prompt(Box::new(ask_secret)))
}

/// Opens the cell.
pub fn open(global: &Global) -> Result<Cell, Failure> {
    open_at(global, &home(global)?, secrets()?)
}

/// The agents of this host, in this process.
pub fn agents(devices: LocalDevices) -> Result<Agents, CellError> {
    capstan_local::agents(devices).map_err(CellError::io("open", "/dev/urandom"))
}

/// Opens the cell of a home; where its database goes away, that is said on standard error.
pub fn open_at(global: &Global, home: &Path, secrets: Secrets) -> Result<Cell, Failure> {
    let cell = Cell::open(home, secrets, agents(global.devices.clone())?)?;
    // What is said here are no errors: those end what waits.
    let loud = !global.quiet;
    cell.on_notice(move |text| {
        if loud {
            crate::output::progress::say_of_database(text)
        }
    });
    cell.give_up_when(capstan_engine::leaving::has_left);
    cell.share_libraries(move |text| {
        if loud {
            crate::output::progress::say_of_robot(text)
        }
    });
    cell.keep_tape_use();
    crate::process::operator::set(Some(&cell), global)?;
    Ok(cell)
}

/// Opens the cell of a home that is in use, so that the robots that are moved are booked in its database.
pub fn open_to_share(global: &Global) -> Result<Option<Cell>, Failure> {
    let home = home(global)?;
    let is_in_use = ["capstan.db", "capstan.toml"].iter().any(|name| home.join(name).exists());
    is_in_use.then(|| open_at(global, &home, secrets()?)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_is_what_is_given_then_what_fits_the_user() {
        let os = |s: &str| Some(OsString::from(s));
        let path = |s: &str| Some(PathBuf::from(s));
        assert_eq!(choose(path("/h"), true, os("/x"), os("/u")), path("/h"));
        assert_eq!(choose(None, true, os("/x"), os("/u")), path("/var/lib/capstan"));
        assert_eq!(choose(None, false, os("/x"), os("/u")), path("/x/capstan"));
        assert_eq!(choose(None, false, os("x"), os("/u")), path("/u/.local/share/capstan"));
        assert_eq!(choose(None, false, None, None), None);
    }
}
