//! Debian's tgt as a tape library on 127.0.0.1: a changer, two drives, eight slots, an import/export slot, tapes.
//!
//! Each test starts its own, on its own port, with its own control socket and directory, and ends it by its process id.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use super::{program, remove_locks};

pub const TARGET: &str = "iqn.2026-11.test.capstan:lib";
pub const DRIVES: [&str; 2] = ["1", "2"];
pub const CHANGER: &str = "3";

/// A running library.
pub struct Library {
    dir: TempDir,
    port: u16,
    chap: Option<(&'static str, &'static str)>,
    tgtd: Child,
}

impl Library {
    /// Starts a library with tapes of `size_mib`. `None`, with the reason printed, where tgt is not installed.
    pub fn start(size_mib: u32, chap: Option<(&'static str, &'static str)>) -> Option<Self> {
        Self::start_in(&std::env::temp_dir(), size_mib, chap)
    }

    /// The same, with its tapes below that directory.
    pub fn start_in(
        place: &Path,
        size_mib: u32,
        chap: Option<(&'static str, &'static str)>,
    ) -> Option<Self> {
        if ["tgtd", "tgtadm", "tgtimg"].iter().any(|name| program(name).is_none()) {
            println!("skipped: tgt is not installed (tools/setup.sh installs it)");
            return None;
        }
        // Paths of tapes must stay below 128 bytes.
        let dir = tempfile::Builder::new().prefix("vtl").tempdir_in(place).unwrap();
        std::fs::create_dir(dir.path().join("media")).unwrap();
        std::fs::write(dir.path().join("changer"), [0; 1024]).unwrap();
        let port = free_port();
        let tgtd = spawn(dir.path(), port);
        let mut library = Self { dir, port, chap, tgtd };
        // Somebody else may take the port before tgtd does: then it has none, and stays or ends.
        for _ in 0..4 {
            if library.is_up_within(Duration::from_secs(5)) {
                break;
            }
            library.kill();
            library.port = free_port();
            library.tgtd = spawn(library.dir.path(), library.port);
        }
        for n in 1..=6 {
            library.make_tape(
                &format!("TAPE0{n}L6"),
                "data",
                size_mib,
                &library.tape(&format!("TAPE0{n}L6")),
            );
        }
        library.make_tape("NOTAPE", "clean", 1, &library.dir.path().join("notape"));
        library.set_up();
        Some(library)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self, lun: &str) -> String {
        format!("iscsi://127.0.0.1:{}/{TARGET}/{lun}", self.port)
    }

    pub fn url_with(&self, login: &str, lun: &str) -> String {
        format!("iscsi://{login}@127.0.0.1:{}/{TARGET}/{lun}", self.port)
    }

    /// The serial number of a drive or the changer: no other running library's.
    pub fn serial(&self, lun: &str) -> String {
        format!("SN{:05}-{lun}0", self.port)
    }

    /// The file that is a tape.
    pub fn tape(&self, barcode: &str) -> PathBuf {
        self.dir.path().join("media").join(barcode)
    }

