//! What `sessions` and `versions` list, and what `--quiet` leaves.

use serde_json::Value;

use crate::support::{Lab, finish, noise};

fn objects(lab: &Lab, args: &[&str]) -> Vec<Value> {
    lab.run([args, &["--json"]].concat()).ok().rows()
}

fn ids<'a>(listed: &'a [Value], key: &str) -> Vec<&'a str> {
    listed.iter().map(|s| s[key].as_str().unwrap()).collect()
}

/// Two objects; one has a full, an incremental with a mirror, a restore and a verification.
fn filled(lab: &Lab) -> Vec<String> {
    lab.file("tree/a", noise(1, 300_000));
    lab.file("other/b", noise(2, 100_000));
    let to = ["--to", "medium", "--name"];
    let id = |report: Value| report["session"].as_str().unwrap().to_owned();
    let first = id(lab.backed_up([&["tree"], &to[..], &["t", "--tag", "weekly"]].concat()));
    let other = id(lab.backed_up([&["other"], &to[..], &["o"]].concat()));
    lab.file("tree/new", noise(3, 50_000));
    let second =
        id(lab.backed_up([&["tree"], &to[..], &["t", "--incr", "--mirror", "mirror"]].concat()));
    let restore = id(lab.restored(["t", "--into", "out"]));
    lab.run(["verify", "t"]).ok();
    vec![first, other, second, restore]
}

#[test]
fn sessions_are_those_of_an_object_and_of_a_kind() {
    let lab = Lab::new();
    let made = filled(&lab);
    let [first, other, second, restore] = [0, 1, 2, 3].map(|i| made[i].as_str());
    assert_eq!(ids(&objects(&lab, &["sessions"]), "id"), [second, other, first]);
    assert_eq!(ids(&objects(&lab, &["sessions", "t"]), "id"), [second, first]);
    assert_eq!(ids(&objects(&lab, &["sessions", "t", "--limit", "1"]), "id"), [second]);
    assert_eq!(ids(&objects(&lab, &["sessions", "--kind", "restore"]), "id"), [restore]);
    let both = objects(&lab, &["sessions", "t", "--kind", "restore", "--kind", "verify"]);
    assert_eq!(ids(&both, "kind"), ["verify", "restore"]);
    let all = objects(&lab, &["sessions", "--kind", "all"]);
    assert_eq!(all.len(), 5, "{all:#?}");
    assert!(objects(&lab, &["sessions", "o", "--kind", "drill"]).is_empty());
    lab.run(["sessions", "nosuch"]).refused(&["nosuch"]);
    // What a backup read and stored, how, and on which media.
    let listed = objects(&lab, &["sessions", "t"]);
    assert_eq!(listed[0]["media"], serde_json::json!(["medium", "mirror"]), "{:#}", listed[0]);
    assert_eq!((&listed[1]["method"], &listed[1]["media"][0]), (&"full".into(), &"medium".into()));
    let text = lab.run(["sessions", "t"]).ok().stdout.clone();
    let lines: Vec<&str> = text.lines().collect();
    let words: Vec<&str> = lines[0].split_whitespace().collect();
    let head =
        ["Session", "Name", "Start", "Status", "Method", "Medium", "Files", "Read", "Stored"];
    assert_eq!(words, [&head[..], &["Tags"]].concat(), "{text}");
    assert!(lines[1].contains("incr") && lines[1].contains("medium,mirror"), "{text}");
    assert!(lines[2].contains("full") && lines[2].contains("300 kB"), "{text}");
    // What was removed says so.
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--full"]);
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    let text = lab.run(["sessions", "t"]).ok().stdout.clone();
    assert_eq!(text.matches("  removed").count(), 2, "{text}");
}

