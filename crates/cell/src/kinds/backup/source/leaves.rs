//! What was backed up of an object and is to be no more: paths that are named no longer, rules that leave out more.

use capstan_engine::message::{Code, path_text};
use capstan_format::record::SessionLabel;
use capstan_idb::{Object, Version};

use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::plan::Plan;
use crate::kinds::backup::source::no_match::can_match;
use crate::names::bounded;
use crate::report::Selected;
use crate::request::BackupRequest;
use crate::session::SessionLog;

/// Paths or patterns of a kind that are named; the others are counted.
const NAMED: usize = 5;
/// Longest text of one of them, in bytes.
const TEXT_MAX: usize = 200;

impl Cell {
    /// Says what the object's last version was told to take and this one is not. Of a version that was imported that is not known.
    pub(in crate::kinds::backup) fn say_what_leaves(
        &self,
        object: &Object,
        request: &BackupRequest,
        plan: &Plan,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let versions = self.idb.versions_of(object.id)?;
        let last = versions.iter().find(|v| v.is_complete_by(None) && !v.null_device);
        let Some(last) = last else { return Ok(()) };
        let (before, now) = (self.selected_by(last)?, plan.selected(request));
        let (Some(before), Some(now)) = (before, now) else { return Ok(()) };
        let leaves = what_leaves(&before, &now);
        if !leaves.is_empty() {
            let name = self.name_of_version(last.id)?;
            let text = format!("less is taken than by {name}: {}", leaves.join("; "));
            log.say(Code::LessSelected, "cell", &plan.name, text);
        }
        Ok(())
    }
}

impl Cell {
    /// What the selection of a backup takes and that of the object's last version before did not; nothing where there is none such, or
    /// it is not known.
    pub(in crate::kinds::backup) fn what_joins(
        &self,
        label: &SessionLabel,
        request: &BackupRequest,
        plan: &Plan,
    ) -> Result<Vec<String>> {
        let versions = self.idb.versions_of(label.object)?;
        let is_before =
            |v: &&Version| v.id != label.version && v.is_complete_by(None) && !v.null_device;
        let Some(last) = versions.iter().find(is_before) else { return Ok(Vec::new()) };
        let (before, now) = (self.selected_by(last)?, plan.selected(request));
        let (Some(before), Some(now)) = (before, now) else { return Ok(Vec::new()) };
        // What would leave with the earlier one is what joined.
        Ok(what_joins(&before, &now))
    }
}

/// What a selection takes that another one did not, and why: a part of a sentence each.
fn what_joins(before: &Selected, now: &Selected) -> Vec<String> {
    let in_other_words =
        |text: String| JOINS.iter().fold(text, |text, (leaves, joins)| text.replace(leaves, joins));
    what_leaves(now, before).into_iter().map(in_other_words).collect()
}

/// What is said of what leaves, and of the same where it joins.
const JOINS: [(&str, &str); 7] = [
    ("named no more:", "named now:"),
    ("led to no more by a symbolic link:", "led to now by a symbolic link:"),
    ("left out by new patterns:", "no longer left out by patterns:"),
    ("no longer excepted from patterns:", "newly excepted from patterns:"),
    ("left out where there is a file called", "no longer left out where there is a file called"),
    ("left out:", "no longer left out:"),
    ("bytes are left out", "bytes are taken"),
];

