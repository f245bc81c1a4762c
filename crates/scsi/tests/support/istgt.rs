//! Debian's istgt with one DLT drive on 127.0.0.1. It is started afresh for each test and ended by its process id.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{program, remove_locks};

/// A running drive.
pub struct Istgt {
    _dir: TempDir,
    port: u16,
    daemon: Child,
}

impl Drop for Istgt {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        remove_locks(&format!("CX100{:05}", self.port));
    }
}

impl Istgt {
    pub fn start(size: &str) -> Option<Self> {
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

    pub fn url(&self) -> String {
        format!("iscsi://127.0.0.1:{}/iqn.2026-11.test.istgt:tape1/0", self.port)
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
         ReadOnly No\n UnitType Tape\n UnitOnline Yes\n UnitInquiry \"QUANTUM\" \"DLT8000\" \"C001\" \"CX100{portal:05}\"\n \
         LUN0 Removable \"rw\" {dir}/T1.vt {size}\n"
    )
}
