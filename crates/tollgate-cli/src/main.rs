//! The command line of Tollgate: `tollgate --help` lists its commands.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

mod allocator;
mod args;
mod client;
mod command;
mod file;
mod input;
mod redis_decider;
mod show;
mod stop;
mod store;
mod subject_limits;

use args::{Cli, Command};
use show::Output;

/// The exit code of an error; clap uses the same one for wrong usage.
const ERROR: u8 = 2;

/// The exit code of `run` for its own errors, as in `env`.
const RUN_ERROR: u8 = 125;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Clap returns help and version as "errors", too. A closed pipe is not reported.
        Err(error) => {
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let fault = if matches!(cli.command, Command::Run(_)) { RUN_ERROR } else { ERROR };
    let mut out = Output::new();
    match command::perform(cli.command, &mut out) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            report(&error);
            ExitCode::from(fault)
        }
    }
}

/// Prints an error and its causes.
fn report(error: &anyhow::Error) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let mut stderr = anstream::stderr().lock();
    let mut said = error.to_string();
    // The list of a file's problems already begins with its own word, which may be `warning`.
    let _ = match (said.strip_prefix("error: "), said.starts_with("warning: ")) {
        (None, true) => writeln!(stderr, "{said}"),
        (rest, _) => writeln!(stderr, "{red}error{red:#}: {}", rest.unwrap_or(&said)),
    };
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Omit a cause that the text already contains.
        if !said.contains(&cause) {
            let _ = writeln!(stderr, "  because: {cause}");
        }
        said = cause;
    }
}
