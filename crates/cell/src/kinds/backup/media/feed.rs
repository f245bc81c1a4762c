//! How tape drives are fed: who compresses, and in how few streams they are kept streaming.

use std::sync::atomic::AtomicBool;

use capstan_engine::message::Code;
use capstan_format::keys::Cipher;
use capstan_medium::tape::Speeds;
use capstan_port::disk::DiskAgent;
use capstan_port::media::write::members::Member;
use capstan_wire::probe::{Probe, Work};

use crate::error::Result;
use crate::kinds::backup::job::Job;
use crate::kinds::backup::plan::Plan;
use crate::request::Compression;
use crate::session::SessionLog;

/// The streams together give at least so many times what the drive takes: files differ, and the machine has other work.
const MARGIN: f64 = 1.5;
/// Less than that was read tells nothing: 4 MiB.
const LEAST: u64 = 4 << 20;

/// Settles whether drives that can compress do it, which spares the processors, or the session: it does where anything else
/// is asked for, where it encrypts, as nothing compresses after that, and where not all devices can. Says which, if there is
/// any such drive.
pub(in crate::kinds::backup) fn who_compresses(
    jobs: &mut [Job<'_>],
    members: &mut [Member],
    encrypts: bool,
) -> Result<Option<bool>> {
    let can: Vec<bool> = members.iter_mut().map(|m| m.device.compresses()).collect();
    if !can.contains(&true) {
        return Ok(None);
    }
    let auto = jobs.iter().all(|job| job.plan.compression == Compression::Auto);
    let drives = !encrypts && !can.contains(&false) && auto;
    set_compression(members, drives)?;
    for job in jobs.iter_mut().filter(|_| drives) {
        job.plan.compression = Compression::Off;
    }
    Ok(Some(drives))
}

fn set_compression(members: &mut [Member], on: bool) -> Result<()> {
    Ok(members.iter_mut().try_for_each(|m| m.device.set_compression(on))?)
}

/// What the session's streams do with what they read, where they do anything.
pub(in crate::kinds::backup) fn work_of(plan: &Plan, cipher: Option<Cipher>) -> Option<Work> {
    let compression = plan.compression;
    (compression != Compression::Off || cipher.is_some()).then_some(Work { compression, cipher })
}

/// Fits the feed to the drives: tastes the source, worked on as the session does, takes as few streams as keep the drives
/// streaming, and does without the drives' compression where that would leave them too little to stream.
pub(in crate::kinds::backup) fn fit(
    (agent, plan): (&dyn DiskAgent, &mut Plan),
    members: &mut [Member],
    drives_compress: &mut Option<bool>,
    work: Option<Work>,
    log: &SessionLog<'_>,
    stop: &AtomicBool,
) -> Result<()> {
    let Some(speeds) = slowest(members) else { return Ok(()) };
    let does = if work.is_some() { "reads and works on" } else { "reads" };
    let works = work.is_some();
    let probe = agent.probe(&plan.trees, work, stop)?;
    if probe.bytes < LEAST {
        return Ok(());
    }
    // What the drive gets of it.
    let probe = if works { probe.made() } else { probe };
    let compresses = *drives_compress == Some(true);
    let feed = feed(&probe, speeds, plan.streams, compresses);
    let mb = |rate: f64| format!("{:.0} MB/s", rate / 1e6);
    let say = |text| log.say(Code::Adapted, "cell", &plan.name, text);
    if compresses && !feed.compress {
        set_compression(members, false)?;
        *drives_compress = Some(false);
        say(format!(
            "the drive's compression is off: with data that shrink {:.1} to 1 the source's {} would be less than the {} that \
             it needs to stream",
            probe.ratio(),
            mb(probe.rate() * plan.streams as f64),
            mb(speeds.lowest)
        ));
    }
    if feed.streams < plan.streams {
        say(format!(
            "{} of {} streams feed the drive: one {does} {}, the device writes {} at most",
            feed.streams,
            plan.streams,
            mb(probe.rate()),
            mb(speeds.native)
        ));
        plan.streams = feed.streams;
    }
    if feed.is_slow {
        plan.notes.push(format!(
            "the source gives {} to write, and the drive needs {} to stream: a spool before it (`?spool=DIR`) spares drive and tape",
            mb(probe.rate() * plan.streams as f64),
            mb(speeds.lowest)
        ));
    }
    Ok(())
}

/// What suits all drives; nothing where the speed of one is not known, or it is no drive.
fn slowest(members: &[Member]) -> Option<Speeds> {
    let all: Option<Vec<Speeds>> = members.iter().map(|m| m.device.speeds()).collect();
    all?.into_iter().reduce(Speeds::and)
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Feed {
    streams: usize,
    /// The drive compresses.
    compress: bool,
    /// The drive cannot stream, whatever is done.
    is_slow: bool,
}

fn feed(probe: &Probe, speeds: Speeds, streams: usize, compresses: bool) -> Feed {
    let most = probe.rate() * streams as f64;
    let ratio = if compresses { probe.ratio() } else { 1.0 };
    let starves = most / ratio < speeds.lowest;
    // Without its compression the same feed is more at the medium.
    let helps = compresses && starves && most >= speeds.lowest;
    let takes = speeds.native * if helps { 1.0 } else { ratio };
    let wanted = (MARGIN * takes / probe.rate()).ceil();
    Feed {
        streams: (wanted as usize).clamp(1, streams),
        compress: compresses && !helps,
        is_slow: starves && !helps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LTO_9: Speeds = Speeds { lowest: 177e6, native: 400e6 };

    /// A source of so many MB/s for one stream, whose data shrink so many times.
    fn source(rate: u64, ratio: u64) -> Probe {
        let bytes = rate * 1_000_000;
        Probe { bytes, time: Duration::from_secs(1), tried: ratio * 1000, shrunk: 1000 }
    }

    #[test]
    fn as_few_streams_as_keep_the_drive_streaming() {
        let streams =
            |rate, ratio, compresses| feed(&source(rate, ratio), LTO_9, 8, compresses).streams;
        assert_eq!(streams(2000, 1, false), 1);
        assert_eq!(streams(599, 1, false), 2);
        assert_eq!(streams(200, 1, false), 3);
        assert_eq!(streams(100, 1, false), 6);
        assert_eq!(streams(20, 1, false), 8, "all there are");
        assert_eq!(streams(400, 2, true), 3, "a drive that compresses takes more");
        assert_eq!(streams(400, 2, false), 2);
    }

    #[test]
    fn a_drive_of_an_unknown_model_gets_what_any_could_take() {
        let streams = |rate| feed(&source(rate, 1), Speeds::UNKNOWN, 8, false);
        assert_eq!(streams(2000).streams, 1);
        assert_eq!(streams(400).streams, 4);
        let slow = streams(1);
        assert!(slow.streams == 8 && !slow.is_slow, "{slow:?}: what it needs is not known");
    }

    #[test]
    fn what_the_session_compresses_is_less_for_the_drive() {
        let streams = |rate, ratio| feed(&source(rate, ratio).made(), LTO_9, 8, false);
        assert_eq!(streams(600, 1).streams, 1);
        // A stream that makes half of 600 MB/s gives 300.
        assert_eq!(streams(600, 2).streams, 2);
        assert_eq!(streams(300, 3).streams, 6);
        let slow = streams(60, 3);
        assert!(slow.is_slow && slow.streams == 8, "{slow:?}");
    }

    #[test]
    fn the_drive_does_not_compress_what_then_would_not_let_it_stream() {
        let of = |rate, ratio, compresses| feed(&source(rate, ratio), LTO_9, 2, compresses);
        let fast = of(300, 2, true);
        assert!(fast.compress && !fast.is_slow, "{fast:?}");
        // 200 MB/s that shrink to 100: too little for 177, and enough as it is.
        let slow = of(100, 2, true);
        assert!(!slow.compress && !slow.is_slow && slow.streams == 2, "{slow:?}");
        // Nothing helps but a spool.
        for feed in [of(50, 2, true), of(50, 1, false)] {
            assert!(feed.is_slow, "{feed:?}");
        }
        assert!(of(50, 2, true).compress, "it makes no difference, and spares tape");
    }
}
