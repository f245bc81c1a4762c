//! Parity of a stripe, and a lost block from the others.
//!
//! Data blocks are d_0 … d_(n−1); parity block i is p_i = Σ C(i, j) · d_j. For XOR and mirrors all C are 1, for n+k they
//! are 1 / (i + (k + j)), a Cauchy matrix: every square part of it can be inverted, so any k blocks may be lost.

use super::field::{add_multiple, inverse, multiply};
use super::{Layout, Level};

/// The factor of data block `j` in parity block `i`.
pub fn factor(layout: Layout, i: usize, j: usize) -> u8 {
    match layout.level() {
        Level::Stripe | Level::Mirror | Level::Xor => 1,
        // The sum of x_i = i and y_j = k + j; both are below 256 and never the same.
        Level::Cauchy => inverse((i ^ (layout.parity() + j)) as u8),
    }
}

/// How to get the block of the role `want` from others: roles and the factors of their blocks. `have` says which there
/// are; `None` if they are too few.
pub fn recipe(layout: Layout, have: &[bool], want: usize) -> Option<Vec<(usize, u8)>> {
    let n = layout.data();
    let has = |role: usize| have.get(role).copied().unwrap_or(false);
    let lost: Vec<usize> = (0..n).filter(|j| !has(*j)).collect();
    let parity: Vec<usize> = (0..layout.parity()).filter(|i| has(n + i)).take(lost.len()).collect();
    if want >= layout.members() || parity.len() < lost.len() {
        return None;
    }
    // p_i − Σ over data there = Σ over data lost; solved for those.
    let matrix = parity.iter().map(|i| lost.iter().map(|j| factor(layout, *i, *j)).collect());
    let inverted = invert(matrix.collect())?;
    // What is wanted, as a sum of data blocks.
    let of_data = |j: usize| match want.checked_sub(n) {
        None => u8::from(want == j),
        Some(i) => factor(layout, i, j),
    };
    // Of each parity block as much as its share in the lost blocks that are wanted.
    let of_parity: Vec<u8> = (0..parity.len())
        .map(|p| sum(lost.iter().enumerate().map(|(l, j)| multiply(of_data(*j), inverted[l][p]))))
        .collect();
    let mut recipe = Vec::new();
    for j in (0..n).filter(|j| has(*j)) {
        let through = parity.iter().zip(&of_parity);
        let taken = sum(through.map(|(i, share)| multiply(*share, factor(layout, *i, j))));
        recipe.push((j, of_data(j) ^ taken));
    }
    recipe.extend(parity.iter().zip(of_parity).map(|(i, share)| (n + i, share)));
    recipe.retain(|(_, factor)| *factor != 0);
    Some(recipe)
}

/// Adds a block to what [`recipe`] makes.
pub fn add(to: &mut [u8], from: &[u8], factor: u8) {
    add_multiple(to, from, factor);
}

fn sum(values: impl Iterator<Item = u8>) -> u8 {
    values.fold(0, |sum, v| sum ^ v)
}

