//! The recovery code: 32 random bytes on paper, to be typed back by a tired person.

use zeroize::{Zeroize, Zeroizing};

use super::{Key32, KeyError, Rng, prim};

/// Crockford's alphabet: no I, L, O, U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LINE_SUM: &[u8] = b"capstan recovery line v1";
/// Lines of a code, and characters and bytes of a line (8 of the code, 2 of checksum).
const LINES: usize = 4;
const CHARS: usize = 16;
const LINE_BYTES: usize = 8;
/// More than anybody types: longer texts are not looked at.
const MAX_TEXT: usize = 4096;

/// A recovery code: it opens the lock that was made by it.
pub struct RecoveryCode(Key32);

impl RecoveryCode {
    /// Draws a new code.
    pub fn draw(rng: &mut Rng) -> Self {
        Self(prim::draw32(rng))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// The code as four numbered lines of four groups; each line has its own checksum.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(128));
        for (i, part) in self.0.chunks_exact(LINE_BYTES).enumerate() {
            let sum: [u8; 2] = prim::sha256(&[LINE_SUM, &[i as u8 + 1], part]);
            let bits = part.iter().chain(&sum).fold(0u128, |a, b| a << 8 | u128::from(*b));
            text.push(char::from(b'1' + i as u8));
            text.push(':');
            for at in 0..CHARS {
                match at {
                    0 => text.push(' '),
                    _ if at % 4 == 0 => text.push('-'),
                    _ => {}
                }
                let index = (bits >> (5 * (CHARS - 1 - at))) & 31;
                text.push(char::from(ALPHABET[index as usize]));
            }
            text.push('\n');
        }
        text
    }

    /// Reads a typed code: case, spaces, dashes and line numbers do not matter, O is 0, I and L are 1, U is V.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if text.len() > MAX_TEXT {
            return Err(KeyError::RecoveryLength { found: text.len() });
        }
        let lines: Vec<&str> = text.lines().map(bare).filter(|l| !l.trim().is_empty()).collect();
        let mut code = Key32::default();
        let mut values = Zeroizing::new(Vec::with_capacity(MAX_TEXT));
        if lines.len() == LINES {
            for (i, line) in lines.iter().enumerate() {
                values.zeroize();
                read(line, i + 1, &mut values)?;
                if values.len() != CHARS {
                    let reason = format!("it has {} characters and not {CHARS}", values.len());
                    return Err(KeyError::RecoveryLine { line: i + 1, reason });
                }
                decode(i, &values, &mut code)?;
            }
            return Ok(Self(code));
        }
        // Typed in another layout: only the count tells where lines are.
        for line in lines {
            for word in line.split_whitespace().map(bare) {
                let at = values.len() / CHARS + 1;
                read(word, at, &mut values)?;
            }
        }
        if values.len() != LINES * CHARS {
            return Err(KeyError::RecoveryLength { found: values.len() });
        }
        for (i, line) in values.chunks_exact(CHARS).enumerate() {
            decode(i, line, &mut code)?;
        }
        Ok(Self(code))
    }
}

impl std::fmt::Debug for RecoveryCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecoveryCode(..)")
    }
}

/// The text without a line number before it.
fn bare(text: &str) -> &str {
    match text.trim().split_once([':', '.', ')']) {
        Some((number, rest)) if matches!(number.trim(), "1" | "2" | "3" | "4") => rest,
        _ => text,
    }
}

/// Appends the values of the characters.
fn read(text: &str, line: usize, values: &mut Vec<u8>) -> Result<(), KeyError> {
    for c in text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '-' | '_' | '–' | '—'))
    {
        let plain = match c.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            'U' => 'V',
            other => other,
        };
        let value = ALPHABET.iter().position(|a| char::from(*a) == plain).ok_or_else(|| {
            let reason = format!("the character {c:?} is in no code");
            KeyError::RecoveryLine { line: line.min(LINES), reason }
        })?;
        values.push(value as u8);
    }
    Ok(())
}

/// Puts one line's bytes into the code, if its checksum holds.
fn decode(index: usize, values: &[u8], code: &mut Key32) -> Result<(), KeyError> {
    let bits = values.iter().fold(0u128, |a, v| a << 5 | u128::from(*v));
    let bytes = Zeroizing::new(bits.to_be_bytes());
    let (part, sum) = bytes[16 - LINE_BYTES - 2..].split_at(LINE_BYTES);
    let fits = |line: usize| prim::sha256::<2>(&[LINE_SUM, &[line as u8], part]) == *sum;
    let line = index + 1;
    if !fits(line) {
        let reason = match (1..=LINES).find(|l| *l != line && fits(*l)) {
            Some(other) => format!("it is line {other} of the sheet"),
            None => "its checksum does not hold".to_owned(),
        };
        return Err(KeyError::RecoveryLine { line, reason });
    }
    if let Some(to) = code.chunks_exact_mut(LINE_BYTES).nth(index) {
        to.copy_from_slice(part);
    }
    Ok(())
}
