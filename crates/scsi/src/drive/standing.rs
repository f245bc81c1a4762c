//! What is known of where the tape stands, and what may be done there.
//!
//! A drive that was reset rewinds, and says truly that it stands at the beginning. Whoever had been writing at the end must
//! not go on there, so after that the drive's word allows nothing: the caller must go to a place.

use crate::answers::position::Position;

/// How sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The caller went there, or asked where it is and was told: it may write.
    Placed,
    /// Something went wrong on the way: it may read on, blocks say themselves which they are.
    Lost,
    /// The tape was moved by others, or is another one: nothing until the caller goes to a place.
    Moved,
}

/// Where the tape stands by our own count, and how sure that is.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// `object` is never set here: only drives know it.
    counted: Position,
    trust: Trust,
}

impl Standing {
    /// Nobody has gone anywhere yet.
    pub const NEW: Self = Self { counted: Position::UNKNOWN, trust: Trust::Lost };

    /// The count.
    pub fn counted(&self) -> Position {
        self.counted
    }

    /// Whether blocks may be written here.
    pub fn may_write(&self) -> bool {
        self.trust == Trust::Placed
    }

    /// Whether blocks may be read here.
    pub fn may_read(&self) -> bool {
        self.trust != Trust::Moved
    }

    /// The caller went to this place.
    pub fn place(&mut self, at: Position) {
        self.counted = Position { object: None, ..at };
        self.trust = Trust::Placed;
    }

    /// The caller asked, and the drive says that the tape stands here. After a reset that is no answer to "may I go on".
    pub fn told(&mut self, at: Position) {
        self.counted = Position { object: None, ..at };
        if self.trust == Trust::Lost {
            self.trust = Trust::Placed;
        }
    }

    /// A command that counts from where the tape stood led to this place. The end of the data is a place by itself.
    pub fn go(&mut self, to: Position) {
        self.counted = Position { object: None, ..to };
        if self.counted.end_of_data && self.trust == Trust::Lost {
            self.trust = Trust::Placed;
        }
    }

    /// Something went wrong. Whether there is anything left to lose or not.
    pub fn lose(&mut self) {
        self.counted = Position::UNKNOWN;
        if self.trust == Trust::Placed {
            self.trust = Trust::Lost;
        }
    }

    /// The drive was reset, or has another medium.
    pub fn moved(&mut self) {
        self.counted = Position::UNKNOWN;
        self.trust = Trust::Moved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_going_to_a_place_gives_leave_to_write() {
        let mut standing = Standing::NEW;
        assert!(!standing.may_write() && standing.may_read());
        standing.go(Position::UNKNOWN.after_block());
        assert!(!standing.may_write());
        standing.place(Position::BEGINNING);
        assert!(standing.may_write());
        standing.lose();
        assert!(!standing.may_write() && standing.may_read());
        // Whoever reads on to the end of the data has found a place.
        standing.go(Position { end_of_data: true, ..Position::UNKNOWN });
        assert!(standing.may_write());
    }

    #[test]
    fn after_a_reset_even_the_end_of_data_is_no_leave() {
        let mut standing = Standing::NEW;
        standing.place(Position::BEGINNING);
        standing.moved();
        standing.lose();
        standing.go(Position { end_of_data: true, ..Position::UNKNOWN });
        standing.told(Position::BEGINNING);
        assert!(!standing.may_write() && !standing.may_read());
        standing.place(Position::BEGINNING);
        assert!(standing.may_write() && standing.may_read());
    }
}
