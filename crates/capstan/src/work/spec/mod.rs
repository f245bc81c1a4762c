//! Backup specifications: what `capstan run` does, as a TOML file says it.
//!
//! Options of a backup are those of the command line under their own names: each key is given to the parser of
//! `capstan backup`, so that both know the same options, now and later. All mistakes are found at once, each with its line.

mod notify;
mod options;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use capstan_cell::prune::KeepRules;
use clap::{Args as _, FromArgMatches as _};
pub use notify::{Notify, Smtp, Tls, Way};
use table::{Mistakes, Table};
use toml::de::DeValue;

use crate::args::{BackupArgs, PruneArgs, StageArgs};
use crate::exit::Failure;

/// Most bytes of a specification.
const SIZE_MAX: u64 = 1 << 20;
/// Most objects at once: each has buffers of its own.
const TOGETHER_MAX: usize = 32;

/// A specification.
#[derive(Debug)]
pub struct Spec {
    /// The file it was read from.
    pub path: PathBuf,
    /// Where the internal database is, if not where it usually is.
    pub home: Option<PathBuf>,
    /// A key file that opens the key ring.
    pub key_file: Option<PathBuf>,
    /// The backups, in order.
    pub objects: Vec<BackupArgs>,
    /// So many of them at once, at most, where they go to the same device.
    pub together: usize,
    /// Which versions are kept.
    pub keep: Option<KeepRules>,
    /// What is staged after the backups.
    pub stage: Option<StageArgs>,
    /// Commands before the first backup: one that fails ends the run.
    pub pre: Vec<String>,
    /// Commands after the last: they run always.
    pub post: Vec<String>,
    /// Which program is told.
    pub webhook: Option<Webhook>,
    /// Who is told by mail.
    pub notify: Option<Notify>,
}

/// Where the report is sent.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Its address: http or https.
    pub url: String,
    /// Further headers, as one that authorizes.
    pub headers: Vec<(String, String)>,
    /// How long to wait for an answer.
    pub timeout: Duration,
}

/// A mistake, and the line it is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to write.
    pub text: String,
}

