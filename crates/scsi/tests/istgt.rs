//! A second, independent target: istgt's DLT drive. It has what tgt lacks: LOCATE, READ POSITION, a medium that can be
//! full; and other faults of its own. It is started afresh for each test, on 127.0.0.1, and ended by its process id.

mod support;

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use capstan_scsi::{Drive, Error, Position, Read, Written};
use support::{block, program};
use tempfile::TempDir;

const KIB: usize = 1024;

struct Istgt {
    _dir: TempDir,
    port: u16,
    daemon: Child,
}

impl Drop for Istgt {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Istgt {
    fn start(size: &str) -> Option<Self> {
        let Some(istgt) = program("istgt") else {
            println!("skipped: istgt is not installed (tools/setup.sh installs it)");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (first, second) = (free(), free());
        let ports = [&first, &second].map(|listener| listener.local_addr().unwrap().port());
        drop((first, second));
        let at = dir.path().display();
        std::fs::write(dir.path().join("auth"), "[AuthGroup1]\n  Auth \"u\" \"secret123456\"\n")
            .unwrap();
        std::fs::write(dir.path().join("conf"), configuration(&at.to_string(), ports, size))
            .unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut command = Command::new(istgt);
        command.arg("-D").arg("-c").arg(dir.path().join("conf"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let daemon = command.spawn().unwrap();
        let istgt = Self { _dir: dir, port: ports[0], daemon };
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", istgt.port)).is_err() {
            assert!(Instant::now() < end, "istgt does not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(istgt)
    }

    /// The drive with its medium, rewound.
    fn drive(&self) -> Drive {
        let url = format!("iscsi://127.0.0.1:{}/iqn.2026-11.test.istgt:tape1/0", self.port);
        let mut drive = Drive::open(&url).unwrap();
        drive.wait_ready(Duration::from_secs(20)).unwrap();
        drive.rewind().unwrap();
        drive
    }
}

fn configuration(dir: &str, [portal, control]: [u16; 2], size: &str) -> String {
    format!(
        "[Global]\n NodeBase \"iqn.2026-11.test.istgt\"\n PidFile {dir}/pid\n AuthFile {dir}/auth\n \
         MediaDirectory {dir}\n LogFacility \"local7\"\n Timeout 30\n NopInInterval 20\n DiscoveryAuthMethod Auto\n \
         MaxSessions 16\n MaxConnections 4\n MaxR2T 32\n MaxOutstandingR2T 16\n DefaultTime2Wait 2\n \
         DefaultTime2Retain 60\n FirstBurstLength 262144\n MaxBurstLength 1048576\n \
         MaxRecvDataSegmentLength 262144\n InitialR2T Yes\n ImmediateData Yes\n DataPDUInOrder Yes\n \
         DataSequenceInOrder Yes\n ErrorRecoveryLevel 0\n\
         [UnitControl]\n AuthMethod CHAP\n AuthGroup AuthGroup1\n Portal UC1 127.0.0.1:{control}\n Netmask 127.0.0.1\n\
         [PortalGroup1]\n Portal DA1 127.0.0.1:{portal}\n\
         [InitiatorGroup1]\n InitiatorName \"ALL\"\n Netmask 127.0.0.1\n\
         [LogicalUnit1]\n TargetName tape1\n Mapping PortalGroup1 InitiatorGroup1\n AuthMethod Auto\n UseDigest Auto\n \
         ReadOnly No\n UnitType Tape\n UnitOnline Yes\n UnitInquiry \"QUANTUM\" \"DLT8000\" \"C001\" \"CX10000001\"\n \
         LUN0 Removable \"rw\" {dir}/T1.vt {size}\n"
    )
}

#[test]
fn the_drives_own_numbers_lead_back() {
    let Some(istgt) = Istgt::start("64MB") else { return };
    let mut drive = istgt.drive();
    assert_eq!(drive.identity().product, "DLT8000");
    let mut places = Vec::new();
    for seed in 0..12u64 {
        if seed % 4 == 0 && seed > 0 {
            assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
        }
        places.push(drive.position().unwrap());
        assert_eq!(drive.write_block(&block(seed, 64 * KIB)).unwrap(), Written::Done);
    }
    assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
    assert_eq!(places[5].counted(), Some((1, 1)));
    let mut buffer = vec![0; 64 * KIB];
    for seed in [7, 2, 11, 0, 8] {
        // By the drive's number alone, as a database would have it.
        let place = Position { object: places[seed].object, ..Position::UNKNOWN };
        assert!(place.is_known(), "{:?}", places[seed]);
        drive.locate(&place).unwrap();
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(64 * KIB));
        assert!(buffer == block(seed as u64, 64 * KIB), "block {seed}");
    }
    let beyond = Position { object: Some(4711), ..Position::UNKNOWN };
    assert!(drive.locate(&beyond).is_err());
    assert!(drive.position().unwrap().counted().is_none());
}

#[test]
fn a_full_medium_is_full() {
    let Some(istgt) = Istgt::start("10MB") else { return };
    let mut drive = istgt.drive();
    let mut written = 0;
    while drive.write_block(&block(written, 256 * KIB)).unwrap() == Written::Done {
        written += 1;
        assert!(written < 100, "it never ends");
    }
    // No early warning here: the block did not fit, and what came before is there.
    assert!(written > 30, "{written}");
    drive.rewind().unwrap();
    let mut buffer = vec![0; 256 * KIB];
    for seed in 0..written {
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(256 * KIB));
        assert!(buffer == block(seed, 256 * KIB), "block {seed}");
    }
}

#[test]
fn reserved_compressed_and_unloaded() {
    let Some(istgt) = Istgt::start("10MB") else { return };
    let mut drive = istgt.drive();
    assert!(drive.reserve().unwrap());
    drive.release().unwrap();
    let on = drive.compression().unwrap().on;
    drive.set_compression(!on).unwrap();
    assert_eq!(drive.compression().unwrap().on, !on);
    assert_eq!(drive.write_block(&block(1, 64 * KIB)).unwrap(), Written::Done);
    assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
    drive.unload().unwrap();
    assert!(!drive.is_loaded().unwrap());
    assert!(matches!(drive.wait_ready(Duration::ZERO), Err(Error::NoMedium { .. })));
    assert!(!drive.position().is_ok_and(|position| position.is_known()));
}
