//! PostgreSQL instead of SQLite: what each commit of segments costs, and a list of sessions.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use capstan_address::{Address, HostName};
use capstan_format::id::{
    MediumId, ObjectId, SegmentId, SegmentNumber, SessionId, StreamId, VersionId,
};
use capstan_idb::{Idb, Medium, Object, Segment, Session, Status, StreamPart, Totals, Version};

use crate::context::{Context, Place, remove};
use crate::error::BenchError;
use crate::measure::{Contender, Sample, alternate};
use crate::report::{Goal, Line};
use crate::rows::Sheet;
use server::{Server, write_settings};

/// The server that the tests start.
#[path = "../../../crates/idb/tests/common/server.rs"]
mod server;

/// Commits in a run, each of one segment with two streams.
const COMMITS: u32 = 500;
/// Sessions in the list.
const SESSIONS: u32 = 300;

pub fn postgres(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    if !server::is_installed() {
        sheet.add(Line::missing("PostgreSQL instead of SQLite", "PostgreSQL is not installed"));
        return Ok(());
    }
    let server = Server::start_durable();
    let homes = [
        ("PostgreSQL", context.fresh(Place::Disk, "home-postgres")?),
        ("SQLite", context.fresh(Place::Disk, "home-sqlite")?),
    ];
    write_settings(&homes[0].1, &format!("database = \"{}\"\n", server.new_database()));
    for (_, home) in &homes {
        fill(home)?;
    }
    let commits = homes.iter().map(|(label, home)| {
        let mut next = 0;
        Contender::new(*label, move || {
            let first = next;
            next += COMMITS;
            commit(home, first)
        })
    });
    compare(context, sheet, &format!("{COMMITS} commits of a segment"), commits.collect())?;
    let lists = homes.iter().map(|(label, home)| {
        Contender::new(*label, move || {
            let mut command = Command::new(&context.capstan);
            command.arg("--home").arg(home).args(["sessions", "--limit", "300"]);
            let u = context.run(&mut command)?.usage;
            Ok(Sample {
                wall_s: u.wall_s,
                cpu_s: u.cpu_s,
                peak_rss: u.peak_rss,
                ..Sample::default()
            })
        })
    });
    compare(context, sheet, &format!("a list of {SESSIONS} sessions"), lists.collect())?;
    homes.iter().try_for_each(|(_, home)| remove(home))
}

fn compare(
    context: &Context,
    sheet: &mut Sheet<'_>,
    work: &str,
    contenders: Vec<Contender<'_>>,
) -> Result<(), BenchError> {
    let outcomes = alternate(context, contenders)?;
    let [postgres, sqlite] = &outcomes[..] else { return Ok(()) };
    let value = postgres.wall_s() / sqlite.wall_s().max(1e-9);
    sheet.add(Line::ratio(&format!("{work}: time"), postgres, sqlite, value, Goal::AtMost(1.5)));
    Ok(())
}

fn id(kind: u8, n: u32) -> [u8; 16] {
    let mut id = [kind; 16];
    id[12..].copy_from_slice(&n.to_be_bytes());
    id
}

/// Makes an object with sessions and a medium.
fn fill(home: &Path) -> Result<(), BenchError> {
    let idb = Idb::open(home)?;
    let object = ObjectId(id(1, 0));
    idb.put_object(&Object {
        id: object,
        name: "bench".into(),
        host: HostName::recorded("bench"),
        sealed: None,
    })?;
    idb.put_medium(&Medium {
        id: MediumId(id(2, 0)),
        label: "generated".to_owned(),
        device: Address::of_directory("/nowhere"),
        block_size: 1 << 19,
        created_us: 1,
        hosts: Vec::new(),
    })?;
    for n in 0..SESSIONS {
        let (version, status) = (VersionId(id(3, n)), Status::Running);
        let started_us = 1_700_000_000_000_000 + i64::from(n) * 86_400_000_000;
        let row = Version {
            id: version,
            object,
            status,
            method: "full".to_owned(),
            base: None,
            key: None,
            null_device: false,
            created_us: started_us,
            stands_for: None,
        };
        let session = Session {
            id: SessionId(id(4, n)),
            kind: "backup".to_owned(),
            object: Some(object),
            version: Some(version),
            parent: None,
            status,
            host: HostName::recorded("bench"),
            device: "file:/nowhere".to_owned(),
            started_us,
            run_us: None,
            ended_us: None,
            files: 0,
            dirs: 0,
            bytes_read: 0,
            bytes_written: 0,
            tags: vec!["nightly".to_owned()],
            report: None,
            pid: std::process::id(),
            birth: "bench".to_owned(),
        };
        idb.begin_session(&session, Some(&row))?;
        let done = Status::Completed;
        let totals = Totals { files: 1, ..Totals::default() };
        let report = format!("{{\"errors\":[],\"text\":\"{}\"}}", "x".repeat(2000));
        idb.end_session(session.id, done, started_us + 1, &totals, &report, Some(done))?;
    }
    Ok(())
}

/// Commits segments, one at a time, as a backup does.
fn commit(home: &Path, first: u32) -> Result<Sample, BenchError> {
    let idb = Idb::open(home)?;
    let begun = Instant::now();
    for n in first..first + COMMITS {
        let segment = SegmentId(id(5, n));
        let row = Segment {
            id: segment,
            medium: MediumId(id(2, 0)),
            number: SegmentNumber(n),
            object: None,
            session: SessionId(id(4, n % SESSIONS)),
            blocks: 2048,
            bytes: 1 << 30,
            committed_us: i64::from(n),
        };
        let part = |stream| StreamPart {
            segment,
            stream: StreamId(id(6, stream)),
            version: VersionId(id(3, n % SESSIONS)),
            logical_start: u64::from(n) << 29,
            logical_end: u64::from(n + 1) << 29,
            rows: 1000,
        };
        idb.commit_segments(&[(row, vec![part(0), part(1)])])?;
    }
    let wall_s = begun.elapsed().as_secs_f64();
    Ok(Sample { wall_s, cpu_s: 0.0, peak_rss: 0, ..Sample::default() })
}
