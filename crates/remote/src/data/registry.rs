//! Hands a connection that came in to the call that waits for it.
//!
//! A call that has a port to be reached ([`Registry::expect`]) gets a ticket, which it gives to the other side in its own way. Whoever
//! accepts connections passes them on ([`Registry::admit`]). Who shows a ticket that is known is let in to that call. When the call
//! ends, all its connections are cut, and its ticket is of no use any more.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_engine::entropy::Entropy;
use capstan_engine::threads;
use capstan_wire::data::Ticket;
use capstan_wire::data::head::Kind;
use capstan_wire::data::opening::{DATA_PROTOCOL, Of, Opening, Welcome};
use parking_lot::{Condvar, Mutex};

use super::link::{Cutter, Incoming, Outgoing, parts};
use crate::connection::Broken;
use crate::transport::Transport;

/// Bytes of a ticket that is made here.
const TICKET: usize = 32;
/// Connections of one call that nobody has taken yet; more are refused.
const MOST_ARRIVED: usize = 1024;

/// The calls that wait for connections, by their tickets.
pub struct Registry {
    entropy: Entropy,
    calls: Mutex<HashMap<Ticket, Arc<Desk>>>,
}

/// Where one call takes its connections.
#[derive(Default)]
struct Desk {
    state: Mutex<DeskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeskState {
    arrived: VecDeque<Arrived>,
    /// All that were let in.
    cutters: Vec<Cutter>,
    is_closed: bool,
}

/// A connection that was let in. Its opening was answered.
pub struct Arrived {
    /// What it is for.
    pub of: Of,
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    pub(crate) cutter: Cutter,
}

impl Arrived {
    /// Tells the other side that it is not let in.
    pub(crate) fn refuse(&mut self, why: &str) {
        self.outgoing.refuse(Kind::Closed, why);
        self.cutter.end_writing();
    }
}

/// A call that waits for connections. When it is dropped they are cut.
pub struct Waiting {
    registry: Arc<Registry>,
    ticket: Ticket,
    desk: Arc<Desk>,
}

impl Registry {
    /// One that draws tickets from there.
    pub fn new(entropy: Entropy) -> Arc<Self> {
        Arc::new(Self { entropy, calls: Mutex::default() })
    }

    /// Opens a call: connections come to it that show its ticket.
    pub fn expect(self: &Arc<Self>) -> io::Result<Waiting> {
        let mut bytes = vec![0; TICKET];
        self.entropy.fill(&mut bytes)?;
        let (ticket, desk) = (Ticket(bytes), Arc::<Desk>::default());
        self.calls.lock().insert(ticket.clone(), desk.clone());
        Ok(Waiting { registry: self.clone(), ticket, desk })
    }

    /// Takes a connection that came in: reads its opening, and hands it to the call that it is for. Waits for the other side: whoever
    /// accepts connections gives each a thread, and a limit to the time in which it must have shown its ticket.
    pub fn admit(&self, transport: Transport) -> Result<(), Broken> {
        let (mut incoming, mut outgoing, cutter) = parts(transport);
        let opening: Opening = incoming.hear(Kind::Opening)?;
        let desk = self.calls.lock().get(&opening.ticket).cloned();
        let mut refuse = |why: &str| {
            outgoing.refuse(Kind::Refused, why);
            cutter.end_writing();
            Err(Broken::Refused(why.to_owned()))
        };
        let Some(desk) = desk else {
            return refuse("nobody waits for a connection with this ticket");
        };
        let mut state = desk.state.lock();
        if state.is_closed || state.arrived.len() >= MOST_ARRIVED {
            drop(state);
            return refuse("the call that this connection is for has ended");
        }
        outgoing.tell(Kind::Welcome, &Welcome { protocol: opening.protocol.min(DATA_PROTOCOL) })?;
        state.cutters.push(cutter.clone());
        state.arrived.push_back(Arrived { of: opening.of, incoming, outgoing, cutter });
        drop(state);
        desk.changed.notify_all();
        Ok(())
    }

    /// The same in a thread of its own.
    pub fn admit_beside(self: &Arc<Self>, transport: Transport) -> Result<(), Broken> {
        let registry = self.clone();
        threads::start("data connection: opening", move || {
            // Who came for nothing was told so.
            let _ = registry.admit(transport);
        })?;
        Ok(())
    }
}

impl Waiting {
    /// What the other side has to show.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Waits for a connection; nothing where none came in that time, or the call was closed.
    pub fn next(&self, limit: Duration) -> Option<Arrived> {
        let begun = Instant::now();
        let mut state = self.desk.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(arrived) = state.arrived.pop_front() {
                return Some(arrived);
            }
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return None;
            }
            self.desk.changed.wait_for(&mut state, left);
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.desk.state.lock().is_closed
    }

    /// Lets nobody in any more, and cuts all connections. May be called from any thread.
    pub fn close(&self) {
        self.registry.calls.lock().remove(&self.ticket);
        let mut state = self.desk.state.lock();
        state.is_closed = true;
        state.arrived.clear();
        state.cutters.drain(..).for_each(|cutter| cutter.cut());
        drop(state);
        self.desk.changed.notify_all();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.close();
    }
}
