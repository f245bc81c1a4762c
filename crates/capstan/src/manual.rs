//! `capstan completions` and `man`: what follows from the definition of the command line.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{COMPLETED, FAILED, Failure};
use crate::output::Output;

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "capstan", &mut script);
    print(&script)
}

/// Prints the manual page, or writes those of all commands.
pub fn man(dir: Option<&Path>) -> Result<u8, Failure> {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(|e| Failure::output(&e))?;
        return print(&page);
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
    Ok(COMPLETED)
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
