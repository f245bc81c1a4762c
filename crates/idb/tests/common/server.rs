//! A PostgreSQL server for tests: Debian's, on a socket of its own, gone when the tests are.
//!
//! With `CAPSTAN_TEST_STORE=postgres` every home that tests make has its tables there, in a database of its own.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// The shell that has the server as its child: it starts and stops it as it is told, and when nobody can tell it anything
/// any more, however the tests ended, it ends the server and removes its files.
const KEEPER: &str = r#"
set -u
start() {
    $AS "$BIN/postgres" -D "$DIR/data" -k "$DIR" -c listen_addresses= -c fsync=$SYNC -c full_page_writes=$SYNC \
        -c shared_buffers=32MB -c max_connections=200 -c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=512MB \
        >>"$DIR/log" 2>&1 </dev/null &
    pid=$!
    for _ in $(seq 600); do
        "$BIN/psql" -qAt -h "$DIR" -U capstan -d postgres -c 'SELECT 1' >/dev/null 2>&1 && return
        kill -0 $pid 2>/dev/null || return
        sleep 0.05
    done
}
$AS "$BIN/initdb" -D "$DIR/data" -U capstan -A trust -E UTF8 --no-sync --no-instructions \
    --locale=C.UTF-8 --locale-provider=icu --icu-locale=en >>"$DIR/log" 2>&1
start
echo $pid
while read -r word; do
    case $word in
    start) start ;;
    stop) kill -INT $pid; wait $pid ;;
    crash) kill -QUIT $pid; wait $pid ;;
    esac
    echo $pid
done
kill -QUIT $pid 2>/dev/null
wait
rm -rf "$DIR"
"#;

pub struct Server {
    dir: PathBuf,
    bin: PathBuf,
    keeper: Mutex<Keeper>,
}

struct Keeper {
    _child: Child,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
}

/// Whether tests are to have their tables on a server.
pub fn is_wanted() -> bool {
    match std::env::var("CAPSTAN_TEST_STORE").as_deref() {
        Err(_) | Ok("" | "sqlite") => false,
        Ok("postgres") => true,
        Ok(other) => panic!("CAPSTAN_TEST_STORE is '{other}'; it can be sqlite or postgres"),
    }
}

/// Makes a home whose tables are on the server of all tests, if they are to be; its database's address then.
pub fn prepare(home: &Path) -> Option<String> {
    is_wanted().then(|| {
        let url = Server::shared().new_database();
        write_settings(home, &format!("database = \"{url}\"\n"));
        url
    })
}

/// Writes the settings of a home.
pub fn write_settings(home: &Path, text: &str) {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(home).unwrap();
    fs::write(home.join("capstan.toml"), text).unwrap();
}

impl Server {
    /// The server of all tests of this program.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A server of its own, which does not wait for the disk.
    pub fn start() -> Self {
        Self::start_with("off")
    }

    /// The same as it is where data are dear.
    pub fn start_durable() -> Self {
        Self::start_with("on")
    }

    fn start_with(sync: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("capstan-pg-{}-{n}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        let bin =
            programs().unwrap_or_else(|| panic!("PostgreSQL is missing; `make setup` installs it"));
        // It refuses to run as root.
        let uid = Command::new("id").arg("-u").output().unwrap().stdout;
        let as_user = if uid == b"0\n" {
            assert!(Command::new("chown").arg("postgres:").arg(&dir).status().unwrap().success());
            "setpriv --reuid=postgres --regid=postgres --clear-groups --"
        } else {
            ""
        };
        let mut child = Command::new("bash")
            .args(["-c", KEEPER])
            .env("DIR", &dir)
            .env("BIN", &bin)
            .env("AS", as_user)
            .env("SYNC", sync)
            .current_dir(&dir)
            // What ends the tests from the keyboard must not end it before it has cleared up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, hear) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut keeper = Keeper { _child: child, tell, hear: BufReader::new(hear) };
        keeper.answer();
        let server = Self { dir, bin, keeper: Mutex::new(keeper) };
        server.sql("postgres", "SELECT 1");
        server
    }

    fn say(&self, word: &str) {
        let mut keeper = self.keeper.lock().unwrap();
        writeln!(keeper.tell, "{word}").unwrap();
        keeper.answer();
    }

    /// Ends it as an administrator does: connections are cut.
    pub fn stop(&self) {
        self.say("stop");
    }

    /// Ends it as a crash does.
    pub fn crash(&self) {
        self.say("crash");
    }

    /// Starts it again.
    pub fn start_again(&self) {
        self.say("start");
    }

    /// The directory with its socket.
    pub fn socket_dir(&self) -> &Path {
        &self.dir
    }

    /// The address of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres:///{database}?host={}&user=capstan", self.dir.display())
    }

    /// Makes a database; its address.
    pub fn new_database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// A new database with all that another has; its address.
    pub fn copy_of(&self, url: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("copy{}", COUNT.fetch_add(1, Ordering::Relaxed));
        // A connection that was just closed may not be gone yet.
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname =";
        self.sql("postgres", &format!("{end} '{}'", name_of(url)));
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {}", name_of(url)));
        self.url(&name)
    }

    /// Removes the database of an address.
    pub fn drop_database(&self, url: &str) {
        self.sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", name_of(url)));
    }

    /// What a statement gives, without ornament.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = Command::new(self.bin.join("psql"))
            .args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-U", "capstan", "-h"])
            .arg(&self.dir)
            .args(["-d", database, "-c", sql])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let log = || fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        assert!(output.status.success(), "{sql}: {said}{}", log());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Keeper {
    fn answer(&mut self) {
        let mut line = String::new();
        self.hear.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the server did not start");
    }
}

/// The name of the database of an address.
pub fn name_of(url: &str) -> &str {
    url.trim_start_matches("postgres:///").split('?').next().unwrap()
}

/// Whether a server can be started here.
pub fn is_installed() -> bool {
    programs().is_some()
}

/// Where the newest PostgreSQL has its programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            bin.join("initdb").exists().then_some((version, bin))
        })
        .collect();
    found.sort();
    found.pop().map(|found| found.1)
}
