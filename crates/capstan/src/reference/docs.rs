//! Holds docs/cli.md and docs/errors.md against the program: their tables and help texts are generated.
//! `CAPSTAN_BLESS=1 cargo test -p capstan --bins docs` writes them.

use std::fmt::Write as _;
use std::path::PathBuf;

use capstan_engine::message::{Code, Severity};
use clap::{Command, CommandFactory};

use crate::args::Cli;

const BEGIN: &str = "<!-- generated: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

fn check(file: &str, generated: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if found == generated {
        return;
    }
    if std::env::var_os("CAPSTAN_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{generated}{END}{after}")).unwrap();
        return;
    }
    panic!(
        "docs/{file} is not as the program; run CAPSTAN_BLESS=1 cargo test -p capstan --bins docs"
    );
}

fn help_of(command: &mut Command, depth: usize, out: &mut String) {
    // Nested commands lose their parents' names in help unless the whole tree is built.
    let name = command.get_bin_name().unwrap_or("capstan").to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ =
        writeln!(out, "\n{} {name}\n```\n{}\n```", "#".repeat(depth), lines.join("\n").trim_end());
    for sub in command.get_subcommands_mut().filter(|c| c.get_name() != "help") {
        help_of(sub, 3, out);
    }
}

#[test]
fn the_command_line_is_documented() {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut out = String::new();
    help_of(&mut command, 3, &mut out);
    out.push('\n');
    check("cli.md", &out);
}

#[test]
fn every_code_is_documented() {
    let mut out = String::from("\n| number | code | severity | what to do |\n|---|---|---|---|\n");
    for code in Code::ALL {
        let (number, name, severity, hint) = code.row();
        let severity = match severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let _ = writeln!(out, "| {number} | `{name}` | {severity} | {hint} |");
    }
    out.push('\n');
    check("errors.md", &out);
}
