//! A bounded queue that measures how long it was waited for.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A bounded queue between threads. Closing it lets takers empty it and stops givers.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    not_empty: Condvar,
    not_full: Condvar,
    capacity: usize,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

/// What a taker with a time limit found.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<T> {
    /// An item.
    Item(T),
    /// Nothing within the time.
    Nothing,
    /// The queue is closed and empty.
    Closed,
}

impl<T> Queue<T> {
    /// A queue that holds at most `capacity` items (at least 1).
    pub fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(State { items: VecDeque::new(), closed: false }),
            not_empty: Condvar::new(),
            not_full: Condvar::new(),
            capacity: capacity.max(1),
        }
    }

    /// Gives an item, waiting for room; the item comes back if the queue is closed. The time waited is returned.
    pub fn give(&self, item: T) -> Result<Duration, T> {
        let mut state = self.state.lock();
        let mut waited = Duration::ZERO;
        if state.items.len() >= self.capacity && !state.closed {
            let start = Instant::now();
            while state.items.len() >= self.capacity && !state.closed {
                self.not_full.wait(&mut state);
            }
            waited = start.elapsed();
        }
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        drop(state);
        self.not_empty.notify_one();
        Ok(waited)
    }

    /// Gives an item that is taken before all others, without waiting for room; it comes back if the queue is closed.
    pub fn give_first(&self, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.closed && state.items.is_empty() {
            return Err(item);
        }
        state.items.push_front(item);
        drop(state);
        self.not_empty.notify_one();
        Ok(())
    }

    /// Takes an item, waiting for one; `None` when the queue is closed and empty. The time waited is added to `waited`.
    pub fn take(&self, waited: &mut Duration) -> Option<T> {
        let mut state = self.state.lock();
        if state.items.is_empty() && !state.closed {
            let start = Instant::now();
            while state.items.is_empty() && !state.closed {
                self.not_empty.wait(&mut state);
            }
            *waited += start.elapsed();
        }
        let item = state.items.pop_front();
        drop(state);
        self.not_full.notify_one();
        item
    }

    /// Takes an item, waiting at most `limit`.
    pub fn take_within(&self, limit: Duration, waited: &mut Duration) -> Taken<T> {
        let mut state = self.state.lock();
        if state.items.is_empty() && !state.closed && !limit.is_zero() {
            let start = Instant::now();
            while state.items.is_empty() && !state.closed {
                let left = limit.saturating_sub(start.elapsed());
                if left.is_zero() {
                    break;
                }
                self.not_empty.wait_for(&mut state, left);
            }
            *waited += start.elapsed();
        }
        match state.items.pop_front() {
            Some(item) => {
                drop(state);
                self.not_full.notify_one();
                Taken::Item(item)
            }
            None if state.closed => Taken::Closed,
            None => Taken::Nothing,
        }
    }

    /// Closes the queue: what is in it can still be taken.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.not_empty.notify_all();
        self.not_full.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_makes_the_giver_wait_and_keeps_order() {
        let queue = Queue::new(2);
        std::thread::scope(|s| {
            s.spawn(|| {
                for i in 0..1000 {
                    queue.give(i).unwrap();
                }
                queue.close();
            });
            let mut waited = Duration::ZERO;
            let got: Vec<i32> = std::iter::from_fn(|| queue.take(&mut waited)).collect();
            assert_eq!(got, (0..1000).collect::<Vec<_>>());
        });
        assert_eq!(queue.give(1), Err(1));
    }

    #[test]
    fn a_limit_ends_the_wait() {
        let queue: Queue<u8> = Queue::new(1);
        let mut waited = Duration::ZERO;
        assert_eq!(queue.take_within(Duration::from_millis(5), &mut waited), Taken::Nothing);
        assert!(waited >= Duration::from_millis(5));
        queue.close();
        assert_eq!(queue.take_within(Duration::from_secs(5), &mut waited), Taken::Closed);
    }
}
