//! Which files a drill takes: those whose path's hash falls into an arc of a circle. The next drill's arc begins where the
//! last one's ended, so that all files are taken once the arcs have gone round, whatever comes and goes meanwhile.

/// An arc of the circle of 64-bit hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleArc {
    /// Where it begins.
    pub from: u64,
    /// How much of the circle it has; the greatest number is all of it.
    pub len: u64,
}

impl SampleArc {
    /// The arc from there that has this share (0 to 1) of the circle.
    pub fn of_share(from: u64, share: f64) -> Self {
        // To the greatest number and not beyond: the conversion saturates.
        Self { from, len: (share * 2f64.powi(64)) as u64 }
    }

    /// How far from the begin a path lies.
    pub fn distance(self, path: &[u8]) -> u64 {
        hash(path).wrapping_sub(self.from)
    }

    /// Whether it has the path.
    pub fn has(self, path: &[u8]) -> bool {
        self.len == u64::MAX || self.distance(path) < self.len
    }

    /// Lengthened so that it has what lies at that distance.
    pub fn up_to(self, distance: u64) -> Self {
        Self { len: self.len.max(distance.saturating_add(1)), ..self }
    }

    /// Where the next one begins.
    pub fn end(self) -> u64 {
        self.from.wrapping_add(self.len)
    }

    /// Its share of the circle.
    pub fn share(self) -> f64 {
        self.len as f64 / 2f64.powi(64)
    }
}

/// FNV-1a, whose bits are then mixed (the finalizer of MurmurHash3). Positions on the circle are kept from drill to drill: it
/// must never change.
fn hash(path: &[u8]) -> u64 {
    let fnv = path.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, byte| {
        (h ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let h = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arcs_that_follow_each_other_have_each_path_once() {
        let paths: Vec<String> = (0..10_000).map(|i| format!("home/ann/f{i}")).collect();
        let mut taken = vec![0; paths.len()];
        let mut from = u64::MAX - 5;
        for _ in 0..20 {
            let arc = SampleArc::of_share(from, 0.05);
            let mut n = 0;
            for (path, taken) in paths.iter().zip(&mut taken) {
                let has = arc.has(path.as_bytes());
                *taken += i32::from(has);
                n += i32::from(has);
            }
            assert!((400..600).contains(&n), "{n} of 10,000 are about 5 %");
            from = arc.end();
        }
        // 20 × 5 % go round, but for what rounding leaves.
        assert!(taken.iter().all(|n| *n == 1), "{taken:?}");
    }

    #[test]
    fn all_of_the_circle_and_one_path_more() {
        assert!((0..100u8).all(|i| SampleArc::of_share(7, 1.0).has(&[i])));
        let none = SampleArc::of_share(7, 0.0);
        assert!(!none.has(b"x") && none.up_to(none.distance(b"x")).has(b"x"));
    }

    #[test]
    fn the_hash_stays_what_it_is() {
        assert_eq!(hash(b""), 0xefd0_1f60_ba99_2926);
        assert_eq!(SampleArc { from: 0, len: 0 }.distance(b"etc/hosts"), hash(b"etc/hosts"));
    }
}
