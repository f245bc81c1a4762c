//! What is not committed of an input or a command's output is kept, as it cannot be read again where a medium fails.

use std::path::PathBuf;
use std::sync::Arc;

use capstan_address::Address;
use capstan_engine::message::Code;
use capstan_engine::nameless::nameless;
use capstan_port::media::write::options::Keeping;

use crate::Cell;
use crate::kinds::backup::job::Job;
use crate::request::Source;
use crate::session::SessionLog;
use crate::supply::media_changes::Moves;
use crate::supply::tapes::Supply;

/// Room that is used at most: 16 GiB, of which a drive that takes 400 MB/s writes half, 20 seconds, from commit to commit.
const MOST: u64 = 16 << 30;
/// Less is not worth the commits: 64 MiB.
const LEAST: u64 = 64 << 20;

impl Cell {
    /// How what is not committed of these jobs is kept: where one of their sources cannot be read again, and there are media to go on
    /// on. In the spool's directory where there is one, else in the home; in half of what is free there at most.
    pub(in crate::kinds::backup) fn keeping(
        &self,
        jobs: &[Job<'_>],
        supply: &Supply,
        moves: &Arc<Moves>,
        log: &SessionLog<'_>,
    ) -> Option<Keeping> {
        let job = jobs.iter().find(|job| !matches!(job.request.source, Source::Paths(_)))?;
        if supply.is_none() || job.request.device.keeps_nothing() {
            return None;
        }
        let (dir, most) = match spool_of(&job.request.device) {
            Some((dir, size)) => (dir, size.clamp(LEAST, MOST)),
            None => (self.home.clone(), MOST),
        };
        let path = dir.display().to_string();
        let lost = |why: String| {
            format!("what is not committed of '{}' is not kept: {why}", job.plan.name)
        };
        let free = self.devices.space(&dir.as_path().into()).map_or(0, |space| space.free);
        let room = (free / 2).min(most);
        if room < LEAST {
            let why =
                format!("{path} has {} MB free, and twice 67 MB are needed", free / 1_000_000);
            log.say(Code::NotKept, "cell", &path, lost(why));
            return None;
        }
        let file = match nameless(&dir) {
            Ok(file) => file,
            Err(e) => {
                log.say(Code::NotKept, "cell", &path, lost(format!("{path}: {e}")));
                return None;
            }
        };
        let (name, said) = (job.plan.name.clone(), moves.clone());
        Some(Keeping {
            file,
            path: path.clone(),
            room,
            replace: self.replacing(supply.clone(), moves),
            lost: Box::new(move |why| {
                let text = format!("what is not committed of '{name}' is not kept any more: {why}");
                said.note(Code::NotKept, &path, text);
            }),
        })
    }
}

/// The directory of the spool before a device, and its size.
fn spool_of(device: &Address) -> Option<(PathBuf, u64)> {
    let spool = device.tapes().into_iter().find_map(|tape| tape.spool)?;
    Some((spool.dir, spool.size))
}
