//! One machine under two names: its objects are found by name and host, so under a new name it begins anew.

use capstan_address::HostName;
use std::path::Path;
use std::time::Duration;

use crate::Cell;
use crate::error::Result;
use crate::queries::status::{Health, ObjectStatus};

/// The file of a home's settings.
const SETTINGS: &str = "capstan.toml";

impl Cell {
    /// What there is to do where all that the home has is of another host, as after a recovery on another machine.
    pub(crate) fn other_name_text(&self) -> Result<Option<String>> {
        let (here, objects) = (self.idb.host(), self.idb.objects()?);
        let of_here = objects.iter().any(|object| object.host == here);
        let first = objects.iter().map(|object| object.host.as_str()).find(|name| !name.is_empty());
        let Some(first) = first.filter(|_| !of_here && !self.idb.is_on_server()) else {
            return Ok(None);
        };
        Ok(Some(format!(
            "what is back is of host {first}, and this host is {here}: if this machine takes its place, {} before the first backup, which \
             else is a full one of new objects",
            setting(&self.home, first)
        )))
    }

    /// Says of objects of which no backup came for too long, while they come from a host of another name, what there is to do.
    pub(crate) fn name_ways_out(&self, all: &mut [ObjectStatus], max_age: Duration) {
        if self.idb.is_on_server() {
            return;
        }
        let began = |o: &ObjectStatus| o.last_backup.as_ref().map(|last| last.started_us);
        let of_all: Vec<_> =
            all.iter().map(|o| (o.name.clone(), o.host.clone(), began(o))).collect();
        for of in all.iter_mut().filter(|o| o.age.is_none_or(|age| age > max_age)) {
            let is_newer = |other: &&(String, HostName, Option<i64>)| {
                other.0 == of.name && other.1 != of.host && other.2 > began(of)
            };
            let Some((name, now, _)) = of_all.iter().find(is_newer) else { continue };
            let host = &of.host;
            let was_called = match self.idb.is_host_set() {
                true => String::new(),
                false => format!(
                    "if {host} is what that machine was called before, {}, and backups go on with its versions; ",
                    setting(&self.home, host)
                ),
            };
            let text = format!(
                "backups of '{name}' come from host {now} now: {was_called}if its versions are not wanted any more, `capstan prune \
                 '{name}' --give-up --host {host}` removes them"
            );
            of.say(Health::Warning, text);
        }
    }
}

/// What to write that this host is called so.
pub(crate) fn setting(home: &Path, host: &str) -> String {
    format!("write `host = \"{host}\"` into {}", home.join(SETTINGS).display())
}
