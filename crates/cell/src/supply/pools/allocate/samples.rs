//! A medium and a pool, for the tests.

use capstan_format::id::MediumId;
use capstan_idb::{Allocation, Holdings, Management, Medium, Pool};

use crate::media::{Condition, MediumInfo, MediumState};
use crate::supply::pools::PoolInfo;

pub(super) fn medium(
    label: &str,
    pool: Option<&str>,
    state: MediumState,
    last_us: i64,
) -> MediumInfo {
    MediumInfo {
        medium: Medium {
            id: MediumId([label.len() as u8; 16]),
            label: label.to_owned(),
            device: "file:/m".parse().unwrap(),
            block_size: 1 << 19,
            created_us: 0,
            hosts: Vec::new(),
        },
        management: Management { pool: pool.map(str::to_owned), ..Management::default() },
        holdings: Holdings {
            last_us: Some(last_us),
            last_order: Some(last_us),
            ..Holdings::default()
        },
        host: None,
        state,
        state_inside: state,
        condition: Condition::Good,
        reasons: Vec::new(),
        ways_out: None,
        absent: None,
        used: None,
        tapes: Vec::new(),
        protected_us: None,
        free_bytes: None,
        foreign: false,
        versions: Vec::new(),
        kept: 0,
        held: None,
        waits_for: None,
        kept_until_us: None,
        kept_for_ever: false,
        kept_by_set: false,
        drive_key: None,
    }
}

pub(super) fn pool(allocation: Allocation, free_pool: Option<&str>, rotation: [u32; 3]) -> Pool {
    let free_pool = free_pool.map(str::to_owned);
    Pool { allocation, free_pool, rotation, ..PoolInfo::default_of("p") }
}
