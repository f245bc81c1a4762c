//! A Linux kernel as a process (user-mode-linux) that logs in to tgt by its own iSCSI initiator, so that its drivers give
//! `/dev/sgN`, `/dev/nstN` and `/dev/schN`.
//!
//! Needs root, and Debian's user-mode-linux and open-iscsi unpacked as `make setup` does it where there are such packages,
//! below `target/uml` or the directory that CAPSTAN_UML names; else it is skipped. They are not installed: they would replace parts of the system.
//!
//! A test module that calls [`run_inside`] has two more tests, ignored: `inside`, which calls [`inside`], and `power_off`.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::tgt::{Library, TARGET};

const DONE: &str = "inside: all is well";
/// In the order in which they need each other.
const MODULES: [&str; 9] = [
    "scsi_common",
    "scsi_mod",
    "sg",
    "st",
    "ch",
    "scsi_transport_iscsi",
    "libiscsi",
    "libiscsi_tcp",
    "iscsi_tcp",
];

/// Where the packages are unpacked.
pub fn unpacked() -> PathBuf {
    let made = || Path::new(option_env!("CARGO_TARGET_TMPDIR").unwrap_or("/")).join("../uml");
    std::env::var_os("CAPSTAN_UML").map_or_else(made, PathBuf::from)
}

/// Runs the tests `inside` and `power_off` of a module of this test binary (`""`, or its path with `::` behind it) in such a
/// kernel, in which everything can be read and only `/run` be written.
pub fn run_inside(module: &str) {
    let root = unpacked();
    let (linux, login) = (root.join("usr/bin/linux.uml"), root.join("sbin/iscsistart"));
    if !linux.is_file() || !login.is_file() || !rustix::process::geteuid().is_root() {
        println!(
            "skipped: user-mode-linux and open-iscsi are not at hand (CAPSTAN_UML), or this is not root"
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("init");
    let test = std::env::current_exe().unwrap();
    let venv = std::env::var("CAPSTAN_VENV")
        .map_or_else(|_| String::new(), |v| format!("CAPSTAN_VENV={v}"));
    let text = format!(
        "#!/bin/sh\nmount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t devtmpfs dev /dev\n\
         mount -t tmpfs run /run\nexport TMPDIR=/run CAPSTAN_UML={root} {venv} PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
         ip link set lo up\n{test} --ignored --exact {module}inside --nocapture 2>&1\n\
         {test} --ignored --exact {module}power_off\n",
        root = root.display(),
        test = test.display()
    );
    fs::write(&script, text).unwrap();
    let init = format!("init=/bin/sh -- {}", script.display());
    let mut kernel = Command::new(linux);
    kernel.args(["mem=512M", "rootfstype=hostfs", "ro", "con=null", "con0=null,fd:1", "quiet"]);
    // The kernel is several processes of ours; as a group they are ended together.
    kernel.args(init.split(' ')).process_group(0);
    let mut kernel =
        kernel.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = kernel.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = out.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let end = Instant::now() + Duration::from_secs(120);
    while kernel.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            let group = rustix::process::Pid::from_child(&kernel);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = reader.join().unwrap();
    assert!(text.contains(DONE), "{text}");
}

/// Ends the kernel. Only inside.
pub fn power_off() {
    if std::process::id() != 1 && is_inside() {
        rustix::system::reboot(rustix::system::RebootCommand::PowerOff).unwrap();
    }
}

fn is_inside() -> bool {
    fs::read_to_string("/proc/cpuinfo").unwrap().contains("User Mode Linux")
}

/// Does something inside, where a library's devices are nodes below `/dev`.
pub fn inside(what: impl FnOnce(&Library)) {
    if !is_inside() {
        return;
    }
    MODULES.iter().for_each(|name| load(name));
    let library = Library::start(16, None).expect("tgt");
    let root = unpacked();
    let mut login = Command::new(root.join("sbin/iscsistart"));
    login.args([
        "-i",
        "iqn.2026-11.test:uml",
        "-t",
        TARGET,
        "-g",
        "1",
        "-a",
        "127.0.0.1",
        "-p",
        &library.port().to_string(),
    ]);
    login.env("LD_LIBRARY_PATH", root.join("usr/lib/x86_64-linux-gnu"));
    let output = login.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for node in ["/dev/sch0", "/dev/nst0", "/dev/nst1"] {
        wait_for(node);
    }
    what(&library);
    println!("{DONE}");
}

fn load(name: &str) {
    let modules = unpacked().join("usr/lib/uml/modules");
    let version = fs::read_dir(&modules).unwrap().next().unwrap().unwrap().path();
    let file = fs::File::open(version.join(format!("kernel/drivers/scsi/{name}.ko"))).unwrap();
    rustix::system::finit_module(&file, c"", 0).unwrap();
}

fn wait_for(node: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    while !Path::new(node).exists() {
        assert!(Instant::now() < end, "no {node}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
