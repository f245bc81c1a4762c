//! Campaigns: what nobody would try by hand, many times over, with the real binary. Each says what it counted. The gate has a
//! share of each; with `CAPSTAN_SOAK=1` they have their whole length, with
//! `CAPSTAN_SOAK=20` no more than twenty minutes each of those that count seeds.
//!
//! A binary of its own beside the tests end to end, so that the memory that commands take is told from that of tests.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod beside;
mod clocks;
mod dice;
mod failing;
mod fates;
mod fuse;
mod guard;
mod hostile;
mod kills;
mod media;
mod mutate;
mod rows;
mod segment;
#[path = "../../../idb/tests/common/server.rs"]
mod server;
#[path = "../e2e/support.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod support;
mod tape_file;
mod values;
