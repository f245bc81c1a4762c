//! Which tapes are read where several have the same: as few as can be, and those of one side of a mirror where that has all.

use std::collections::{HashMap, HashSet};

use capstan_format::id::MediumId;

/// A segment that lies on tapes.
#[derive(Debug)]
pub(crate) struct OnTapes {
    /// The tapes that it can be read from, the first choice first.
    pub tapes: Vec<MediumId>,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is read in any case; the others may have what is referred to.
    pub is_needed: bool,
}

/// What tapes of one side of a mirror have in common: their library, and their pool.
pub(crate) type Side = (String, Option<String>);

/// The tapes to read, of which each segment has one.
pub(crate) fn fewest(segments: &[OnTapes], sides: &HashMap<MediumId, Side>) -> HashSet<MediumId> {
    let of = |tape: &MediumId| sides.get(tape);
    let mut all: Vec<&Side> = Vec::new();
    for tape in segments.iter().flat_map(|segment| &segment.tapes) {
        all.extend(of(tape).filter(|side| !all.contains(side)));
    }
    let mut covers: Vec<Cover> = Vec::new();
    for side in &all {
        covers.push(Cover::of(segments, &|tape| of(tape) == Some(side)));
        covers.push(Cover::of(segments, &|tape| of(tape).is_some_and(|of| of.0 == side.0)));
    }
    covers.push(Cover::of(segments, &|_| true));
    let cost = |cover: &Cover| {
        let of: HashSet<_> = cover.tapes.iter().map(of).collect();
        (cover.needed, of.len(), cover.tapes.len())
    };
    let best = covers.into_iter().min_by_key(cost);
    best.map(|cover| cover.tapes.into_iter().collect()).unwrap_or_default()
}

/// Tapes of which each segment has one.
struct Cover {
    tapes: Vec<MediumId>,
    /// How many of them are read in any case.
    needed: usize,
}

impl Cover {
    /// Tapes of one side, and others for what that does not have.
    fn of(segments: &[OnTapes], is_of: &dyn Fn(&MediumId) -> bool) -> Self {
        let offered: Vec<Vec<MediumId>> = segments.iter().map(|of| offered(of, is_of)).collect();
        let mut cover = Self { tapes: Vec::new(), needed: 0 };
        let mut is_had = vec![false; segments.len()];
        for is_needed in [true, false] {
            let asked: Vec<usize> =
                (0..segments.len()).filter(|at| segments[*at].is_needed == is_needed).collect();
            let before = cover.tapes.len();
            // What is on one tape only is read there, and what else that has.
            for at in asked.iter().filter(|at| offered[**at].len() == 1) {
                cover.take(offered[*at][0], &offered, &mut is_had);
            }
            // Tapes have what was written one after the other: the one that goes farthest from there is taken.
            for (nth, at) in asked.iter().enumerate() {
                if is_had[*at] {
                    continue;
                }
                let gain = |tape: &&MediumId| -> u64 {
                    let rest = asked[nth..].iter().filter(|at| !is_had[**at]);
                    let had = rest.filter(|at| offered[**at].contains(tape));
                    had.map(|at| segments[*at].bytes.max(1)).sum()
                };
                // Of two alike the first one.
                if let Some(tape) = offered[*at].iter().rev().max_by_key(gain).copied() {
                    cover.take(tape, &offered, &mut is_had);
                }
            }
            cover.leave_needless(before, &asked, &offered);
            if is_needed {
                cover.needed = cover.tapes.len();
            }
        }
        cover
    }

    fn take(&mut self, tape: MediumId, offered: &[Vec<MediumId>], is_had: &mut [bool]) {
        if self.tapes.contains(&tape) {
            return;
        }
        self.tapes.push(tape);
        for (had, tapes) in is_had.iter_mut().zip(offered) {
            *had |= tapes.contains(&tape);
        }
    }

