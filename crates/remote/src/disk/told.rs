//! What a disk agent says of itself while it works, on both sides: readings of meters as differences, counts, messages.

use std::time::Duration;

use capstan_engine::message::{Code, Listener, Message};
use capstan_engine::meter::{Meters, Reading, Stage};
use capstan_format::id::{MediumId, StreamId};
use capstan_port::disk::restore::RestoreListener;
use capstan_wire::disk::told::{FromAgent, MessageTold, Metered, Told};

use super::post::Post;
use crate::connection::Broken;

/// How often it is told how far a conversation is.
pub(super) const OFTEN: Duration = Duration::from_millis(200);

/// What was told of meters.
#[derive(Default)]
pub(super) struct Gauge {
    last: [Reading; Stage::ALL.len()],
}

impl Gauge {
    /// What stages did since.
    pub fn since(&mut self, meters: &Meters) -> Vec<Metered> {
        let now = meters.read();
        let last = std::mem::replace(&mut self.last, now);
        let ns = |now: Duration, last: Duration| now.saturating_sub(last).as_nanos() as u64;
        let stages = Stage::ALL.iter().zip(now.iter().zip(&last));
        let of = |(stage, (now, last)): (&Stage, (&Reading, &Reading))| {
            (now != last).then(|| Metered {
                stage: stage.name().to_owned(),
                busy: ns(now.busy, last.busy),
                wait_in: ns(now.wait_in, last.wait_in),
                wait_out: ns(now.wait_out, last.wait_out),
                bytes: now.bytes.saturating_sub(last.bytes),
            })
        };
        stages.filter_map(of).collect()
    }
}

/// Adds what stages did elsewhere to meters of this side.
pub(super) fn add(of: &[Metered], meters: &Meters) {
    for of in of {
        // A stage of a later version has no meter here.
        let Some(stage) = Stage::ALL.iter().find(|stage| stage.name() == of.stage) else {
            continue;
        };
        let meter = meters.of(*stage);
        meter.busy(Duration::from_nanos(of.busy));
        meter.wait_in(Duration::from_nanos(of.wait_in));
        meter.wait_out(Duration::from_nanos(of.wait_out));
        meter.bytes(of.bytes);
    }
}

/// Takes messages and passes them on to the cell.
pub(super) struct Passing<'p>(pub &'p Post);

impl Passing<'_> {
    fn tell(&self, of: FromAgent<()>) {
        // Where the connection broke the work is ended: its stop is set.
        let _ = self.0.tell(&of);
    }
}

impl Listener for Passing<'_> {
    fn message(&self, message: Message) {
        let Message { code, agent, path, text, time_us } = message;
        let (code, agent) = (code.row().0, agent.to_owned());
        self.tell(FromAgent::Message(MessageTold { code, agent, path, text, time_us }));
    }
}

impl RestoreListener for Passing<'_> {
    fn say(&self, code: Code, agent: &'static str, path: &str, text: String) {
        self.message(Message { code, agent, path: path.to_owned(), text, time_us: 0 });
    }

    fn away(&self, medium: MediumId, why: &str, bytes: u64) {
        self.tell(FromAgent::Away { medium, why: why.to_owned(), bytes });
    }

    fn lost(&self, stream: StreamId, from: u64, to: u64) {
        self.tell(FromAgent::Lost { stream, from, to });
    }
}

/// The message that was told.
pub(super) fn message(told: MessageTold) -> Result<Message, Broken> {
    let MessageTold { code, agent, path, text, time_us } = told;
    let known = Code::ALL.iter().find(|known| known.row().0 == code);
    let code = known.ok_or_else(|| Broken::Message(format!("messages have no code {code}")))?;
    let agent = match agent.as_str() {
        "media agent" => "media agent",
        "cell" => "cell",
        _ => "disk agent",
    };
    Ok(Message { code: *code, agent, path, text, time_us })
}

/// Nothing to tell but that.
pub(super) fn told<D>(told: Told) -> FromAgent<D> {
    FromAgent::Told(Box::new(told))
}
