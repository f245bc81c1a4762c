//! The command line of the benchmarks, read by hand: a few options do not need a parser.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::error::BenchError;

/// The one directory that is used and removed below those that are given: what else is there is not ours.
const OURS: &str = "capstan-bench";
/// The report of this source tree.
const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/RESULTS.md");

/// What `bench help` prints.
pub const HELP: &str = "\
bench [OPTIONS] all|NAME...   run benchmarks; `all` starts bench/RESULTS.md afresh, names replace their rows in it
bench list                    list the benchmarks
bench clean [OPTIONS]         remove the data that an interrupted run left
bench raw-read DIR | raw-write SOURCE DIR | cold-read DIR | make-files DIR | touch-memory SIZE |
      hold-memory DIR
      [--threads 2] [--buffer 256K] [--files N]
                              the bare loops that Capstan is compared with

Options:
  --dir DIR        a tmpfs, for media and restored files; DIR/capstan-bench is used and removed [/dev/shm]
  --disk DIR       a disk, for the data and for media; DIR/capstan-bench is used and removed [/var/tmp]
  --capstan FILE   the binary to measure [that beside this program]
  --results FILE   the report to write [bench/RESULTS.md; none with --quick]
  --runs N         runs that count, after one that does not [5]
  --quick          3 runs and a tenth of the data: shows that everything runs, not how fast
  --keep           keep the data for the next run";

/// The arguments that are left.
#[derive(Debug)]
pub struct Arguments(VecDeque<String>);

impl Arguments {
    /// All of a command line but the program.
    pub fn new(arguments: impl IntoIterator<Item = String>) -> Self {
        Self(arguments.into_iter().collect())
    }

    /// Takes a flag.
    pub fn flag(&mut self, name: &str) -> bool {
        let found = self.0.iter().position(|a| a == name);
        found.is_some_and(|at| self.0.remove(at).is_some())
    }

    /// Takes an option's value.
    pub fn value(&mut self, name: &str) -> Result<Option<String>, BenchError> {
        let Some(at) = self.0.iter().position(|a| a == name) else { return Ok(None) };
        self.0.remove(at);
        let value = self.0.remove(at).filter(|v| !v.starts_with("--"));
        value.map(Some).ok_or_else(|| BenchError::Usage(format!("{name} needs a value")))
    }

    /// Takes an option's value that is a number, with K, M, G for powers of 1024.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>, BenchError> {
        self.value(name)?.map(|text| parse_size(&text)).transpose()
    }

    /// Takes the next argument.
    pub fn positional(&mut self) -> Result<String, BenchError> {
        self.0.pop_front().ok_or_else(|| BenchError::Usage("an argument is missing".into()))
    }

    /// Takes all that is left.
    pub fn rest(&mut self) -> Vec<String> {
        self.0.drain(..).collect()
    }

    /// Makes sure that nothing is left.
    pub fn end(&self) -> Result<(), BenchError> {
        match self.0.front() {
            None => Ok(()),
            Some(extra) => Err(BenchError::Usage(format!("'{extra}' is not understood"))),
        }
    }
}

/// Reads `4096`, `256K`, `64M`, `2G`.
pub fn parse_size(text: &str) -> Result<u64, BenchError> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    number.ok_or_else(|| BenchError::Usage(format!("'{text}' is not a number; write 4096 or 256K")))
}

/// What to run and where.
#[derive(Debug)]
pub struct Options {
    /// Where memory-held data are.
    pub dir: PathBuf,
    /// Where data on a disk are.
    pub disk: PathBuf,
    /// The binary to measure.
    pub capstan: Option<PathBuf>,
    /// The report.
    pub results: Option<PathBuf>,
    /// Runs that count.
    pub runs: usize,
    /// A tenth of the data.
    pub quick: bool,
    /// Keep the data.
    pub keep: bool,
    /// Benchmarks to run, or `all`, `list`, `clean`.
    pub names: Vec<String>,
}

impl Options {
    /// Reads a command line.
    pub fn read(mut arguments: Arguments) -> Result<Self, BenchError> {
        let path = |value: Option<String>| value.map(PathBuf::from);
        let quick = arguments.flag("--quick");
        let keep = arguments.flag("--keep");
        let dir = path(arguments.value("--dir")?);
        let disk = path(arguments.value("--disk")?);
        let capstan = path(arguments.value("--capstan")?);
        let results = path(arguments.value("--results")?);
        let runs = arguments.number("--runs")?.unwrap_or(if quick { 3 } else { 5 });
        let names = arguments.rest();
        if let Some(bad) = names.iter().find(|n| n.starts_with('-')) {
            return Err(BenchError::Usage(format!("there is no option {bad}")));
        }
        Ok(Self {
            dir: dir.unwrap_or_else(|| "/dev/shm".into()).join(OURS),
            disk: disk.unwrap_or_else(|| "/var/tmp".into()).join(OURS),
            capstan,
            results: results.or_else(|| (!quick).then(|| RESULTS.into())),
            runs: runs.clamp(1, 1000) as usize,
            quick,
            keep,
            names,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, BenchError> {
        Options::read(Arguments::new(line.split_whitespace().map(str::to_owned)))
    }

    #[test]
    fn options_may_stand_anywhere() {
        let o = read("null-small --dir /tmp/x sweep --quick --runs 7").unwrap();
        assert_eq!(o.names, ["null-small", "sweep"]);
        assert_eq!(
            (o.dir.to_str(), o.runs, o.quick, o.results),
            (Some("/tmp/x/capstan-bench"), 7, true, None)
        );
        assert!(read("all").unwrap().results.is_some());
        for bad in ["--dir", "--dir --quick", "--fast all", "--runs x all"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(parse_size("256K").unwrap(), 262_144);
        assert_eq!(parse_size("2G").unwrap(), 2 << 30);
        for bad in ["", "K", "-1", "1T", "99999999999G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
