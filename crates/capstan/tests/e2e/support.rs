//! What the tests share: a place with a home of its own, the binary, its reports.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock};

use serde_json::Value;
use tempfile::TempDir;

use crate::server::{self, Server, name_of, write_settings};

/// The user the tests are where they are nobody special.
pub const NOBODY: &str = "65534";

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether long runs are asked for.
pub fn soak() -> bool {
    std::env::var_os("CAPSTAN_SOAK").is_some()
}

/// Says why a test cannot run here.
pub fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

/// A scratch directory with a home, in the build directory: a disk, not tmpfs.
pub struct Lab {
    dir: TempDir,
    user: bool,
    passphrase: Option<&'static str>,
    /// Databases of its homes, where those are on a server.
    databases: Mutex<Vec<String>>,
}

/// What a run of the binary left.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Lab {
    pub fn new() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// Where backups are encrypted, if there is a passphrase; commands have it.
    pub fn with_passphrase(passphrase: Option<&'static str>) -> Self {
        let mut lab = Self::new();
        lab.passphrase = passphrase;
        if passphrase.is_some() {
            lab.run(["key", "init"]).ok();
        }
        lab
    }

    /// Below another directory.
    pub fn within(at: &Path) -> Self {
        Self::place(at, false)
    }

    /// Where commands run as a plain user: a place that he can reach and owns.
    pub fn of_user() -> Self {
        let lab = Self::place(Path::new("/var/tmp"), true);
        fs::set_permissions(lab.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = lab.path("capstan");
        fs::copy(env!("CARGO_BIN_EXE_capstan"), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        let id = NOBODY.parse().ok();
        std::os::unix::fs::chown(lab.dir.path(), id, id).unwrap();
        lab
    }

    fn place(at: &Path, user: bool) -> Self {
        fs::create_dir_all(at).unwrap();
        let dir = tempfile::Builder::new().prefix("e2e-").tempdir_in(at).unwrap();
        Self { dir, user, passphrase: None, databases: Mutex::default() }
    }

    /// Gives the home a database of its own, if it has none and they are to be on a server.
    fn prepare(&self) {
        let home = self.path("home");
        if server::is_wanted()
            && !home.join("capstan.toml").exists()
            && !home.join("capstan.db").exists()
        {
            self.use_database(Server::shared().new_database());
        }
    }

    fn use_database(&self, url: String) {
        let home = self.path("home");
        write_settings(&home, &format!("database = \"{url}\"\n"));
        if self.user {
            let id = NOBODY.parse().ok();
            std::os::unix::fs::chown(&home, id, id).unwrap();
            std::os::unix::fs::chown(home.join("capstan.toml"), id, id).unwrap();
        }
        self.databases.lock().unwrap().push(url);
    }

    fn database(&self) -> String {
        self.databases.lock().unwrap().last().unwrap().clone()
    }

    /// The tables are lost; catalogs and keys stay.
    pub fn lose_tables(&self) {
        match server::is_wanted() {
            true => self.sh("rm home/capstan.toml home/postgres.cell"),
            false => self.sh("rm home/capstan.db*"),
        };
    }

    /// Changes the tables behind the program's back.
    pub fn edit_tables(&self, statement: &str) {
        if server::is_wanted() {
            Server::shared().sql(name_of(&self.database()), statement);
        } else {
            self.sh(&format!(
                "python3 -c 'import sqlite3; c = sqlite3.connect(\"home/capstan.db\"); \
                 c.execute(\"{statement}\"); c.commit()'"
            ));
        }
    }

    /// Tables as they are, for later: of a file, a copy of the home has them.
    pub fn keep_tables(&self) -> Option<String> {
        server::is_wanted().then(|| {
            let kept = Server::shared().copy_of(&self.database());
            self.databases.lock().unwrap().insert(0, kept.clone());
            kept
        })
    }

    /// Tables as they were, for a home that was put back.
    pub fn put_tables_back(&self, kept: &Option<String>) {
        if let Some(kept) = kept {
            self.use_database(Server::shared().copy_of(kept));
        }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a directory.
    pub fn mkdir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Writes a file, making its directories.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A program, as the user of this place.
    pub fn program(&self, name: impl AsRef<OsStr>) -> Command {
        self.prepare();
        let mut command = if self.user {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(name);
            command
        } else {
            Command::new(name)
        };
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("HOME", self.dir.path());
        for secret in [
            "CAPSTAN_PASSPHRASE",
            "CAPSTAN_NEW_PASSPHRASE",
            "CAPSTAN_KEY_FILE",
            "CAPSTAN_RECOVERY_CODE",
        ] {
            command.env_remove(secret);
        }
        command
    }

    /// The binary, with a home in this place.
    pub fn command(&self) -> Command {
        let binary =
            if self.user { self.path("capstan") } else { env!("CARGO_BIN_EXE_capstan").into() };
        let mut command = self.program(binary);
        command.env("CAPSTAN_HOME", self.path("home"));
        // Who is not to wait is refused at once.
        command.env("CAPSTAN_WAIT", "0s");
        command.envs(self.passphrase.map(|p| ("CAPSTAN_PASSPHRASE", p)));
        command
    }

    /// Runs the binary.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        finish(self.command().args(args))
    }

    /// Runs the binary in a name space of its own, where that is the table of file systems.
    pub fn run_with_fstab(&self, fstab: &str, args: &[&str]) -> Run {
        let fstab = self.file("fstab", fstab);
        let capstan = self.command();
        let mut command = Command::new("unshare");
        command.args(["-m", "bash", "-euc", "mount --bind \"$0\" /etc/fstab; exec \"$@\""]);
        command.arg(fstab).arg(capstan.get_program()).args(args);
        for (name, value) in capstan.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        finish(command.current_dir(self.path("")))
    }

    /// Runs a shell script with `set -eu` here; panics with what it said if it fails.
    pub fn sh(&self, script: &str) -> String {
        let run = finish(self.program("bash").args(["-euc", script]));
        assert_eq!(run.code, 0, "{script}\n{}{}", run.stdout, run.stderr);
        run.stdout
    }

    /// Whether a shell script works here.
    pub fn succeeds(&self, script: &str) -> bool {
        finish(self.program("bash").args(["-euc", script])).code == 0
    }

    /// Backs up with `--json`; the report, whatever its status.
    pub fn backup<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        report(finish(self.command().arg("backup").arg("--json").args(args)))
    }

    /// Backs up what must work.
    pub fn backed_up<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        completed(self.backup(args))
    }

    /// Restores with `--json`; the report, whatever its status.
    pub fn restore<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        report(finish(self.command().arg("restore").arg("--json").args(args)))
    }

    /// Restores what must work.
    pub fn restored<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        completed(self.restore(args))
    }

    /// Backs up with the standard input given.
    pub fn backup_of<S: AsRef<OsStr>>(
        &self,
        input: Stdio,
        args: impl IntoIterator<Item = S>,
    ) -> Value {
        report(finish(self.command().stdin(input).arg("backup").arg("--json").args(args)))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // For whoever looks for why a test failed.
        if std::thread::panicking() && std::env::var_os("CAPSTAN_KEEP").is_some() {
            eprintln!("kept: {}", self.dir.path().display());
            self.dir.disable_cleanup(true);
            return;
        }
        // What is immutable cannot be removed.
        let _ = Command::new("chattr").args(["-R", "-f", "-i", "-a"]).arg(self.dir.path()).output();
        for database in self.databases.lock().unwrap().drain(..) {
            Server::shared().drop_database(&database);
        }
    }
}

