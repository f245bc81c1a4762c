//! Tables of a specification, and the mistakes in them.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Mistake;

/// What is wrong, as it is found.
pub struct Mistakes<'t> {
    text: &'t str,
    found: Vec<Mistake>,
}

impl<'t> Mistakes<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, found: Vec::new() }
    }

    /// Something is wrong at a byte of the text.
    pub fn at(&mut self, byte: usize, text: String) {
        let before = self.text.as_bytes().iter().take(byte);
        self.found.push(Mistake { line: 1 + before.filter(|b| **b == b'\n').count(), text });
    }

    /// All, by line.
    pub fn sorted(mut self) -> Vec<Mistake> {
        self.found.sort();
        self.found.dedup();
        self.found
    }
}

/// A table whose keys are taken one by one; what is left at the end is not known.
pub struct Table<'a> {
    /// Where it begins.
    pub begin: usize,
    left: BTreeMap<&'a str, (usize, &'a Spanned<DeValue<'a>>)>,
}

impl<'a> Table<'a> {
    pub fn of(table: &'a Spanned<DeTable<'a>>) -> Self {
        Self::with(table.span().start, table.get_ref())
    }

    fn with(begin: usize, table: &'a DeTable<'a>) -> Self {
        let left = table.iter().map(|(k, v)| (k.get_ref().as_ref(), (k.span().start, v))).collect();
        Self { begin, left }
    }

    /// Whether a key is left.
    pub fn has(&self, key: &str) -> bool {
        self.left.contains_key(key)
    }

    /// Whether no key is left.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Where a key that is left is.
    pub fn begin_of(&self, key: &str) -> Option<usize> {
        self.left.get(key).map(|(at, _)| *at)
    }

    /// Takes a key: where it is, and its value.
    pub fn take(&mut self, key: &str) -> Option<(usize, &'a DeValue<'a>)> {
        self.left.remove(key).map(|(at, v)| (at, v.get_ref()))
    }

    /// Takes all keys that are left.
    pub fn rest(&mut self) -> Vec<(&'a str, usize, &'a DeValue<'a>)> {
        std::mem::take(&mut self.left)
            .into_iter()
            .map(|(k, (at, v))| (k, at, v.get_ref()))
            .collect()
    }

    /// A text or a number, as it is written.
    pub fn scalar(&mut self, key: &str, m: &mut Mistakes<'_>) -> Option<(usize, String)> {
        self.scalar_of(key, "a text or a number", m)
    }

    /// The same, of what is to be written as that.
    pub fn scalar_of(
        &mut self,
        key: &str,
        wanted: &str,
        m: &mut Mistakes<'_>,
    ) -> Option<(usize, String)> {
        let (at, value) = self.take(key)?;
        let text = scalar_text(value);
        if text.is_none() {
            m.at(at, format!("'{key}' is {}; write {wanted}", kind(value)));
        }
        text.map(|text| (at, text))
    }

    pub fn text(&mut self, key: &str, m: &mut Mistakes<'_>) -> Option<String> {
        let (at, value) = self.take(key)?;
        match value {
            DeValue::String(text) if !text.is_empty() => Some(text.to_string()),
            DeValue::String(_) => {
                m.at(at, format!("'{key}' is empty; write its value or leave it out"));
                None
            }
            other => {
                m.at(at, format!("'{key}' is {}; write a text in quotes", kind(other)));
                None
            }
        }
    }

    /// A text, or a list of them.
    pub fn texts(&mut self, key: &str, m: &mut Mistakes<'_>) -> Vec<String> {
        let Some((at, value)) = self.take(key) else { return Vec::new() };
        let one = std::slice::from_ref(value);
        let values: Vec<&DeValue<'_>> = match value {
            DeValue::Array(array) => array.iter().map(Spanned::get_ref).collect(),
            _ => one.iter().collect(),
        };
        let mut texts = Vec::new();
        for value in values {
            match value {
                DeValue::String(text) => texts.push(text.to_string()),
                other => m.at(at, format!("'{key}' has {}; write texts in quotes", kind(other))),
            }
        }
        texts
    }

    /// All keys with their texts.
    pub fn all_texts(&mut self, m: &mut Mistakes<'_>) -> Vec<(String, String)> {
        let keys: Vec<String> = self.left.keys().map(|k| (*k).to_owned()).collect();
        keys.into_iter().filter_map(|k| self.text(&k, m).map(|text| (k, text))).collect()
    }

    pub fn table(&mut self, key: &str, m: &mut Mistakes<'_>) -> Option<Table<'a>> {
        let (at, value) = self.take(key)?;
        match value {
            DeValue::Table(table) => Some(Table::with(at, table)),
            other => {
                m.at(at, format!("'{key}' is {}; write it as a table: [{key}]", kind(other)));
                None
            }
        }
    }

    /// A list of tables: `[[key]]`.
    pub fn tables(&mut self, key: &str, m: &mut Mistakes<'_>) -> Vec<Table<'a>> {
        let Some((at, value)) = self.take(key) else { return Vec::new() };
        let DeValue::Array(array) = value else {
            m.at(at, format!("'{key}' is {}; write it in double brackets: [[{key}]]", kind(value)));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for value in array.iter() {
            match value.get_ref() {
                DeValue::Table(table) => tables.push(Table::with(value.span().start, table)),
                other => {
                    m.at(value.span().start, format!("'{key}' has {}; write tables", kind(other)))
                }
            }
        }
        tables
    }

    /// Whatever is left is a mistake.
    pub fn end(self, what: &str, known: &[&str], m: &mut Mistakes<'_>) {
        for (key, (at, _)) in self.left {
            m.at(at, format!("'{key}' is not {what}; known are {}", known.join(", ")));
        }
    }
}

/// What is written, of a text, a number or a truth value.
pub fn scalar_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(n) if n.radix() == 10 => Some(n.as_str().to_owned()),
        DeValue::Float(n) => Some(n.as_str().to_owned()),
        _ => None,
    }
}

/// Its kind, for people.
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(true) => "`true`",
        DeValue::Boolean(false) => "`false`",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
