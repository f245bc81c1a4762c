//! A device host over a connection does and says what it does and says within one process; and what it has opened is let go when the
//! connection breaks, wherever that happens.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

#[path = "devices/cuts.rs"]
mod cuts;
#[path = "devices/errors.rs"]
mod errors;
#[path = "devices/scenes.rs"]
mod scenes;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_devices::host::LocalDevices;
use capstan_media_agent::agent::LocalMediaAgent;
use capstan_medium::host::{DeviceHost, Media, Stores};
use capstan_medium::{DeviceError, OpenMedium};
use capstan_port::media::MediaAgent;
use capstan_remote::connection::Beats;
use capstan_remote::devices::{Hosted, RemoteDevices, serve};
use capstan_remote::transport::Transport;

/// Connects a cell to a device host of this process. The bytes that the cell sends are counted, and cut off after so many.
fn connected(host: &LocalDevices, cut: u64) -> Option<(RemoteDevices, Hosted)> {
    let (here, there) = Transport::pair().unwrap();
    let devices: Arc<dyn DeviceHost> = Arc::new(host.clone());
    let hosted = std::thread::spawn(move || serve(there, Beats::default(), devices, agent()));
    let remote = RemoteDevices::connect(cuts::after(here, cut), Beats::default());
    let hosted = hosted.join().unwrap();
    Some((remote.ok()?, hosted.ok()?))
}

/// The media agent of this process.
fn agent() -> Arc<dyn MediaAgent> {
    Arc::new(LocalMediaAgent::system().unwrap())
}

/// Plays a scene in a fresh directory at each of both, and compares what is told.
fn same(scene: fn(&dyn DeviceHost, &Path, &mut Vec<String>)) {
    let dir = tempfile::tempdir().unwrap();
    let stage = dir.path().join("stage");
    let mut told = [Vec::new(), Vec::new()];
    for (way, told) in told.iter_mut().enumerate() {
        fs::create_dir(&stage).unwrap();
        let host = LocalDevices::default();
        match way {
            0 => scene(&host, &stage, told),
            _ => {
                let (remote, hosted) = connected(&host, u64::MAX).unwrap();
                scene(&remote, &stage, told);
                assert_eq!(hosted.broken(), None);
            }
        }
        drop(host);
        fs::remove_dir_all(&stage).unwrap();
    }
    let [local, remote] = told;
    assert!(local.len() > 5, "{local:?}");
    for (one, other) in local.iter().zip(&remote) {
        assert_eq!(one, other);
    }
    assert_eq!(local.len(), remote.len());
}

#[test]
fn stores_are_as_they_are() {
    same(scenes::stores);
}

#[test]
fn media_are_opened_held_and_written() {
    same(scenes::media);
}

#[test]
fn storages_are_read_and_changed() {
    same(scenes::storages);
}

#[test]
fn tapes_are_moved_written_and_read() {
    same(scenes::tapes);
}

#[test]
fn arrays_are_made_opened_and_rebuilt() {
    same(scenes::arrays);
}

#[test]
fn what_the_cell_knows_is_asked_of_it() {
    same(scenes::asked_back);
}

#[test]
fn what_is_opened_at_one_host_is_refused_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let at = scenes::made(&LocalDevices::default(), &dir.path().join("m"), 1);
    let host = LocalDevices::default();
    let (one, _one) = connected(&host, u64::MAX).unwrap();
    let (other, _other) = connected(&host, u64::MAX).unwrap();
    let of_one = one.medium(&at).unwrap();
    let of_other = other.medium(&at).unwrap();
    assert_ne!(of_one.storage().handle(), of_other.storage().handle());
    assert_eq!(host.medium(&at).unwrap().storage().handle(), None);
}

/// Whether somebody else has a medium.
fn is_busy(host: &LocalDevices, at: &capstan_address::Address) -> bool {
    host.held(at).is_err_and(|e| e.is_busy())
}

/// Whether a medium can be held, which it can when nobody else has it.
fn is_free(host: &LocalDevices, at: &capstan_address::Address) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        match host.held(at) {
            Ok(_) => return true,
            Err(e) => assert!(e.is_busy(), "{e}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

#[test]
fn what_a_cell_holds_is_let_go_with_it_and_with_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let host = LocalDevices::default();
    let at = scenes::made(&host, &dir.path().join("m"), 1);
    let (remote, hosted) = connected(&host, u64::MAX).unwrap();
    let held = remote.held(&at).unwrap();
    let again = held.again();
    assert!(is_busy(&host, &at));
    drop(held);
    assert!(is_busy(&host, &at));
    drop(again);
    // It is let go when the drop has returned.
    drop(host.held(&at).unwrap());
    let held = remote.held(&at).unwrap();
    drop(hosted);
    assert!(is_free(&host, &at));
    assert!(matches!(held.medium().segments(), Err(DeviceError::Io { .. })));
    drop(held);
    // A cell that ends without a word lets go, too.
    let (remote, _hosted) = connected(&host, u64::MAX).unwrap();
    std::mem::forget(remote.held(&at).unwrap());
    drop(remote);
    let (remote, _hosted) = connected(&host, u64::MAX).unwrap();
    let writable = remote.writable(&at, &|| unreachable!(), None, &()).unwrap().into_device();
    assert!(is_busy(&host, &at));
    drop(writable);
    assert!(is_free(&host, &at));
}

#[test]
fn a_connection_that_is_cut_anywhere_ends_in_an_error_and_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let host = LocalDevices::default();
    let at = scenes::made(&host, &dir.path().join("m"), 1);
    let run = |cut: u64| -> Result<(), DeviceError> {
        let Some((remote, _hosted)) = connected(&host, cut) else { return Ok(()) };
        let medium: OpenMedium = remote.medium(&at)?;
        medium.segments()?;
        medium.version_locks()?;
        let held = remote.held(&at)?;
        held.put_lock(&scenes::lock())?;
        drop(held);
        let opened = remote.writable(&at, &|| unreachable!(), None, &())?;
        let mut device = opened.into_device().into_device()?;
        scenes::write(&mut *device, 7)?;
        drop(device);
        remote.look_in(&dir.path().into())?;
        Ok(())
    };
    run(u64::MAX).unwrap();
    // By a seed, at places spread over all that is said.
    let mut failed = 0;
    for n in 0..60 {
        let at_byte = 40 + n * 211 % 9000;
        if let Err(e) = run(at_byte) {
            failed += 1;
            let text = e.to_string();
            assert!(text.contains("connection"), "{text}");
            assert!(e.spares_medium(), "{text}");
            assert!(!e.tells_on_medium() && !e.is_no_medium() && !e.is_full(), "{text}");
        }
        assert!(is_free(&host, &at), "cut after {at_byte}");
    }
    assert!(failed > 20, "{failed}");
    // What was locked and written before is there, and is whole.
    run(u64::MAX).unwrap();
}
