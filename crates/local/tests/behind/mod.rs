//! Agents behind a connection within this process, which is cut when a test wants it.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use capstan_engine::entropy::Entropy;
use capstan_port::disk::DiskAgent;
use capstan_remote::connection::{Beats, Channel, Connection, Side};
use capstan_remote::data::registry::Registry;
use capstan_remote::data::{Dial, dial_here};
use capstan_remote::disk::{Bulk, DiskServer, RemoteDiskAgent};
use capstan_remote::transport::Transport;

/// When a connection is cut.
#[derive(Default)]
pub struct CutAfter {
    is_planned: AtomicBool,
    /// Writes that still come through, of both sides.
    left: AtomicU64,
    /// All writes.
    count: AtomicU64,
}

impl CutAfter {
    /// Lets it be cut after so many writes, or not at all.
    pub fn set(&self, writes: Option<u64>) {
        self.left.store(writes.unwrap_or(0), Relaxed);
        self.is_planned.store(writes.is_some(), Relaxed);
    }

    /// Writes until now.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    fn passes(&self) -> bool {
        self.count.fetch_add(1, Relaxed);
        !self.is_planned.load(Relaxed)
            || self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// What writes until it is cut.
struct Cutting {
    writer: Box<dyn Write + Send>,
    cut: Arc<CutAfter>,
    shut: Arc<dyn Fn(Shutdown) + Send + Sync>,
}

impl Cutting {
    fn look(&self) -> io::Result<()> {
        match self.cut.passes() {
            true => Ok(()),
            false => {
                (self.shut)(Shutdown::Both);
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
    }
}

impl Write for Cutting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.look()?;
        self.writer.write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.look()?;
        self.writer.write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A transport that is cut.
fn cutting(of: Transport, cut: &Arc<CutAfter>) -> Transport {
    let Transport { reader, writer, shut } = of;
    let shut: Arc<dyn Fn(Shutdown) + Send + Sync> = Arc::from(shut);
    let writer = Cutting { writer, cut: cut.clone(), shut: shut.clone() };
    Transport { reader, writer: Box::new(writer), shut: Box::new(move |how| shut(how)) }
}

/// A connection, of which one side is served; and what serves it.
pub fn connected(
    cut: &Arc<CutAfter>,
    serve: impl Fn(Channel) + Send + Sync + 'static,
) -> (Arc<Connection>, Connection) {
    let (one, other) = Transport::pair().unwrap();
    // Hands are shaken in any case.
    let planned = cut.is_planned.swap(false, Relaxed);
    let (one, other) = (cutting(one, cut), cutting(other, cut));
    let beats = Beats::default();
    let answering =
        thread::spawn(move || Connection::start(other, Side::Answered, beats, Box::new(serve)));
    let one = Connection::start(one, Side::Dialled, beats, Box::new(drop)).unwrap();
    let other = answering.join().unwrap().unwrap();
    cut.is_planned.store(planned, Relaxed);
    (Arc::new(one), other)
}

/// A disk agent behind a connection, and what serves it there.
pub fn disk(agent: Arc<dyn DiskAgent>, cut: &Arc<CutAfter>) -> (RemoteDiskAgent, Connection) {
    let registry = Registry::new(Entropy::system().unwrap());
    let (here, cut_too) = (dial_here(&registry), cut.clone());
    let dial: Arc<Dial> = Arc::new(move |reach| Ok(cutting(here(reach)?, &cut_too)));
    let server = DiskServer::new(agent, dial);
    let (connection, served) = connected(cut, move |channel| server.serve(channel));
    let bulk = Bulk { registry, at: "here".to_owned() };
    (RemoteDiskAgent::new(connection, bulk), served)
}
