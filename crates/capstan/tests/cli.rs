//! The command line as people and scripts meet it: the real binary, its texts and exit codes.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.env_clear().env("CAPSTAN_HOME", home).env("TZ", "UTC").stdin(Stdio::null());
    command
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        std::fs::create_dir(place.path("src")).unwrap();
        std::fs::write(place.path("src/file"), "contents").unwrap();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        self.run_with(args, &[])
    }

    fn run_with<S: AsRef<OsStr>>(&self, args: &[S], env: &[(&str, &str)]) -> Ran {
        let mut command = command(&self.path("home"));
        ran(command.args(args).envs(env.iter().copied()).output().unwrap())
    }

    fn backed_up() -> Self {
        let place = Self::new();
        let args = ["backup", &place.text("src"), "--to", &place.text("m"), "--name", "desk"];
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        place
    }
}

#[test]
fn every_command_has_help_with_examples() {
    let place = Place::new();
    let commands = [
        "backup",
        "restore",
        "ls",
        "find",
        "sessions",
        "versions",
        "verify",
        "import",
        "key init",
        "key add",
        "key import",
        "key remove",
        "key list",
        "key rotate",
        "key rewrap",
        "key show",
        "key recovery",
        "assess create-data",
        "completions",
        "man",
    ];
    for name in commands {
        let mut args: Vec<&str> = name.split(' ').collect();
        args.push("--help");
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
        assert!(ran.out.contains(&format!("Usage: capstan {name}")), "{name}: {}", ran.out);
        assert!(ran.out.contains("Example"), "{name} has no example");
        assert!(ran.err.is_empty());
    }
    let ran = place.run(&["--help"]);
    assert!(ran.out.contains("Exit codes") && ran.code == Some(0));
    let ran = place.run(&["--version"]);
    assert_eq!(ran.out, format!("capstan {}\n", env!("CARGO_PKG_VERSION")));
    // Help does not make a home.
    assert!(!place.path("home").exists());
}

#[test]
fn bad_input_is_told_in_two_lines_and_exits_2() {
    let place = Place::backed_up();
    let (src, m, m2, missing) =
        (place.text("src"), place.text("m"), place.text("m2"), place.text("missing"));
    let (into, file) = (place.text("into"), place.text("src/file"));
    let cases: &[(&[&str], &str)] = &[
        (&["backup", &missing, "--to", &m], "missing"),
        (&["backup", &src], "--to"),
        (&["backup", "--to", &m], "PATH"),
        (&["backup", &src, "--to", &m2, "--block-size", "16M"], "block size"),
        (&["backup", &src, "--to", &m2, "--block-size", "100"], "block size"),
        (&["backup", &src, "--to", &m2, "--block-size", "5G"], "--block-size"),
        (&["backup", &src, "--to", &m2, "--exclude", "a["], "bad pattern 'a['"),
        (&["backup", &src, "--to", &m2, "--exclude-from", &missing], "missing"),
        (&["backup", &src, "--to", &m2, "--files-from", &missing], "missing"),
        (&["backup", "--to", &m2, "--files-from", "-"], "standard input names no path"),
        (&["backup", &src, "--to", &m2, "--files-of-size", "2G..1G"], "larger end first"),
        (&["backup", &src, "--to", &m2, "--files-of-size", "7"], "not a range"),
        (&["backup", &src, "--to", &m2, "--segment-size", "many"], "not a size"),
        (&["backup", &src, "--to", &m2, "--compress", "zstd:20"], "not a level"),
        (&["backup", &src, "--to", &m2, "--compress", "gzip"], "unknown compression method"),
        (&["backup", &src, "--to", &m2, "--streams", "0"], "--streams"),
        (&["backup", &src, "--to", &m2, "--locked", "maybe"], "--locked"),
        (&["backup", &src, "--to", &m2, "--full", "--resume"], "--resume"),
        (&["backup", &src, "--to", &m2, "--stdin"], "--stdin"),
        (&["backup", &src, "--to", "s3://bucket/prefix"], "not a device"),
        (&["backup", &src, "--to", &src], "is what the backup is written to"),
        (&["restore", "desk"], "--into"),
        (&["restore", "desk", "--into", &into, "--in-place"], "--in-place"),
        (&["restore", "nosuch", "--into", &into], "nosuch"),
        (&["restore", "desk@ffffffff", "--into", &into], "ffffffff"),
        (&["restore", "@abcd", "--into", &into], "no name"),
        (&["ls", "nosuch"], "nosuch"),
        (&["sessions", "--show", "zz"], "zz"),
        (&["verify"], "--medium"),
        (&["import", &missing], "missing"),
        (&["key", "list"], "no key ring"),
        (&["key", "remove", "x"], "16 hexadecimal digits"),
        (&["key", "init", "--recipient", "capstan-pub-x"], "not a recipient"),
        (&["key", "init", "--key-file", &file], "32 random bytes"),
        (&["key", "init"], "no terminal"),
        (&["assess", "create-data", &src], "not empty"),
        (&["assess", "create-data", &m2, "--ratio", "17"], "--ratio"),
        (&["nosuch"], "nosuch"),
        (&["backup", "--nosuch"], "--nosuch"),
    ];
    for (args, part) in cases {
        // No controlling terminal, so that nobody is asked for a passphrase.
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(env!("CARGO_BIN_EXE_capstan")).args(*args);
        command.env("CAPSTAN_HOME", place.path("home")).stdin(Stdio::null());
        let ran = ran(command.output().unwrap());
        let said = format!("{args:?} said: {}", ran.err);
        assert_eq!(ran.code, Some(2), "{said}");
        assert!(ran.out.is_empty(), "{said}{}", ran.out);
        let lines: Vec<&str> = ran.err.lines().collect();
        assert!((1..=2).contains(&lines.len()), "{said}");
        assert!(lines[0].starts_with("capstan: error: ") && lines[0].contains(part), "{said}");
        assert!(lines.get(1).is_none_or(|l| l.starts_with("capstan: hint: ")), "{said}");
    }
    assert!(!place.path("m2").exists() && !place.path("into").exists(), "something was written");
}

