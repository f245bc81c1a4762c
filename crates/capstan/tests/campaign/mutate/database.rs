//! Changes to backups of the internal database.

use std::fs;
use std::path::Path;

use capstan_format::crc::crc32c;
use capstan_format::idb_backup::{open_idb_backup, read_idb_head, seal_idb_backup};
use capstan_format::keys::{KeyRecord, Purpose, RecoveryCode, Secret};

use super::{Container, Site, contents, listed};
use crate::dice::Dice;
use crate::values::{change_bytes, change_json, text};

pub fn database_backup(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if site.container != Container::Directory {
        return None;
    }
    let all: Vec<_> = listed(&site.dirs, ".capstan").into_iter().filter(|p| is_idb(p)).collect();
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let mut bytes = contents(&path)?;
    let (mut head, at) = read_idb_head(&bytes).ok()?;
    let what = match dice.below(4) {
        0 => {
            let mut json = serde_json::to_value(&head).ok()?;
            let what = change_json(&mut json, dice, &[]);
            let text = json.to_string().into_bytes();
            let mut new = bytes[..8].to_vec();
            new.extend_from_slice(&(text.len() as u32).to_le_bytes());
            new.extend_from_slice(&crc32c(&text).to_le_bytes());
            new.extend_from_slice(&text);
            new.resize(new.len().next_multiple_of(8), 0);
            new.extend_from_slice(&bytes[at..]);
            bytes = new;
            format!("head {what}")
        }
        1 => {
            let key = &mut head.key;
            let what = change_json(key, dice, &[]);
            let contents = contents_key(&bytes, site.recovery?)?;
            let files = open_idb_backup(&bytes, &contents).ok()?.1;
            let files: Vec<_> = files.iter().map(|(n, b)| (n.as_str(), &b[..])).collect();
            bytes = seal_idb_backup(&head, &contents, &files).ok()?;
            format!("key {what}")
        }
        // Sealed with the right key: names that lead out, and databases that are none.
        _ => {
            let contents = contents_key(&bytes, site.recovery?)?;
            let mut files = open_idb_backup(&bytes, &contents).ok()?.1;
            let n = dice.below(files.len());
            let what = match dice.below(4) {
                0 => {
                    files.push((text(dice), b"x".to_vec()));
                    "a file more"
                }
                1 => {
                    files.get_mut(n)?.0 = text(dice);
                    "a name"
                }
                2 => {
                    let one = files.get(n)?.clone();
                    files.push(one);
                    "a file twice"
                }
                _ => {
                    change_bytes(&mut files.get_mut(n)?.1, dice);
                    "a file's bytes"
                }
            };
            let files: Vec<_> = files.iter().map(|(n, b)| (n.as_str(), &b[..])).collect();
            bytes = seal_idb_backup(&head, &contents, &files).ok()?;
            what.to_owned()
        }
    };
    fs::write(path, bytes).ok()?;
    Some(what)
}

fn is_idb(path: &Path) -> bool {
    path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("idb-"))
}

fn contents_key(bytes: &[u8], code: &str) -> Option<[u8; 32]> {
    let (head, _) = read_idb_head(bytes).ok()?;
    let record = KeyRecord::from_json(head.key.to_string().as_bytes()).ok()?;
    let code = RecoveryCode::parse(code).ok()?;
    let open = record.ring().unlock(&Secret::RecoveryCode(&code)).ok()?;
    Some(*record.unwrap_all(&open).ok()?.key(Purpose::Contents))
}
