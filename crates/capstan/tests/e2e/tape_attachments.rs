//! What lies on tapes beside segments: backups of the internal database, locks, and which tape comes before which.

use std::fs;
use std::path::Path;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::by_hand::{attended, barcode, drive, insert, named};
use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, Run, below, finish, noise};
use crate::tape::{comes_back, library};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr))
}

/// A small tree, and the sheet with the recovery key.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    lab.file("tree/dir/b", "some text");
    lab.file("sheet", run(&lab, "idb recovery-key").ok().stdout.clone());
    lab
}

fn tape(lab: &Lab, barcode: &str) -> std::path::PathBuf {
    lab.path(format!("vtl/tapes/{barcode}.tape"))
}

/// How many whole attachments of a kind a tape has.
fn attached(lab: &Lab, barcode: &str, kind: &str) -> usize {
    attached_in(&tape(lab, barcode), kind)
}

fn attached_in(tape: &Path, kind: &str) -> usize {
    let bytes = fs::read(tape).unwrap();
    let said = format!("\"attachment\":\"{kind}\"");
    let count = bytes.windows(said.len()).filter(|w| *w == said.as_bytes()).count();
    assert_eq!(count % 2, 0, "each has two records");
    count / 2
}

/// The independent reader finds nothing wrong with a tape.
fn is_sound(lab: &Lab, barcode: &str) -> String {
    let Some(reader) = Reader::find() else { return String::new() };
    let file = tape(lab, barcode);
    reader.run(lab, None, &["check", file.to_str().unwrap()]).ok();
    listed(lab, barcode)
}

/// What the independent reader lists of a tape; nothing where there is no reader.
fn listed(lab: &Lab, barcode: &str) -> String {
    let Some(reader) = Reader::find() else { return String::new() };
    let run = reader.run(lab, None, &["list", tape(lab, barcode).to_str().unwrap()]);
    // Of one tape of several it says what is not there.
    assert!(run.code == 0 || run.stderr.contains("was not given"), "{}", run.stderr);
    run.stdout
}

#[test]
fn the_database_comes_back_from_the_tapes_of_a_library() {
    let lab = lab();
    library(&lab, 1, 4);
    run(&lab, "pool create office --rotation weekly=3").ok();
    run(&lab, "media init vtape:vtl?tape=V00003L9 --pool office").ok();
    let first = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let on = first["media"][0].as_str().unwrap().to_owned();
    lab.file("tree/new", "more");
    let second = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--incr"]);
    assert_eq!(
        (&second["media"][0], &second["errors"]),
        (&first["media"][0], &serde_json::json!([]))
    );
    assert_eq!(attached(&lab, &on, "idb-backup"), 2);
    lab.backed_up(["tree", "--to", "pool:office", "--name", "u"]);
    assert_eq!(attached(&lab, "V00003L9", "idb-backup"), 1);
    run(&lab, "protect t --permanent").ok();
    for barcode in [on.as_str(), "V00003L9"] {
        run(&lab, &format!("verify --medium {barcode}")).ok();
        let listed = is_sound(&lab, barcode);
        assert!(listed.is_empty() || listed.contains("attachment "), "{listed}");
    }

    fs::remove_dir_all(lab.path("home")).unwrap();
    let back = run(&lab, "idb recover vtape:vtl --code-file sheet --json -v");
    assert!(back.stderr.contains("its last backup of a database is of"), "{}", back.stderr);
    assert!(back.stderr.contains("blank, or not of Capstan"), "{}", back.stderr);
    let back = json(back.ok());
    let media = back["media"].as_array().unwrap();
    assert!(back["from"].as_str().unwrap().contains("V00003L9"), "the newest: {back}");
    assert_eq!(media.len(), 2, "{back}");
    assert!(media.iter().all(|m| m["lacking"].is_null() && m["files"] != 0), "{back}");
    run(&lab, "idb check").ok();
    assert!(run(&lab, "pool show office").ok().stdout.contains("V00003L9"));
    comes_back(&lab, "t", &lab.path("tree"));
    comes_back(&lab, "u", &lab.path("tree"));
    // It goes on where it was, with the recovery key that it had.
    let again = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--incr"]);
    assert_eq!(again["media"][0], on.as_str());
    assert_eq!(attached(&lab, &on, "idb-backup"), 3);
}