/// What of a selection another one does not take, and why: a part of a sentence each.
fn what_leaves(before: &Selected, now: &Selected) -> Vec<String> {
    let mut leaves = Vec::new();
    let mut say = |what: &str, of: Vec<String>| {
        if !of.is_empty() {
            leaves.push(format!("{what} {}", listed(&of)));
        }
    };
    // Of what was kept for a path that is there again, that path is what it was kept for.
    let is_placed = |path: &String| {
        before.unplaced.contains(path) && now.paths.iter().any(|root| is_below(root, path))
    };
    let is_left =
        |path: &&String| !now.paths.iter().any(|root| is_below(path, root)) && !is_placed(path);
    let (mut unnamed, mut led) = (Vec::new(), Vec::new());
    for path in before.paths.iter().filter(is_left) {
        match led_by(path, before, now) {
            // Where what it was kept for leads now is backed up.
            None if before.unplaced.contains(path) => led.push(path.clone()),
            None => unnamed.push(path.clone()),
            Some(by) if by == path => led.push(path.clone()),
            Some(by) => led.push(format!("{path} (by {by})")),
        }
    }
    say("named no more:", unnamed);
    say("led to no more by a symbolic link:", led);
    let (old, new) = (rules(&before.exclude), rules(&now.exclude));
    let quoted = |pattern: &&str| format!("'{pattern}'");
    let not_in = |all: &[&str], of: &[&str], exceptions: bool| -> Vec<String> {
        let are = |p: &&&str| p.starts_with('!') == exceptions && !of.contains(*p);
        all.iter().filter(are).map(quoted).collect()
    };
    let newly: Vec<&str> =
        new.iter().copied().filter(|pattern| can_match(pattern, &now.paths)).collect();
    say("left out by new patterns:", not_in(&newly, &old, false));
    let mut exceptions = not_in(&old, &new, true);
    let (kept, keeps) = (rules(&before.include), rules(&now.include));
    exceptions.extend(kept.iter().filter(|p| !keeps.contains(p)).map(quoted));
    say("no longer excepted from patterns:", exceptions);
    let options = [
        (now.exclude_caches && !before.exclude_caches, "tagged caches (--exclude-caches)"),
        (now.one_file_system && !before.one_file_system, "other file systems (--one-file-system)"),
    ];
    say("left out:", options.iter().filter(|o| o.0).map(|o| o.1.to_owned()).collect());
    let names = now.exclude_if_present.iter().filter(|n| !before.exclude_if_present.contains(n));
    say("left out where there is a file called", names.map(|n| format!("'{n}'")).collect());
    let widest = (0, u64::MAX);
    let ((least, most), (least_before, most_before)) =
        (now.sizes.unwrap_or(widest), before.sizes.unwrap_or(widest));
    if least > least_before {
        leaves.push(format!("files of less than {least} bytes are left out"));
    }
    if most < most_before {
        leaves.push(format!("files of more than {most} bytes are left out"));
    }
    // Later patterns override earlier ones: with exceptions among them their order is a rule too.
    let has_exceptions = new.iter().any(|p| p.starts_with('!'));
    if leaves.is_empty() && has_exceptions && old != new {
        let (mut a, mut b) = (old, new);
        a.sort_unstable();
        b.sort_unstable();
        if a == b {
            leaves.push("the same patterns stand in another order".to_owned());
        }
    }
    leaves
}

/// The path by which one was named, where that is named still and leads elsewhere.
fn led_by<'a>(path: &'a String, before: &'a Selected, now: &Selected) -> Option<&'a String> {
    let is_named = |by: &&String| {
        now.through.contains_key(*by) || now.paths.iter().any(|of| of == by.trim_end_matches('/'))
    };
    let by = before.through.iter().filter(|(_, root)| *root == path).map(|(by, _)| by);
    let itself = std::iter::once(path).filter(|path| now.through.contains_key(*path));
    by.chain(itself).find(is_named)
}

/// The lines that are patterns.
fn rules(lines: &[String]) -> Vec<&str> {
    let is_rule = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    lines.iter().map(String::as_str).filter(is_rule).collect()
}

