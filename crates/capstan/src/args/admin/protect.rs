//! The options of `protect`, `lock` and `prune`, and how people write until when something is kept.

use capstan_cell::prune::{Count, KeepRules};
use capstan_cell::request::{Keep, Protection, VersionName};
use capstan_cell::{VersionRef, split_tags};
use capstan_engine::problem::Problem;
use clap::{ArgGroup, Args};
use jiff::Span;

use crate::args::time::{parse_span, parse_until};
use crate::args::version::parse_version;

/// Until when a backup's version is kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Protection")]
pub struct KeepArgs {
    /// How long to protect the version: none, permanent, a day (until it starts), or a duration like 30d, 8w, 6m, 10y; rules: the
    /// keep rules of `capstan prune` decide [default: rules]
    #[arg(long, value_name = "UNTIL", value_parser = parse_protection)]
    protect: Option<Protection>,
    /// How long to keep its catalog in the internal database; later it is read from the medium [default: as the version]
    #[arg(long, value_name = "UNTIL", value_parser = parse_protection)]
    protect_catalog: Option<Protection>,
    /// Lock it, and what it builds on, until a date or for a duration: no command lifts the lock earlier
    #[arg(long, value_name = "UNTIL", value_parser = parse_until)]
    lock_until: Option<i64>,
}

impl KeepArgs {
    /// What is asked for.
    pub fn keep(&self) -> Keep {
        Keep {
            protection: self.protect,
            catalog: self.protect_catalog,
            lock_until_us: self.lock_until,
        }
    }
}

/// A version by name or by session.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["version", "session"]))]
pub struct VersionArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    version: Option<VersionName>,
    /// The backup of this session, by the first digits of its id, if you do not know the object's name
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl VersionArgs {
    /// What is meant.
    pub fn version(&self) -> VersionRef {
        match (&self.version, &self.session) {
            (Some(name), _) => VersionRef::Name(name.clone()),
            // One of the two is required.
            (None, session) => VersionRef::Session(session.clone().unwrap_or_default()),
        }
    }
}

const AFTER_PROTECT: &str = "\
Examples:
  capstan protect desk@1f2e3d4c --until 2030-12-31
  capstan protect desk --until 10y --catalog-until 90d
  capstan protect desk@1f2e3d4c --none && capstan prune
  capstan protect desk --not-whole --none && capstan prune

A day without a time means its start, 00:00: --until 2031-01-01 keeps the version to the end of
2030. h, d, w, m and y are hours, days, weeks, months and years, and can be joined: 1y6m. A
version that is not protected goes at the next prune, unless a keep rule given there keeps it, or
another version builds on it.";

/// Arguments of `protect`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_PROTECT)]
pub struct ProtectArgs {
    /// Which version.
    #[command(flatten)]
    pub which: VersionArgs,
    /// All versions of that name that are damaged or incomplete, as `capstan versions` shows. With --none, prune lets them go
    #[arg(long, conflicts_with = "session")]
    pub not_whole: bool,
    /// Until when.
    #[command(flatten)]
    pub kept: KeptArgs,
    /// Print the result as one JSON object; with --not-whole, the list `versions`
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `media protect`.
#[derive(Debug, Args)]
pub struct ProtectMediumArgs {
    /// Its label, the first digits of its id, or its device
    #[arg(value_name = "MEDIUM")]
    pub medium: String,
    /// Until when.
    #[command(flatten)]
    pub kept: KeptArgs,
    /// Print one JSON object with the list `versions`
    #[arg(long)]
    pub json: bool,
}

/// Until when a version that there is shall be kept.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("how").required(true).multiple(true)
    .args(["until", "permanent", "none", "rules", "catalog_until"]))]
pub struct KeptArgs {
    /// Protect it until a date, or for a duration from now
    #[arg(long, value_name = "UNTIL", value_parser = parse_until)]
    #[arg(conflicts_with_all = ["permanent", "none", "rules"])]
    until: Option<i64>,
    /// Protect it for ever
    #[arg(long, conflicts_with_all = ["none", "rules"])]
    permanent: bool,
    /// End its protection: it may go at the next prune
    #[arg(long, conflicts_with = "rules")]
    none: bool,
    /// Let the keep rules of `capstan prune` decide (the default)
    #[arg(long)]
    rules: bool,
    /// Keep its catalog in the internal database until then: a date, a duration, none, or permanent
    #[arg(long, value_name = "UNTIL", value_parser = parse_protection)]
    pub catalog_until: Option<Protection>,
}

impl KeptArgs {
    /// The protection that is asked for.
    pub fn protection(&self) -> Option<Protection> {
        match self.until {
            Some(until) => Some(Protection::UntilUs(until)),
            None if self.permanent => Some(Protection::Permanent),
            None if self.none => Some(Protection::None),
            None => self.rules.then_some(Protection::Rules),
        }
    }
}

const AFTER_LOCK: &str = "\
Examples:
  capstan lock desk --until 90d
  capstan lock desk@1f2e3d4c --until 2030-12-31

You can prolong a lock. Nobody can shorten or lift it, by any command. It covers all that the
version builds on, and all their segments. The medium records it, so that it outlives the internal
database. Against root it is only as strong as the store below it: root can remove files from a
plain directory. See docs/protection.md.";

