//! Values that nobody means well with.

use serde_json::{Value, json};

use crate::dice::Dice;

/// The name of what must not be made outside a target.
pub const ESCAPED: &str = "escaped";

pub fn number(dice: &mut Dice, old: u64) -> u64 {
    match dice.below(14) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => u64::MAX - 1,
        4 => i64::MAX as u64,
        5 => i64::MAX as u64 + 1,
        6 => u64::from(u32::MAX),
        7 => u64::from(u32::MAX) + 1,
        8 => old.wrapping_add(1),
        9 => old.wrapping_sub(1),
        10 => old.wrapping_mul(2),
        11 => 1 << dice.below(64),
        12 => old.wrapping_neg(),
        _ => dice.next(),
    }
}

/// For names and labels in records: UTF-8.
pub fn text(dice: &mut Dice) -> String {
    match dice.below(20) {
        0 => String::new(),
        1 => "\0".into(),
        2 => "a\0b".into(),
        3 => format!("../../{ESCAPED}"),
        4 => format!("../{ESCAPED}/x"),
        5 => "..".into(),
        6 => ".".into(),
        7 => "x".repeat(70_000),
        8 => "ä\u{202e}".repeat(23_000),
        9 => "\u{202e}gpj.exe\u{2066}\u{2069}\u{2028}\u{2029}\u{200b}".into(),
        10 => "\u{1b}[2J\u{1b}]0;owned\u{7}\r\n".into(),
        11 => "a/b//c/".into(),
        12 => "'; DROP TABLE segments; --".into(),
        13 => "%s%n%99999999d{}{:?}".into(),
        14 => "@".into(),
        15 => "a@b,c@d".into(),
        16 => "🜀".repeat(20_000),
        17 => "\u{feff}\u{fffd}\u{10ffff}".into(),
        18 => format!("/{ESCAPED}"),
        _ => "-rf".into(),
    }
}

/// For names of files: any bytes.
pub fn name(dice: &mut Dice) -> Vec<u8> {
    match dice.below(12) {
        0 => vec![0xff; 70_000],
        1 => vec![b'a'; 256],
        2 => b"\xff\xfe\x00\x80".to_vec(),
        3 => vec![b'/'; 5_000],
        4 => "a/".repeat(5_000).into_bytes(),
        5 => "../".repeat(40).into_bytes().into_iter().chain(*b"escaped").collect(),
        6 => (0..=255).collect(),
        _ => text(dice).into_bytes(),
    }
}

/// Changes some bytes, as varints and as words.
pub fn change_bytes(bytes: &mut Vec<u8>, dice: &mut Dice) -> String {
    // Heads are small and matter most.
    let within = if dice.once_in(2) { bytes.len().min(64) } else { bytes.len() };
    let at = dice.below(within);
    match dice.below(6) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
        1 => bytes.truncate(at),
        2 if !bytes.is_empty() => {
            let mut varint = Vec::new();
            capstan_format::bytes::put_varint(&mut varint, number(dice, bytes[at].into()));
            bytes.splice(at..at + 1, varint);
        }
        3 => {
            let more = bytes[at..].to_vec();
            bytes.extend(more);
        }
        4 => {
            let len = dice.below(300);
            let some: Vec<u8> = (0..len).map(|_| dice.next() as u8).collect();
            bytes.splice(at..at, some);
        }
        _ => {
            let word = number(dice, 0).to_le_bytes();
            let end = (at + 8).min(bytes.len());
            bytes.splice(at..end, word);
        }
    }
    format!("at byte {at}")
}

/// Changes one value somewhere in a record; says which. `ids` are such as occur on the medium.
pub fn change_json(value: &mut Value, dice: &mut Dice, ids: &[String]) -> String {
    let mut places = Vec::new();
    collect(value, &mut Vec::new(), &mut places);
    let path = dice.pick(&places).clone();
    let node = path.iter().fold(value, |v, step| match step {
        Step::Key(key) => v.get_mut(key.as_str()).unwrap(),
        Step::At(at) => v.get_mut(*at).unwrap(),
    });
    change_node(node, dice, ids);
    path.iter()
        .map(|s| match s {
            Step::Key(key) => format!(".{key}"),
            Step::At(at) => format!("[{at}]"),
        })
        .collect()
}

#[derive(Clone)]
enum Step {
    Key(String),
    At(usize),
}

fn collect(value: &Value, at: &mut Vec<Step>, places: &mut Vec<Vec<Step>>) {
    places.push(at.clone());
    let mut below = |step, inner: &Value| {
        at.push(step);
        collect(inner, at, places);
        at.pop();
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| below(Step::Key(k.clone()), v)),
        Value::Array(list) => list.iter().enumerate().for_each(|(n, v)| below(Step::At(n), v)),
        _ => {}
    }
}

fn change_node(node: &mut Value, dice: &mut Dice, ids: &[String]) {
    if dice.once_in(12) {
        let others =
            [json!(null), json!(true), json!({}), json!([]), json!(1.5), json!(-1), json!("x")];
        *node = dice.pick(&others).clone();
        return;
    }
    match node {
        Value::Number(n) => {
            let old = n.as_u64().or(n.as_i64().map(|n| n as u64)).unwrap_or(0);
            let new = number(dice, old);
            *node = if dice.once_in(3) { json!(new as i64) } else { json!(new) };
        }
        Value::String(s) if is_id(s) => {
            *node = match dice.below(6) {
                0 => json!("0".repeat(32)),
                1 => json!("f".repeat(32)),
                2 => json!("0123"),
                _ if !ids.is_empty() => json!(dice.pick(ids)),
                _ => json!("1".repeat(32)),
            };
        }
        Value::String(_) => *node = json!(text(dice)),
        Value::Null | Value::Bool(_) => {
            *node = match (dice.below(3), ids.is_empty()) {
                (0, false) => json!(dice.pick(ids)),
                (1, _) => json!(number(dice, 7)),
                _ => json!(text(dice)),
            };
        }
        Value::Array(list) => match dice.below(5) {
            0 => list.clear(),
            1 => list.reverse(),
            2 => {
                let more = list.clone();
                list.extend(more);
            }
            3 if !list.is_empty() => {
                let one = dice.pick(list).clone();
                let room = 900_000 / (one.to_string().len() + 1);
                list.extend(std::iter::repeat_n(one, room.min(20_000)));
            }
            _ => {
                let at = dice.below(list.len());
                if at < list.len() {
                    list.remove(at);
                }
            }
        },
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let Some(key) = keys.get(dice.below(keys.len())) else { return };
            if dice.once_in(2) {
                map.remove(key);
            } else if let Some(value) = keys.get(dice.below(keys.len())).map(|k| map[k].clone()) {
                map.insert(key.clone(), value);
            }
        }
    }
}

pub fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The ids in a record.
pub fn ids_of(value: &Value, ids: &mut Vec<String>) {
    match value {
        Value::String(s) if is_id(s) && !ids.contains(s) => ids.push(s.clone()),
        Value::Array(list) => list.iter().for_each(|v| ids_of(v, ids)),
        Value::Object(map) => map.values().for_each(|v| ids_of(v, ids)),
        _ => {}
    }
}
