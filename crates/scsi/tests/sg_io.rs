//! SG_IO for real: a kernel as a process (user-mode-linux) logs in to tgt by its own iSCSI initiator, and its drivers sg
//! and st give `/dev/sgN` and `/dev/nstN`.
//!
//! Needs Debian's user-mode-linux and open-iscsi, installed, or unpacked with `dpkg -x` below the directory that
//! CAPSTAN_UML names, and root; else it is skipped. `make setup` installs neither: they are large and replace system parts.

#[path = "support/signals.rs"]
mod signals;
mod support;

use std::fs;
use std::io::Read as _;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use capstan_scsi::element::ElementKind;
use capstan_scsi::{Changer, Drive, Error, Read, Written};
use rustix::fs::{Mode, OFlags};
use signals::under_signals;
use support::block;
use support::tgt::{Library, TARGET};

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

fn unpacked() -> PathBuf {
    std::env::var_os("CAPSTAN_UML").map_or_else(|| "/".into(), PathBuf::from)
}

#[test]
fn commands_go_through_the_kernels_own_drivers() {
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
    let text = format!(
        "#!/bin/sh\nmount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t devtmpfs dev /dev\n\
         mount -t tmpfs run /run\nexport TMPDIR=/run CAPSTAN_UML={} PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
         ip link set lo up\n{} --ignored --exact inside --nocapture\n{} --ignored --exact power_off\n",
        root.display(),
        test.display(),
        test.display()
    );
    fs::write(&script, text).unwrap();
    let init = format!("init=/bin/sh -- {}", script.display());
    let mut kernel = Command::new(linux);
    kernel.args(["mem=256M", "rootfstype=hostfs", "ro", "con=null", "con0=null,fd:1", "quiet"]);
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

#[test]
#[ignore = "is called inside user-mode-linux"]
fn power_off() {
    if std::process::id() != 1
        && fs::read_to_string("/proc/cpuinfo").unwrap().contains("User Mode Linux")
    {
        // SAFETY: takes no pointers; only inside user-mode-linux, which it ends.
        unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_POWER_OFF) };
    }
}

#[test]
#[ignore = "is called inside user-mode-linux"]
fn inside() {
    if !fs::read_to_string("/proc/cpuinfo").unwrap().contains("User Mode Linux") {
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
    let changer = wait_for("/dev/sch0");
    let (first, second) = (wait_for("/dev/nst0"), wait_for("/dev/nst1"));
    use_library(&changer, &first);
    hold_and_name(&second);
    println!("{DONE}");
}

fn load(name: &str) {
    let modules = unpacked().join("usr/lib/uml/modules");
    let version = fs::read_dir(&modules).unwrap().next().unwrap().unwrap().path();
    let file = fs::File::open(version.join(format!("kernel/drivers/scsi/{name}.ko"))).unwrap();
    // SAFETY: an open file and a string with an end.
    let loaded =
        unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    assert_eq!(loaded, 0, "{name}: {}", std::io::Error::last_os_error());
}

fn wait_for(node: &str) -> String {
    let end = Instant::now() + Duration::from_secs(30);
    while !Path::new(node).exists() {
        assert!(Instant::now() < end, "no {node}");
        std::thread::sleep(Duration::from_millis(20));
    }
    node.to_owned()
}

/// The same as over iSCSI of our own, in short.
fn use_library(changer: &str, tape: &str) {
    let mut changer = Changer::open(changer).unwrap();
    let inventory = changer.inventory().unwrap();
    assert_eq!(
        inventory.find("TAPE06L6").map(|e| (e.kind, e.address)),
        Some((ElementKind::Slot, 1005))
    );
    let mut drive = Drive::open(tape).unwrap();
    let element = *inventory.match_drives(&[drive.identity().clone()]).keys().next().unwrap();
    changer.move_medium(1000, element).unwrap();
    drive.wait_ready(Duration::from_secs(10)).unwrap();
    drive.rewind().unwrap();
    let longest = drive.block_limits().unwrap().max.min(512 * 1024);
    // A signal would make the kernel start the ioctl again, and the block would be there twice.
    under_signals(|| {
        for seed in 0..8 {
            assert_eq!(drive.write_block(&block(seed, longest)).unwrap(), Written::Done);
        }
    });
    assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
    drive.rewind().unwrap();
    let mut buffer = vec![0; longest];
    for seed in 0..8 {
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(longest));
        assert!(buffer == block(seed, longest), "block {seed}");
    }
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Filemark);
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::EndOfData);
    let full = changer.move_medium(1001, element).unwrap_err().to_string();
    assert!(full.contains("occupied"), "{full}");
}

/// Who has a device open, by whichever node, keeps us out and is named; and we keep others out, by whichever node.
fn hold_and_name(tape: &str) {
    let generic = "/dev/sg2";
    for node in [tape, generic] {
        // A tape node without a tape opens only for those who do not wait.
        let file =
            rustix::fs::open(node, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        let mut holder = Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let error = Drive::open(tape).err().unwrap();
        holder.kill().unwrap();
        holder.wait().unwrap();
        let Error::Busy { holders, .. } = &error else { panic!("{error}") };
        assert_eq!(
            holders.iter().map(|h| (h.pid, h.path.as_str())).collect::<Vec<_>>(),
            [(holder.id(), node)]
        );
        assert!(error.to_string().contains("sleep (process"), "{error}");
    }
    let drive = Drive::open(tape).unwrap();
    for node in [tape, generic] {
        let opened = rustix::fs::open(node, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
        assert_eq!(opened.err(), Some(rustix::io::Errno::BUSY), "{node}");
    }
    let error = Drive::open(tape).err().unwrap().to_string();
    assert!(error.contains("this program itself"), "{error}");
    drop(drive);
    Drive::open(tape).unwrap();
}
