//! What others have: waited for, and who they are.

use capstan_idb::Idb;
use capstan_medium::host::DeviceHost;

use crate::Cell;
use crate::error::{CellError, Result};

/// So many sessions are named that have the drives of a library.
const NAMED: usize = 4;
/// How a device names those of whom it only knows that they are not this session.
const OTHERS: &str = "other sessions";

/// Does it again as long as others have what it needs and somebody waits for that. It has nothing meanwhile that others might wait
/// for.
pub(crate) fn patiently<T>(
    devices: &dyn DeviceHost,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut wait = devices.queue().wait();
    loop {
        match attempt() {
            Err(e) if e.is_busy() && !is_ours(&e) => {
                // Nobody waits for what this process has and does not use.
                devices.release_idle();
                if !wait.again(&e) {
                    return Err(e);
                }
            }
            done => return done,
        }
    }
}

/// Whether its own device host has it: nobody waits for himself. Devices name a drive of another host in this process otherwise. Of a
/// medium in a directory only the process is known.
pub(crate) fn is_ours(e: &CellError) -> bool {
    e.to_string().contains(&process(std::process::id()))
}

/// How devices name a process that has them.
fn process(pid: u32) -> String {
    format!("process {pid} (")
}

impl Cell {
    /// Puts the sessions and their objects into a sentence that says which process has something, as far as they are on record. It
    /// keeps the database open: a command's failure is named when its cell has ended.
    pub fn name_holders(&self) -> Box<dyn Fn(&str) -> String + Send + Sync> {
        let idb = self.idb.clone();
        Box::new(move |text| named(&idb, text))
    }
}

fn named(idb: &Idb, text: &str) -> String {
    // What cannot be looked up now is named as it was.
    let running = idb.running_sessions().unwrap_or_default();
    let own = std::process::id();
    let mut holders = Vec::new();
    for session in running.iter().map(|of| &of.session) {
        if (session.pid, session.host.as_str()) == (own, idb.host()) {
            continue;
        }
        let object = session.object.and_then(|id| idb.object(id).ok().flatten());
        let of = object.filter(|o| !o.name.is_empty()).map(|o| format!(" of '{}'", o.name));
        let name = format!("session {}{}", session.id.short(), of.unwrap_or_default());
        holders.push(Holder {
            name,
            pid: session.pid,
            host: &session.host,
            device: &session.device,
        });
    }
    name_in(text, &holders, idb.host())
}

/// A session that runs.
struct Holder<'a> {
    name: String,
    pid: u32,
    host: &'a str,
    device: &'a str,
}

fn name_in(text: &str, holders: &[Holder<'_>], here: &str) -> String {
    let mut text = text.to_owned();
    for of in holders.iter().filter(|of| of.host == here) {
        let names: Vec<&str> = holders
            .iter()
            .filter(|other| (other.host, other.pid) == (of.host, of.pid))
            .map(|other| other.name.as_str())
            .collect();
        let process = process(of.pid);
        while let Some(at) = text.find(&process)
            && let Some(end) = text[at..].find(')')
        {
            let named = format!("{} (in process {})", names.join(" and "), of.pid);
            text.replace_range(at..=at + end, &named);
        }
    }
    let is_of = |of: &&Holder<'_>| {
        let library = of.device.split(['?', '&', ',']).next().unwrap_or_default();
        !library.is_empty() && text.contains(library)
    };
    let others: Vec<String> = holders
        .iter()
        .filter(is_of)
        .map(|of| format!("{} (process {} on {})", of.name, of.pid, of.host))
        .take(NAMED)
        .collect();
    match others.is_empty() {
        true => text,
        false => text.replace(OTHERS, &others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use capstan_devices::host::LocalDevices;

    use super::*;

    #[test]
    fn who_has_it_is_named_by_session_object_process_and_host() {
        let of =
            |name: &str, pid, host, device| Holder { name: name.to_owned(), pid, host, device };
        let holders = [
            of("session 11 of 'desk'", 7, "here", "/m"),
            of("session 12 of 'mail'", 7, "here", "/m"),
            of("session 13 of 'www'", 7, "there", "vtape:/vtl?tape=A"),
        ];
        let name = |text: &str| name_in(text, &holders, "here");
        assert_eq!(
            name("the medium in /m is in use by process 7 (capstan)"),
            "the medium in /m is in use by session 11 of 'desk' and session 12 of 'mail' (in process 7)"
        );
        assert_eq!(name("in use by process 77 (capstan)"), "in use by process 77 (capstan)");
        assert_eq!(
            name("every drive of library vtape:/vtl is in use by other sessions"),
            "every drive of library vtape:/vtl is in use by session 13 of 'www' (process 7 on there)"
        );
        let unknown = "every drive of library vtape:/x is in use by other sessions";
        assert_eq!(name(unknown), unknown);
    }

    #[test]
    fn nobody_waits_for_himself() {
        let busy = |pid| CellError::InUse(format!("in use by process {pid} (capstan)").into());
        assert!(is_ours(&busy(std::process::id())));
        assert!(!is_ours(&busy(std::process::id() + 1)));
        assert!(!is_ours(&CellError::InUse(
            format!("in use by {}", capstan_medium::tape::ANOTHER_HOST).into()
        )));
        // Nobody set how long is waited: it is done once.
        let mut tried = 0;
        let refused: Result<()> = patiently(&LocalDevices::default(), || {
            tried += 1;
            Err(busy(1))
        });
        assert!(refused.is_err() && tried == 1);
        assert_eq!(patiently(&LocalDevices::default(), || Ok(5)).unwrap(), 5);
    }
}
