//! Processes on record, and whether they are there still.
//!
//! A process number means a process in one boot of one machine, and in one space of process numbers: a container has its own. There
//! it is given again, so when the process was begun tells it from others; its program's name does not, as that is any that a user
//! gives it. What cannot be seen for sure is not taken for dead by that: who asks goes by what the process says of itself.

pub mod guard;
pub(crate) mod keeper;

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// What can be seen of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It is there.
    There,
    /// It is there no more.
    Gone,
    /// It may be there or not.
    Hidden,
}

/// This boot of this machine; empty where the system does not say.
pub(crate) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// This boot of this machine, and the space of process numbers.
pub(crate) fn place() -> String {
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot_id(), space.display())
}

/// When this process was begun, as its system counts; empty where the system does not say.
pub(crate) fn begun() -> String {
    match stat("self") {
        Some(Stat::Runs { begun }) => begun,
        _ => String::new(),
    }
}

/// Place and begin of this process, as they go on record together.
pub(crate) fn birth() -> String {
    format!("{} {}", place(), begun())
}

/// What can be seen of a process, given its number and [`birth`]. `shared` says whether other machines have the same tables.
pub(crate) fn look(pid: u32, birth: &str, shared: bool) -> Sight {
    match birth.rsplit_once(' ') {
        Some((place, begun)) => look_at(pid, place, begun, shared),
        // Nothing but a boot is on record.
        None => look_at(pid, birth, "", shared),
    }
}

/// The same, given its [`place`] and its begin.
pub(crate) fn look_at(pid: u32, place: &str, begun: &str, shared: bool) -> Sight {
    let here = boot_id();
    let (boot, space) = place.split_once(' ').unwrap_or((place, ""));
    if here.is_empty() || boot.is_empty() {
        return Sight::Hidden;
    }
    if boot != here {
        // Tables in a file are those of one running system: processes of another one went with it.
        return if shared { Sight::Hidden } else { Sight::Gone };
    }
    if space.is_empty() || begun.is_empty() || place != self::place() {
        return Sight::Hidden;
    }
    let of = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(number) = of else { return Sight::Gone };
    // Asks the system, whatever its /proc shows.
    if test_kill_process(number) == Err(Errno::SRCH) {
        return Sight::Gone;
    }
    let is_own_proc = fs::read_link("/proc/self")
        .is_ok_and(|own| own.as_os_str() == std::process::id().to_string().as_str());
    match stat(&pid.to_string()).filter(|_| is_own_proc) {
        Some(Stat::Runs { begun: at }) if at == begun => Sight::There,
        Some(_) => Sight::Gone,
        None => Sight::Hidden,
    }
}

/// What /proc says of a process.
enum Stat {
    Runs {
        begun: String,
    },
    /// One that was killed and that its parent did not ask after.
    Zombie,
}

fn stat(pid: &str) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in brackets and may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    match fields.next()? {
        "Z" | "X" => Some(Stat::Zombie),
        _ => Some(Stat::Runs { begun: fields.nth(18)?.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn this_process_is_there_and_an_earlier_one_of_its_number_is_not() {
        let own = std::process::id();
        assert_eq!(look(own, &birth(), true), Sight::There);
        assert_eq!(look(own, &format!("{} 1", place()), true), Sight::Gone);
        assert_eq!(look(0, &birth(), true), Sight::Gone);
        assert_eq!(look(u32::MAX, &birth(), true), Sight::Gone);
    }

    #[test]
    fn a_process_of_another_space_or_boot_is_not_seen() {
        let own = std::process::id();
        let contained = format!("{} pid:[1] {}", boot_id(), begun());
        assert_eq!(look(own, &contained, false), Sight::Hidden);
        let elsewhere = format!("another-boot pid:[1] {}", begun());
        assert_eq!(look(own, &elsewhere, true), Sight::Hidden);
        assert_eq!(look(own, &elsewhere, false), Sight::Gone);
        // As it was recorded before.
        assert_eq!(look(own, &boot_id(), false), Sight::Hidden);
        assert_eq!(look(own, "another-boot", false), Sight::Gone);
    }

    #[test]
    fn a_process_that_ended_is_gone_also_while_nobody_asked_after_it() {
        let mut child = Command::new("true").spawn().unwrap();
        let begun = begun();
        let dead = || look_at(child.id(), &place(), &begun, true) == Sight::Gone;
        let by = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !matches!(stat(&child.id().to_string()), Some(Stat::Zombie)) {
            assert!(std::time::Instant::now() < by);
        }
        assert!(dead());
        child.wait().unwrap();
    }
}