#[test]
fn scripts_get_one_object_whatever_happens() {
    let place = Place::backed_up();
    let ran = place.run(&["restore", "desk", "--into", &place.text("into"), "--json"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 1), "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["status"], &report["method"]), (&"completed".into(), &"restore".into()));
    assert_eq!(report["files"], 1);

    let ran = place.run(&["restore", "nosuch", "--into", &place.text("x"), "--json"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(2), 1));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&report["status"], &report["errors"][0]["code"]),
        (&"failed".into(), &"bad-input".into())
    );
    assert!(report["errors"][0]["error"].as_str().unwrap().contains("nosuch"));
}

#[test]
fn a_list_is_one_object_also_where_nothing_is_found() {
    let place = Place::backed_up();
    let file = place.text("src/file");
    for (list, args) in [
        ("files", vec!["ls", "desk", "--json"]),
        ("files", vec!["find", "file", "--json"]),
        ("versions", vec!["versions", &file, "--json"]),
    ] {
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
        let object: Value = serde_json::from_str(&ran.out).unwrap();
        let found = object[list].as_array().unwrap().iter().find(|o| o["path"] == file.as_str());
        assert_eq!(found.unwrap_or_else(|| panic!("{args:?}: {}", ran.out))["size"], 8);
    }
    let ran = place.run(&["sessions", "--json"]);
    let sessions: Value = serde_json::from_str(&ran.out).unwrap();
    let session = &sessions["sessions"][0];
    assert_eq!((&session["name"], &session["status"]), (&"desk".into(), &"completed".into()));
    let id = session["id"].as_str().unwrap();
    let ran = place.run(&["sessions", "--show", &id[..8]]);
    assert!(ran.out.contains(&format!("Session     {id}")), "{}", ran.out);
}

