//! `status`: health, silence alarms, and the codes of monitoring.

use serde_json::Value;

use crate::support::{Lab, noise};

fn status(lab: &Lab, code: i32, args: &[&str]) -> Value {
    let run = lab.run([&["status", "--json"], args].concat());
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

fn plugin(lab: &Lab, code: i32, args: &[&str]) -> String {
    let run = lab.run([&["status", "--plugin"], args].concat());
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    run.stdout.lines().next().unwrap_or_default().to_owned()
}

fn of<'a>(status: &'a Value, name: &str) -> &'a Value {
    let objects = status["objects"].as_array().unwrap();
    objects.iter().find(|o| o["name"] == name).unwrap_or_else(|| panic!("no {name} in {status:#}"))
}

#[test]
fn a_good_object_an_old_one_and_one_with_errors() {
    let lab = Lab::new();
    assert!(plugin(&lab, 3, &[]).starts_with("CAPSTAN UNKNOWN"));
    status(&lab, 5, &[]);
    lab.file("a/x", noise(1, 1000));
    let report = lab.backed_up(["a", "--to", "medium", "--name", "a"]);
    lab.backed_up(["a", "--to", "null:", "--name", "measured"]);
    let s = status(&lab, 0, &[]);
    assert_eq!((&s["status"], s["objects"].as_array().unwrap().len()), (&"ok".into(), 1), "{s:#}");
    assert_eq!(
        (&of(&s, "a")["last_backup"]["session"], &of(&s, "a")["last_drill"]),
        (&report["session"], &Value::Null)
    );
    let line = plugin(&lab, 0, &["a"]);
    assert!(
        line.starts_with("CAPSTAN OK - 1 ok | 'a age'=") && line.ends_with("s;;93600"),
        "{line}"
    );
    // The command fails later on: what it had is kept, and somebody should look.
    lab.backup(["--from-command", "echo x", "--to", "medium", "--name", "b"]);
    lab.backup(["--from-command", "exit 1", "--to", "medium", "--name", "b"]);
    lab.backup(["--from-command", "exit 1", "--to", "medium", "--name", "never"]);
    let s = status(&lab, 6, &[]);
    assert_eq!(of(&s, "b")["health"], "warning", "{s:#}");
    assert_eq!(of(&s, "never")["health"], "critical", "{s:#}");
    status(&lab, 5, &["a", "b"]);
    let line = plugin(&lab, 2, &[]);
    assert!(
        line.starts_with(
            "CAPSTAN CRITICAL - 1 critical, 1 warning, 1 ok: never: it has no complete version"
        ),
        "{line}"
    );
    // What is less bad has its reason beside what is worse.
    let text = lab.run(["status"]).stdout;
    for line in [&line, text.lines().next().unwrap()] {
        assert!(line.contains("; b (warning): its last backup, "), "{line}");
    }
    assert!(plugin(&lab, 1, &["b"]).starts_with("CAPSTAN WARNING"));
    // Silence.
    lab.sh("sleep 1.2");
    let s = status(&lab, 6, &["a", "--max-age", "1s"]);
    assert!(of(&s, "a")["why"][0].as_str().unwrap().contains("older than allowed"), "{s:#}");
    // A table for people.
    let text = lab.run(["status", "a"]);
    let lines: Vec<_> = text.ok().stdout.lines().collect();
    assert!(
        lines[0] == "CAPSTAN OK - 1 ok" && lines[1].starts_with("Object  Host") && lines.len() == 3,
        "{}",
        text.stdout
    );
}

#[test]
fn drills_show_and_count() {
    let lab = Lab::new();
    lab.file("a/x", noise(1, 2_000_000));
    lab.backed_up(["a", "--to", "medium", "--name", "a"]);
    lab.run(["drill", "a", "--scratch", "."]).ok();
    let s = status(&lab, 0, &[]);
    assert_eq!(of(&s, "a")["last_drill"]["drill"]["files"], 1, "{s:#}");
    let segment = lab.sh("ls -S medium/*.segment | head -1");
    lab.sh(&format!(
        "printf XXXX | dd of={} bs=1 seek=1000000 conv=notrunc status=none",
        segment.trim()
    ));
    assert_eq!(lab.run(["drill", "a", "--scratch", "."]).code, 3);
    let s = status(&lab, 6, &[]);
    assert!(of(&s, "a")["why"].to_string().contains("could not prove 1 files"), "{s:#}");
}

#[test]
fn what_is_not_known_is_bad_input_or_unknown() {
    let lab = Lab::new();
    lab.run(["status", "nothing"]).refused(&["nothing", "never backed up"]);
    assert!(plugin(&lab, 3, &["nothing"]).contains("nothing"));
    lab.run(["status", "--max-age", "1"]).refused(&["--max-age"]);
}

#[test]
fn what_is_refused_is_shown_at_once_until_it_goes_well() {
    let lab = Lab::new();
    lab.file("tree/x", "x");
    // Of a name that nothing is backed up by.
    lab.run(["backup", "nosuch", "--to", "medium", "--name", "new"]).refused(&["nosuch"]);
    let all = status(&lab, 5, &[]);
    assert_eq!(all["objects"][0]["name"], "new", "{all:#}");
    let why = all["objects"][0]["why"].to_string();
    assert!(why.contains("refused 0 min ago") && why.contains("nosuch"), "{why}");
    let text = lab.run(["status", "new"]).stdout;
    assert!(text.contains("backup of 'new' on ") && text.contains("refused 0 min ago"), "{text}");
    assert_eq!(lab.run(["sessions", "--json"]).rows().len(), 0);
    lab.backed_up(["tree", "--to", "medium", "--name", "new"]);
    lab.run(["status"]).ok();
    // Of one that is known: its medium is away.
    lab.sh("mv medium away; echo x >medium");
    assert_ne!(lab.run(["backup", "tree", "--to", "medium", "--name", "new"]).code, 0);
    let text = lab.run(["status"]).stdout;
    assert!(text.contains("refused 0 min ago: ") && text.contains("medium"), "{text}");
    lab.sh("rm medium; mv away medium");
    lab.backed_up(["tree", "--to", "medium", "--name", "new"]);
    lab.run(["status"]).ok();
}
