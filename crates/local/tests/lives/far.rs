//! Devices at the other end of a connection, which is cut when a seed wants it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use capstan_medium::host::DeviceHost;
use capstan_port::media::MediaAgent;
use capstan_remote::connection::Beats;
use capstan_remote::devices::{Hosted, RemoteDevices, serve};
use capstan_remote::transport::Transport;

use crate::cuts;

/// The connections of a life.
#[derive(Default)]
pub struct Far {
    hosted: RefCell<Vec<Hosted>>,
    /// Bytes after which the next one is cut.
    cut: Cell<Option<u64>>,
}

impl Far {
    /// Lets the next connection be cut after so many bytes that the cell sends.
    pub fn cut_after(&self, bytes: u64) {
        self.cut.set(Some(bytes));
    }

    /// The devices, over a new connection.
    pub fn connected(
        &self,
        devices: Arc<dyn DeviceHost>,
        media: &Arc<dyn MediaAgent>,
    ) -> (Arc<dyn DeviceHost>, Arc<dyn MediaAgent>) {
        self.ended();
        let (here, there) = Transport::pair().unwrap();
        let agent = media.clone();
        let hosted = thread::spawn(move || serve(there, Beats::default(), devices, agent));
        // What is said before the first question is no matter of the devices.
        let bytes = self.cut.take().map_or(u64::MAX, |bytes| bytes.saturating_add(2_000));
        let remote = RemoteDevices::connect(cuts::after(here, bytes), Beats::default()).unwrap();
        self.hosted.borrow_mut().push(hosted.join().unwrap().unwrap());
        let reading = remote.media_agent(media.clone());
        (Arc::new(remote), Arc::new(reading))
    }

    /// Waits until hosts have let go what they had of connections that ended: the locks of media, too.
    pub fn ended(&self) {
        let begun = Instant::now();
        self.hosted.borrow_mut().retain(|hosted| {
            while hosted.broken().is_some() && !hosted.is_idle() {
                assert!(begun.elapsed() < Duration::from_secs(30), "a host does not let go");
                thread::sleep(Duration::from_millis(1));
            }
            hosted.broken().is_none()
        });
    }
}
