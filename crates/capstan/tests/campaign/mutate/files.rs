//! Changes to files of media and of libraries.

use std::fs::{self, OpenOptions};

use serde_json::Value;

use super::blocks::change_record;
use super::{Site, contents, listed};
use crate::dice::Dice;
use crate::values::{change_bytes, change_json, number, text};

pub fn lock(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    let all = listed(&site.dirs, ".lock");
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let mut block = contents(&path)?;
    let what = change_record(&mut block, dice)?;
    fs::write(&path, &block).ok()?;
    if dice.once_in(4) {
        // As the lock of another version.
        let name = text(dice).replace(['/', '\0'], "_").chars().take(40).collect::<String>();
        fs::write(path.with_file_name(format!("{name}.lock")), &block).ok()?;
    }
    Some(what)
}

/// Changes what kind of file something is, its name or its length.
pub fn file(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    // Of a library only what is of its tapes.
    let tapes = site.dirs.iter().map(|d| d.join("tapes")).collect();
    let dirs = if site.container.is_tape() { tapes } else { site.dirs.clone() };
    let mut all = listed(&dirs, "");
    all.retain(|p| p.is_file());
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let name = path.file_name()?.to_str()?.to_owned();
    let what = match dice.below(11) {
        0 => {
            fs::remove_file(&path).ok()?;
            "gone"
        }
        1 => {
            let length = fs::metadata(&path).ok()?.len();
            let length = (number(dice, length) % (length + 2)).min(length * 2);
            OpenOptions::new().write(true).open(&path).ok()?.set_len(length).ok()?;
            "cut"
        }
        2 => {
            OpenOptions::new().write(true).open(&path).ok()?.set_len(100 << 20).ok()?;
            "a long hole behind it"
        }
        3 => {
            fs::remove_file(&path).ok()?;
            fs::create_dir(&path).ok()?;
            "a directory"
        }
        4 => {
            fs::remove_file(&path).ok()?;
            let path = std::ffi::CString::new(path.to_str()?).ok()?;
            // SAFETY: a path that ends in a zero byte.
            unsafe { libc::mkfifo(path.as_ptr(), 0o644) };
            "a pipe"
        }
        5 | 6 => {
            fs::remove_file(&path).ok()?;
            let target = dice
                .pick(&["/dev/zero", "/dev/urandom", ".", &name, "/etc/passwd", "nothing"])
                .to_string();
            std::os::unix::fs::symlink(target, &path).ok()?;
            "a symbolic link"
        }
        7 => {
            let other = dice.pick(&all).clone();
            fs::copy(other, &path).ok()?;
            "another's content"
        }
        8 => {
            let new = dice
                .pick(&[
                    "99999999.segment",
                    "4294967295.segment",
                    "18446744073709551616.segment",
                    "00000000.segment",
                    "1.segment",
                    "idb-1.capstan",
                    "x.lock",
                    "99999999.gone",
                    "00000001.segment.part",
                ])
                .to_string();
            fs::copy(&path, path.with_file_name(new)).ok()?;
            "by another name too"
        }
        9 => {
            fs::write(&path, []).ok()?;
            "empty"
        }
        _ => {
            let mut bytes = contents(&path)?;
            change_bytes(&mut bytes, dice);
            fs::write(&path, bytes).ok()?;
            "other bytes"
        }
    };
    Some(format!("{name}: {what}"))
}

pub fn tape_label(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if !site.container.is_tape() {
        return None;
    }
    // Those of tapes: the library's own file is not a medium's.
    let tapes: Vec<_> = site.dirs.iter().map(|d| d.join("tapes")).collect();
    let all = listed(&tapes, ".json");
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let mut json: Value = serde_json::from_slice(&contents(&path)?).ok()?;
    let what = change_json(&mut json, dice, &[]);
    fs::write(&path, json.to_string()).ok()?;
    Some(format!("{} {what}", path.file_name()?.display()))
}

/// Changes what a library keeps of itself: what it is, and where its tapes are.
pub fn library(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if !site.container.is_tape() {
        return None;
    }
    let dir = dice.pick(&site.dirs).clone();
    let name = *dice.pick(&["inventory.json", "library.toml"]);
    let path = dir.join(name);
    let text_of = fs::read_to_string(&path).ok()?;
    // How slow it is stays as it is: who sets that is waited for as long as he says.
    let (scale, old): (Vec<_>, Vec<_>) = text_of.lines().partition(|l| l.starts_with("scale"));
    let old = old.join("\n");
    let mut bytes = old.clone().into_bytes();
    let what = match dice.below(3) {
        0 => change_bytes(&mut bytes, dice),
        _ if name == "inventory.json" => {
            let mut json: Value = serde_json::from_str(&old).ok()?;
            let what = change_json(&mut json, dice, &[]);
            bytes = json.to_string().into_bytes();
            what
        }
        _ => {
            let (mut toml, mut what) = (String::new(), None);
            let chosen = dice.below(old.lines().count());
            for (n, line) in old.lines().enumerate() {
                match line.split_once('=') {
                    Some((key, _)) if n == chosen => {
                        let value = match dice.below(3) {
                            0 => format!("{:?}", text(dice)),
                            1 => (number(dice, 3) as i64).to_string(),
                            _ => number(dice, 3).to_string(),
                        };
                        toml += &format!("{key}= {value}\n");
                        what = Some(key.trim().to_owned());
                    }
                    _ => toml += &format!("{line}\n"),
                }
            }
            bytes = toml.into_bytes();
            what?
        }
    };
    if let Some(scale) = scale.first() {
        bytes.extend(format!("\n{scale}\n").bytes());
    }
    fs::write(&path, bytes).ok()?;
    Some(format!("{name}: {what}"))
}
