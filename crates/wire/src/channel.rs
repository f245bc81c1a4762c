//! One channel of a connection, as rules without input and output: how much may be sent, what has come, when it has ended.
//!
//! Each side may send as many bytes as the other has given it credit for. So a channel that nobody reads holds up no other one, and
//! takes no more memory than [`WINDOW`] and the message that is being put together.

use std::collections::VecDeque;

use crate::LONGEST;

/// Bytes of a channel that may be under way and unread: 1 MiB, what a link of 100 Mb/s and 80 ms holds.
pub const WINDOW: u32 = 1 << 20;

/// The other side does not keep the rules of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// It sent more than it had credit for.
    #[error("the other side sent more than it had been given room for")]
    NoCredit,
    /// It gave more credit than can be counted.
    #[error("the other side gave room for more bytes than a channel has")]
    TooMuchCredit,
    /// A message is longer than [`LONGEST`].
    #[error("the other side sent a message of more than {LONGEST} bytes")]
    TooLong,
    /// It sent something after it had said that nothing more comes.
    #[error("the other side went on after its end")]
    AfterEnd,
}

/// What a frame costs of the credit beside its payload, in bytes: empty messages take memory too.
pub const COST: u32 = 64;

/// What may be sent.
#[derive(Debug)]
pub struct Outgoing {
    credit: u32,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { credit: WINDOW }
    }
}

impl Outgoing {
    /// Takes the credit for a frame with as much of `wanted` bytes as may be sent now; nothing where none may be sent.
    pub fn take(&mut self, wanted: usize) -> Option<usize> {
        let room = self.credit.checked_sub(COST)?;
        let length = room.min(u32::try_from(wanted).unwrap_or(u32::MAX));
        if length == 0 && wanted > 0 {
            return None;
        }
        self.credit = room - length;
        Some(length as usize)
    }

    /// The receiver has room for so many more.
    pub fn add(&mut self, bytes: u32) -> Result<(), ChannelError> {
        let credit = self.credit.checked_add(bytes).filter(|credit| *credit <= WINDOW);
        self.credit = credit.ok_or(ChannelError::TooMuchCredit)?;
        Ok(())
    }
}

/// What has come, and was not read yet.
#[derive(Debug, Default)]
pub struct Incoming {
    /// Credit that the sender used and was not given again.
    held: u32,
    /// So much of it is to be given again.
    due: u32,
    /// The message that is being put together, and what of it is not due yet.
    parts: (Vec<u8>, u32),
    /// Messages, each with what is due when it is read.
    messages: VecDeque<(Vec<u8>, u32)>,
    has_ended: bool,
}

impl Incoming {
    /// Takes a part of a message, or the last one. Gives the credit that is due at once: else a message that is longer than a window
    /// would wait for itself.
    pub fn part(&mut self, bytes: &[u8], is_last: bool) -> Result<Option<u32>, ChannelError> {
        if self.has_ended {
            return Err(ChannelError::AfterEnd);
        }
        let cost = u32::try_from(bytes.len()).unwrap_or(u32::MAX).saturating_add(COST);
        let held = self.held.checked_add(cost).filter(|held| *held <= WINDOW);
        self.held = held.ok_or(ChannelError::NoCredit)?;
        if self.parts.0.len() + bytes.len() > LONGEST {
            return Err(ChannelError::TooLong);
        }
        self.parts.0.extend_from_slice(bytes);
        self.parts.1 += cost;
        if is_last {
            self.messages.push_back(std::mem::take(&mut self.parts));
            return Ok(None);
        }
        Ok(self.credit())
    }

    /// The other side says nothing more.
    pub fn end(&mut self) -> Result<(), ChannelError> {
        match std::mem::replace(&mut self.has_ended, true) {
            true => Err(ChannelError::AfterEnd),
            false => Ok(()),
        }
    }

    /// The next message, with the credit that is due to the sender.
    pub fn take_message(&mut self) -> Option<(Vec<u8>, Option<u32>)> {
        let (message, cost) = self.messages.pop_front()?;
        self.due += cost;
        Some((message, self.credit()))
    }

    /// Drops what came and was not read. Says how many bytes that was.
    pub fn clear(&mut self) -> usize {
        let messages = self.messages.drain(..).map(|(message, _)| message.len());
        messages.sum::<usize>() + std::mem::take(&mut self.parts).0.len()
    }

    /// Whether the other side says nothing more.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether no message is left and none will come.
    pub fn is_over(&self) -> bool {
        self.has_ended && self.messages.is_empty()
    }

    /// What is due. It is given for a quarter of the window at a time, or all that is held.
    fn credit(&mut self) -> Option<u32> {
        if self.messages.is_empty() {
            self.due += std::mem::take(&mut self.parts.1);
        }
        (self.due > 0 && (self.due >= WINDOW / 4 || self.due == self.held)).then(|| {
            self.held -= self.due;
            std::mem::take(&mut self.due)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sends messages as parts of at most `part` bytes, by credit alone; reads one whenever nothing can be sent.
    fn through(messages: &[Vec<u8>], part: usize) -> Vec<Vec<u8>> {
        let (mut out, mut inn) = (Outgoing::default(), Incoming::default());
        let mut got = Vec::new();
        let mut read = |inn: &mut Incoming, out: &mut Outgoing| {
            let (message, credit) =
                inn.take_message().expect("nothing can be sent and nothing be read");
            got.push(message);
            credit.into_iter().for_each(|credit| out.add(credit).unwrap());
        };
        for message in messages {
            let mut at = 0;
            loop {
                let Some(n) = out.take((message.len() - at).min(part)) else {
                    read(&mut inn, &mut out);
                    continue;
                };
                let bytes = &message[at..at + n];
                at += n;
                let due = inn.part(bytes, at == message.len()).unwrap();
                due.into_iter().for_each(|credit| out.add(credit).unwrap());
                if at == message.len() {
                    break;
                }
            }
        }
        inn.end().unwrap();
        while !inn.is_over() {
            read(&mut inn, &mut out);
        }
        got
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_is_sent_comes_in_its_order(
            sizes in prop::collection::vec(prop_oneof![0..2000usize, 0..3_000_000usize], 1..12),
            part in 1000..=65536usize,
        ) {
            let messages: Vec<Vec<u8>> =
                sizes.iter().enumerate().map(|(i, n)| vec![i as u8; *n]).collect();
            prop_assert_eq!(through(&messages, part), messages);
        }
    }

    #[test]
    fn a_sender_that_keeps_no_rules_is_refused() {
        let mut inn = Incoming::default();
        let window = vec![0; (WINDOW - COST) as usize];
        assert_eq!(inn.part(&window, true), Ok(None));
        assert_eq!(inn.part(&[], true), Err(ChannelError::NoCredit));
        assert_eq!(Outgoing::default().add(1), Err(ChannelError::TooMuchCredit));
        let mut inn = Incoming::default();
        inn.end().unwrap();
        assert_eq!(inn.part(&[], true), Err(ChannelError::AfterEnd));
        assert_eq!(inn.end(), Err(ChannelError::AfterEnd));
    }

    #[test]
    fn no_message_grows_without_end() {
        let mut inn = Incoming::default();
        let mut out = Outgoing::default();
        let part = vec![0; 65536];
        for _ in 0..LONGEST / part.len() {
            assert_eq!(out.take(part.len()), Some(part.len()));
            let credit = inn.part(&part, false).unwrap();
            credit.into_iter().for_each(|credit| out.add(credit).unwrap());
        }
        assert_eq!(inn.part(&[1], true), Err(ChannelError::TooLong));
    }
}
