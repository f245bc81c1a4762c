//! How long something is kept, in words and in JSON.

use capstan_engine::clock::now_us;
use capstan_idb::{Keeping, Protection};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::text::local_time;

/// How a version is kept, in a few words, for lists; nothing where keep rules decide.
pub fn kept_text(kept: &Keeping) -> String {
    match kept.lock_at(now_us()) {
        Some(until) => format!("locked until {}", minute(until)),
        None if kept.expired_us.is_some() => "expired".to_owned(),
        None if kept.protection == Protection::Rules => String::new(),
        None => protection_text(kept.protection),
    }
}

/// Puts into a JSON object how a version is kept.
pub fn put_kept(object: &mut Map<String, Value>, kept: &Keeping) {
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    put("protection", protection_json(kept.protection));
    put("catalog_protection", protection_json(kept.catalog));
    put("locked_until", kept.locked_until_us.map(rfc3339).into());
    put("expired", kept.expired_us.map(rfc3339).into());
}

/// A protection in JSON: `none`, `rules`, `permanent`, or until when.
pub fn protection_json(protection: Protection) -> Value {
    match protection {
        Protection::Rules => "rules".into(),
        Protection::None => "none".into(),
        Protection::Permanent => "permanent".into(),
        Protection::UntilUs(until) => rfc3339(until).into(),
    }
}

/// A protection in words.
pub fn protection_text(protection: Protection) -> String {
    match protection {
        Protection::Rules => "kept as keep rules say".to_owned(),
        Protection::None => "not protected".to_owned(),
        Protection::Permanent => "protected for ever".to_owned(),
        Protection::UntilUs(until) if until <= now_us() => {
            format!("protection ended {}", minute(until))
        }
        Protection::UntilUs(until) => format!("protected until {}", minute(until)),
    }
}

/// A time in microseconds since 1970 as programs read it.
pub fn rfc3339(us: i64) -> String {
    Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |t| t.to_string())
}

/// A time in microseconds since 1970 as people read it, by the minute.
pub fn minute(us: i64) -> String {
    let text = local_time(us);
    text.get(..16).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_say_the_strongest() {
        let later = now_us() + 1_000_000_000;
        let kept = Keeping { protection: Protection::Permanent, ..Keeping::default() };
        assert_eq!(kept_text(&Keeping::default()), "");
        assert_eq!(kept_text(&kept), "protected for ever");
        let locked = Keeping { locked_until_us: Some(later), ..kept };
        assert!(kept_text(&locked).starts_with("locked until 2"));
        assert_eq!(kept_text(&Keeping { locked_until_us: Some(5), ..kept }), "protected for ever");
        let ended = Keeping { protection: Protection::UntilUs(5), ..kept };
        assert!(kept_text(&ended).starts_with("protection ended 19"));
        let mut object = Map::new();
        put_kept(&mut object, &ended);
        assert_eq!(object["protection"], "1970-01-01T00:00:00.000005Z");
        assert_eq!(object["locked_until"], Value::Null);
    }
}
