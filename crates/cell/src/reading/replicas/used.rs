//! What was read elsewhere than where it was looked for first: whose turn comes because a medium is damaged, or away, is said.

use capstan_catalog::places::SegmentPlace;
use capstan_engine::frames::Place;
use capstan_engine::message::Code;
use capstan_format::id::MediumId;

use crate::reading::known::media::{OpenMedia, Stood};
use crate::report::{Replica, Report};
use crate::session::SessionLog;

impl OpenMedia<'_> {
    /// Takes note that a segment, or a frame of it, was had at `used`, and why not where it was looked for first.
    pub(crate) fn note_replica(
        &self,
        place: &SegmentPlace,
        used: Place,
        why: &dyn Fn() -> String,
        frames: u64,
    ) {
        let Some(first) = place.places().into_iter().find(|at| *at != used) else { return };
        let mut noted = self.replicas.lock();
        let is_known = |s: &&mut Stood| s.segment == place.segment && s.used == used;
        match noted.iter_mut().find(is_known) {
            Some(known) => known.frames += frames,
            None => {
                let segment = place.segment;
                noted.push(Stood { segment, first, used, why: why(), frames });
            }
        }
    }

    /// Says what replicas were used for, and puts it into the report.
    pub(crate) fn say_replicas(&self, log: &SessionLog<'_>, report: &mut Report) {
        report.replicas.append(&mut self.take_replicas(log));
    }

    /// Says what replicas were used for since it was asked.
    pub(crate) fn take_replicas(&self, log: &SessionLog<'_>) -> Vec<Replica> {
        let mut noted = std::mem::take(&mut *self.replicas.lock());
        noted.sort_by_key(|s| (s.first.1, s.first.2));
        let mut replicas = Vec::new();
        for stood in noted {
            let (medium, used) = (self.label(stood.first.1), self.label(stood.used.1));
            let replica = Replica {
                medium,
                number: stood.first.2.0,
                segment: stood.segment.to_string(),
                why: stood.why,
                used,
                frames: stood.frames,
            };
            log.say(Code::ReplicaUsed, "media agent", &replica.medium, replica.text());
            replicas.push(replica);
        }
        replicas
    }

    fn label(&self, id: MediumId) -> String {
        let medium = self.idb.medium(id).ok().flatten();
        medium.map_or_else(|| id.short(), |medium| medium.label)
    }
}

impl Replica {
    fn text(&self) -> String {
        let Self { number, why, used, frames, .. } = self;
        match frames {
            0 => format!("segment {number} is read from '{used}': {why}"),
            1 => format!("segment {number}: a frame is taken from '{used}': {why}"),
            n => format!(
                "segment {number}: {n} frames are taken from '{used}', the first since: {why}"
            ),
        }
    }
}
