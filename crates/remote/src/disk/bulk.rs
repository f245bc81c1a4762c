//! Blocks of a backup, over data connections: the disk agent dials where the port is reached. Where that is in the cell's process, the
//! cell serves it.

use std::sync::Arc;

use capstan_engine::link::BlockPort;
use capstan_engine::reach::Reach;
use capstan_format::id::StreamId;

use crate::connection::Broken;
use crate::data::blocks::serve::{BlocksServed, serve_blocks};
use crate::data::registry::{Registry, Waiting};

/// Where a cell serves bulk data that no media agent elsewhere serves.
#[derive(Clone)]
pub struct Bulk {
    /// Takes the connections that come.
    pub registry: Arc<Registry>,
    /// Where these are accepted: what disk agents dial.
    pub at: String,
}

/// How a port of blocks is reached: by itself, or here.
pub(super) enum Blocks {
    /// A media agent elsewhere serves it.
    There(Reach),
    /// It is served here, to who shows this ticket.
    Here(Waiting, Reach),
}

impl Blocks {
    /// Of a port.
    pub fn of(port: &dyn BlockPort, bulk: &Bulk) -> Result<Self, Broken> {
        if let Some(reach) = port.reach() {
            return Ok(Self::There(reach));
        }
        let waiting = bulk.registry.expect()?;
        let reach = Reach { at: bulk.at.clone(), ticket: waiting.ticket().clone() };
        Ok(Self::Here(waiting, reach))
    }

    /// Where it is reached.
    pub fn reach(&self) -> Reach {
        match self {
            Self::There(reach) | Self::Here(_, reach) => reach.clone(),
        }
    }

    /// Serves it until it is closed, where that is to be done here.
    pub fn serve(&self, port: &dyn BlockPort, streams: &[StreamId]) {
        if let Self::Here(waiting, _) = self {
            // What became of a stream is said by who has it.
            serve_blocks(
                waiting,
                port,
                streams,
                BlocksServed::of(2 + 2 * streams.len(), streams.len()),
            );
        }
    }

    /// Lets it be closed when this is dropped.
    pub fn closing(&self) -> Closing<'_> {
        Closing(self)
    }
}

/// Closes what serves blocks.
pub(super) struct Closing<'c>(&'c Blocks);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if let Blocks::Here(waiting, _) = self.0 {
            waiting.close();
        }
    }
}
