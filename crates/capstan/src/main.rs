//! Capstan's command line: arguments in, output and exit codes out. What it does is in `capstan-cell` and
//! `capstan-assess`.

mod admin;
mod args;
mod exit;
mod look;
mod media;
mod output;
mod paths;
mod process;
mod reference;
mod text;
mod work;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use args::{Cli, Command};
use exit::{BAD_INPUT, COMPLETED, Failure};
use output::Output;

/// Bytes of the stack of the thread that does the work: as many as a first thread has.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    process::environment::take_secrets();
    process::memory::settle();
    process::signals::let_writes_fail();
    // The kernel gives a process's signals to its first thread. If that waits for a file server that does not answer, it takes none,
    // and keeps them from all others. So it waits for another thread, and does nothing else.
    let work = std::thread::Builder::new().name("capstan".to_owned()).stack_size(STACK);
    ExitCode::from(match work.spawn(command) {
        Ok(work) => work.join().unwrap_or(exit::PANICKED),
        Err(_) => command(),
    })
}

/// Does what the command line asks for, and returns the exit code.
fn command() -> u8 {
    let mut wants_json = false;
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        wants_json = asks_for_json(&matches);
        let mut cli = Cli::from_arg_matches(&matches)?;
        cli.global.typed = in_few_words(&matches);
        Ok(cli)
    });
    let result = match parsed {
        Ok(cli) => {
            process::environment::give_secret(&cli.global.devices);
            let _drives = process::drives::GivenBack(cli.global.devices.clone());
            run(&cli).map_err(|failure| cli.global.named(failure))
        }
        Err(error) if exit::is_help(&error) => {
            // Where nobody reads it, there is nothing to say.
            let _ = error.print();
            return if error.use_stderr() { BAD_INPUT } else { COMPLETED };
        }
        Err(error) => Err(Failure::usage(&error)),
    };
    result.unwrap_or_else(|failure| {
        failure.say();
        if let Some(object) = failure.json().filter(|_| wants_json) {
            let mut out = Output::new();
            // Where nobody reads it, the exit code remains.
            let _ = out.json(&object).and_then(|()| out.finish());
        }
        failure.code
    })
}

/// Whether a command, or the one in it, was asked for JSON.
fn asks_for_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false);
    here || matches.subcommand().is_some_and(|(_, of)| asks_for_json(of))
}

/// A command and what it is of: `backup desk`, `media label`.
fn in_few_words(matches: &ArgMatches) -> String {
    if let Some((command, of)) = matches.subcommand() {
        return format!("{command} {}", in_few_words(of)).trim_end().to_owned();
    }
    let value = |id| matches.try_get_raw(id).ok().flatten()?.next();
    let of = ["name", "version", "object", "spec"].into_iter().find_map(value);
    of.map(|of| of.to_string_lossy().into_owned()).unwrap_or_default()
}

fn run(cli: &Cli) -> Result<u8, Failure> {
    let global = &cli.global;
    match &cli.command {
        Command::Backup(args) => work::backup::run(global, args),
        Command::Run(args) => work::run::run(global, args),
        Command::Restore(args) => work::restore::restore(global, args),
        Command::Ls(args) => look::ls::ls(global, args),
        Command::Find(args) => look::ls::find(global, args),
        Command::Compare(args) => work::compare::run(global, args),
        Command::Diff(args) => look::diff::run(global, args),
        Command::Sessions(args) => look::sessions::run(global, args),
        Command::Status(args) => look::status::run(global, args),
        Command::Versions(args) => look::versions::run(global, args),
        Command::Verify(args) => work::restore::verify(global, args),
        Command::Drill(args) => work::restore::drill(global, args),
        Command::Copy(args) => work::copy::copy(global, args),
        Command::Stage(args) => work::stage::run(global, args),
        Command::Consolidate(args) => work::copy::consolidate(global, args),
        Command::Import(args) => work::restore::import(global, args),
        Command::Media(command) => media::run(global, command),
        Command::Library(command) => media::library::run(global, command),
        Command::Vtl(command) => media::vtl::run(command),
        Command::Pool(command) => media::pool::run(global, command),
        Command::Rait(command) => media::rait::run(global, command),
        Command::Idb(command) => admin::idb::run(global, command),
        Command::Catalog(command) => admin::idb::catalog(global, command),
        Command::Protect(args) => admin::protect::protect(global, args),
        Command::Lock(args) => admin::protect::lock(global, args),
        Command::Prune(args) => work::prune::run(global, args),
        Command::Key(command) => admin::key::run(global, command),
        Command::Assess(command) => admin::assess::run(global, command),
        Command::Completions { shell, json } => reference::manual::completions(*shell, *json),
        Command::Man { dir, json } => reference::manual::man(dir.as_deref(), *json),
    }
}
