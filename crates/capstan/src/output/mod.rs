//! Writing to standard output and reading secrets from the terminal.

pub mod progress;
pub mod report_text;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capstan_engine::message::path_text;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use serde::Serialize;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::exit::Failure;

/// Longest secret that is read from the terminal, in bytes.
const SECRET_MAX: usize = 4096;

/// Standard output with a buffer, whose errors are failures.
pub struct Output(BufWriter<Box<dyn Write>>);

impl Output {
    /// Locks standard output.
    pub fn new() -> Self {
        Self::to(io::stdout().lock())
    }

    /// The same, to somewhere else.
    fn to(place: impl Write + 'static) -> Self {
        Self(BufWriter::with_capacity(64 << 10, Box::new(place)))
    }

    /// Writes text.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.0.write_all(bytes).map_err(|e| Failure::output(&e))
    }

    /// Writes a value as JSON on one line.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        self.text(&json_line(value))
    }

    /// Writes what is buffered; more follows.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.0.flush().map_err(|e| Failure::output(&e))
    }

    /// Writes what is buffered.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.0.flush().map_err(|e| Failure::output(&e))
    }
}

/// A list as one JSON object, `{"files":[…]}`, written as it comes: a row is a line. It is an object also where the list is empty.
pub struct JsonList {
    name: &'static str,
    is_empty: bool,
}

impl JsonList {
    /// One whose rows are to be found under that name.
    pub fn new(name: &'static str) -> Self {
        Self { name, is_empty: true }
    }

    /// Writes one that is there as a whole.
    pub fn all<T>(
        out: &mut Output,
        name: &'static str,
        rows: &[T],
        json_of: impl Fn(&T) -> Value,
    ) -> Result<(), Failure> {
        let mut list = Self::new(name);
        rows.iter().try_for_each(|row| list.row(out, &json_of(row)))?;
        list.end(out, &Map::new())
    }

    /// Writes a row.
    pub fn row(&mut self, out: &mut Output, row: &impl Serialize) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_empty) {
            true => out.text(&format!("{{\"{}\":[\n", self.name))?,
            false => out.text(",\n")?,
        }
        out.text(json_line(row).trim_end())
    }

    /// Ends the list, and the object with these further values.
    pub fn end(self, out: &mut Output, more: &Map<String, Value>) -> Result<(), Failure> {
        match self.is_empty {
            true => out.text(&format!("{{\"{}\":[]", self.name))?,
            false => out.text("\n]")?,
        }
        for (name, value) in more {
            out.text(&format!(",\n\"{name}\":{value}"))?;
        }
        out.text("}\n")
    }
}

/// A value as one line of JSON.
pub fn json_line(value: &impl Serialize) -> String {
    // Our values have text as keys, so this does not fail; a line that says so is better than none.
    let mut line = serde_json::to_string(value)
        .unwrap_or_else(|e| Value::from(format!("cannot encode as JSON: {e}")).to_string());
    line.push('\n');
    line
}

/// Puts a path into a JSON object: `path`, and `path_bytes` (base64) where it is not UTF-8.
pub fn put_path(object: &mut Map<String, Value>, key: &str, path: &[u8]) {
    object.insert(key.to_owned(), String::from_utf8_lossy(path).into());
    if std::str::from_utf8(path).is_err() {
        object.insert(format!("{key}_bytes"), STANDARD.encode(path).into());
    }
}

/// An absolute path for people on a terminal (safe), or for programs in a pipe (byte for byte).
pub fn shown_path(path: &[u8], terminal: bool) -> Vec<u8> {
    let mut shown = Vec::with_capacity(path.len() + 1);
    shown.push(b'/');
    if terminal {
        shown.extend_from_slice(path_text(path).as_bytes());
    } else {
        shown.extend_from_slice(path);
    }
    shown
}

