//! The port to a media agent, which reads and writes media.
//!
//! [`write`] is what a session that writes has: its media, what is committed, which media come next. [`read`] is what is found where
//! segments are read.

pub mod read;
pub mod write;

use std::sync::Arc;

use capstan_engine::meter::Meters;

use self::write::committed::OnCommit;
use self::write::members::Member;
use self::write::options::WriterOptions;
use self::write::session::SessionWriter;

/// A media agent.
pub trait MediaAgent: Send + Sync {
    /// Begins to write a session to media that all get the same; `options` has the first one's header, and all have its block size.
    /// `meters` are filled with the time of its stages. Each commit is told to `on_commit`, which records it.
    fn write(
        &self,
        media: Vec<Member>,
        options: WriterOptions,
        meters: Arc<Meters>,
        on_commit: Box<OnCommit>,
    ) -> Box<dyn SessionWriter>;
}
