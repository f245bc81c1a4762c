//! The options of `capstan pool`.

use capstan_address::LibraryName;
use capstan_cell::LabelRule;
use capstan_engine::problem::Problem;
use capstan_idb::{Allocation, RotationSet};
use clap::{Args, Subcommand};

const AFTER_CREATE: &str = "\
Examples:
  capstan pool create office
  capstan pool create office --allocation loose --free-pool spare
  capstan pool create daily --scratch --library scsi:/dev/sg3 --label '{pool}-{n:03}'
  capstan pool create gfs --rotation daily=5,weekly=4,monthly=12 --not-appendable
  capstan pool create off-site --not-appendable --vault 'bank, box 7'

A backup `--to pool:NAME` takes, in this order: a medium of the pool that has room; a free one; an
expired one (which is recycled); one of the free pool; with loose allocation, a free one that is
in no pool; with --scratch, a blank tape. When it is full, the session continues on the next one.
A pool never recycles a medium that alone has an object's last complete version.

With rotation sets, the first day of a month belongs to the monthly set, a Sunday to the weekly
one, and all other days to the daily one. A medium joins a set until the set has its number of
media. Then the one that was written longest ago is written anew: keep rules do not hold it back,
but what is locked, or protected by itself, does. A backup to a set builds on what a slower set
keeps for longer, or is full. `capstan pool show` says if the next run finds no medium.";
const AFTER_SET: &str = "\
Examples:
  capstan pool set office --allocation strict
  capstan pool set office --no-free-pool --appendable";

/// The commands of `pool`.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Make a pool
    #[command(after_help = AFTER_CREATE)]
    Create {
        /// Its name
        #[arg(value_name = "POOL")]
        pool: String,
        /// Its policy.
        #[command(flatten)]
        policy: PolicyArgs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the pools
    #[command(after_help = "Examples:\n  capstan pool list\n  capstan pool list --json")]
    List {
        /// Print one JSON object with the list `pools`
        #[arg(long)]
        json: bool,
    },
    /// Show a pool and its media
    #[command(after_help = "Example:\n  capstan pool show office")]
    Show {
        /// Its name
        #[arg(value_name = "POOL")]
        pool: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change a pool's policy
    #[command(after_help = AFTER_SET)]
    Set {
        /// Its name
        #[arg(value_name = "POOL")]
        pool: String,
        /// Its policy: what is not named stays.
        #[command(flatten)]
        policy: PolicyArgs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Delete a pool that has no media
    #[command(after_help = "Example:\n  capstan pool delete office")]
    Delete {
        /// Its name
        #[arg(value_name = "POOL")]
        pool: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// A pool's policy, as far as it is named.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
pub struct PolicyArgs {
    /// strict (the default): its own media and those of its free pool; loose: also free media of no pool
    #[arg(long, value_name = "HOW")]
    pub allocation: Option<Allocation>,
    /// Append sessions to media that hold others (the default)
    #[arg(long, conflicts_with = "not_appendable")]
    pub appendable: bool,
    /// Begin each session on a medium that holds nothing
    #[arg(long)]
    pub not_appendable: bool,
    /// Draw free media from this pool
    #[arg(long, value_name = "POOL", conflicts_with = "no_free_pool")]
    pub free_pool: Option<String>,
    /// Draw from no other pool (the default)
    #[arg(long)]
    pub no_free_pool: bool,
    /// Take blank tapes of libraries if the pool has no usable medium; they then belong to the pool
    #[arg(long, conflicts_with = "no_scratch")]
    pub scratch: bool,
    /// Take no blank tapes (the default)
    #[arg(long)]
    pub no_scratch: bool,
    /// A library whose blank tapes it takes; can be given several times [default: libraries in which there are media]
    #[arg(long, value_name = "LIBRARY", conflicts_with = "no_scratch")]
    pub library: Vec<LibraryName>,
    /// Label new media by this rule: text with {barcode}, {pool} and {n:03}, a number
    #[arg(long, value_name = "RULE", conflicts_with = "no_label")]
    pub label: Option<LabelRule>,
    /// Label them like their tapes or directories (the default)
    #[arg(long)]
    pub no_label: bool,
    /// Rotate media by the calendar: how many each set has, as daily=5,weekly=4,monthly=12
    #[arg(long, value_name = "SETS", value_parser = parse_rotation, conflicts_with = "no_rotation")]
    pub rotation: Option<Rotation>,
    /// Do not rotate (the default)
    #[arg(long)]
    pub no_rotation: bool,
    /// Where full media go: `capstan media vault` lists them
    #[arg(long, value_name = "LOCATION", conflicts_with = "no_vault")]
    pub vault: Option<String>,
    /// Leave full media where they are (the default)
    #[arg(long)]
    pub no_vault: bool,
}

/// How many media each rotation set has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation(pub [u32; 3]);

fn parse_rotation(text: &str) -> Result<Rotation, Problem> {
    let mut sets = [0; 3];
    for part in text.split(',') {
        let bad = || {
            Problem::new(format!("'{part}' is not a rotation set"))
                .hint("use daily=5,weekly=4,monthly=12")
        };
        let (name, count) = part.split_once('=').ok_or_else(bad)?;
        let set: RotationSet = name.trim().parse()?;
        let count = count.trim().parse::<u32>().map_err(|_| bad())?;
        let at = RotationSet::ALL.iter().position(|s| *s == set);
        if let Some(slot) = at.and_then(|at| sets.get_mut(at)) {
            *slot = count;
        }
    }
    Ok(Rotation(sets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_sets_have_numbers() {
        assert_eq!(parse_rotation("monthly=12,daily=5"), Ok(Rotation([5, 0, 12])));
        for bad in ["", "daily", "daily=", "yearly=1", "daily=-1", "daily=5;weekly=1"] {
            assert!(parse_rotation(bad).is_err(), "{bad}");
        }
    }
}
