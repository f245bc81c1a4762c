//! Values on their way into the database and out of it: identities as 32 hexadecimal digits,
//! counts as non-negative 64-bit integers, lists as JSON. What comes out is checked, not trusted.

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::error::IdbError;
pub(crate) use crate::sql::Row;

/// What can end a piece of work in the database, before it is known what the work was.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The database failed.
    Sql(sqlx::Error),
    /// A rule of ours is broken; the error is complete.
    Rule(IdbError),
}

impl Fault {
    /// The error, once it is known what was tried on what.
    pub fn of(self, what: fmt::Arguments<'_>, place: &str) -> IdbError {
        match self {
            Self::Sql(error) => IdbError::sql(what, place, error),
            Self::Rule(error) => error,
        }
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<IdbError> for Fault {
    fn from(error: IdbError) -> Self {
        Self::Rule(error)
    }
}

pub(crate) fn bad(column: &'static str, value: impl Display) -> Fault {
    Fault::Rule(IdbError::BadRow { column, value: value.to_string().chars().take(64).collect() })
}

/// An identity or a status.
pub(crate) fn parsed<T: FromStr>(row: &Row, column: &'static str) -> Result<T, Fault> {
    let text: &str = row.try_get(column)?;
    text.parse().map_err(|_| bad(column, text))
}

/// An identity that may be absent.
pub(crate) fn parsed_opt<T: FromStr>(row: &Row, column: &'static str) -> Result<Option<T>, Fault> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(|text| text.parse().map_err(|_| bad(column, text))).transpose()
}

/// A count, size or number.
pub(crate) fn count<T: TryFrom<i64>>(row: &Row, column: &'static str) -> Result<T, Fault> {
    let value: i64 = row.try_get(column)?;
    T::try_from(value).map_err(|_| bad(column, value))
}

/// A count that may be absent.
pub(crate) fn count_opt(row: &Row, column: &'static str) -> Result<Option<u64>, Fault> {
    let value: Option<i64> = row.try_get(column)?;
    value.map(|value| u64::try_from(value).map_err(|_| bad(column, value))).transpose()
}

/// A list of texts.
pub(crate) fn texts(row: &Row, column: &'static str) -> Result<Vec<String>, Fault> {
    let json: &str = row.try_get(column)?;
    serde_json::from_str(json).map_err(|_| bad(column, json))
}

/// A list of texts; an empty one where there is none.
pub(crate) fn texts_opt(row: &Row, column: &'static str) -> Result<Vec<String>, Fault> {
    let json: Option<&str> = row.try_get(column)?;
    json.map_or(Ok(Vec::new()), |json| serde_json::from_str(json).map_err(|_| bad(column, json)))
}

/// Bytes that may be absent.
pub(crate) fn bytes_opt(row: &Row, column: &'static str) -> Result<Option<Vec<u8>>, Fault> {
    let Some(text): Option<&str> = row.try_get(column)? else { return Ok(None) };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>();
    bytes.filter(|_| rest.is_empty()).map(Some).ok_or_else(|| bad(column, text))
}

/// How a list of texts is stored.
pub(crate) fn texts_in(column: &'static str, list: &[String]) -> Result<String, Fault> {
    serde_json::to_string(list).map_err(|e| bad(column, e))
}

/// How bytes are stored.
pub(crate) fn bytes_in(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|b| [b >> 4, b & 15])
        .filter_map(|d| char::from_digit(d.into(), 16))
        .collect()
}

/// How a count is stored.
pub(crate) fn count_in(column: &'static str, value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::Rule(IdbError::TooLarge { column, value }))
}

/// So many digits of an identity have to be typed at least: fewer are met by chance.
pub const ID_DIGITS_LEAST: usize = 4;

/// The bounds of all identities that begin with what was typed: first included, last excluded.
/// `None` if no identity can begin so, or too few digits were typed. A range, since LIKE would need its wildcards escaped.
pub(crate) fn prefix_range(typed: &str) -> Option<(String, String)> {
    let hex = (ID_DIGITS_LEAST..=32).contains(&typed.len())
        && typed.bytes().all(|b| b.is_ascii_hexdigit());
    let low = hex.then(|| typed.to_ascii_lowercase())?;
    // 'g' sorts after every hexadecimal digit.
    let high = format!("{low}g");
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_hexadecimal_or_nothing() {
        assert_eq!(prefix_range("0aF1"), Some(("0af1".into(), "0af1g".into())));
        for typed in ["", "%", "_", "a%", "0x", "é", " a", "0aF", "0aF%", "0aF1 ", &"0".repeat(33)]
        {
            assert_eq!(prefix_range(typed), None, "{typed:?}");
        }
    }

    #[test]
    fn bytes_are_stored_as_hexadecimal() {
        assert_eq!(bytes_in(&[0, 0x1f, 0xff]), "001fff");
    }

    #[test]
    fn a_count_beyond_the_column_is_refused() {
        assert!(count_in("bytes", i64::MAX.unsigned_abs()).is_ok());
        let refused = count_in("bytes", 1 << 63);
        assert!(matches!(refused, Err(Fault::Rule(IdbError::TooLarge { column: "bytes", .. }))));
    }
}
