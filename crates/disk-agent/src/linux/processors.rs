//! The processors of this host, and how busy they are.

use capstan_wire::host::Processors;

/// Reads them now.
pub fn processors() -> Processors {
    let number = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = ticks.filter_map(|t| t.parse().ok()).take(8).collect();
    let idle = ticks.get(3).copied().unwrap_or(0) + ticks.get(4).copied().unwrap_or(0);
    Processors { number, ticks: ticks.iter().sum(), idle }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_counted_and_their_time_goes_on() {
        let (a, b) = (processors(), processors());
        assert!(a.number >= 1 && a.ticks > 0 && a.idle <= a.ticks, "{a:?}");
        assert!((0.0..=1.0).contains(&b.idle_since(&a)));
    }
}