/// Reads a specification; all its mistakes are said on standard error, one line each.
pub fn read(path: &Path) -> Result<Spec, Failure> {
    let refused = |why: String| {
        let error = format!("cannot read the specification {}: {why}", path.display());
        Failure::bad_input(error, "name a TOML file; /etc/capstan/example.toml shows one")
    };
    let size = std::fs::metadata(path).map_err(|e| refused(e.to_string()))?.len();
    if size > SIZE_MAX {
        return Err(refused("it is longer than 1 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|e| refused(e.to_string()))?;
    parse(path, &text).map_err(|mistakes| {
        for m in &mistakes {
            eprintln!(
                "capstan: error: {}:{}: {}",
                path.display(),
                m.line,
                crate::exit::one_line(&m.text)
            );
        }
        // Status and letters show this alone.
        let first = mistakes.first().map(|m| format!(": line {}: {}", m.line, m.text));
        let n = mistakes.len();
        let error = format!(
            "{} has {n} mistake{}{}",
            path.display(),
            if n == 1 { "" } else { "s" },
            first.unwrap_or_default()
        );
        Failure::bad_input(error, "correct the file; nothing was done")
    })
}

/// What a specification says of mail and of its home, also where all else in it is wrong. Nothing where its syntax is.
pub fn told(path: &Path) -> (Option<Notify>, Option<PathBuf>) {
    let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let Some(text) = std::fs::read_to_string(path).ok().filter(|_| size <= SIZE_MAX) else {
        return (None, None);
    };
    let (root, errors) = toml::de::DeTable::parse_recoverable(&text);
    if !errors.is_empty() {
        return (None, None);
    }
    let mut top = Table::of(&root);
    let mut mistakes = Mistakes::new(&text);
    let m = &mut mistakes;
    let notify = top.table("notify", m).and_then(|t| notify::read(t, m));
    (notify, top.text("home", m).map(PathBuf::from))
}

/// A specification from its text, or all that is wrong with it, by line.
pub fn parse(path: &Path, text: &str) -> Result<Spec, Vec<Mistake>> {
    let mut mistakes = Mistakes::new(text);
    let (root, errors) = toml::de::DeTable::parse_recoverable(text);
    for e in &errors {
        mistakes.at(e.span().map_or(0, |s| s.start), e.message().to_owned());
    }
    // What follows a mistake in the syntax is guesswork.
    if !errors.is_empty() {
        return Err(mistakes.sorted());
    }
    let mut top = Table::of(&root);
    let m = &mut mistakes;
    let spec = Spec {
        path: path.to_owned(),
        home: absolute(&mut top, "home", m),
        key_file: absolute(&mut top, "key-file", m),
        objects: options::objects(&mut top, m),
        together: together(&mut top, m),
        keep: top.table("keep", m).map(|t| keep(t, m)),
        stage: top.table("stage", m).and_then(|t| stage(t, m)),
        pre: Vec::new(),
        post: Vec::new(),
        webhook: top.table("webhook", m).and_then(|t| webhook(t, m)),
        notify: top.table("notify", m).and_then(|t| notify::read(t, m)),
    };
    let (pre, post) = match top.table("commands", m) {
        Some(mut t) => {
            let both = (t.texts("pre", m), t.texts("post", m));
            t.end("a key of [commands]", &["pre", "post"], m);
            both
        }
        None => (Vec::new(), Vec::new()),
    };
    let known = [
        "home", "key-file", "device", "together", "options", "object", "keep", "stage", "commands",
        "webhook", "notify",
    ];
    top.end("a key of a specification", &known, m);
    let mistakes = mistakes.sorted();
    if mistakes.is_empty() { Ok(Spec { pre, post, ..spec }) } else { Err(mistakes) }
}

/// A path from the root: what is relative means another place in each working directory.
fn absolute(top: &mut Table<'_>, key: &str, m: &mut Mistakes<'_>) -> Option<PathBuf> {
    let at = top.begin_of(key)?;
    let path = PathBuf::from(top.text(key, m)?);
    if !path.is_absolute() {
        m.at(at, options::relative(&path.display().to_string()));
    }
    Some(path)
}

/// How many objects are backed up at once; one after the other, if it does not say.
fn together(top: &mut Table<'_>, m: &mut Mistakes<'_>) -> usize {
    let wanted = format!("a number from 1 to {TOGETHER_MAX}");
    let Some((at, value)) = top.scalar_of("together", &wanted, m) else { return 1 };
    match value.parse() {
        Ok(n @ 1..=TOGETHER_MAX) => n,
        _ => {
            let text = format!("'{value}' is no number of objects; write 1 to {TOGETHER_MAX}");
            m.at(at, text);
            1
        }
    }
}

/// `daily = 7` is `--keep-daily 7`.
fn keep(mut t: Table<'_>, m: &mut Mistakes<'_>) -> KeepRules {
    const COUNTS: [&str; 6] = ["last", "hourly", "daily", "weekly", "monthly", "yearly"];
    let begin = t.begin;
    if t.is_empty() {
        m.at(begin, "[keep] has no rule; write one, as daily = 7, or take it out".to_owned());
        return KeepRules::default();
    }
    let mut rules = Vec::new();
    for key in COUNTS {
        let wanted = "a number from 1 on, or \"unlimited\"";
        let Some((at, value)) = t.scalar_of(key, wanted, m) else { continue };
        match value.parse::<u32>() {
            Ok(1..) => rules.push(format!("--keep-{key}={value}")),
            _ if value == "unlimited" => rules.push(format!("--keep-{key}={value}")),
            _ => m.at(
                at,
                format!("'{value}' is not a number of versions; use 1 or more, or \"unlimited\""),
            ),
        }
    }
    if let Some((at, value)) = t.scalar("within", m) {
        // A span of nothing would keep no version but the newest, which stays without it.
        if crate::args::parse_span(&value).is_ok_and(|span| span.is_positive()) {
            rules.push(format!("--keep-within={value}"));
        } else {
            m.at(
                at,
                format!(
                    "'{value}' is no span of time; write \"36h\", \"30d\", \"8w\", \"6m\" or \"2y\""
                ),
            );
        }
    }
    rules.extend(t.texts("tag", m).into_iter().map(|tag| format!("--keep-tag={tag}")));
    let known = [&COUNTS[..], &["within", "tag"]].concat();
    t.end("a keep rule", &known, m);
    // What is left of them is what that command's own parser takes.
    let command = PruneArgs::augment_args(clap::Command::new("prune").no_binary_name(true));
    let parsed = command
        .try_get_matches_from(rules)
        .and_then(|matches| PruneArgs::from_arg_matches(&matches));
    match parsed {
        Ok(args) => args.rules(),
        Err(e) => {
            let why = e.to_string();
            m.at(begin, why.lines().next().unwrap_or_default().to_owned());
            KeepRules::default()
        }
    }
}

/// `from` is what is staged; the other keys are options of `capstan stage`, given to its own parser.
fn stage(mut t: Table<'_>, m: &mut Mistakes<'_>) -> Option<StageArgs> {
    const OPTIONS: [&str; 5] = ["to", "older-than", "keep", "block-size", "encrypt"];
    const NEW_MEDIUM: &str = "new-medium";
    let begin = t.begin;
    let (mut args, mut is_mistaken) = (Vec::new(), false);
    for key in OPTIONS {
        let Some((at, value)) = t.scalar(key, m) else { continue };
        let arg = format!("--{key}={value}");
        // Each by itself, so that its mistake has its line.
        let mut line = vec![arg.clone(), "from".to_owned()];
        line.extend((key != "to").then(|| "--to=pool:p".to_owned()));
        match parsed_stage(line) {
            Ok(parsed) => match options::refuse_relative(&parsed.to.device()) {
                Ok(()) => args.push(arg),
                Err(why) => {
                    m.at(at, why);
                    is_mistaken = true;
                }
            },
            Err(why) => m.at(at, why),
        }
    }
    match t.take(NEW_MEDIUM) {
        Some((_, DeValue::Boolean(true))) => args.push(format!("--{NEW_MEDIUM}")),
        Some((_, DeValue::Boolean(false))) | None => {}
        Some((at, _)) => m.at(at, format!("'{NEW_MEDIUM}' is true or false")),
    }
    let from = t.text("from", m);
    t.end("a key of [stage]", &[&OPTIONS[..], &[NEW_MEDIUM, "from"]].concat(), m);
    let Some(from) = from else {
        m.at(begin, "[stage] does not say what is staged; write from = \"POOL\"".to_owned());
        return None;
    };
    if is_mistaken {
        return None;
    }
    if !args.iter().any(|arg| arg.starts_with("--to=")) {
        m.at(
            begin,
            "[stage] does not say where to; write to = \"pool:NAME\" or a device".to_owned(),
        );
        return None;
    }
    args.extend(["--".to_owned(), from]);
    parsed_stage(args).map_err(|why| m.at(begin, why)).ok()
}

fn parsed_stage(args: Vec<String>) -> Result<StageArgs, String> {
    let command = StageArgs::augment_args(clap::Command::new("stage").no_binary_name(true));
    let parsed =
        command.try_get_matches_from(args).and_then(|found| StageArgs::from_arg_matches(&found));
    parsed.map_err(|e| options::said(&e))
}

fn webhook(mut t: Table<'_>, m: &mut Mistakes<'_>) -> Option<Webhook> {
    let begin = t.begin;
    let url = t.scalar("url", m);
    if let Some((at, url)) = &url
        && !url.starts_with("http://")
        && !url.starts_with("https://")
    {
        m.at(*at, format!("'{url}' is no address; write one that begins with https:// or http://"));
    }
    let timeout = match t.scalar("timeout", m) {
        None => Duration::from_secs(30),
        Some((at, text)) => crate::args::parse_age(&text).unwrap_or_else(|why| {
            m.at(at, format!("'{text}': {why}"));
            Duration::ZERO
        }),
    };
    let headers = t.table("headers", m).map_or_else(Vec::new, |mut h| h.all_texts(m));
    t.end("a key of [webhook]", &["url", "timeout", "headers"], m);
    if url.is_none() {
        m.at(begin, "[webhook] has no url; write url = \"https://…\"".to_owned());
    }
    Some(Webhook { url: url?.1, headers, timeout })
}

#[cfg(test)]
mod tests;
