//! Devices that were lost and did not come back for as long as lost connections are tried: nobody waits for them again. Whoever needs one
//! looks once whether it is back, and from then on it is as any other.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// After a look that was in vain, nobody looks for so many times as long as it took: a host that answers nothing holds up each look.
const REST: u32 = 10;

/// The devices that are gone, and the hosts of those that could not even be connected to.
#[derive(Default)]
pub(super) struct Gone(Mutex<HashMap<String, Missing>>);

struct Missing {
    /// Why it could not be connected to, and until when nobody looks for it again.
    rest: Option<(String, Instant)>,
}

impl Gone {
    /// Whether one of these is gone.
    pub fn has(&self, names: [&str; 2]) -> bool {
        let gone = self.0.lock();
        names.iter().any(|name| gone.contains_key(*name))
    }

    /// Why one of these could not be connected to, where it was looked for just now.
    pub fn looked(&self, names: [&str; 2]) -> Option<String> {
        let gone = self.0.lock();
        let rests = names.iter().filter_map(|name| gone.get(*name)?.rest.as_ref());
        rests.filter(|(_, until)| Instant::now() < *until).map(|(why, _)| why.clone()).next()
    }

    /// Notes that one is gone. `look`: why the last look was in vain, and how long that took.
    pub fn note(&self, name: &str, look: Option<(&str, Duration)>) {
        let until = |took: Duration| Instant::now().checked_add(took.saturating_mul(REST));
        let rest = look.and_then(|(why, took)| Some((why.to_owned(), until(took)?)));
        self.0.lock().insert(name.to_owned(), Missing { rest });
    }

    /// Notes that these answer.
    pub fn is_back(&self, names: [&str; 2]) {
        let mut gone = self.0.lock();
        for name in names {
            gone.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["iscsi://h/t/1", "h:3260"];

    #[test]
    fn what_is_gone_is_looked_for_no_oftener_than_a_look_is_worth() {
        let gone = Gone::default();
        assert!(!gone.has(NAMES));
        gone.note(NAMES[1], Some(("refused", Duration::ZERO)));
        assert!(gone.has(NAMES) && gone.has(["iscsi://h/t/2", NAMES[1]]));
        assert!(!gone.has(["iscsi://i/t/1", "i:3260"]));
        assert_eq!(gone.looked(NAMES), None, "that took no time");
        gone.note(NAMES[1], Some(("no answer", Duration::from_secs(60))));
        assert_eq!(gone.looked(NAMES).as_deref(), Some("no answer"));
        gone.is_back(NAMES);
        assert!(!gone.has(NAMES) && gone.looked(NAMES).is_none());
    }

    #[test]
    fn a_device_that_is_gone_stays_so_when_another_one_of_its_host_answers() {
        let gone = Gone::default();
        NAMES.iter().for_each(|name| gone.note(name, None));
        gone.is_back(["iscsi://h/t/2", NAMES[1]]);
        assert!(gone.has(NAMES) && !gone.has(["iscsi://h/t/2", NAMES[1]]));
    }
}
