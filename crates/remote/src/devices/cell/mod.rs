//! The device host as a cell sees it: each method is a question to the host.

mod arrays;
mod device;
mod library;
mod media;
mod media_agent;
mod segment;
mod storage;
mod stores;
mod tapes;
mod writable;

use std::io;
use std::sync::Arc;

use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_medium::host::operator::OperatorRequests;
use capstan_medium::host::queue::Queue;
use capstan_medium::host::waits::Waits;
use capstan_medium::host::{DeviceHost, KnownMembers};
use capstan_medium::os_form::Form;

use self::arrays::judge;
pub use self::media_agent::ReadingThere;
use super::RemoteDevices;
use super::far::answered;
use super::message::{Asked, Question};
use crate::connection::{Broken, Channel};

impl DeviceHost for RemoteDevices {
    fn settle(&self, say: &dyn Fn(&str)) {
        let settle = || {
            let channel = self.far.begin(&Question::Settle)?;
            answered::<()>(&channel, &mut |_, asked| {
                if let Asked::Say(text) = asked {
                    say(&text);
                }
                Ok(())
            })
        };
        // What is not told any more is told by the host when it ends.
        let _ = settle();
    }

    fn operator(&self) -> &Arc<OperatorRequests> {
        &self.operator
    }

    fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    fn waits(&self) -> &Waits {
        &self.waits
    }
}

/// What a host may ask while a medium is opened or made.
struct Known<'k> {
    new_header: Option<&'k dyn Fn() -> io::Result<MediumHeader>>,
    new_id: Option<&'k dyn Fn() -> io::Result<MediumId>>,
    known: &'k dyn KnownMembers,
}

impl Known<'_> {
    /// Answers it.
    fn answer(&self, channel: &Channel, asked: Asked) -> Result<(), Broken> {
        let none = || Err(io::ErrorKind::Unsupported.into());
        match asked {
            Asked::NewHeader => {
                channel.tell(&self.new_header.map_or_else(none, |new| new()).map_err(Form))
            }
            Asked::NewId => {
                let none = || Err(io::ErrorKind::Unsupported.into());
                channel.tell(&self.new_id.map_or_else(none, |new| new()).map_err(Form))
            }
            Asked::Rebuilt(array) => channel.tell(&self.known.rebuilt(array)),
            Asked::Unfit(facts) => judge(channel, *facts, self.known),
            Asked::Followed(_) | Asked::Say(_) => Ok(()),
        }
    }
}
