//! Rotation sets: which media have a seat, whose turn comes when, how many a night takes, and when a turn has passed.

mod nights;
mod past_turns;
mod protected;
pub(crate) mod seats;
mod turns;