/// A tape that could not be looked at may hold the newest database.
#[test]
fn a_tape_that_was_not_looked_at_is_said_where_the_database_comes_back() {
    let lab = lab();
    library(&lab, 1, 4);
    for (tape, name) in [("V00001L9", "t"), ("V00002L9", "u")] {
        lab.backed_up(["tree", "--to", &format!("vtape:vtl?tape={tape}"), "--name", name]);
    }
    // The newer one's file is broken from its first block on.
    let file = tape(&lab, "V00002L9");
    let length = fs::metadata(&file).unwrap().len();
    fs::File::options().write(true).open(&file).unwrap().set_len(length / 2).unwrap();
    lab.sh("printf x | dd of=vtl/tapes/V00002L9.tape bs=1 seek=0 conv=notrunc 2>/dev/null");
    let mut bytes = fs::read(&file).unwrap();
    bytes.iter_mut().for_each(|byte| *byte = b'x');
    fs::write(&file, bytes).unwrap();
    for json in ["", "--json"] {
        fs::remove_dir_all(lab.path("home")).unwrap();
        let back = run(&lab, &format!("idb recover vtape:vtl --code-file sheet {json}"));
        assert_eq!(back.code, 3, "{}{}", back.stdout, back.stderr);
        match json {
            "" => assert!(
                back.stdout.contains("V00002L9 could not be looked at: the newest database"),
                "{}",
                back.stdout
            ),
            _ => {
                let told = self::json(&back);
                let not = told["not_looked_at"].as_array().unwrap();
                assert!(not.len() == 1 && not[0].to_string().contains("V00002L9"), "{told:#}");
            }
        }
    }
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn the_database_comes_back_from_one_tape_and_an_older_backup_does() {
    let lab = lab();
    library(&lab, 1, 1);
    let backup = || lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    backup();
    backup();
    fs::remove_dir_all(lab.path("home")).unwrap();
    // The newest one's contents are damaged.
    let file = tape(&lab, "V00001L9");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(6).rposition(|w| w == b"CpIDB\0").unwrap();
    bytes[at + 9000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let other = "0".repeat(64);
    lab.file("other", &other);
    run(&lab, "idb recover vtape:vtl?tape=V00001L9 --code-file other").refused(&["hint"]);
    let back = run(&lab, "idb recover vtape:vtl?tape=V00001L9 --code-file sheet");
    assert_eq!(back.code, 3, "{}{}", back.stdout, back.stderr);
    assert!(back.stderr.contains("an older one is tried"), "{}", back.stderr);
    assert!(back.stdout.contains("warning: a newer backup of"), "{}", back.stdout);
    comes_back(&lab, "t", &lab.path("tree"));
    // Damage of an attachment is said, and costs no file.
    let verified = run(&lab, "verify --medium V00001L9");
    assert_eq!(verified.code, 3, "{}{}", verified.stdout, verified.stderr);
    let said = format!("{}{}", verified.stdout, verified.stderr);
    assert!(said.contains("backup of an internal database 4"), "{said}");
    assert!(said.contains("`capstan media repair V00001L9` writes it anew"), "{said}");
    assert_eq!(run(&lab, "verify t").code, 0);
    // A repair writes it anew, and what is damaged counts no more.
    let would = run(&lab, "media repair V00001L9 --dry-run");
    let would = format!("{}{}", would.stdout, would.stderr);
    assert!(would.contains("backup of an internal database 4 would be written anew"), "{would}");
    assert_eq!(attached(&lab, "V00001L9", "idb-backup"), 2);
    let mended = run(&lab, "media repair V00001L9");
    let said = format!("{}{}", mended.stdout, mended.stderr);
    assert_eq!(mended.code, 0, "{said}");
    assert!(said.contains("it was written anew at the end of the tape"), "{said}");
    assert!(attached(&lab, "V00001L9", "idb-backup") > 2);
    run(&lab, "verify --medium V00001L9").ok();
    assert!(!run(&lab, "media show V00001L9").ok().stdout.contains("damage"), "it is whole again");
    let again = run(&lab, "media repair V00001L9");
    assert!(!format!("{}{}", again.stdout, again.stderr).contains("anew"), "once is enough");
    fs::remove_dir_all(lab.path("home")).unwrap();
    let back = run(&lab, "idb recover vtape:vtl?tape=V00001L9 --code-file sheet");
    assert!(!back.ok().stderr.contains("an older one is tried"), "{}", back.stderr);
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn tapes_without_a_backup_of_the_database_give_none_back() {
    let lab = lab();
    library(&lab, 1, 2);
    run(&lab, "idb recover vtape:vtl --code-file sheet").refused(&["already"]);
    fs::rename(lab.path("home"), lab.path("away")).unwrap();
    run(&lab, "idb recover vtape:vtl --code-file sheet").refused(&["no backup", "vtape:vtl"]);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    fs::remove_dir_all(lab.path("home")).unwrap();
    run(&lab, "idb recover vtape:vtl --code-file sheet").refused(&["no backup", "capstan import"]);
}

#[test]
fn whatever_writes_to_a_tape_leaves_a_backup_of_the_database() {
    let lab = lab();
    library(&lab, 1, 3);
    lab.backed_up(["tree", "--to", "disk", "--name", "t"]);
    lab.file("tree/new", "more");
    lab.backed_up(["tree", "--to", "disk", "--name", "t", "--incr"]);
    let count = |expected: usize| {
        let all: usize = ["V00001L9", "V00002L9", "V00003L9"]
            .iter()
            .filter(|tape| lab.path(format!("vtl/tapes/{tape}.tape")).exists())
            .map(|tape| attached(&lab, tape, "idb-backup"))
            .sum();
        assert_eq!(all, expected);
    };
    run(&lab, "copy t --to vtape:vtl").ok();
    count(1);
    run(&lab, "consolidate t --to vtape:vtl").ok();
    count(2);
    run(&lab, "stage disk --to vtape:vtl").ok();
    count(3);
    run(&lab, "verify --medium V00001L9").ok();
    is_sound(&lab, "V00001L9");
    run(&lab, "idb check").ok();
    comes_back(&lab, "t", &lab.path("tree"));
    run(&lab, "import vtape:vtl").ok();
    run(&lab, "copy --medium V00001L9 --to back").ok();
}

#[test]
fn a_backup_of_the_database_that_fails_costs_nothing() {
    let lab = lab();
    let dir = library(&lab, 1, 1);
    // The tape's header, a segment's two files, and the attachment's two.
    for (fault, mark) in [("mark:5=error", 1), ("mark:3=error", 0)] {
        Library::open(&dir).unwrap().plan_faults(Some(1), fault).unwrap();
        lab.file(&format!("tree/{mark}"), "new");
        let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
        assert_eq!(done["errors"][0]["code"], "idb-not-saved", "{fault}: {done}");
        assert_eq!(attached_torn(&dir), mark);
        comes_back(&lab, "t", &lab.path("tree"));
    }
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(done["errors"], serde_json::json!([]));
    assert_eq!(attached(&lab, "V00001L9", "idb-backup"), 1);
    run(&lab, "verify --medium V00001L9").ok();
    is_sound(&lab, "V00001L9");
}

/// Whether the tape has filemarks that end no attachment: none but those of a torn one.
fn attached_torn(dir: &Path) -> u64 {
    let filemarks = Library::open(dir).unwrap().drive(1).unwrap().tape().unwrap().filemarks();
    (filemarks - 1) % 2
}

/// Four times ten megabytes, on tapes of which a drive warns at thirty.
fn spanning(lab: &Lab) -> Vec<String> {
    for n in 0..4 {
        lab.file(&format!("tree/big-{n}"), noise(n + 1, 10_000_000));
    }
    let full = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let labels: Vec<_> = full["media"].as_array().unwrap().to_vec();
    labels.iter().map(|l| l.as_str().unwrap().to_owned()).collect()
}

fn lose_database(lab: &Lab) {
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
}

fn notes(run: &Run) -> String {
    json(run.ok())["notes"].to_string()
}

#[test]
fn an_import_says_which_tape_is_wanted_before() {
    let lab = lab();
    library(&lab, 1, 5);
    let labels = spanning(&lab);
    assert!(labels.len() >= 2, "{labels:?}");
    let last = labels.last().unwrap();
    let before = &labels[labels.len() - 2];
    lose_database(&lab);
    let alone = run(&lab, &format!("import --json vtape:vtl?tape={last}"));
    // What it has is not whole by itself.
    assert_eq!(alone.code, 3, "{}", alone.stdout);
    assert!(alone.stdout.contains(&format!("medium '{before}'")), "{}", alone.stdout);
    for label in &labels {
        let taken = run(&lab, &format!("import vtape:vtl?tape={label}"));
        assert!([0, 3].contains(&taken.code), "{}", taken.stderr);
    }
    let again = run(&lab, &format!("import --json vtape:vtl?tape={last}"));
    assert!(!notes(&again).contains("wanted"), "{}", again.stdout);
    lose_database(&lab);
    let all = run(&lab, "import --json vtape:vtl");
    assert!(!notes(&all).contains("wanted"), "{}", all.stdout);
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn what_is_resumed_on_another_tape_says_which_one_it_left() {
    let lab = lab();
    library(&lab, 1, 2);
    lab.backed_up(["tree", "--to", "vtape:vtl?tape=V00001L9", "--name", "t"]);
    // As if it had been stopped.
    let incomplete = match crate::server::is_wanted() {
        true => "'incomplete'",
        // Through a shell.
        false => "'\\''incomplete'\\''",
    };
    for table in ["sessions", "versions"] {
        lab.edit_tables(&format!("UPDATE {table} SET status = {incomplete}"));
    }
    lab.file("tree/new", "more");
    let to = ["--to", "vtape:vtl?tape=V00002L9", "--name", "t", "--resume"];
    let done = lab.backed_up([&["tree"], &to[..]].concat());
    assert_ne!(done["kept"], 0, "it goes on: {done}");
    lose_database(&lab);
    let alone = run(&lab, "import --json vtape:vtl?tape=V00002L9");
    assert_eq!(alone.code, 3, "what it has is not whole by itself: {}", alone.stdout);
    assert!(alone.stdout.contains("medium 'V00001L9'"), "{}", alone.stdout);
}

/// Whether `sessions` shows a lock.
fn locked(lab: &Lab) -> bool {
    run(lab, "sessions").ok().stdout.contains("locked until")
}

#[test]
fn locks_are_on_every_tape_of_a_version_and_outlive_the_database() {
    let lab = lab();
    library(&lab, 1, 5);
    let labels = spanning(&lab);
    run(&lab, "protect t --none").ok();
    let said = json(run(&lab, "lock t --until 30d --json").ok());
    assert_eq!(said["media"].as_array().unwrap().len(), labels.len(), "{said}");
    for label in &labels {
        assert_eq!(attached(&lab, label, "lock"), 1, "{label}");
        let listed = listed(&lab, label);
        assert!(listed.is_empty() || listed.contains("locked until"), "{listed}");
    }
    run(&lab, "lock t --until 1d").refused(&["prolonged"]);
    run(&lab, "lock t --until 60d").ok();
    assert_eq!(attached(&lab, &labels[0], "lock"), 2);
    for lost in [false, true] {
        if lost {
            lose_database(&lab);
            run(&lab, "import vtape:vtl").ok();
            run(&lab, "protect t --none").ok();
        }
        assert!(locked(&lab));
        for label in &labels {
            // A new home is another cell besides.
            let words: &[&str] = if lost { &[] } else { &["must stay"] };
            run(&lab, &format!("media recycle {label}")).refused(words);
            run(&lab, &format!("media erase {label}")).refused(words);
        }
        run(&lab, "prune t").ok();
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_lock_of_which_a_half_is_damaged_is_written_once_more() {
    let lab = lab();
    library(&lab, 1, 1);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--lock-until", "30d"]);
    let file = tape(&lab, "V00001L9");
    let mut bytes = fs::read(&file).unwrap();
    let lock = b"\"attachment\":\"lock\"";
    let at = bytes.windows(lock.len()).position(|w| w == lock).unwrap();
    bytes[at - 20] ^= 1;
    fs::write(&file, bytes).unwrap();
    let verified = run(&lab, "verify --medium V00001L9");
    let said = format!("{}{}", verified.stdout, verified.stderr);
    assert_eq!(verified.code, 3, "{said}");
    assert!(said.contains("one of its two records is damaged"), "{said}");
    run(&lab, "media repair V00001L9").ok();
    assert_eq!(attached(&lab, "V00001L9", "lock"), 2);
    run(&lab, "verify --medium V00001L9").ok();
    lose_database(&lab);
    run(&lab, "import vtape:vtl").ok();
    assert!(locked(&lab));
}

#[test]
fn a_lock_is_taken_with_a_backup_and_with_a_copy() {
    let lab = lab();
    library(&lab, 1, 3);
    let options = ["--protect", "none", "--lock-until", "30d"];
    let done =
        lab.backed_up([&["tree", "--to", "vtape:vtl", "--name", "t"], &options[..]].concat());
    let on = done["media"][0].as_str().unwrap().to_owned();
    assert_eq!((attached(&lab, &on, "lock"), attached(&lab, &on, "idb-backup")), (1, 1));
    // An incremental locks what it builds on, too.
    lab.file("tree/new", "more");
    let incremental = [&["tree", "--to", "vtape:vtl", "--name", "t", "--incr"], &options[..]];
    lab.backed_up(incremental.concat());
    assert_eq!(attached(&lab, &on, "lock"), 2);
    lab.backed_up([&["tree", "--to", "disk", "--name", "u"], &options[..]].concat());
    run(&lab, "copy u --to vtape:vtl?tape=V00003L9").ok();
    assert_eq!(attached(&lab, "V00003L9", "lock"), 1);
    run(&lab, "verify --medium V00003L9").ok();
    // A tape that another home of this cell appended a lock to: who opens it to write learns of that.
    lab.sh("cp -a home other");
    lab.backed_up(
        [&["tree", "--to", "vtape:vtl?tape=V00002L9", "--name", "v"], &options[..]].concat(),
    );
    let other = |line: &str| {
        let mut command = lab.command();
        finish(command.args(line.split_whitespace()).env("CAPSTAN_HOME", lab.path("other")))
    };
    other("backup tree --to vtape:vtl?tape=V00002L9 --name w --protect none").ok();
    other("protect v --none").ok();
    other("media recycle V00002L9").refused(&["v@", "must stay"]);
    let into = lab.path("out");
    lab.restored(["u", "--into", into.to_str().unwrap()]);
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
}

#[test]
fn a_drive_that_stands_alone_takes_locks_and_gives_the_database_back() {
    let lab = lab();
    drive(&lab, 3, 40);
    let on = |n: usize, kind: &str| {
        attached_in(&lab.path(format!("drive/tapes/{}.tape", barcode(n))), kind)
    };
    for n in 0..4 {
        lab.file(&format!("tree/big-{n}"), noise(n + 1, 10_000_000));
    }
    let backup = ["backup", "tree", "--to", "vtape:drive", "--name", "t"];
    let (done, asked) = attended(&lab, &backup, &mut |n, _| barcode(n + 1));
    assert_eq!((done.code, asked.len()), (0, 2), "{}{}", done.stdout, done.stderr);
    assert_eq!((on(1, "idb-backup"), on(2, "idb-backup")), (0, 1));
    // Each of its tapes is asked for.
    let (locked, asked) =
        attended(&lab, &["lock", "t", "--until", "30d"], &mut |_, wish| named(wish));
    assert_eq!(locked.code, 0, "{}{}", locked.stdout, locked.stderr);
    assert!(!asked.is_empty());
    assert_eq!((on(1, "lock"), on(2, "lock")), (1, 1));
    fs::remove_dir_all(lab.path("home")).unwrap();
    insert(&lab.path("drive"), &barcode(2));
    let recover = ["idb", "recover", "vtape:drive", "--code-file", "sheet"];
    let (back, _) = attended(&lab, &recover, &mut |_, wish| named(wish));
    assert_eq!(back.code, 0, "{}{}", back.stdout, back.stderr);
    let into = lab.path("out");
    let restore = ["restore", "t", "--into", into.to_str().unwrap()];
    let (restored, _) = attended(&lab, &restore, &mut |_, wish| named(wish));
    assert_eq!(restored.code, 0, "{}{}", restored.stdout, restored.stderr);
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
}