impl Run {
    /// The rows of the list in the one object that `--json` prints.
    pub fn rows(&self) -> Vec<Value> {
        self.json_lines().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The same as text, a row a line.
    pub fn json_lines(&self) -> String {
        let object: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}: '{}' {}", self.stdout, self.stderr));
        assert!(object.is_object(), "{}", self.stdout);
        let rows = self.stdout.lines().skip(1).filter(|line| line.starts_with('{'));
        rows.map(|line| format!("{}\n", line.trim_end_matches(','))).collect()
    }

    /// Bad input: exit code 2, and one clear sentence with these words, with no trace of a panic.
    pub fn refused(&self, words: &[&str]) -> &Self {
        assert_eq!(self.code, 2, "{}{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "'{word}' is not in: {}", self.stderr);
        }
        let lines = self.stderr.lines().filter(|l| !l.trim().is_empty()).count();
        assert!((1..=3).contains(&lines), "not one sentence: {}", self.stderr);
        self
    }

    pub fn ok(&self) -> &Self {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> Run {
    let output = command.output().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    run_of(output)
}

fn run_of(output: Output) -> Run {
    use std::os::unix::process::ExitStatusExt;
    Run {
        code: output.status.code().unwrap_or_else(|| -output.status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The one object that `--json` prints; its status and the exit code must agree.
pub fn report(run: Run) -> Value {
    let json: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|e| {
        panic!("no report ({e}), exit {}: {}{}", run.code, run.stdout, run.stderr)
    });
    let code = match json["status"].as_str() {
        Some("completed") => 0,
        Some("completed_with_errors") => 3,
        Some("incomplete" | "failed") => 1,
        other => panic!("status {other:?}"),
    };
    assert_eq!(run.code, code, "exit code and status differ: {json}");
    assert!(!has_negative_zero(&json), "a sum of nothing is printed as -0.0: {json}");
    json
}

fn has_negative_zero(json: &Value) -> bool {
    match json {
        Value::Number(n) => n.as_f64().is_some_and(|n| n == 0.0 && n.is_sign_negative()),
        Value::Array(list) => list.iter().any(has_negative_zero),
        Value::Object(map) => map.values().any(has_negative_zero),
        _ => false,
    }
}

pub fn completed(report: Value) -> Value {
    assert_eq!(report["status"], "completed", "{report:#}");
    report
}

/// Waits for a condition, at most a minute.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed().as_secs() < 60, "waited a minute for {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Ends and reaps a child, and what it said on standard error.
pub fn end(mut child: Child) -> String {
    let _ = child.kill();
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    let _ = child.wait();
    said
}

/// Bytes that do not compress, the same for the same seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend_from_slice(&x.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    out.truncate(len);
    out
}

/// Where a path lies below the directory it was restored into.
pub fn below(into: &Path, path: &Path) -> PathBuf {
    into.join(path.strip_prefix("/").unwrap())
}

/// Free bytes of the file system that a path is on.
pub fn free_bytes(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    stat.f_bavail * stat.f_frsize
}

/// Whether this is root in full, who may mount: in a container he may not, nor set all flags and attributes.
pub fn can_mount() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let lab = tempfile::tempdir().unwrap();
        let script = "mount -t tmpfs -o size=1M tmpfs . && umount -l .";
        is_root() && succeeds(script, lab.path())
    })
}

fn succeeds(script: &str, dir: &Path) -> bool {
    let output = Command::new("bash").args(["-ec", script]).current_dir(dir).output();
    output.is_ok_and(|o| o.status.success())
}

/// Whether loop devices can be mounted here; found out once.
pub fn loop_devices() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let lab = tempfile::tempdir().unwrap();
        let script = "truncate -s 16M image; mkfs.ext4 -q image; mkdir at; mount -o loop image at; umount at";
        is_root() && succeeds(script, lab.path())
    })
}

/// A file system in an image, mounted; unmounted when dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// `mount ARGS AT`.
    pub fn new(args: &[&str], at: &Path) -> Self {
        fs::create_dir_all(at).unwrap();
        let run = finish(Command::new("mount").args(args).arg(at));
        assert_eq!(run.code, 0, "mount {args:?}: {}", run.stderr);
        Self(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("chattr").args(["-R", "-f", "-i", "-a"]).arg(&self.0).output();
        for _ in 0..50 {
            if Command::new("umount").arg(&self.0).output().is_ok_and(|o| o.status.success()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
