//! The models, checked to the end: `cargo xtask models`, or
//! `cargo run --release -p tollgate-models -- --help`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tollgate_models::{MODELS, check, show};

/// Check models of the limiter to the end, over its own code
///
/// Each world is small: a few nodes, units, messages and faults. Every order of events in it is
/// tried, until no state is left that was not looked at. A promise must hold in every state, and
/// its bound must be reached in one.
///
/// Exits with 0 when all was as stated, with 1 when a promise was broken or a bound not reached,
/// with 2 on an error.
#[derive(Debug, Parser)]
#[command(name = "tollgate-models", max_term_width = 80)]
#[command(after_help = "Example: cargo run --release -p tollgate-models -- leases --sample")]
struct Args {
    /// The models to check; all without any
    #[arg(value_name = "MODEL", value_parser = MODELS)]
    models: Vec<String>,
    /// Their small worlds alone, as the tests do
    #[arg(long)]
    sample: bool,
    /// How many threads
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// Write one JSON object for each world
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Write the tables of docs/proof.md
    #[arg(long)]
    markdown: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Checks the models; false where not all was as stated.
fn run(args: &Args) -> Result<bool> {
    let asked: Vec<&str> = match &args.models[..] {
        [] => MODELS.to_vec(),
        models => models.iter().map(String::as_str).collect(),
    };
    let mut all = Vec::new();
    for model in asked {
        let found = check(model, args.sample, args.threads)?;
        found.iter().for_each(|found| eprintln!("{}", show::line(found)));
        all.extend(found);
    }
    let is_good = all.iter().all(tollgate_models::Found::is_good);
    let mut out = io::stdout().lock();
    if args.json {
        for found in &all {
            writeln!(out, "{}", serde_json::to_string(found)?)?;
        }
    } else if args.markdown {
        write!(out, "{}", show::markdown(&all))?;
    } else {
        write!(out, "{}", show::table(&all))?;
    }
    Ok(is_good)
}
