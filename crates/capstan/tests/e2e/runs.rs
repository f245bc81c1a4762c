//! `run`: a specification from its first command to its webhook; the package that installs it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Lab, Run, below, noise};

/// Writes a specification whose `LAB` is the place.
fn spec(lab: &Lab, text: &str) -> String {
    let text = text.replace("LAB", lab.path("").to_str().unwrap().trim_end_matches('/'));
    lab.file("spec.toml", text).to_str().unwrap().to_owned()
}

fn run(lab: &Lab, text: &str) -> (Run, Value) {
    let run = lab.run(["run", "--json", &spec(lab, text)]);
    let report = serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("no report ({e}): {}{}", run.stdout, run.stderr));
    (run, report)
}

/// Takes one request and answers with a status; the request's head and body.
pub fn server(status: &'static str) -> (String, std::thread::JoinHandle<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let text = String::from_utf8_lossy(&got).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|l| {
                    l.to_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
                });
                if length.is_some_and(|length| body.len() >= length) {
                    write!(
                        stream,
                        "HTTP/1.1 {status}\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsaid\n"
                    )
                    .unwrap();
                    return (head.to_owned(), body.to_owned());
                }
            }
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0, "the request was cut short: {text}");
            got.extend_from_slice(&buffer[..n]);
        }
    });
    (url, thread)
}

const TWO: &str = r#"
device = "LAB/medium"
[options]
exclude = ["*.o"]
[[object]]
name = "one"
paths = ["LAB/tree"]
[[object]]
name = "two"
from-command = "echo dumped"
stdin-name = "dump.sql"
compress = "off"
[commands]
pre = ["echo pre >>LAB/log"]
post = ["echo post $CAPSTAN_STATUS $CAPSTAN_EXIT_CODE >>LAB/log; echo $CAPSTAN_SESSIONS >LAB/ids"]
"#;

#[test]
fn what_cannot_begin_is_noticed_by_status() {
    let lab = lab();
    let text = "device = \"LAB/medium\"\n[[object]]\nname = \"gone\"\npaths = [\"LAB/gone\"]\n";
    let (ran, report) = run(&lab, text);
    assert_eq!(ran.code, 1, "{report}");
    let id = report["sessions"][0]["session"].as_str().unwrap().to_owned();
    let status = lab.run(["status", "--json"]);
    assert_eq!(status.code, 6, "{}{}", status.stdout, status.stderr);
    assert!(status.stdout.contains("gone") && status.stdout.contains(&id), "{}", status.stdout);
    let shown = lab.run(["sessions", "--show", &id]);
    assert!(shown.ok().stdout.contains("no such file"), "{}", shown.stdout);
    // When its path is back, it is an object like any other.
    lab.file("gone/file", "back");
    let (ran, _) = run(&lab, text);
    ran.ok();
    lab.run(["status"]).ok();
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/x", noise(1, 10_000));
    lab.file("tree/left.o", "x");
    lab
}

#[test]
fn a_specification_is_done_from_begin_to_end() {
    let lab = lab();
    let (url, asked) = server("204 No Content");
    let hook =
        format!("[webhook]\nurl = \"{url}\"\nheaders = {{ Authorization = \"Bearer t\" }}\n");
    let (run, report) = run(&lab, &format!("{TWO}{hook}"));
    assert_eq!((run.code, &report["status"]), (0, &"completed".into()), "{}", run.stderr);
    assert_eq!(fs::read_to_string(lab.path("log")).unwrap(), "pre\npost completed 0\n");
    let ids: Vec<_> = report["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["session"].as_str().unwrap())
        .collect();
    assert_eq!(fs::read_to_string(lab.path("ids")).unwrap().trim(), ids.join(" "));
    let (head, body) = asked.join().unwrap();
    assert!(
        head.starts_with("POST /hook ") && head.to_lowercase().contains("authorization: bearer t"),
        "{head}"
    );
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), report);
    // What it backed up restores.
    lab.restored(["one", "--into", "out"]);
    let there = below(&lab.path("out"), &lab.path("tree"));
    assert_eq!(fs::read(there.join("x")).unwrap(), noise(1, 10_000));
    assert!(!there.join("left.o").exists());
    lab.restored(["two", "--into", "out"]);
    assert_eq!(fs::read_to_string(lab.path("out/dump.sql")).unwrap(), "dumped\n");
    // As text, each report.
    let text = lab.run(["run", &spec(&lab, TWO)]);
    assert_eq!(text.ok().stdout.matches("Session     ").count(), 2, "{}", text.stdout);
}

#[test]
fn a_command_before_that_fails_ends_the_run_and_those_after_run() {
    let lab = lab();
    let (run, report) = run(&lab, &TWO.replace("echo pre >>LAB/log", "exit 7"));
    assert_eq!((run.code, &report["status"]), (1, &"failed".into()), "{}", run.stderr);
    assert!(report["errors"][0].as_str().unwrap().contains("exit 7"), "{report:#}");
    assert!(!lab.path("medium").exists());
    let named = report["sessions"].as_array().unwrap();
    let named: Vec<_> = named.iter().map(|s| (s["name"].as_str(), s["status"].as_str())).collect();
    assert_eq!(named, [(Some("one"), Some("failed")), (Some("two"), Some("failed"))]);
    assert_eq!(fs::read_to_string(lab.path("log")).unwrap(), "post failed 1\n");
    // Each object is on record as not backed up.
    let status = lab.run(["status", "--json"]);
    assert_eq!(status.code, 6, "{}{}", status.stdout, status.stderr);
    assert!(
        status.stdout.contains("\"one\"") && status.stdout.contains("\"two\""),
        "{}",
        status.stdout
    );
    let sessions = lab.run(["sessions"]).ok().stdout.clone();
    assert_eq!(sessions.matches("failed").count(), 2, "{sessions}");
}