    /// Leaves out those, from the `first` on, of which the others have all that is asked.
    fn leave_needless(&mut self, first: usize, asked: &[usize], offered: &[Vec<MediumId>]) {
        for nth in (first..self.tapes.len()).rev() {
            let tape = self.tapes[nth];
            let alone = |at: &usize| {
                let of = &offered[*at];
                of.contains(&tape)
                    && !of.iter().any(|other| *other != tape && self.tapes.contains(other))
            };
            if !asked.iter().any(alone) {
                self.tapes.remove(nth);
            }
        }
    }
}

fn offered(segment: &OnTapes, is_of: &dyn Fn(&MediumId) -> bool) -> Vec<MediumId> {
    let of_side: Vec<MediumId> = segment.tapes.iter().filter(|t| is_of(t)).copied().collect();
    if of_side.is_empty() { segment.tapes.clone() } else { of_side }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: u8 = 100;
    const W: u8 = 200;

    /// Segments of one byte, each on a tape of either side: which one it is by that.
    fn mirrored(v: &[usize], w: &[usize]) -> Vec<OnTapes> {
        let numbers = |side: u8, tapes: &[usize]| -> Vec<MediumId> {
            let each = tapes.iter().enumerate();
            each.flat_map(|(n, of)| vec![MediumId([side + n as u8; 16]); *of]).collect()
        };
        let (v, w) = (numbers(V, v), numbers(W, w));
        assert_eq!(v.len(), w.len());
        let both = v.into_iter().zip(w).enumerate();
        let tapes = |n: usize, (v, w)| if n.is_multiple_of(2) { vec![v, w] } else { vec![w, v] };
        both.map(|(n, pair)| OnTapes { tapes: tapes(n, pair), bytes: 1, is_needed: true }).collect()
    }

    fn sides(segments: &[OnTapes]) -> HashMap<MediumId, Side> {
        let all = segments.iter().flat_map(|segment| &segment.tapes);
        let side = |id: &MediumId| (if id.0[0] < W { "v" } else { "w" }.to_owned(), None);
        all.map(|id| (*id, side(id))).collect()
    }

    fn chosen(segments: &[OnTapes]) -> Vec<u8> {
        let mut tapes: Vec<u8> =
            fewest(segments, &sides(segments)).iter().map(|id| id.0[0]).collect();
        tapes.sort_unstable();
        tapes
    }

    #[test]
    fn the_side_with_fewer_tapes_is_read() {
        assert_eq!(chosen(&mirrored(&[4, 4, 4], &[3, 3, 3, 3])), [V, V + 1, V + 2]);
        assert_eq!(chosen(&mirrored(&[3, 3, 3, 3], &[4, 4, 4])), [W, W + 1, W + 2]);
    }

    #[test]
    fn sides_that_need_as_many_are_not_mixed() {
        assert_eq!(chosen(&mirrored(&[4, 4, 4, 3], &[3, 6, 5, 1])), [V, V + 1, V + 2, V + 3]);
    }

    #[test]
    fn what_one_side_lacks_comes_from_the_other() {
        let mut segments = mirrored(&[4, 4, 4], &[2; 6]);
        segments[5].tapes.retain(|id| id.0[0] >= W);
        assert_eq!(chosen(&segments), [V, V + 1, V + 2, W + 2]);
    }

    #[test]
    fn a_part_is_read_from_where_it_is_on_one_tape() {
        let mut segments = mirrored(&[4, 4, 4], &[3, 3, 3, 3]);
        for (n, segment) in segments.iter_mut().enumerate() {
            segment.is_needed = n == 3 || n == 4;
        }
        assert!(chosen(&segments).contains(&(W + 1)));
    }

    #[test]
    fn two_sides_in_one_library_are_no_more_than_one() {
        let segments = mirrored(&[4, 4, 4], &[3, 3, 3, 3]);
        let one: HashMap<MediumId, Side> =
            sides(&segments).into_keys().map(|id| (id, ("v".to_owned(), None))).collect();
        assert_eq!(fewest(&segments, &one).len(), 3);
    }
}