#[test]
fn who_asks_for_json_gets_one_object_whatever_happens() {
    let place = Place::backed_up();
    for (args, list) in [
        ("find nosuchfile --json", "files"),
        ("versions /no/such/file --json", "versions"),
        ("sessions --json", "sessions"),
        ("media list --json", "media"),
        ("pool list --json", "pools"),
        ("idb check --json", "findings"),
        ("diff desk desk --json", "changes"),
        ("ls desk /no/such --json", "files"),
    ] {
        let ran = place.run(&args.split(' ').collect::<Vec<_>>());
        let object: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{args}: {e}: {}", ran.out));
        assert!(object[list].is_array(), "{args}: {}", ran.out);
        let code = object.get("exit_code").map_or(0, |code| code.as_i64().unwrap());
        assert_eq!(ran.code.map(i64::from), Some(code), "{args}: {}", ran.out);
    }
    for args in [
        "ls nosuch --json",
        "sessions --show ffff --json",
        "status nosuch --json",
        "media show nosuch --json",
        "prune nosuch --json --keep-last 1",
        "protect nosuch --json --none",
        "library inventory vtape:/no/such --json",
        "catalog export nosuch --parquet x --json",
    ] {
        let ran = place.run(&args.split(' ').collect::<Vec<_>>());
        let object: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{args}: {e}: {}", ran.out));
        assert_eq!((ran.code, &object["exit_code"]), (Some(2), &2.into()), "{args}: {}", ran.out);
        assert!(ran.err.contains(object["error"].as_str().unwrap()), "{args}: {}", ran.err);
    }
    for args in [
        "pool create office --json",
        "pool set office --not-appendable --json",
        "pool delete office --json",
        "media label m monday --json",
        "media move monday --no-pool --json",
        "media export monday --to bank --json",
    ] {
        let ran = place.run(&args.split(' ').collect::<Vec<_>>());
        let object: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{args}: {e}: {}", ran.out));
        assert_eq!((ran.code, object.is_object()), (Some(0), true), "{args}: {}", ran.err);
    }
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let place = Place::backed_up();
    for args in ["ls desk", "sessions", "--help", "completions bash"] {
        let mut command = command(&place.path("home"));
        let mut child = command
            .args(args.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ran = ran(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args}");
    }
}

#[test]
fn a_first_signal_ends_a_session_in_order_and_a_second_at_once() {
    let place = Place::new();
    std::fs::write(place.path("src/big"), vec![7u8; 64 << 20]).unwrap();
    let src = place.text("src");
    let interrupt = |source: &[&str], times: usize| {
        let mut command = command(&place.path("home"));
        command.args(["backup", "--to", "null:rate=4", "--name", "slow", "--json"]).args(source);
        command.args(["--compress", "off"]).env("CAPSTAN_PROGRESS_EVERY", "0.2");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        std::thread::sleep(std::time::Duration::from_secs(2));
        for _ in 0..times {
            // It may have ended by the first.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        ran(child.wait_with_output().unwrap())
    };
    let once = interrupt(&[&src], 1);
    assert_eq!(once.code, Some(1), "{}", once.err);
    let report: Value = serde_json::from_str(&once.out).unwrap();
    assert_eq!(report["status"], "incomplete");
    assert!(once.err.contains("[progress]"), "{}", once.err);
    // It ends at once but for a command that does not hear SIGTERM, which has a second until it is killed.
    let deaf =
        "exec 2>/dev/null; trap '' TERM; echo some data; for i in $(seq 60); do sleep 0.1; done";
    let twice = interrupt(&["--from-command", deaf], 2);
    assert_eq!((twice.code, twice.out.as_str()), (Some(130), ""), "{}", twice.err);
}

#[test]
fn a_key_ring_encrypts_and_opens() {
    let place = Place::new();
    let (pass, new) = ("correct horse battery staple", "another long passphrase");
    let ran = place.run_with(&["key", "init", "--recovery-code"], &[("CAPSTAN_PASSPHRASE", pass)]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let code: String = ran
        .out
        .lines()
        .filter(|l| l.starts_with("    ") && l.contains(": "))
        .fold(String::new(), |all, line| all + line + "\n");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(place.path("home/keyring.json")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);

    // Writing needs no secret.
    let ran =
        place.run(&["backup", &place.text("src"), "--to", &place.text("m"), "--name", "desk"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let restore = |dir: &str, env: &[(&str, &str)]| {
        let args = ["restore", "desk", "--into", &place.text(dir)];
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(env!("CARGO_BIN_EXE_capstan")).args(args).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("CAPSTAN_HOME", place.path("home")).envs(env.iter().copied());
        let ran = self::ran(command.stdin(Stdio::null()).output().unwrap());
        (ran.code, place.path(dir).exists(), ran.err)
    };
    let (status, written, said) = restore("none", &[]);
    assert_eq!((status, written), (Some(2), false), "{said}");
    let (status, written, said) = restore("wrong", &[("CAPSTAN_PASSPHRASE", "wrong")]);
    assert_eq!((status, written), (Some(2), false), "{said}");
    assert!(said.contains("wrong passphrase"), "{said}");
    assert_eq!(restore("right", &[("CAPSTAN_PASSPHRASE", pass)]).0, Some(0));
    assert_eq!(restore("code", &[("CAPSTAN_RECOVERY_CODE", &code)]).0, Some(0));

    // After a rotation, the recorded keys open by the new passphrase.
    let both = [("CAPSTAN_PASSPHRASE", pass), ("CAPSTAN_NEW_PASSPHRASE", new)];
    let ran = place.run_with(&["key", "rotate"], &both);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("keys of 1 backups are wrapped anew"), "{}", ran.err);
    let (status, _, said) = restore("rotated", &[("CAPSTAN_PASSPHRASE", new)]);
    assert_eq!(status, Some(0), "{said}");

    // Another machine writes for the public key and cannot read.
    let public = place.run(&["key", "show"]).out;
    let other = Place::new();
    let ran = other.run(&["key", "init", "--recipient", public.trim()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ran = other.run(&["backup", &other.text("src"), "--to", &other.text("m"), "--name", "w"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let into = other.text("out");
    let ran = other.run_with(&["restore", "w", "--into", &into], &[("CAPSTAN_PASSPHRASE", new)]);
    assert!(ran.code == Some(2) && ran.err.contains("public keys only"), "{}", ran.err);
    let ran = place.run_with(&["import", &other.text("m")], &[("CAPSTAN_PASSPHRASE", new)]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ran = place.run_with(&["ls", "w"], &[("CAPSTAN_PASSPHRASE", new)]);
    assert!(ran.out.contains("src/file"), "{}{}", ran.out, ran.err);
}

#[test]
fn completions_and_manual_pages_come_from_the_definition() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = place.run(&["completions", shell]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.out.contains("files-of-size"), "{shell}");
    }
    assert!(place.run(&["man"]).out.starts_with(".ie"));
    let ran = place.run(&["man", "--dir", &place.text("man")]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for page in
        ["capstan.1", "capstan-backup.1", "capstan-key-init.1", "capstan-assess-create-data.1"]
    {
        let text = std::fs::read_to_string(place.path("man").join(page)).unwrap();
        assert!(text.contains(".SH"), "{page}");
    }
}

/// What prints documents prints them within an object, too.
#[test]
fn keys_pages_and_scripts_are_objects_where_that_is_asked_for() {
    let place = Place::new();
    let object = |args: &[&str]| -> Value {
        let secret = [("CAPSTAN_PASSPHRASE", "correct horse battery staple")];
        let ran = place.run_with(&[args, &["--json"]].concat(), &secret);
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", ran.out))
    };
    let made = object(&["key", "init", "--recovery-code"]);
    assert_eq!(made["pairs"][0]["active"], true, "{made:#}");
    assert_eq!(made["pairs"][0]["locks"].as_array().unwrap().len(), 2, "{made:#}");
    assert!(made["documents"][0].as_str().unwrap().contains("CAPSTAN_RECOVERY_CODE"), "{made:#}");
    let public = place.run(&["key", "show"]).out;
    assert_eq!(object(&["key", "show"])["public_key"], public.trim());
    let id = made["names_key"].as_str().unwrap();
    assert_eq!(object(&["key", "list"])["names_key"], id);
    let sheet = object(&["key", "recovery", "--name", "vault"]);
    assert_eq!(sheet["pairs"][0]["locks"].as_array().unwrap().len(), 3, "{sheet:#}");
    assert!(sheet["documents"][0].as_str().unwrap().contains("vault"), "{sheet:#}");
    assert!(object(&["key", "rewrap"])["key_ring"].as_str().unwrap().ends_with("keyring.json"));
    assert_eq!(object(&["key", "names", "--remove"])["names_key"], Value::Null);
    let ran = place.run(&["key", "init", "--json"]);
    let refused: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &refused["exit_code"]), (Some(2), &2.into()), "{refused}");

    assert!(object(&["man"])["page"].as_str().unwrap().starts_with(".ie"));
    let dir = place.text("man");
    let files = object(&["man", "--dir", &dir])["files"].as_array().unwrap().clone();
    assert!(files.contains(&format!("{dir}/capstan-key-init.1").into()), "{files:?}");
    assert!(files.iter().all(|file| Path::new(file.as_str().unwrap()).exists()), "{files:?}");
    let script = object(&["completions", "bash"]);
    assert_eq!(script["shell"], "bash");
    assert!(script["script"].as_str().unwrap().contains("files-of-size"));
}

#[test]
fn test_data_are_as_asked() {
    let place = Place::new();
    let args = [
        "assess",
        "create-data",
        &place.text("data"),
        "--files",
        "20",
        "--sizes",
        "1K..4K",
        "--json",
    ];
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(said["summary"]["files"], 20);
    assert_eq!(said["options"]["size_max"], 4096);
}
