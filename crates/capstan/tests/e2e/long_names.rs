//! Names of any length and of any characters: refused where people give them, cut where a medium or a database has them.

use crate::support::{Lab, skip};

#[test]
fn names_that_nobody_could_type_are_refused_at_the_command_line() {
    let lab = Lab::new();
    lab.file("tree/a", "a");
    let long = "x".repeat(70_000);
    let backup = |options: &[&str]| {
        lab.run([&["backup", "tree", "--to", "medium", "--name", "t"], options].concat())
    };
    backup(&["--tag", &long]).refused(&["a tag has 70000 bytes", "give a shorter text"]);
    let name = ["backup", "tree", "--to", "medium", "--name", &long];
    lab.run(name).refused(&["name has 70000 bytes", "give --name a shorter one"]);
    let input = [
        "backup",
        "--from-command",
        "true",
        "--stdin-name",
        &long,
        "--name",
        "t",
        "--to",
        "medium",
    ];
    lab.run(input).refused(&["longer than 255 bytes"]);
    assert!(!lab.path("medium").exists(), "something was written");
    lab.file(
        "spec.toml",
        format!(
            "device = \"{}\"\n[[object]]\nname = \"{long}\"\npaths = [\"{}\"]\n",
            lab.path("medium").display(),
            lab.path("tree").display()
        ),
    );
    let run = lab.run(["run", "spec.toml"]);
    let said = [run.stderr, run.stdout].concat();
    assert!(run.code != 0 && said.contains("name has 70000 bytes"), "{said}");
    assert!(!lab.path("medium").exists(), "something was written");
}

#[test]
fn tables_cut_what_is_too_long_for_them() {
    if crate::server::is_wanted() {
        return skip("the statement is one of SQLite");
    }
    let lab = Lab::new();
    lab.file("tree/a", "a");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--tag", "a"]);
    // 80,000 characters, as an import of older programs may have recorded them.
    for change in [
        "UPDATE objects SET name = hex(zeroblob(40000)), host = hex(zeroblob(40000))",
        "UPDATE sessions SET host = hex(zeroblob(40000)), device = hex(zeroblob(40000))",
        "UPDATE media SET label = hex(zeroblob(40000))",
    ] {
        lab.edit_tables(change);
    }
    for args in [
        &["sessions"][..],
        &["status"],
        &["prune", "--keep-last", "1", "--dry-run"],
        &["media", "list"],
        &["idb", "check"],
    ] {
        let run = lab.run(args);
        assert!(!run.stderr.contains("panicked") && run.code < 7, "{args:?}: {}", run.stderr);
        let longest = run.stdout.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest < 10_000, "{args:?}: a line of {longest}");
        if matches!(args[0], "sessions" | "status" | "prune") {
            assert!(run.stdout.contains("…") && run.stdout.contains("was cut"), "{}", run.stdout);
        }
    }
    let json = lab.run(["sessions", "--kind", "all", "--json"]);
    assert!(json.ok().stdout.len() > 80_000, "JSON has all of it");
}

#[test]
fn characters_that_turn_or_hide_text_are_escaped() {
    let lab = Lab::new();
    for name in ["invoice\u{202e}fdp.exe", "two\u{2028}lines", "no\u{200b}width", "iso\u{2066}late"]
    {
        lab.file(&format!("tree/{name}"), "a");
    }
    lab.backed_up(["tree", "--to", "medium", "--name", "safe\u{202e}name"]);
    // A terminal; to a pipe names go byte for byte.
    let script = |what: &str| {
        let binary = env!("CARGO_BIN_EXE_capstan");
        let home = lab.path("home");
        lab.sh(&format!(
            "CAPSTAN_HOME='{}' script -qec \"'{binary}' {what}\" /dev/null",
            home.display()
        ))
    };
    let bad = ['\u{202e}', '\u{2028}', '\u{200b}', '\u{2066}'];
    if lab.succeeds("command -v script") {
        let shown =
            [script("find --name '*' --all-versions"), script("sessions"), script("status")]
                .concat();
        assert!(shown.contains("\\u{202e}") && shown.contains("\\u{200b}"), "{shown}");
        assert!(!shown.contains(bad), "{shown:?}");
    }
    for args in [&["sessions"][..], &["status"], &["prune", "--keep-last", "1", "--dry-run"]] {
        let shown = lab.run(args).stdout;
        assert!(shown.contains("safe\\u{202e}name") && !shown.contains(bad), "{shown:?}");
    }
    let refused = lab.run(["restore", "none\u{202e}such", "--into", "out"]);
    refused.refused(&["none\\u{202e}such"]);
}
