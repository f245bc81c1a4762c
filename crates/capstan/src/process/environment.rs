//! Secrets that the environment gives. They are taken out of it before anything else is done, so that no command that is run
//! inherits them, and no `/proc/PID/environ` has them any longer.

use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

use capstan_cell::guard;
use capstan_cell::keyring::{ENV_PASSPHRASE, ENV_RECOVERY_CODE};
use capstan_devices::host::LocalDevices;
use zeroize::{Zeroize, Zeroizing};

use crate::exit::Failure;

/// The environment variable with a passphrase for a new lock.
pub const ENV_NEW_PASSPHRASE: &str = "CAPSTAN_NEW_PASSPHRASE";
/// The environment variable with the recovery code of the database's backup.
pub const ENV_IDB_RECOVERY: &str = "CAPSTAN_IDB_RECOVERY";

/// All variables whose values are secrets. That of a key file's path is none: who may read the file is the file's affair.
const SECRETS: [&str; 5] = [
    ENV_PASSPHRASE,
    ENV_NEW_PASSPHRASE,
    ENV_RECOVERY_CODE,
    ENV_IDB_RECOVERY,
    capstan_address::iscsi::SECRET_VARIABLE,
];

/// What was in the environment; that belongs to the process as a whole, and so does this.
static TAKEN: OnceLock<Vec<(&'static str, Zeroizing<Vec<u8>>)>> = OnceLock::new();

/// Takes the secrets out of the environment. To be called before any thread begins. Where there are any, others are kept from
/// looking into this process.
pub fn take_secrets() {
    let mut taken = Vec::new();
    for name in SECRETS {
        let Some(value) = env::var_os(name) else { continue };
        taken.push((name, Zeroizing::new(value.into_vec())));
        forget(name);
    }
    if taken.iter().any(|(_, value)| !value.is_empty()) {
        guard::guard();
    }
    // It is called once.
    let _ = TAKEN.set(taken);
}

/// Gives a host the secret of iSCSI logins, if the environment gave one.
pub fn give_secret(devices: &LocalDevices) {
    let taken = TAKEN.get().into_iter().flatten();
    let chap = taken.filter(|(name, _)| *name == capstan_address::iscsi::SECRET_VARIABLE);
    for text in chap.filter_map(|(_, value)| std::str::from_utf8(value).ok()) {
        devices.give_secret(text);
    }
}

/// Overwrites a variable's value where it lies, and removes the variable.
fn forget(name: &str) {
    let Ok(c_name) = CString::new(name) else { return };
    // SAFETY: no other thread runs yet, so nobody else reads or changes the environment. What `getenv` gives ends with a zero
    // byte and may be written: it is the block that the kernel gave this process, which `/proc/PID/environ` shows.
    unsafe {
        let value = libc::getenv(c_name.as_ptr());
        if !value.is_null() {
            let len = libc::strlen(value);
            std::slice::from_raw_parts_mut(value.cast::<u8>(), len).zeroize();
        }
        env::remove_var(name);
    }
}

/// A secret that the environment gave; an empty one is as none.
pub fn secret(name: &str) -> Option<Zeroizing<Vec<u8>>> {
    let taken = TAKEN.get()?.iter().find(|(of, _)| *of == name)?;
    Some(taken.1.clone()).filter(|value| !value.is_empty())
}

/// The same as text.
pub fn secret_text(name: &str) -> Result<Option<Zeroizing<String>>, Failure> {
    let Some(bytes) = secret(name) else { return Ok(None) };
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Some(Zeroizing::new(text.to_owned()))),
        Err(_) => Err(Failure::bad_input(
            format!("the environment variable {name} is not UTF-8"),
            "use a key file for arbitrary bytes",
        )),
    }
}

/// A variable as [`capstan_cell::keyring::Secrets`] asks for it: a secret that was taken, or what is in the environment.
pub fn variable(name: &str) -> Option<Zeroizing<Vec<u8>>> {
    secret(name).or_else(|| Some(Zeroizing::new(env::var_os(name)?.into_vec())))
}
