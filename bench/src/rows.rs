//! The benchmarks by name, in the order of the report.

mod base;
mod catalog;
mod cold;
mod directory;
mod incremental;
mod iscsi;
mod memory;
mod null;
mod one_file;
mod peers;
mod rait;
mod rename;
mod restore;
mod stores;
mod sweep;
mod tape;
mod tape_back;
mod tape_some;
mod upkeep;

use crate::context::Context;
use crate::error::BenchError;
use crate::report::{Book, Line, SweepLine};

/// What a benchmark adds its lines to.
pub struct Sheet<'a> {
    name: &'static str,
    book: &'a mut Book,
}

impl<'a> Sheet<'a> {
    /// The sheet of a benchmark; its lines of an earlier run go.
    pub fn new(row: &Row, book: &'a mut Book) -> Self {
        book.lines.remove(row.name);
        Self { name: row.name, book }
    }

    /// Adds a line and prints it.
    pub fn add(&mut self, line: Line) {
        println!("{}", crate::report::terminal(&line));
        self.book.lines.entry(self.name.into()).or_default().push(line);
    }

    /// Replaces the table of the sweeps.
    pub fn set_sweep(&mut self, lines: Vec<SweepLine>) {
        self.book.sweep = lines;
    }
}

/// A benchmark.
pub struct Row {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// Measures it.
    pub run: fn(&Context, &mut Sheet<'_>) -> Result<(), BenchError>,
}

/// All benchmarks.
pub const ROWS: &[Row] = &[
    Row {
        name: "null-typical",
        about: "typical to null, CRC on and off, against a raw read of the same files",
        run: null::typical,
    },
    Row {
        name: "null-small",
        about: "small to null, CRC on, against a raw read of the same files",
        run: null::small,
    },
    Row {
        name: "cold-small",
        about: "small to null, cold, against a raw walk and read at its best, and tar",
        run: cold::small,
    },
    Row {
        name: "cold-large",
        about: "large files to null, cold, each --read mode, against dd direct and buffered",
        run: cold::large,
    },
    Row {
        name: "directory",
        about: "typical to a directory on the disk, synced, against tar and dd; CPU per GB",
        run: directory::synced,
    },
    Row {
        name: "directory-zstd",
        about: "typical to a directory in memory, zstd:1, against tar | zstd -1 -T0",
        run: directory::zstd,
    },
    Row {
        name: "peers-typical",
        about: "typical to memory at defaults, plain and encrypted, against restic, borg, rustic, Bacula",
        run: peers::typical,
    },
    Row { name: "peers-small", about: "small, the same", run: peers::small },
    Row {
        name: "restore-typical",
        about: "restore of typical in memory, against a raw write, tar, restic, rustic",
        run: restore::typical,
    },
    Row { name: "restore-small", about: "small, the same", run: restore::small },
    Row {
        name: "incremental",
        about: "small once more, nothing changed, against find with a stat of each, restic, borg",
        run: incremental::unchanged,
    },
    Row {
        name: "incremental-cold",
        about: "small once more, against find: while others compute, cold, cold with 1 % changed",
        run: incremental::disturbed,
    },
    Row {
        name: "rename",
        about: "one mv of 324 MB, and a touch of all its files, then an incremental, against restic, borg",
        run: rename::all,
    },
    Row {
        name: "memory",
        about: "peak memory of backup and restore with 30 thousand and 3 million files",
        run: memory::flat,
    },
    Row {
        name: "catalog",
        about: "a generated object of 100 million entries, a full and 30 incrementals: list a directory, find",
        run: catalog::huge,
    },
    Row {
        name: "base",
        about: "an incremental on a base of 5 million files: memory, rate; import of as many",
        run: base::large,
    },
    Row {
        name: "prune",
        about: "prune of one version of many and of few files; of 10,000 versions",
        run: upkeep::prune,
    },
    Row {
        name: "media",
        about: "copy and consolidation from directory to directory, against cp and sync",
        run: upkeep::media,
    },
    Row {
        name: "postgres",
        about: "PostgreSQL instead of SQLite: commits of segments, a list of 300 sessions",
        run: stores::postgres,
    },
    Row {
        name: "tape",
        about: "virtual drives: streaming at the drive's native rate, backhitches with a spool and without",
        run: tape::all,
    },
    Row {
        name: "tape-file",
        about: "one file of a million from a virtual LTO-9: beyond what its drive takes to load and to locate",
        run: one_file::all,
    },
    Row {
        name: "tape-iscsi",
        about: "a drive over iSCSI (tgt) against a bare loop of WRITE commands",
        run: iscsi::all,
    },
    Row {
        name: "tape-back",
        about: "virtual drives: restore, slow restore with a spool and without, copies, memory",
        run: tape_back::all,
    },
    Row {
        name: "tape-some",
        about: "a virtual drive: some of several objects that were written together, against the tape's way",
        run: tape_some::all,
    },
    Row {
        name: "rait",
        about: "arrays: rait5 against rait0 on drives with a rate and to null, n+k, XOR per core",
        run: rait::all,
    },
    Row {
        name: "overhead",
        about: "bytes on the medium for small, no compression, against its data",
        run: memory::overhead,
    },
    Row {
        name: "sweep",
        about: "concurrency, block size, segment size, buffers, CRC, compression: rate, CPU, restore",
        run: sweep::all,
    },
];