#[test]
fn versions_are_those_of_an_object_or_of_a_path() {
    let lab = Lab::new();
    let made = filled(&lab);
    let [first, second] = [made[0].as_str(), made[2].as_str()];
    let of = objects(&lab, &["versions", "t"]);
    assert_eq!(ids(&of, "session"), [second, first], "the restore is no version");
    assert_eq!(ids(&of, "method"), ["incr", "full"]);
    assert_eq!(ids(&of, "state"), ["completed", "completed"]);
    assert_eq!((&of[0]["files"], &of[1]["files"]), (&2.into(), &1.into()));
    assert_eq!(of[0]["media"], serde_json::json!(["medium", "mirror"]));
    assert_eq!((&of[1]["bytes_read"], &of[1]["tags"][0]), (&300_000.into(), &"weekly".into()));
    let text = lab.run(["versions", "t"]).ok().stdout.clone();
    let line = text.lines().nth(1).unwrap();
    assert!(line.starts_with(&format!("t@{}  ", &second[..8])) && line.contains("incr"), "{text}");
    // Each of them can be restored by what stands there.
    let name = text.lines().nth(2).unwrap().split_whitespace().next().unwrap();
    assert_eq!(lab.restored([name, "--into", "first"])["files"], 1);
    // A path: in all objects, or in one. The restores do not take the place of who wrote it.
    let path = |name: &str| lab.path(name).display().to_string();
    let of_path = objects(&lab, &["versions", &path("tree/a")]);
    assert_eq!(ids(&of_path, "session"), [second, first]);
    assert_eq!(objects(&lab, &["versions", &format!("t:{}", path("tree/a"))]), of_path);
    assert_eq!(objects(&lab, &["versions", "tree/a"]), of_path, "from the working directory");
    assert!(objects(&lab, &["versions", &format!("o:{}", path("tree/a"))]).is_empty());
    let nothing = lab.run(["versions", "nosuch"]);
    assert!(nothing.ok().stderr.contains("no object is called so"), "{}", nothing.stderr);
    // What is not whole says so.
    let incomplete = match crate::server::is_wanted() {
        true => "'incomplete'",
        // Through a shell.
        false => "'\\''incomplete'\\''",
    };
    lab.edit_tables(&format!(
        "UPDATE versions SET status = {incomplete} WHERE base_id IS NOT NULL"
    ));
    let states = objects(&lab, &["versions", "t"]);
    assert_eq!(ids(&states, "state"), ["incomplete", "completed"]);
    // An object that is called as a path is an object.
    lab.backed_up(["other", "--to", "medium"]);
    assert_eq!(objects(&lab, &["versions", &path("other")])[0]["method"], "full");
}