/// Arguments of `lock`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_LOCK)]
pub struct LockVersionArgs {
    /// Which version.
    #[command(flatten)]
    pub which: VersionArgs,
    /// Until when: a day (its start), 'DATE HH:MM', RFC 3339, or a duration like 30d, 8w, 6m, 10y
    #[arg(long, value_name = "UNTIL", value_parser = parse_until)]
    pub until: i64,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

const AFTER_PRUNE: &str = "\
Examples:
  capstan prune --keep-daily 7 --keep-weekly 4 --keep-monthly 12 --dry-run
  capstan prune desk --keep-within 30d --keep-tag audit
  capstan prune
  capstan prune olddesk --give-up --dry-run

Each rule applies to each object on its own, from its newest version on: --keep-daily 7 keeps the
newest version of each of the last 7 days that have one. Without any rule, only versions whose
protection has ended go. These versions stay in any case: those that a rule keeps, that are
protected or locked, that a session uses, and the last complete version of each object.

What a version that stays builds on is only marked, and goes later. If most of such a chain is
dead, it is consolidated into a new full and goes at once. Segments in which nothing that stays
has data are removed, which frees their space. On an exported medium they go at a later prune.

--give-up removes everything of the named objects, also the last complete version, except what is
protected, locked or in use. It leaves another host's object of that name, unless --host names
that host.

If a medium is missing although it was not exported, for example a disk that is not mounted,
nothing goes of the objects that have something on it, and prune says so (exit code 3). Mount it,
record where it went with `capstan media export`, or give it up with `capstan media forget`.";

/// Arguments of `prune`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_PRUNE)]
pub struct PruneArgs {
    /// Names of objects [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Only objects of this host, where hosts share a database [default: all; with --give-up, those of this host]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Keep the last N versions; unlimited keeps all
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    keep_last: Option<Count>,
    /// Keep the newest version of each of the last N hours that have one
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    keep_hourly: Option<Count>,
    /// Keep the newest version of each of the last N days that have one
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    keep_daily: Option<Count>,
    /// The same for weeks, from Monday to Sunday
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    keep_weekly: Option<Count>,
    /// The same for months
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    keep_monthly: Option<Count>,
    /// The same for years
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    keep_yearly: Option<Count>,
    /// Keep all versions that are at most this much older than the newest: 2y5m7d3h, 8w
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    keep_within: Option<Span>,
    /// Keep versions that have this tag, or all of these, joined by commas; can be given several times
    #[arg(long, value_name = "TAG[,TAG]", value_parser = parse_tags)]
    keep_tag: Vec<Tags>,
    /// Remove everything of the named objects, also their last complete versions. What is protected, locked or in use stays
    #[arg(long, requires = "names", conflicts_with_all = KEEP_RULES)]
    pub give_up: bool,
    /// Confirm that the clock is right although no backup was made for long. Prunes nothing; the next prune goes by the clock
    #[arg(long, conflicts_with_all = KEEP_RULES, conflicts_with_all = ["names", "host", "give_up", "dry_run"])]
    pub clock_is_right: bool,
    /// Only say what would go, and why
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The rules, which say nothing of an object that is given up.
const KEEP_RULES: [&str; 8] = [
    "keep_last",
    "keep_hourly",
    "keep_daily",
    "keep_weekly",
    "keep_monthly",
    "keep_yearly",
    "keep_within",
    "keep_tag",
];

impl PruneArgs {
    /// The rules that are asked for.
    pub fn rules(&self) -> KeepRules {
        // As elsewhere, 0 is no rule, not one that keeps nothing.
        let count = |count: Option<Count>| count.filter(|n| *n != Count::Last(0));
        KeepRules {
            last: count(self.keep_last),
            hourly: count(self.keep_hourly),
            daily: count(self.keep_daily),
            weekly: count(self.keep_weekly),
            monthly: count(self.keep_monthly),
            yearly: count(self.keep_yearly),
            within: self.keep_within,
            tags: self.keep_tag.iter().map(|tags| tags.0.clone()).collect(),
        }
    }
}

/// Tags that a version has to have all.
#[derive(Debug, Clone)]
struct Tags(Vec<String>);

fn parse_tags(text: &str) -> Result<Tags, Problem> {
    match split_tags(text) {
        // All versions would have all of no tags.
        tags if tags.is_empty() => {
            Err(Problem::new("it names no tag").hint("write weekly, or weekly,audit"))
        }
        tags => Ok(Tags(tags)),
    }
}

fn parse_count(text: &str) -> Result<Count, Problem> {
    match text {
        "unlimited" => Ok(Count::Unlimited),
        _ => text.parse().map(Count::Last).map_err(|_| {
            Problem::new("it is not a number of versions").hint("use 7, or unlimited")
        }),
    }
}

/// Reads `none`, `rules`, `permanent`, or until when.
fn parse_protection(text: &str) -> Result<Protection, Problem> {
    match text {
        "none" => Ok(Protection::None),
        "rules" => Ok(Protection::Rules),
        "permanent" => Ok(Protection::Permanent),
        _ => parse_until(text).map(Protection::UntilUs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_is_a_word_or_a_time_to_come() {
        assert_eq!(parse_protection("none"), Ok(Protection::None));
        assert_eq!(parse_protection("permanent"), Ok(Protection::Permanent));
        assert!(matches!(parse_protection("30d"), Ok(Protection::UntilUs(_))));
        assert!(parse_protection("2001-01-01").is_err() && parse_protection("some").is_err());
    }
}
