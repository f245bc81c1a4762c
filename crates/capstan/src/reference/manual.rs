//! `capstan completions` and `man`: what follows from the definition of the command line.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::{Value, json};

use crate::args::Cli;
use crate::exit::{COMPLETED, FAILED, Failure};
use crate::output::Output;

/// Prints a completion script.
pub fn completions(shell: Shell, json: bool) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "capstan", &mut script);
    match json {
        true => print_json(&json!({ "shell": shell.to_string(), "script": text_of(&script) })),
        false => print(&script),
    }
}

/// Prints the manual page, or writes those of all commands.
pub fn man(dir: Option<&Path>, json: bool) -> Result<u8, Failure> {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(|e| Failure::output(&e))?;
        return match json {
            true => print_json(&json!({ "page": text_of(&page) })),
            false => print(&page),
        };
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .map_err(|e| {
            let error = format!("cannot write manual pages to {}: {e}", dir.display());
            Failure::of(
                FAILED,
                error,
                Some("check the directory's owner and mode, and that it has room"),
            )
        })?;
    match json {
        true => print_json(&json!({ "files": pages_in(dir)? })),
        false => Ok(COMPLETED),
    }
}

/// The manual pages in a directory.
fn pages_in(dir: &Path) -> Result<Vec<String>, Failure> {
    let names = std::fs::read_dir(dir).map_err(|e| {
        let error = format!("cannot list {}: {e}", dir.display());
        Failure::of(FAILED, error, Some("check the directory's owner and mode"))
    })?;
    let names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut pages: Vec<String> =
        names.filter(|name| name.starts_with("capstan") && name.ends_with(".1")).collect();
    pages.sort();
    Ok(pages.iter().map(|name| dir.join(name).display().to_string()).collect())
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn print_json(object: &Value) -> Result<u8, Failure> {
    let mut out = Output::new();
    out.json(object)?;
    out.finish().map(|()| COMPLETED)
}

fn print(text: &[u8]) -> Result<u8, Failure> {
    let mut out = Output::new();
    out.bytes(text)?;
    out.finish().map(|()| COMPLETED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
