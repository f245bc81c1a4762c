//! In which order things happened of which a clock that may be wrong says when, and relations say which came first. A pure
//! function.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Before that, 2024-01-01 UTC, nothing was written by this program: a clock that says so was not set.
const EARLIEST_US: i64 = 1_704_067_200_000_000;

/// What is to be put in order. Things are named by their indices; of two that nothing else tells apart, the first comes first.
#[derive(Debug, Default)]
pub(super) struct Things {
    /// What a clock said of each, in microseconds since 1970.
    pub times: Vec<i64>,
    /// Pairs of which the first was there before the second could be: nothing says otherwise.
    pub built_on: Vec<(usize, usize)>,
    /// Lists in their order, as a medium has them.
    pub chains: Vec<Vec<usize>>,
    /// Now.
    pub now_us: i64,
}

/// Which of these times, which came one after the other, can be believed: the most that do not contradict each other, none of them
/// after now or of a clock that was not set.
pub fn credible(times: &[i64], now_us: i64) -> Vec<bool> {
    // The longest run that does not fall: `ends[n]` is where the best one of n + 1 ends.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; times.len()];
    for (at, time) in times.iter().enumerate() {
        if !(EARLIEST_US..=now_us).contains(time) {
            continue;
        }
        let length = ends.partition_point(|end| times[*end] <= *time);
        before[at] = length.checked_sub(1).map(|n| ends[n]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut believed = vec![false; times.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        believed[at] = true;
        next = before[at];
    }
    believed
}

impl Things {
    /// Their indices, the oldest first.
    pub fn arrange(&self) -> Vec<usize> {
        let edges = self.edges();
        let times = self.likely_times(&edges);
        let mut waiting = edges.count_before();
        let mut ready: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
        ready.extend(
            (0..self.times.len()).filter(|i| waiting[*i] == 0).map(|i| Reverse((times[i], i))),
        );
        let mut done = vec![false; self.times.len()];
        let mut order = Vec::with_capacity(self.times.len());
        while order.len() < self.times.len() {
            // What media say may contradict itself: then the first by time goes on.
            let next = ready.pop().map(|Reverse((_, i))| i);
            let first =
                || (0..self.times.len()).filter(|i| !done[*i]).min_by_key(|i| (times[*i], *i));
            let Some(next) = next.or_else(first) else { break };
            if std::mem::replace(&mut done[next], true) {
                continue;
            }
            order.push(next);
            for after in &edges.after[next] {
                waiting[*after] = waiting[*after].saturating_sub(1);
                if waiting[*after] == 0 && !done[*after] {
                    ready.push(Reverse((times[*after], *after)));
                }
            }
        }
        order
    }

    fn edges(&self) -> Edges {
        let mut edges = Edges { after: vec![Vec::new(); self.times.len()] };
        let of_chains = self.chains.iter().flat_map(|chain| chain.windows(2).map(|w| (w[0], w[1])));
        for (first, then) in self.built_on.iter().copied().chain(of_chains) {
            if first != then {
                edges.after[first].push(then);
            }
        }
        edges
    }

    /// What the clock said where that can be believed; else what is known of those after or before.
    fn likely_times(&self, edges: &Edges) -> Vec<i64> {
        let in_range = |time: &i64| (EARLIEST_US..=self.now_us).contains(time);
        let mut believed: Vec<bool> = self.times.iter().map(in_range).collect();
        for chain in &self.chains {
            let times: Vec<i64> = chain.iter().map(|i| self.times[*i]).collect();
            for (i, is) in chain.iter().zip(credible(&times, self.now_us)) {
                believed[*i] &= is;
            }
        }
        let sorted = edges.sorted();
        let mut until = vec![None::<i64>; self.times.len()];
        for i in sorted.iter().rev().copied() {
            let own =
                |after: usize| if believed[after] { Some(self.times[after]) } else { until[after] };
            until[i] = edges.after[i].iter().filter_map(|after| own(*after)).min();
        }
        let mut likely = self.times.clone();
        let mut from = vec![None::<i64>; self.times.len()];
        for i in sorted {
            if !believed[i] {
                likely[i] = until[i].or(from[i]).unwrap_or(self.times[i]);
            }
            for after in &edges.after[i] {
                from[*after] = from[*after].max(Some(likely[i]));
            }
        }
        likely
    }
}

/// Which things come after which.
struct Edges {
    after: Vec<Vec<usize>>,
}

impl Edges {
    fn count_before(&self) -> Vec<usize> {
        let mut count = vec![0; self.after.len()];
        self.after.iter().flatten().for_each(|then| count[*then] += 1);
        count
    }

    /// All things, each after those before it; those in a circle are left out.
    fn sorted(&self) -> Vec<usize> {
        let mut count = self.count_before();
        let mut sorted: Vec<usize> = (0..count.len()).filter(|i| count[*i] == 0).collect();
        let mut at = 0;
        while let Some(i) = sorted.get(at).copied() {
            at += 1;
            for then in &self.after[i] {
                count[*then] -= 1;
                if count[*then] == 0 {
                    sorted.push(*then);
                }
            }
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;
    const NOW: i64 = EARLIEST_US + 1000 * DAY;

    /// Days of the clock, chains, and what builds on what.
    fn arranged(days: &[i64], chains: &[&[usize]], built_on: &[(usize, usize)]) -> Vec<usize> {
        let things = Things {
            times: days.iter().map(|day| EARLIEST_US + day * DAY).collect(),
            built_on: built_on.to_vec(),
            chains: chains.iter().map(|chain| chain.to_vec()).collect(),
            now_us: NOW,
        };
        things.arrange()
    }

    #[test]
    fn where_nothing_else_is_known_clocks_decide() {
        assert_eq!(arranged(&[3, 1, 2], &[], &[]), [1, 2, 0]);
        assert_eq!(arranged(&[], &[], &[]), [0usize; 0]);
        assert_eq!(arranged(&[5, 5], &[], &[]), [0, 1]);
    }

    #[test]
    fn a_clock_ahead_or_set_back_moves_its_own_version_only() {
        // 0, 1 (far ahead), 2 on one medium; 3 on another, of the day between 1 and 2, and 4 after 2.
        assert_eq!(arranged(&[10, 9000, 20, 15, 25], &[&[0, 1, 2]], &[]), [0, 3, 1, 2, 4]);
        // Ahead by less than what passed since: by its neighbours.
        assert_eq!(arranged(&[10, 500, 20, 30, 25], &[&[0, 1, 2, 3]], &[]), [0, 1, 2, 4, 3]);
        // A clock that was not set.
        assert_eq!(arranged(&[10, -9000, 20, 15, 25], &[&[0, 1, 2]], &[]), [0, 3, 1, 2, 4]);
        // The newest is the one ahead, or set back.
        assert_eq!(arranged(&[10, 20, 9000, 15], &[&[0, 1, 2]], &[]), [0, 3, 1, 2]);
        assert_eq!(arranged(&[10, 20, 5, 15], &[&[0, 1, 2]], &[]), [0, 3, 1, 2]);
    }

    #[test]
    fn what_is_built_on_comes_first() {
        assert_eq!(arranged(&[9000, 20, 15], &[], &[(0, 1)]), [2, 0, 1]);
        assert_eq!(arranged(&[30, 20], &[], &[(0, 1)]), [0, 1]);
    }

    #[test]
    fn contradictions_end() {
        assert_eq!(arranged(&[2, 1, 3], &[&[0, 1], &[1, 0]], &[]).len(), 3);
        assert_eq!(arranged(&[1, 2], &[&[0, 0, 1, 1]], &[(1, 0), (0, 1)]).len(), 2);
    }

    #[test]
    fn the_times_that_agree_are_believed() {
        let believed = |days: &[i64]| {
            let times: Vec<i64> = days.iter().map(|day| EARLIEST_US + day * DAY).collect();
            credible(&times, NOW)
        };
        assert_eq!(believed(&[1, 2, 900, 3, 4]), [true, true, false, true, true]);
        assert_eq!(believed(&[1, 2, -5, 3]), [true, true, false, true]);
        assert_eq!(believed(&[1, 2000]), [true, false]);
        assert_eq!(believed(&[]), [false; 0]);
    }
}
