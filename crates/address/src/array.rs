//! Names of arrays: `rait5:DEVICE,DEVICE,DEVICE`, `rait:4+2:DEVICE,…`.
//!
//! Members are devices. One whose name has a comma, and an array as a member, stands in parentheses:
//! `rait1:(rait0:/a,/b),(rait0:/c,/d)`.

use std::fmt;

use capstan_format::array::{DEPTH_MAX, Layout};

use crate::store::Writer;
use crate::{Address, AddressError, TapeAddress};

/// An array of devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArrayAddress {
    /// How blocks lie on it.
    pub layout: Layout,
    /// Its members.
    pub members: Vec<Address>,
}

impl ArrayAddress {
    /// Reads a name that begins as that of an array does; `None` if it does not.
    pub(crate) fn read(text: &str, writer: Writer) -> Option<Result<Self, AddressError>> {
        let rest = text.strip_prefix("rait")?;
        let colon = match rest.strip_prefix(':') {
            Some(shape) => 1 + shape.find(':').unwrap_or(shape.len()),
            None => rest.find(':').filter(|at| rest[..*at].bytes().all(|b| b.is_ascii_digit()))?,
        };
        let (name, members) = text.split_at((4 + colon).min(text.len()));
        let bad = |problem| AddressError::BadArray { text: text.to_owned(), problem };
        let members = members.strip_prefix(':').unwrap_or_default();
        let read = |text: &str| Address::read(text, writer);
        Some(Self::of(name, members, &read, &bad))
    }

    fn of(
        name: &str,
        members: &str,
        read: &dyn Fn(&str) -> Result<Address, AddressError>,
        bad: &dyn Fn(&'static str) -> AddressError,
    ) -> Result<Self, AddressError> {
        let texts = split(members).ok_or_else(|| bad("its parentheses do not match"))?;
        let layout = Layout::of(name, texts.len()).ok_or_else(|| match name {
            "rait0" | "rait1" => bad("it needs two members or more"),
            "rait5" => bad("it needs three members or more"),
            _ => bad("N+K says how many members it has: N for data and K for parity, 256 at most"),
        })?;
        let members = texts.into_iter().map(read).collect::<Result<Vec<Address>, _>>()?;
        for (i, member) in members.iter().enumerate() {
            // Several tapes of one library.
            let is_any = member.keeps_nothing() || member.names_no_medium();
            if members[..i].contains(member) && !is_any {
                return Err(bad("it has a member twice"));
            }
        }
        let nothing = members.iter().filter(|m| m.keeps_nothing()).count();
        if nothing != 0 && nothing != members.len() {
            return Err(bad("some of its members keep nothing"));
        }
        let array = Self { layout, members };
        match array.depth() > DEPTH_MAX {
            true => Err(bad("it has too many arrays in one another")),
            false => Ok(array),
        }
    }

    fn depth(&self) -> usize {
        let depth = |m: &Address| m.as_array().map_or(0, ArrayAddress::depth);
        1 + self.members.iter().map(depth).max().unwrap_or(0)
    }

    /// The same with other tapes: what `choose` makes of each, in their order.
    pub fn with_tapes<E>(
        &self,
        choose: &mut dyn FnMut(&TapeAddress) -> Result<TapeAddress, E>,
    ) -> Result<Self, E> {
        let mut members = Vec::new();
        for member in &self.members {
            members.push(match member {
                Address::Tape(tape) => Address::Tape(choose(tape)?),
                Address::Array(array) => Address::Array(array.with_tapes(choose)?),
                other => other.clone(),
            });
        }
        Ok(Self { layout: self.layout, members })
    }

    /// The same as it is recorded: each member is.
    pub fn recorded(&self) -> Self {
        let members = self.members.iter().map(Address::recorded).collect();
        Self { layout: self.layout, members }
    }
}

/// The texts between commas that are in no parentheses, without those around a whole text.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut depth, mut begin) = (0_usize, 0);
    let mut parts = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    let plain = |part: &'_ str| -> Option<(usize, usize)> {
        let inside = part.strip_prefix('(')?.strip_suffix(')')?;
        // `(a)(b)` is not one text in parentheses.
        let mut depth = 0_i64;
        let whole = inside.bytes().all(|b| {
            depth += i64::from(b == b'(') - i64::from(b == b')');
            depth >= 0
        });
        whole.then_some((1, part.len() - 1))
    };
    let strip = |part| plain(part).map_or(part, |(from, to)| &part[from..to]);
    (depth == 0).then(|| parts.into_iter().map(strip).collect())
}

impl fmt::Display for ArrayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.layout)?;
        for (i, member) in self.members.iter().enumerate() {
            let (comma, text) = (if i == 0 { "" } else { "," }, member.to_string());
            match text.contains([',', '(', ')']) {
                true => write!(f, "{comma}({text})")?,
                false => write!(f, "{comma}{text}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Address, AddressError> {
        text.parse()
    }

    #[test]
    fn arrays_read_as_people_write_them() {
        for (text, shown) in [
            ("rait5:/a,/b,/c", "rait5:file:/a,file:/b,file:/c"),
            ("rait:2+1:/a,file:/b,/c", "rait:2+1:file:/a,file:/b,file:/c"),
            ("rait1:(/a,b),/c", "rait1:(file:/a,b),file:/c"),
            (
                "rait1:(rait0:/a,/b),(rait0:/c,/d)",
                "rait1:(rait0:file:/a,file:/b),(rait0:file:/c,file:/d)",
            ),
            ("rait0:null:,null:rate=5", "rait0:null:,null:rate=5"),
            ("rait1:((x),(y)),/c", "rait1:(file:(x),(y)),file:/c"),
        ] {
            let array = read(text).unwrap();
            assert_eq!(array.to_string(), shown);
            assert_eq!(read(shown).unwrap(), array, "it reads back");
        }
        assert_eq!(read("./rait5:x").unwrap(), Address::of_directory("./rait5:x"));
        assert!(matches!(read("raits"), Ok(Address::Store(_))));
    }

    #[test]
    fn arrays_that_cannot_be_are_refused() {
        // Libraries, of which whoever writes takes tapes.
        for text in
            ["rait1:vtape:/v,vtape:/v", "rait1:(rait0:vtape:/v,vtape:/v),(rait0:vtape:/v,vtape:/v)"]
        {
            let array = read(text).unwrap();
            assert!(array.names_no_medium());
            assert_eq!(array.to_string(), text);
        }
        for bad in [
            "rait1:vtape:/v?tape=A,vtape:/v?tape=A",
            "rait5:/a,/b",
            "rait1:/a",
            "rait0:",
            "rait:",
            "rait:2+1",
            "rait:2+1:/a,/b",
            "rait:+:/a,/b",
            "rait9:/a,/b",
            "rait1:/a,/a",
            "rait1:/a,null:",
            "rait1:(/a,/b",
            "rait1:/a),(/b",
            "rait1:/a,x:y",
            "rait1:/a,",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let mut deep = "rait0:/a,/b".to_owned();
        for i in 0..DEPTH_MAX - 1 {
            deep = format!("rait0:({deep}),/{i}");
            assert!(read(&deep).is_ok());
        }
        assert!(read(&format!("rait0:({deep}),/x")).is_err());
    }
}