    /// What tgt's own tool finds on a tape: `Some(length)` for a block, `None` for a filemark.
    pub fn contents(&self, barcode: &str) -> Vec<Option<usize>> {
        let file = self.tape(barcode);
        let output = run(
            "tgtimg",
            &["--op", "show", "--device-type", "tape", "--file", file.to_str().unwrap()],
            &[],
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let entry = |line: &str| {
            let (kind, rest) = line.split_once('(')?;
            match kind.trim() {
                "Filemark" => Some(None),
                kind if kind.ends_with("ompressed data") => {
                    Some(Some(rest.rsplit_once("sz ")?.1.trim().parse().ok()?))
                }
                _ => None,
            }
        };
        text.lines().filter_map(entry).collect()
    }

    /// Ends the daemon at once, as a power failure would.
    pub fn kill(&mut self) {
        self.tgtd.kill().unwrap();
        self.tgtd.wait().unwrap();
    }

    /// The daemon answers nothing meanwhile, as one whose host hangs.
    pub fn hang(&self, whether: bool) {
        let pid = rustix::process::Pid::from_child(&self.tgtd);
        let signal = if whether { Signal::STOP } else { Signal::CONT };
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Starts it again; all tapes are in their slots then.
    pub fn restart(&mut self) {
        self.tgtd = spawn(self.dir.path(), self.port);
        self.set_up();
    }

    /// Puts a cleaning tape into slot 7.
    pub fn add_cleaning_tape(&self, barcode: &str) {
        self.make_tape(barcode, "clean", 1, &self.tape(barcode));
        self.update(CHANGER, &format!("element_type=2,address=1006,barcode={barcode},sides=1"));
    }

    fn make_tape(&self, barcode: &str, kind: &str, size_mib: u32, file: &Path) {
        let size = size_mib.to_string();
        let args = [
            "--op",
            "new",
            "--device-type",
            "tape",
            "--barcode",
            barcode,
            "--size",
            &size,
            "--type",
            kind,
            "--file",
            file.to_str().unwrap(),
        ];
        run("tgtimg", &args, &[]);
    }

    fn set_up(&mut self) {
        self.wait_until_up();
        self.admin(&["--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET]);
        let notape = self.dir.path().join("notape");
        for lun in DRIVES {
            let with = ["--device-type", "tape", "--bstype", "ssc", "-b", notape.to_str().unwrap()];
            self.unit(&[&["--op", "new", "--lun", lun], &with[..]].concat());
            let params = format!(
                "vendor_id=HP,product_id=Ultrium 6-SCSI,product_rev=35GD,scsi_sn={},scsi_id=DRIVE{lun},removable=1",
                self.serial(lun)
            );
            self.update(lun, &params);
            self.update(lun, "online=0");
        }
        let changer = self.dir.path().join("changer");
        self.unit(&[
            "--op",
            "new",
            "--lun",
            CHANGER,
            "--device-type",
            "changer",
            "-b",
            changer.to_str().unwrap(),
        ]);
        let media = format!("media_home={}", self.dir.path().join("media").display());
        let mut params = vec![
            format!(
                "vendor_id=STK,product_id=L700,product_rev=0104,scsi_sn={},scsi_id=CHANGER,removable=1",
                self.serial(CHANGER)
            ),
            media,
        ];
        params.extend(
            [
                "1,start_address=1,quantity=1",
                "2,start_address=1000,quantity=8",
                "3,start_address=10,quantity=1",
                "4,start_address=256,quantity=2",
            ]
            .map(|p| format!("element_type={p}")),
        );
        params.extend([1, 2].map(|n| format!("element_type=4,address={},tid=1,lun={n}", 255 + n)));
        params.extend(
            (1..=6)
                .map(|n| format!("element_type=2,address={},barcode=TAPE0{n}L6,sides=1", 999 + n)),
        );
        for param in &params {
            self.update(CHANGER, param);
        }
        if let Some((user, secret)) = self.chap {
            self.admin(&["--op", "new", "--mode", "account", "--user", user, "--password", secret]);
            self.admin(&["--op", "bind", "--mode", "account", "--tid", "1", "--user", user]);
        }
        self.admin(&["--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"]);
    }

    fn wait_until_up(&mut self) {
        assert!(self.is_up_within(Duration::from_secs(20)), "tgtd does not come up");
    }

    fn is_up_within(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.try_admin(&["--op", "show", "--mode", "system"]).status.success()
            || TcpStream::connect(("127.0.0.1", self.port)).is_err()
        {
            if Instant::now() > end || self.tgtd.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    fn unit(&self, args: &[&str]) {
        self.admin(&[&["--mode", "logicalunit", "--tid", "1"], args].concat());
    }

    fn update(&self, lun: &str, params: &str) {
        self.unit(&["--op", "update", "--lun", lun, "--params", params]);
    }

    fn admin(&self, args: &[&str]) {
        let output = self.try_admin(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tgtadm {args:?}: {error}");
    }

    fn try_admin(&self, args: &[&str]) -> Output {
        let control = control(self.port);
        let mut command = Command::new(program("tgtadm").unwrap());
        command.args(["-C", &control, "--lld", "iscsi"]).args(args);
        command.env("TGT_IPC_SOCKET", self.dir.path().join("ipc")).output().unwrap()
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = self.tgtd.kill();
        let _ = self.tgtd.wait();
        ["1", "2", CHANGER].iter().for_each(|lun| remove_locks(&self.serial(lun)));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A number below 32768 that other libraries do not have; the socket's directory is our own anyway.
fn control(port: u16) -> String {
    (port % 30000).to_string()
}

fn spawn(dir: &Path, port: u16) -> Child {
    let log = std::fs::File::create(dir.join("tgtd.log")).unwrap();
    let portal = format!("portal=127.0.0.1:{port}");
    let mut command = Command::new(program("tgtd").unwrap());
    command.args(["-f", "-C", &control(port), "--iscsi", &portal]);
    command.env("TGT_IPC_SOCKET", dir.join("ipc"));
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap()
}

fn run(name: &str, args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(program(name).unwrap());
    let mut child = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{name} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
