//! What new media are called: a rule, as `{barcode}` or `{pool}-{n:04}`.

use std::fmt;
use std::str::FromStr;

use crate::error::{CellError, PoolRefusal};
use crate::supply::labels::no_label;

/// The most digits that a number is filled up to.
const DIGITS_MAX: usize = 9;

/// A part of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// What is on the tape's sticker.
    Barcode,
    /// The pool's name.
    Pool,
    /// The first number that makes a label which no medium has, with so many digits at least.
    Number(usize),
}

/// How labels are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRule {
    text: String,
    parts: Vec<Part>,
}

impl FromStr for LabelRule {
    type Err = CellError;

    fn from_str(text: &str) -> Result<Self, CellError> {
        let bad = |why: &str| {
            CellError::from(PoolRefusal::BadLabelRule {
                text: text.to_owned(),
                why: why.to_owned(),
            })
        };
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let inside = from.strip_prefix('{').and_then(|from| from.split_once('}'));
            let (name, behind) = inside.ok_or_else(|| bad("its braces are no pairs"))?;
            parts.push(match name.split_once(':') {
                None if name == "barcode" => Part::Barcode,
                None if name == "pool" => Part::Pool,
                None if name == "n" => Part::Number(1),
                Some(("n", digits)) => {
                    let digits = digits.strip_prefix('0').and_then(|digits| digits.parse().ok());
                    let digits = digits.filter(|n| (1..=DIGITS_MAX).contains(n));
                    Part::Number(digits.ok_or_else(|| bad("digits are written as {n:04}"))?)
                }
                _ => return Err(bad(&format!("{{{name}}} is none of its words"))),
            });
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

impl fmt::Display for LabelRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl LabelRule {
    /// Just this label, whatever is in it.
    pub(crate) fn plain(label: String) -> Self {
        Self { parts: vec![Part::Text(label.clone())], text: label }
    }

    /// Whether it gives several media labels of their own.
    pub fn tells_apart(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Barcode | Part::Number(_)))
    }

    /// The label of a medium with that barcode, in that pool.
    pub(crate) fn label(
        &self,
        barcode: Option<&str>,
        pool: Option<&str>,
        is_free: &dyn Fn(&str) -> bool,
    ) -> Result<String, CellError> {
        let lacks = |what: &str| no_label(&self.text, what);
        let with = |n: u32| {
            let part = |part: &Part| {
                Ok(match part {
                    Part::Text(text) => text.clone(),
                    Part::Barcode => barcode
                        .filter(|barcode| !barcode.is_empty())
                        .ok_or_else(|| lacks("the medium has no barcode"))?
                        .to_owned(),
                    Part::Pool => pool.ok_or_else(|| lacks("the medium is in no pool"))?.to_owned(),
                    Part::Number(digits) => format!("{n:0digits$}", digits = *digits),
                })
            };
            self.parts.iter().map(part).collect::<Result<String, CellError>>()
        };
        let first = with(1)?;
        if !self.parts.iter().any(|part| matches!(part, Part::Number(_))) {
            return Ok(first);
        }
        for n in 1..u32::MAX {
            let label = with(n)?;
            if is_free(&label) {
                return Ok(label);
            }
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn label(rule: &str, barcode: Option<&str>, pool: Option<&str>) -> Result<String, String> {
        let rule: LabelRule = rule.parse().map_err(|e: CellError| e.to_string())?;
        let taken = ["daily-1", "daily-2", "A1-0001"];
        rule.label(barcode, pool, &|label| !taken.contains(&label)).map_err(|e| e.to_string())
    }

    #[test]
    fn labels_are_made_by_rule() {
        let of = |rule| label(rule, Some("A1"), Some("daily")).unwrap();
        assert_eq!(of("{barcode}"), "A1");
        assert_eq!(of("{pool}-{n}"), "daily-3");
        assert_eq!(of("{barcode}-{n:04}"), "A1-0002");
        assert_eq!(of("tape {n:03} of {pool}"), "tape 001 of daily");
        assert_eq!(of("monday"), "monday");
        assert!(label("{barcode}", None, None).unwrap_err().contains("no barcode"));
        assert!(label("{barcode}", Some(""), None).unwrap_err().contains("no barcode"));
        assert!(label("{pool}-{n}", Some("A1"), None).unwrap_err().contains("in no pool"));
        for bad in
            ["{", "}", "a{b", "{slot}", "{n:}", "{n:4}", "{n:00}", "{n:010}", "{barcode", "{{n}}"]
        {
            assert!(bad.parse::<LabelRule>().is_err(), "{bad}");
        }
        let apart = |rule: &str| rule.parse::<LabelRule>().unwrap().tells_apart();
        assert!(apart("{barcode}") && apart("x{n}") && !apart("{pool}") && !apart("x"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_rule_or_refused(text in ".{0,30}", barcode in ".{0,12}") {
            if let Ok(rule) = text.parse::<LabelRule>() {
                let _ = rule.label(Some(&barcode), Some("p"), &|_| true);
                prop_assert_eq!(rule.to_string(), text);
            }
        }
    }
}