/// Whether a path is another, or lies below it.
fn is_below(path: &str, root: &str) -> bool {
    let rest = path.strip_prefix(root.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The first of them by name, the others by number.
fn listed(all: &[String]) -> String {
    let shown = |text: &String| bounded(path_text(text.as_bytes()), TEXT_MAX);
    let mut text = all.iter().take(NAMED).map(shown).collect::<Vec<_>>().join(", ");
    if all.len() > NAMED {
        text.push_str(&format!(" and {} more", all.len() - NAMED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|&text| text.to_owned()).collect()
    }

    fn of(paths: &[&str]) -> Selected {
        Selected { paths: texts(paths), ..Selected::default() }
    }

    fn excluding(patterns: &[&str]) -> Selected {
        Selected { exclude: texts(patterns), ..of(&["/srv"]) }
    }

    #[test]
    fn paths_leave_that_no_path_covers() {
        let leaves = |before: &[&str], now: &[&str]| what_leaves(&of(before), &of(now)).join("|");
        assert_eq!(leaves(&["/etc", "/home"], &["/etc"]), "named no more: /home");
        assert_eq!(leaves(&["/srv"], &["/srv/www"]), "named no more: /srv");
        assert_eq!(leaves(&["/srv/www"], &["/srv/ww"]), "named no more: /srv/www");
        for now in [&["/etc", "/home", "/srv"][..], &["/"], &["/home/", "/etc"]] {
            assert_eq!(leaves(&["/etc", "/home"], now), "", "{now:?}");
        }
        // An input has no paths.
        assert_eq!(leaves(&["/etc"], &[]), "named no more: /etc");
        assert_eq!(leaves(&[], &["/etc"]), "");
        let many: Vec<String> = (0..12).map(|i| format!("/{i}{}", "x".repeat(300))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = leaves(&many, &["/etc"]);
        assert!(text.ends_with("… and 7 more") && text.len() < 1200, "{text}");
    }

    #[test]
    fn what_a_link_led_to_is_not_called_unnamed() {
        let by = |links: &[(&str, &str)], paths: &[&str]| Selected {
            through: links.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
            ..of(paths)
        };
        let (old, new) =
            (by(&[("/now/x", "/41/x")], &["/41/x"]), by(&[("/now/x", "/42/x")], &["/42/x"]));
        let text = what_leaves(&old, &new).join("|");
        assert_eq!(text, "led to no more by a symbolic link: /41/x (by /now/x)");
        assert_eq!(what_joins(&old, &new), ["led to now by a symbolic link: /42/x (by /now/x)"]);
        // The link came where a directory was, or the other way round.
        let (dir, link) = (of(&["/srv/x"]), by(&[("/srv/x", "/big/x")], &["/big/x"]));
        let text = what_leaves(&dir, &link).join("|");
        assert_eq!(text, "led to no more by a symbolic link: /srv/x");
        let text = what_leaves(&link, &dir).join("|");
        assert_eq!(text, "led to no more by a symbolic link: /big/x (by /srv/x)");
        // One that is not named at all any more.
        assert_eq!(what_leaves(&old, &of(&["/etc"])).join("|"), "named no more: /41/x");
    }

    #[test]
    fn what_was_kept_for_a_missing_path_is_not_called_unnamed() {
        let kept = Selected { unplaced: texts(&["/real"]), ..of(&["/real", "/etc"]) };
        assert_eq!(what_leaves(&kept, &of(&["/real/d", "/etc"])), [""; 0]);
        let text = what_leaves(&kept, &of(&["/new/d", "/etc"])).join("|");
        assert_eq!(text, "led to no more by a symbolic link: /real");
    }

    #[test]
    fn patterns_leave_out_more_or_except_less() {
        let leaves = |a: &[&str], b: &[&str]| what_leaves(&excluding(a), &excluding(b)).join("|");
        assert_eq!(leaves(&["*.o"], &["*.o", "*.iso"]), "left out by new patterns: '*.iso'");
        assert_eq!(leaves(&["*.o", "!a.o"], &["*.o"]), "no longer excepted from patterns: '!a.o'");
        // What can match nothing leaves nothing out.
        assert_eq!(leaves(&[], &["src/cache", "./x", "/srv"]), "");
        assert_eq!(leaves(&[], &["srv/cache"]), "left out by new patterns: 'srv/cache'");
        for (a, b) in [
            (&["*.o", "*.iso"][..], &["*.iso"][..]),
            (&["*.o"], &["*.o", "!a.o"]),
            (&["*.o", "*.iso"], &["*.iso", "*.o"]),
            (&["*.o"], &["# objects", "", "*.o"]),
        ] {
            assert_eq!(leaves(a, b), "", "{a:?} {b:?}");
        }
        let turned = leaves(&["*.o", "!a.o"], &["!a.o", "*.o"]);
        assert_eq!(turned, "the same patterns stand in another order");
        let before = Selected { include: texts(&["keep.o"]), ..excluding(&["*.o"]) };
        let text = what_leaves(&before, &excluding(&["*.o"])).join("|");
        assert_eq!(text, "no longer excepted from patterns: 'keep.o'");
        assert_eq!(what_leaves(&excluding(&["*.o"]), &before), [""; 0]);
    }

    #[test]
    fn options_leave_out_more() {
        let plain = of(&["/srv"]);
        let narrow = Selected {
            exclude_caches: true,
            one_file_system: true,
            exclude_if_present: texts(&[".nobackup"]),
            sizes: Some((10, 1000)),
            ..plain.clone()
        };
        assert_eq!(
            what_leaves(&plain, &narrow),
            [
                "left out: tagged caches (--exclude-caches), other file systems (--one-file-system)",
                "left out where there is a file called '.nobackup'",
                "files of less than 10 bytes are left out",
                "files of more than 1000 bytes are left out",
            ]
        );
        assert_eq!(what_leaves(&narrow, &plain), [""; 0]);
        assert_eq!(what_leaves(&narrow, &narrow), [""; 0]);
    }

    #[test]
    fn what_joins_is_said_in_its_own_words() {
        let joins = |before: &Selected, now: &Selected| what_joins(before, now).join("|");
        let (all, some) = (excluding(&[]), excluding(&["*.iso"]));
        assert_eq!(joins(&some, &all), "no longer left out by patterns: '*.iso'");
        assert_eq!(joins(&all, &some), "");
        assert_eq!(joins(&all, &all), "");
        assert_eq!(joins(&of(&["/etc"]), &of(&["/etc", "/home"])), "named now: /home");
        let caches = Selected { exclude_caches: true, ..excluding(&[]) };
        assert_eq!(joins(&caches, &all), "no longer left out: tagged caches (--exclude-caches)");
        let small = Selected { sizes: Some((0, 9)), ..excluding(&[]) };
        assert_eq!(joins(&small, &all), "files of more than 9 bytes are taken");
    }
}
