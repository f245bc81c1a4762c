//! How long a device that is not ready is waited for: not longer than somebody wants what it does.

use std::sync::OnceLock;

static ENDS: OnceLock<fn() -> bool> = OnceLock::new();

/// Says how who waits for a device learns that nobody wants it any more. It is asked between commands; none that is at work is
/// broken off. The first that is given holds.
pub fn ends_when(nobody_waits: fn() -> bool) {
    let _ = ENDS.set(nobody_waits);
}

/// Whether nobody waits any more.
pub(crate) fn is_over() -> bool {
    ENDS.get().is_some_and(|nobody_waits| nobody_waits())
}
