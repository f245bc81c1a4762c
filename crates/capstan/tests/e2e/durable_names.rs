//! Names that are to be there after a power cut: whatever the program makes or renames, the directory that has it is synchronised
//! before the program ends.
//!
//! strace tells what it asked of the kernel, with the paths of file descriptors; that is held against what is there afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Lab, finish, noise, skip};

const CALLS: &str = "trace=open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,fsync,fdatasync,sync,syncfs";

/// The text between the quotes that begin the `n`th path of a call, and the directory that it is relative to.
fn paths_of(call: &str, cwd: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut rest = call;
    while let Some((before, quoted)) = rest.split_once('"') {
        let Some((path, after)) = quoted.split_once('"') else { break };
        // `AT_FDCWD</where>, "name"` or `7</where>, "name"`.
        let at = before.rsplit_once('<').and_then(|(_, at)| at.split_once('>')).map(|(at, _)| at);
        found.push(at.map_or(cwd, Path::new).join(path));
        rest = after;
    }
    found
}

/// Without `.` and `..`, as the kernel says paths of file descriptors.
fn plain(path: &Path) -> PathBuf {
    let parent = path.parent().and_then(|dir| fs::canonicalize(dir).ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// Names below `root` that were made or given and not made durable, of those that are there.
fn not_durable(trace: &str, root: &Path, before: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut pending: BTreeSet<PathBuf> = BTreeSet::new();
    for line in trace.lines().filter(|line| !line.contains(" = -1 ")) {
        // `1234 name(arguments) = result`
        let Some((name, call)) = line.split_once('(') else { continue };
        let name = name.rsplit(' ').next().unwrap_or(name);
        let paths: Vec<PathBuf> = paths_of(call, root).iter().map(|p| plain(p)).collect();
        match name {
            "mkdir" | "mkdirat" | "creat" => pending.extend(paths),
            "open" | "openat" if call.contains("O_EXCL") => pending.extend(paths),
            "open" | "openat" if call.contains("O_CREAT") => {
                pending.extend(paths.into_iter().filter(|path| !before.contains(path)));
            }
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                pending.extend(paths.into_iter().nth(1));
            }
            "fsync" | "fdatasync" => {
                let of = call.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
                if let Some((directory, _)) = of {
                    pending.retain(|path| path.parent() != Some(Path::new(directory)));
                }
            }
            "sync" | "syncfs" => pending.clear(),
            _ => {}
        }
    }
    let is_left = |path: &PathBuf| path.starts_with(root) && path.exists() && !may_go(path);
    pending.into_iter().filter(is_left).collect()
}

/// What may be lost: locks, what can be made again, what SQLite sees to by itself.
fn may_go(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".lock", ".index", ".table", "-shm", "-wal", "-journal"].iter().any(|end| name.ends_with(end))
        || name.starts_with(".lock")
}

/// All files and directories there.
fn all_below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(all_below(&entry.path()));
        }
        all.insert(entry.path());
    }
    all
}

#[test]
fn what_was_made_keeps_its_name() {
    let lab = Lab::new();
    if !lab.succeeds("strace -o strace.try true") {
        return skip("strace is not here, or may not trace");
    }
    let root = fs::canonicalize(lab.path("")).unwrap();
    for n in 0..3 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 300_000));
    }
    for command in [
        // The home is three directories deep, none of which is there.
        "backup tree --to new --name t",
        "backup tree --to new --name t --full",
        "key init --new-key-file secret.key",
        "idb recovery-key",
        "vtl create vtl --capacity 40M --scale 1e5 --tapes 2",
        "vtl add-tape vtl",
        "backup tree --to vtape:vtl --name u",
        "media init made --label other",
        "media label other another",
        "backup tree --to rait5:r1,r2,r3 --name v",
        "copy t --to copy",
        "lock t --until 2999-01-01",
        "import copy",
        "media adopt clone --as-new",
        "catalog export t --parquet list.parquet",
        "prune --keep-last 1",
    ] {
        if command.starts_with("media adopt") {
            lab.sh("cp -a copy clone");
        }
        let trace = lab.path("strace.log");
        let mut run = lab.program("strace");
        run.env("CAPSTAN_HOME", lab.path("deep/in/home")).env("CAPSTAN_WAIT", "0s");
        run.args(["-f", "-y", "-qq", "-s", "4096", "-e", CALLS, "-o"]).arg(&trace);
        run.arg(env!("CARGO_BIN_EXE_capstan")).args(command.split(' '));
        if lab.path("secret.key").exists() {
            run.env("CAPSTAN_KEY_FILE", lab.path("secret.key"));
        }
        let before = all_below(&root);
        let done = finish(&mut run);
        let mut left = not_durable(&fs::read_to_string(&trace).unwrap(), &root, &before);
        // It only takes room: one that a power cut took is made anew.
        left.retain(|path| !path.ends_with("home/reserve"));
        assert_eq!(done.code, 0, "{command}: {}", done.stderr);
        assert!(left.is_empty(), "{command}: {left:?}");
    }
}