#[test]
fn one_backup_that_fails_does_not_keep_the_next_from_being_made() {
    let lab = lab();
    let (run, report) = run(&lab, &TWO.replace("LAB/tree\"]", "LAB/gone\"]"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert_eq!(
        (&report["sessions"][0]["status"], &report["sessions"][0]["name"]),
        (&"failed".into(), &"one".into())
    );
    assert_eq!(report["sessions"][1]["status"], "completed", "{report:#}");
    assert_eq!(fs::read_to_string(lab.path("log")).unwrap(), "pre\npost failed 1\n");
}

#[test]
fn what_fails_after_the_backups_is_an_error_of_the_run() {
    let lab = lab();
    let (run_, report) = run(&lab, &format!("{TWO}\n").replace("post = [", "post = [\"exit 3\", "));
    assert_eq!(
        (run_.code, &report["status"]),
        (3, &"completed_with_errors".into()),
        "{}",
        run_.stderr
    );
    let (url, asked) = server("403 Forbidden");
    let (run_, report) = run(&lab, &format!("{TWO}[webhook]\nurl = \"{url}\"\n"));
    asked.join().unwrap();
    assert_eq!(run_.code, 3, "{}", run_.stderr);
    let said = report["errors"][0].as_str().unwrap();
    assert!(said.contains("403") && said.contains("said"), "{said}");
    // One that is elsewhere is not asked there without the report.
    let (url, hook) = server("301 Moved Permanently\r\nLocation: http://127.0.0.1:1/new");
    let (moved, report) = run(&lab, &format!("{TWO}[webhook]\nurl = \"{url}\"\n"));
    hook.join().unwrap();
    assert_eq!(moved.code, 3, "{report:#}");
    assert!(moved.stderr.contains("it is at http://127.0.0.1:1/new now"), "{}", moved.stderr);
    let nobody = "[webhook]\nurl = \"https://127.0.0.1:1/\"\ntimeout = \"5s\"\n";
    let (run_, _) = run(&lab, &format!("{TWO}{nobody}"));
    assert_eq!(run_.code, 3, "{}", run_.stderr);
}

#[test]
fn mistakes_are_named_at_once_each_with_its_line() {
    let lab = lab();
    let path = spec(
        &lab,
        "device = \"LAB/medium\"\n[[object]]\npaths = [\"LAB/tree\"]\ncompres = \"off\"\nstreams = 0\n",
    );
    for args in [vec!["run", &path], vec!["run", "--check", &path]] {
        let run = lab.run(args);
        assert_eq!(run.code, 2, "{}{}", run.stdout, run.stderr);
        for words in ["spec.toml:4: 'compres'", "spec.toml:5: ", "2 mistakes", "nothing was done"] {
            assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
        }
    }
    assert!(!lab.path("medium").exists());
    let run = lab.run(["run", "--check", &spec(&lab, TWO)]);
    assert!(run.ok().stdout.ends_with("spec.toml: ok, 2 objects\n"), "{}", run.stdout);
    assert!(!lab.path("log").exists() && !lab.path("medium").exists());
    lab.run(["run", "nothing.toml"]).refused(&["nothing.toml"]);
}

#[test]
fn the_rules_of_a_run_are_not_those_of_another_host() {
    let lab = lab();
    for _ in 0..3 {
        lab.backed_up(["tree", "--to", "m", "--name", "x", "--full"]);
    }
    // They are of a host whose name is longer by a 0 now.
    lab.edit_tables("UPDATE objects SET host = host || 0");
    let text =
        "device = \"LAB/m\"\n[keep]\nlast = 1\n[[object]]\nname = \"x\"\npaths = [\"LAB/tree\"]\n";
    for _ in 0..2 {
        assert_eq!(run(&lab, text).0.code, 0);
    }
    let segments = fs::read_dir(lab.path("m")).unwrap();
    let is_segment = |name: &str| name.ends_with(".segment");
    let left = segments.filter(|s| is_segment(&s.as_ref().unwrap().file_name().to_string_lossy()));
    // A full and an incremental of this host, or the last alone; three of the other one.
    assert!(left.count() >= 4, "versions of another host went");
}

#[test]
fn a_backup_beside_a_running_one_is_no_failure_of_the_object() {
    let lab = lab();
    let args = [
        "backup",
        "--from-command",
        "sleep 3; echo hi",
        "--stdin-name",
        "z",
        "--name",
        "o",
        "--to",
        "m",
    ];
    let first = lab.command().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    std::thread::sleep(Duration::from_millis(1500));
    assert_ne!(lab.run(args).code, 0, "the medium is in use");
    assert!(first.unwrap().wait().unwrap().success());
    lab.run(["status", "o"]).ok();
}