/// Whether people read standard output.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Asks for a secret on the terminal of the process, without showing it. `None` if there is no terminal.
pub fn ask_secret(question: &str) -> io::Result<Option<Zeroizing<String>>> {
    let Ok(mut tty) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return Ok(None);
    };
    let Ok(before) = tcgetattr(&tty) else { return Ok(None) };
    let mut silent = before.clone();
    // Signals are typed characters here too: a process that ended now would leave a terminal without echo.
    silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    silent.special_codes[SpecialCodeIndex::VMIN] = 1;
    silent.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(&tty, OptionalActions::Flush, &silent)?;
    let restore = Restore { tty: tty.try_clone()?, before };
    tty.write_all(question.as_bytes())?;
    let answer = read_secret(&mut tty);
    let _ = tty.write_all(b"\n");
    drop(restore);
    answer.map(Some)
}

/// Gives the terminal its modes back.
struct Restore {
    tty: File,
    before: Termios,
}

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
    }
}

/// Reads typed characters up to the line's end.
fn read_secret(from: &mut dyn Read) -> io::Result<Zeroizing<String>> {
    let cancelled = || io::Error::new(io::ErrorKind::Interrupted, "cancelled");
    let mut typed = Zeroizing::new(Vec::with_capacity(SECRET_MAX));
    loop {
        let mut byte = Zeroizing::new([0u8]);
        let n = match from.read(byte.as_mut_slice()) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            n => n?,
        };
        match byte[0] {
            _ if n == 0 => return Err(cancelled()),
            b'\r' | b'\n' => break,
            // Ctrl-C, Ctrl-\, and Ctrl-D at the begin.
            3 | 28 => return Err(cancelled()),
            4 if typed.is_empty() => return Err(cancelled()),
            4 => break,
            // Backspace takes a character, which may be several bytes; Ctrl-U takes all.
            8 | 127 => while typed.pop().is_some_and(|b| b & 0xc0 == 0x80) {},
            21 => typed.clear(),
            other if typed.len() < SECRET_MAX => typed.push(other),
            _ => return Err(io::Error::other("it is longer than 4096 bytes; use a key file")),
        }
    }
    let text = std::str::from_utf8(&typed).map_err(|_| io::Error::other("it is not UTF-8"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_can_be_corrected_and_cancelled() {
        let read = |typed: &[u8]| read_secret(&mut &*typed).map(|s| s.to_string());
        assert_eq!(read(b"secret\nrest").unwrap(), "secret");
        assert_eq!(read(b"wrong\x15ri\xc3\xa9\x7fght\r").unwrap(), "right");
        assert_eq!(read(b"\x7f\x7fa\n").unwrap(), "a");
        assert!(read(b"abc\x03\n").is_err());
        assert!(read(b"no end").is_err());
        assert!(read(b"\xff\n").is_err());
        assert!(read(&[b'a'; 5000]).is_err());
    }

    #[test]
    fn a_list_is_one_object_however_many_rows_it_has() {
        let written = |rows: u64, more: Value| {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut out = Output::to(file.reopen().unwrap());
            let mut list = JsonList::new("files");
            (0..rows).for_each(|n| list.row(&mut out, &serde_json::json!({ "n": n })).unwrap());
            list.end(&mut out, more.as_object().unwrap()).unwrap();
            out.finish().unwrap();
            std::fs::read_to_string(file.path()).unwrap()
        };
        let none = serde_json::json!({});
        assert_eq!(written(0, none.clone()), "{\"files\":[]}\n");
        assert_eq!(written(2, none), "{\"files\":[\n{\"n\":0},\n{\"n\":1}\n]}\n");
        let total: Value =
            serde_json::from_str(&written(1, serde_json::json!({"total": {"n": 1}}))).unwrap();
        assert_eq!(total, serde_json::json!({"files": [{"n": 0}], "total": {"n": 1}}));
    }

    #[test]
    fn paths_that_are_not_text_keep_their_bytes() {
        let mut object = Map::new();
        put_path(&mut object, "path", b"/a");
        assert_eq!(Value::from(object).to_string(), r#"{"path":"/a"}"#);
        let mut object = Map::new();
        put_path(&mut object, "path", b"/\xff");
        assert_eq!(object["path_bytes"], "L/8=");
        assert_eq!(shown_path(b"a\xff", false), b"/a\xff");
        assert_eq!(shown_path(b"a\xff", true), b"/a\\xff");
    }
}
