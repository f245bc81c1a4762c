//! Measures Capstan against the limits of the machine and its rivals: `make bench`.
//!
//! README.md beside the sources says what each benchmark measures and how to run some of them. The program runs Capstan and
//! what it is compared with as children, in turn, and writes RESULTS.md; the bare loops that are the machine's limits
//! are subcommands of it.

#![allow(clippy::disallowed_methods, reason = "a benchmark may panic")]

mod baselines;
mod capstan;
mod catalog;
mod context;
mod error;
mod measure;
mod options;
mod process;
mod raw;
mod report;
mod rivals;
mod rows;
#[path = "../../crates/scsi/tests/support/mod.rs"]
mod tape_software;
mod warm;

use std::process::ExitCode;

use context::Context;
use error::BenchError;
use options::{Arguments, Options};
use report::{Book, Line};
use rows::{ROWS, Row, Sheet};

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(if matches!(error, BenchError::Usage(_)) { 2 } else { 1 })
        }
    }
}

fn run() -> Result<ExitCode, BenchError> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|name| raw::NAMES.contains(&name.as_str())) {
        let name = arguments.remove(0);
        raw::run(&name, Arguments::new(arguments))?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.iter().any(|a| matches!(a.as_str(), "help" | "--help" | "-h")) {
        println!("{}", options::HELP);
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options::read(Arguments::new(arguments))?;
    let names: Vec<&str> = options.names.iter().map(String::as_str).collect();
    match names[..] {
        [] => Err(BenchError::Usage("name the benchmarks to run, or `all`".into())),
        ["list"] => {
            for row in ROWS {
                println!("{:<16} {}", row.name, row.about);
            }
            Ok(ExitCode::SUCCESS)
        }
        ["clean"] => Context::clean(&options.dir, &options.disk).map(|()| ExitCode::SUCCESS),
        ["all"] => measure(&options, ROWS.iter().collect(), Book::default()),
        _ => {
            let find = |name: &&str| {
                let row = ROWS.iter().find(|row| row.name == *name);
                let problem = format!("no benchmark is called '{name}'; `bench list` lists them");
                row.ok_or(BenchError::Usage(problem))
            };
            let rows = names.iter().map(find).collect::<Result<_, _>>()?;
            let book = options.results.as_deref().map_or(Ok(Book::default()), Book::load)?;
            measure(&options, rows, book)
        }
    }
}

/// Runs benchmarks, saves the report after each, and clears up. One that fails is in the report and the others go on.
fn measure(options: &Options, rows: Vec<&Row>, mut book: Book) -> Result<ExitCode, BenchError> {
    let context = Context::new(options)?;
    let order: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    let mut failed = Vec::new();
    for row in rows {
        eprintln!("{}: {}", row.name, row.about);
        let mut sheet = Sheet::new(row, &mut book);
        match (row.run)(&context, &mut sheet) {
            Ok(()) => {}
            Err(BenchError::Skip(reason)) => sheet.add(Line::missing(row.about, &reason)),
            Err(error) => {
                sheet.add(Line::missing(row.about, &error.to_string()));
                failed.push(row.name);
            }
        }
        if let Some(results) = &options.results {
            book.save(results, &order)?;
        }
    }
    if !options.keep {
        Context::clean(&options.dir, &options.disk)?;
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("bench: failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}
