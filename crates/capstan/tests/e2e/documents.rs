//! The documents: links lead somewhere, no page is left out of the site, and sources name pages that exist.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::package::sources;

/// Links of pages, and of pages in directories, that lead nowhere; and how many were checked.
pub fn dead_links(root: &Path, pages: &[PathBuf]) -> (Vec<String>, usize) {
    let (mut broken, mut checked) = (Vec::new(), 0);
    let mut headings: HashMap<PathBuf, Vec<String>> = HashMap::new();
    for page in pages_in(pages) {
        let text = fs::read_to_string(&page).unwrap();
        for (link, anchor) in links(&text) {
            checked += 1;
            let to = match link.is_empty() {
                true => page.clone(),
                false => page.parent().unwrap().join(link),
            };
            // A package's LICENSE leads to a text that each Debian system has.
            let common =
                fs::read_link(&to).ok().filter(|to| to.starts_with("../../common-licenses"));
            let there = common.is_some() || to.exists();
            let headed = anchor.is_none_or(|anchor| {
                let known = headings.entry(to.clone()).or_insert_with(|| anchors(&to));
                known.iter().any(|known| known == anchor)
            });
            if !(there && headed) {
                let page = page.strip_prefix(root).unwrap_or(&page).display();
                broken.push(format!("{page}: {link}#{}", anchor.unwrap_or_default()));
            }
        }
    }
    (broken, checked)
}

/// All pages among these files and in these directories.
fn pages_in(places: &[PathBuf]) -> Vec<PathBuf> {
    files_in(places, &["md"])
}

/// Files with one of these extensions, among these and in these directories.
fn files_in(places: &[PathBuf], extensions: &[&str]) -> Vec<PathBuf> {
    let (mut left, mut files) = (places.to_vec(), Vec::new());
    while let Some(place) = left.pop() {
        if place.is_dir() {
            left.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        } else if place.extension().is_some_and(|is| extensions.iter().any(|one| is == *one)) {
            files.push(place);
        }
    }
    files
}

/// Targets of a page's links that are no addresses of the web, each with its anchor.
fn links(text: &str) -> Vec<(&str, Option<&str>)> {
    let prose = text.split("```").step_by(2);
    let targets =
        prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let here = targets.filter(|to| !to.contains("://") && !to.starts_with("mailto:"));
    here.map(|to| to.split_once('#').map_or((to, None), |(to, anchor)| (to, Some(anchor))))
        .collect()
}

/// What headings of a page are called in links.
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let prose: String = text.split("```").step_by(2).collect();
    let slug = |heading: &str| -> String {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    prose.lines().filter(|line| line.starts_with('#')).map(slug).collect()
}

#[test]
fn links_of_the_documents_lead_somewhere() {
    let root = sources();
    let pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "bench"];
    let (broken, checked) = dead_links(&root, &pages.map(|page| root.join(page)));
    assert!(
        checked > 150 && broken.is_empty(),
        "{checked} links, of which lead nowhere: {broken:#?}"
    );
}

#[test]
fn each_page_is_in_the_site() {
    let docs = sources().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<&str> = links(&summary).into_iter().map(|(to, _)| to).collect();
    let pages = pages_in(std::slice::from_ref(&docs));
    let pages: Vec<&Path> = pages.iter().map(|page| page.strip_prefix(&docs).unwrap()).collect();
    assert!(pages.len() > 30, "{pages:?}");
    for page in pages.into_iter().filter(|page| *page != Path::new("SUMMARY.md")) {
        let times = listed.iter().filter(|to| Path::new(to) == page).count();
        assert_eq!(times, 1, "docs/SUMMARY.md lists {} so often", page.display());
    }
}

#[test]
fn sources_name_pages_that_exist() {
    let root = sources();
    let places = ["crates", "bench", "tools", "packaging", "fuzz"].map(|place| root.join(place));
    let (mut named, mut missing) = (0, Vec::new());
    for file in files_in(&places, &["rs", "py", "sh", "service", "timer", "toml"]) {
        let text = fs::read_to_string(&file).unwrap();
        for rest in text.split("docs/").skip(1) {
            let is_of_a_path = |c: &char| c.is_ascii_alphanumeric() || "/-.#".contains(*c);
            let path: String = rest.chars().take_while(is_of_a_path).collect();
            let Some((page, anchor)) = path.split_once(".md") else { continue };
            named += 1;
            let page = root.join(format!("docs/{page}.md"));
            let anchor = anchor.strip_prefix('#').map(|anchor| anchor.trim_end_matches('.'));
            let headed = anchor.is_none_or(|anchor| anchors(&page).iter().any(|is| is == anchor));
            if !(page.exists() && headed) {
                missing.push(format!("{}: docs/{path}", file.display()));
            }
        }
    }
    assert!(named > 15 && missing.is_empty(), "{named} named, of which are missing: {missing:#?}");
}
