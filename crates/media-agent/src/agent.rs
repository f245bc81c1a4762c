//! The media agent of this host, behind its port and in this process.

use std::io;
use std::sync::Arc;

use capstan_engine::entropy::Entropy;
use capstan_engine::link::BlockPort;
use capstan_engine::meter::Meters;
use capstan_format::record::SessionEnds;
use capstan_port::media::MediaAgent;
use capstan_port::media::write::committed::{OnCommit, Written};
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::members::{Drives, LostMirrors, Member};
use capstan_port::media::write::options::WriterOptions;
use capstan_port::media::write::session::SessionWriter;

use crate::write::writer::Writer;

/// The media agent of this host.
pub struct LocalMediaAgent {
    /// What segments get their ids from.
    entropy: Arc<Entropy>,
}

impl LocalMediaAgent {
    /// One that draws ids from the operating system.
    pub fn system() -> io::Result<Self> {
        Ok(Self { entropy: Arc::new(Entropy::system()?) })
    }
}

impl MediaAgent for LocalMediaAgent {
    fn write(
        &self,
        media: Vec<Member>,
        options: WriterOptions,
        meters: Arc<Meters>,
        on_commit: Box<OnCommit>,
    ) -> Box<dyn SessionWriter> {
        Box::new(Writer::start_on(media, options, self.entropy.clone(), meters, on_commit))
    }
}

impl SessionWriter for Writer {
    fn port(&self) -> Arc<dyn BlockPort + '_> {
        Arc::new(Self::port(self))
    }

    fn lost_mirrors(&self) -> LostMirrors {
        Self::lost_mirrors(self)
    }

    fn drives(&self) -> Drives {
        Self::drives(self)
    }

    fn finish(self: Box<Self>, ends: SessionEnds) -> Result<Written, WriteError> {
        Self::finish(*self, ends)
    }
}
