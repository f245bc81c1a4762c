//! `status --object`: one object in detail.

use std::time::Duration;

use capstan_cell::report::Selected;
use capstan_cell::{Cell, Health, ObjectDetail, VersionInfo, VersionState};
use serde_json::{Value, json};

use super::{age_text, code_of, drill_text, json_of};
use crate::exit::Failure;
use crate::output::Output;
use crate::text::local_time;
use crate::text::sizes::grouped;
use crate::text::table::fields;

/// Shows the objects of that name; there are several where hosts have one each.
pub fn show(cell: &Cell, name: &str, max_age: Duration, as_json: bool) -> Result<u8, Failure> {
    let found = cell.object_detail(name, max_age)?;
    let worst = found.iter().map(|of| of.status.health).max();
    let mut out = Output::new();
    if as_json {
        out.json(&json!({
            "status": worst.unwrap_or(Health::Good).name(),
            "max_age_s": max_age.as_secs(),
            "objects": found.iter().map(detail_json).collect::<Vec<_>>(),
        }))?;
    } else if found.is_empty() {
        let name = capstan_engine::message::path_text(name.as_bytes());
        out.text(&format!("'{name}' has nothing that is kept\n"))?;
    } else {
        let texts: Vec<String> = found.iter().map(text).collect();
        out.text(&texts.join("\n"))?;
    }
    out.finish()?;
    Ok(code_of(worst))
}

fn text(of: &ObjectDetail) -> String {
    let status = &of.status;
    let mut lines = vec![
        ("Object", status.name.clone()),
        ("Host", status.host.to_string()),
        ("Health", status.health.name().to_owned()),
    ];
    lines.extend(status.why.iter().map(|why| ("", why.clone())));
    let complete = match (status.complete_us, status.age) {
        (Some(at), Some(age)) => format!("{}, {} ago", local_time(at), age_text(age)),
        _ => "none".to_owned(),
    };
    lines.push(("Last complete", complete));
    if let Some(backup) = &status.last_backup {
        let (id, ended) = (&backup.id, backup.status.to_string().replace('_', " "));
        let at = local_time(backup.started_us);
        lines.push(("Last backup", format!("{}, {at}, {ended}", id.get(..8).unwrap_or(id))));
    }
    lines.push(("Last drill", status.last_drill.as_ref().map_or("none".to_owned(), drill_text)));
    let incomplete = of.versions.iter().filter(|v| v.state == VersionState::Incomplete).count();
    let mut versions = grouped(of.versions.len() as u64);
    if incomplete > 0 {
        versions.push_str(&format!(", {} of them incomplete", grouped(incomplete as u64)));
    }
    lines.push(("Versions", versions));
    if let Some(last) = last(of) {
        let files = last.files.map_or(String::new(), |n| format!(", {} files", grouped(n)));
        lines
            .push(("Last version", format!("{}{files} on {}", last.method, last.media.join(", "))));
    }
    lines.extend(selection_lines(of.selection.as_ref()));
    fields(&lines)
}

fn last(of: &ObjectDetail) -> Option<&VersionInfo> {
    of.versions.iter().find(|v| v.state != VersionState::Incomplete)
}

/// What was taken: a line for each path, pattern and option.
fn selection_lines(selection: Option<&Selected>) -> Vec<(&'static str, String)> {
    let Some(s) = selection else {
        return vec![("Selection", "not on record, as after an import".to_owned())];
    };
    let mut lines = Vec::new();
    // The name of several lines stands before the first.
    let mut put = |name: &'static str, values: Vec<String>| {
        for (i, value) in values.into_iter().enumerate() {
            lines.push((if i == 0 { name } else { "" }, value));
        }
    };
    let input = vec!["standard input or a command's output".to_owned()];
    put("Paths", if s.paths.is_empty() { input } else { s.paths.clone() });
    put("Exclude", s.exclude.clone());
    put("Include", s.include.clone());
    put("Exclude dirs", s.exclude_if_present.iter().map(|n| format!("with a file {n}")).collect());
    let mut options = Vec::new();
    if s.exclude_caches {
        options.push("--exclude-caches".to_owned());
    }
    if s.one_file_system {
        options.push("--one-file-system".to_owned());
    }
    if let Some((least, most)) = s.sizes {
        let end = |n: u64, open: u64| if n == open { String::new() } else { n.to_string() };
        options.push(format!("--files-of-size {}..{}", end(least, 0), end(most, u64::MAX)));
    }
    put("Options", options);
    lines
}

fn detail_json(of: &ObjectDetail) -> Value {
    let mut object = json_of(&of.status);
    if let Some(object) = object.as_object_mut() {
        object.insert("versions".to_owned(), of.versions.len().into());
        let media = last(of).map(|v| v.media.clone());
        object.insert("media".to_owned(), media.into());
        object.insert("selection".to_owned(), json!(of.selection));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_pattern_and_option_stands_on_a_line() {
        let selection = Selected {
            paths: vec!["/etc".to_owned(), "/home".to_owned()],
            exclude: vec!["*.o".to_owned()],
            exclude_if_present: vec![".nobackup".to_owned()],
            one_file_system: true,
            sizes: Some((0, 1000)),
            ..Selected::default()
        };
        assert_eq!(
            fields(&selection_lines(Some(&selection))),
            "Paths         /etc\n              /home\nExclude       *.o\n\
             Exclude dirs  with a file .nobackup\nOptions       --one-file-system\n              \
             --files-of-size ..1000\n"
        );
        let input = fields(&selection_lines(Some(&Selected::default())));
        assert_eq!(input, "Paths  standard input or a command's output\n");
        assert!(fields(&selection_lines(None)).contains("not on record"));
    }
}