#[test]
fn quiet_sessions_print_errors_only() {
    let lab = Lab::new();
    lab.file("tree/a", "a");
    let backup = ["backup", "tree", "--to", "medium", "--name", "t", "-q"];
    for args in [
        &backup[..],
        &["restore", "t", "--into", "out", "-q"],
        &["verify", "t", "-q"],
        &["prune", "t", "--keep-last", "1", "-q"],
    ] {
        let run = lab.run(args);
        assert_eq!((run.ok().stdout.as_str(), run.stderr.as_str()), ("", ""), "{args:?}");
    }
    let mut key = lab.command();
    key.args(["-q", "key", "init", "--home", "locked"]).env("CAPSTAN_NEW_PASSPHRASE", "short");
    let key = finish(&mut key);
    assert_eq!((key.ok().stdout.as_str(), key.stderr.as_str()), ("", ""));
    // What is asked for is printed.
    assert!(lab.run([&backup[..], &["--json"]].concat()).ok().stdout.contains("\"completed\""));
    assert!(lab.run([&backup[..], &["--dry-run"]].concat()).ok().stdout.contains("Files"));
    assert_eq!(lab.run(["sessions", "-q"]).ok().stdout.lines().count(), 3);
    // Errors are said.
    let failed = lab.run(["backup", "gone", "--to", "medium", "--name", "t", "-q"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (2, ""));
    assert!(failed.stderr.contains("gone"), "{}", failed.stderr);
}

#[test]
fn what_did_not_change_is_said_to_be_unchanged() {
    let lab = Lab::new();
    lab.file("tree/a", "a");
    let args = ["backup", "tree", "--to", "medium", "--name", "t"];
    lab.run(args).ok();
    let text = lab.run(args).ok().stdout.clone();
    assert!(text.contains("\nUnchanged   1: "), "{text}");
    assert!(!text.contains("Kept") && !text.contains("earlier run"), "{text}");
}

/// What a file system says is used on it is about what a first backup of it has; of a directory on one it says nothing.
#[test]
fn a_first_backup_of_a_file_system_has_a_bar() {
    if !crate::support::can_mount() {
        return crate::support::skip("nothing can be mounted here");
    }
    let lab = Lab::new();
    let disk = lab.mkdir("disk");
    let _mount = crate::support::Mount::new(&["-t", "tmpfs", "-o", "size=40M", "tmpfs"], &disk);
    for i in 0..8 {
        lab.file(&format!("disk/dir/{i}"), noise(i, 1 << 20));
    }
    let lines = |args: &[&str]| {
        let mut command = lab.command();
        command.arg("backup").args(args).args(["--to", "null:rate=4", "--compress", "off"]);
        let run = finish(command.env("CAPSTAN_PROGRESS_EVERY", "0.2"));
        let err = run.ok().stderr.clone();
        assert!(err.contains("[progress]"), "{err}");
        err
    };
    let whole = lines(&["disk", "--name", "whole"]);
    let shares = whole.lines().filter_map(|l| l.split("about ").nth(1)?.split(" %").next());
    let shares: Vec<u64> = shares.map(|share| share.parse().unwrap()).collect();
    assert!(shares.len() > 2 && shares.is_sorted() && shares.iter().any(|s| *s > 10), "{whole}");
    // The second knows what the first had.
    let second = lines(&["disk", "--name", "whole"]);
    assert!(second.contains(" %, ") && !second.contains("about"), "{second}");
    let part = lines(&["disk/dir", "--name", "part"]);
    assert!(!part.contains(" %, "), "{part}");
}

/// A quiet night: the version that it makes is no more than the end of its session.
#[test]
fn a_version_in_which_nothing_changed_names_its_medium_and_has_a_catalog() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    lab.sh("mkdir m1 m2");
    let backup = |to: &str, level: &str| lab.backed_up(["tree", "--to", to, "--name", "t", level]);
    backup("m1", "--full");
    // What is as old as the base's second may have changed since, and is in the next version again; so are directories above.
    std::thread::sleep(std::time::Duration::from_secs(3));
    backup("m1", "--incr");
    backup("m1", "--incr");
    let last = backup("m2", "--incr");
    assert_eq!((&last["bytes_read"], &last["media"][0]), (&0.into(), &"m2".into()), "{last:#}");
    let names_all = |lab: &Lab| {
        for command in ["versions", "sessions"] {
            let listed = objects(lab, &[command, "t"]);
            let media: Vec<&Value> = listed.iter().map(|of| &of["media"]).collect();
            assert_eq!(
                serde_json::json!(media),
                serde_json::json!([["m2"], ["m1"], ["m1"], ["m1"]])
            );
        }
        let status = lab.run(["status", "--object", "t"]).stdout;
        assert!(status.contains("files on m2\n"), "{status}");
    };
    names_all(&lab);
    lab.sh("rm home/catalogs/*");
    assert_eq!(lab.run(["idb", "check"]).code, 3);
    lab.run(["catalog", "load", "t"]).ok();
    lab.run(["idb", "check"]).ok();
    // A copy has it, too.
    lab.run(["copy", "t", "--to", "m3"]).ok();
    let listed = objects(&lab, &["versions", "t"]);
    assert_eq!(listed[0]["media"], serde_json::json!(["m2", "m3"]), "{:#}", listed[0]);
    // And after an import.
    lab.lose_tables();
    lab.sh("rm -r m3");
    lab.run(["import", "m1"]).ok();
    lab.run(["import", "m2"]).ok();
    names_all(&lab);
}

#[test]
fn an_id_in_the_place_of_a_name_is_led_to_what_shows_it() {
    let lab = Lab::new();
    lab.file("tree/f", "x");
    let report = lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let id = &report["session"].as_str().unwrap()[..8];
    for typed in [id.to_owned(), format!("t@{id}")] {
        lab.run(["sessions", &typed]).refused(&["no object but a session", "sessions --show", id]);
    }
    lab.run(["sessions", "nosuch"]).refused(&["no object is called 'nosuch'"]);
    // Where there is nothing to list, it is said, as elsewhere.
    let none = lab.run(["sessions", "t", "--kind", "restore"]);
    assert_eq!(none.ok().stdout, "");
    assert!(
        none.stderr.contains("nothing found: no session of 't' of the kind restore"),
        "{}",
        none.stderr
    );
}

#[test]
fn a_path_that_is_there_from_the_root_is_named() {
    let lab = Lab::new();
    let args = ["--from-command", "echo 1", "--stdin-name", "shop.sql", "--name", "shop"];
    lab.backed_up(args.iter().chain(&["--to", "medium"]));
    let run = lab.run(["versions", "shop:shop.sql"]);
    assert!(run.ok().stderr.contains("; /shop.sql is there: write that"), "{}", run.stderr);
    let run = lab.run(["versions", "shop:none.sql"]);
    assert!(!run.ok().stderr.contains("is there"), "{}", run.stderr);
    let run = lab.run(["versions", "shop:./shop.sql"]);
    assert!(!run.ok().stderr.contains("is there"), "{}", run.stderr);
}
