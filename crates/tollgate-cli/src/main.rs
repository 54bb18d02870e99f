//! The command line of Tollgate: `tollgate --help` lists its commands.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use clap::{ColorChoice, FromArgMatches as _};

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
    // Clap prints help and its errors before the options are read.
    let colours = colours();
    let command = command::help::command_line().color(colours);
    let parsed = command.try_get_matches().and_then(|it| Cli::from_arg_matches(&it));
    let cli = match parsed {
        Ok(cli) => cli,
        // Clap returns help and version as "errors", too. A closed pipe is not reported.
        Err(error) => {
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let fault = if matches!(cli.command, Command::Run(_)) { RUN_ERROR } else { ERROR };
    match cli.output.color {
        ColorChoice::Auto => {}
        ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
    }
    show::set_verbosity(cli.output.verbosity());
    let mut out = Output::new();
    let begin = Instant::now();
    let done = command::perform(cli.command, &mut out);
    show::step(&format!("took {:.3} s", begin.elapsed().as_secs_f64()));
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            report(&error);
            ExitCode::from(fault)
        }
    }
}

/// The value of `--color`, before the other arguments are parsed.
fn colours() -> ColorChoice {
    let mut args = std::env::args_os().take_while(|arg| arg != "--");
    let mut found = ColorChoice::Auto;
    while let Some(arg) = args.next() {
        let Some(arg) = arg.to_str() else { continue };
        let value = match arg.strip_prefix("--color") {
            Some("") => args.next().and_then(|it| it.into_string().ok()),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        if let Some(choice) = value.and_then(|it| it.parse().ok()) {
            found = choice;
        }
    }
    found
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