/// The inverse of a square matrix, by elimination.
fn invert(mut rows: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let size = rows.len();
    for (i, row) in rows.iter_mut().enumerate() {
        row.extend((0..size).map(|j| u8::from(i == j)));
    }
    for column in 0..size {
        let pivot = (column..size).find(|r| rows[*r][column] != 0)?;
        rows.swap(column, pivot);
        let scale = inverse(rows[column][column]);
        rows[column].iter_mut().for_each(|v| *v = multiply(*v, scale));
        let by = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(r, _)| *r != column) {
            let share = row[column];
            row.iter_mut().zip(&by).for_each(|(v, b)| *v ^= multiply(share, *b));
        }
    }
    rows.iter_mut().for_each(|row| drop(row.drain(..size)));
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(layout: Layout, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let len = data.iter().map(Vec::len).max().unwrap_or(0);
        let mut blocks: Vec<Vec<u8>> = data.to_vec();
        for i in 0..layout.parity() {
            let mut parity = vec![0; len];
            for (j, block) in data.iter().enumerate() {
                add(&mut parity, block, factor(layout, i, j));
            }
            blocks.push(parity);
        }
        blocks
    }

    fn rebuild(layout: Layout, blocks: &[Vec<u8>], have: &[bool], want: usize) -> Option<Vec<u8>> {
        let len = blocks.iter().map(Vec::len).max().unwrap_or(0);
        let mut out = vec![0; len];
        for (role, factor) in recipe(layout, have, want)? {
            assert!(have[role], "a block that is not there is asked for");
            add(&mut out, &blocks[role], factor);
        }
        Some(out)
    }

    /// Every set of lost members: as many as there is parity can be lost, whichever they are, and no more.
    fn every_loss(layout: Layout, data: &[Vec<u8>]) {
        let blocks = encode(layout, data);
        let len = blocks.iter().map(Vec::len).max().unwrap_or(0);
        let members = layout.members();
        for set in 0..1_u32 << members {
            let have: Vec<bool> = (0..members).map(|m| set & (1 << m) == 0).collect();
            let lost = have.iter().filter(|h| !**h).count();
            for (role, block) in blocks.iter().enumerate() {
                let mut whole = block.clone();
                whole.resize(len, 0);
                let found = rebuild(layout, &blocks, &have, role);
                match lost <= layout.parity() {
                    true => assert_eq!(found, Some(whole), "{layout} without {set:b}: {role}"),
                    // More may be lost than can be, yet a mirror's last copy or parity of what is there is enough.
                    false => assert!(found.is_none_or(|f| f == whole), "{layout} {set:b}"),
                }
            }
        }
    }

    #[test]
    fn the_example_of_the_specification() {
        let layout = Layout::of("rait:2+2", 4).unwrap();
        assert_eq!(factor(layout, 0, 0), 0x8e);
    }

    #[test]
    fn too_few_blocks_make_none() {
        let layout = Layout::of("rait5", 3).unwrap();
        assert_eq!(recipe(layout, &[true, false, false], 1), None);
        assert_eq!(recipe(layout, &[true, true, true], 3), None);
        let stripe = Layout::of("rait0", 2).unwrap();
        assert_eq!(recipe(stripe, &[true, false], 1), None);
    }

    /// Parity as the plain Python of the vectors' header computes it.
    #[test]
    fn parity_is_as_an_independent_program_makes_it() {
        let text = include_str!("../../tests/array_vectors.txt");
        let hex = |s: &str| -> Vec<u8> {
            let digit = |i: usize| u8::from_str_radix(&s[i..i + 2], 16).unwrap();
            (0..s.len()).step_by(2).map(digit).collect()
        };
        let mut seen = 0;
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            let blocks: Vec<Vec<u8>> = words.map(hex).collect();
            let layout = Layout::of(name, blocks.len()).unwrap();
            assert_eq!(encode(layout, &blocks[..layout.data()]), blocks, "{line}");
            seen += 1;
        }
        assert!(seen >= 8, "{seen} vectors");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn any_loss_that_parity_covers_is_made_good(
            n in 1_usize..7,
            k in 1_usize..4,
            lens in prop::collection::vec(0_usize..90, 7),
            seed in any::<u8>(),
        ) {
            let block = |j: usize| -> Vec<u8> {
                (0..lens[j]).map(|i| (i * 31 + j * 97 + usize::from(seed)) as u8 ^ (i >> 3) as u8).collect()
            };
            let data: Vec<Vec<u8>> = (0..n).map(block).collect();
            every_loss(Layout::of(&format!("rait:{n}+{k}"), n + k).unwrap(), &data);
            every_loss(Layout::of("rait1", k + 1).unwrap(), &data[..1]);
            if n >= 2 {
                every_loss(Layout::of("rait5", n + 1).unwrap(), &data);
                every_loss(Layout::of("rait0", n).unwrap(), &data);
            }
        }
    }

    #[test]
    fn the_largest_arrays_can_lose_what_they_say() {
        for (n, k) in [(252, 4), (1, 255), (128, 128), (255, 1)] {
            let layout = Layout::of(&format!("rait:{n}+{k}"), n + k).unwrap();
            let data: Vec<Vec<u8>> = (0..n).map(|j| vec![j as u8, (j * 5) as u8, 9]).collect();
            let blocks = encode(layout, &data);
            let have: Vec<bool> = (0..n + k).map(|m| m >= k.min(n)).collect();
            let have: Vec<bool> = match n >= k {
                true => have,
                // Only the last n parity blocks are left.
                false => (0..n + k).map(|m| m >= k).collect(),
            };
            assert_eq!(rebuild(layout, &blocks, &have, 0).as_ref(), Some(&data[0]), "{n}+{k}");
        }
    }
}
