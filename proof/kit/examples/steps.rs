//! Every history of small limits beside the oracle, as a table. `--help` has the options.

use std::process::ExitCode;
use std::time::Instant;

use tollgate_proof::steps::{
    Reach, Row, as_json, markdown, rows, rows_in_a_store, rows_with_holds,
};

const HELP: &str = "\
Does every history of small limits beside the oracle, and prints a table.

usage: steps [--sample] [--only WAY] [--json] [--quiet]

  --sample  the small part that the tests run, in a few seconds
  --only    counts `alone`, `held` beside open holds, or each by itself in a `store`
  --json    an array of rows instead of the table
  --quiet   no progress on standard error

The whole takes minutes on each processor. The exit code is 0 when no answer
differs, 1 when one does, 2 for wrong options.

example: cargo run --release -p tollgate-proof --example steps -- --sample
";

#[derive(Default)]
struct Options {
    sample: bool,
    only: Option<String>,
    json: bool,
    quiet: bool,
}

fn main() -> ExitCode {
    let mut options = Options::default();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--sample" => options.sample = true,
            "--only" => match args.next() {
                Some(way) if ["alone", "held", "store"].contains(&&*way) => {
                    options.only = Some(way);
                }
                _ => {
                    eprintln!("steps: --only is `alone`, `held` or `store`");
                    return ExitCode::from(2);
                }
            },
            "--json" => options.json = true,
            "--quiet" => options.quiet = true,
            "--help" | "-h" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            _ => {
                eprintln!("steps: {arg} is not known: `--help` has the options");
                return ExitCode::from(2);
            }
        }
    }
    let rows = all(&options);
    if options.json {
        println!("{:#}", as_json(&rows));
    } else {
        print!("{}", markdown(&rows));
    }
    let different: Vec<&Row> = rows.iter().filter(|row| row.different.is_some()).collect();
    for Row { different, .. } in &different {
        eprintln!("{}", different.as_deref().unwrap_or_default());
    }
    if different.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn all(options: &Options) -> Vec<Row> {
    let began = Instant::now();
    let progress = |line: &str| {
        if !options.quiet {
            eprintln!("{:>6} s  {line}", began.elapsed().as_secs());
        }
    };
    let (reaches, held, stored) =
        if options.sample { (vec![Reach::sample()], 2, 2) } else { (Reach::whole().into(), 3, 3) };
    let wants = |way: &str| options.only.as_deref().is_none_or(|only| only == way);
    let mut all = Vec::new();
    if wants("alone") {
        all.extend(reaches.iter().flat_map(|reach| rows(reach, progress)));
    }
    if wants("held") {
        all.extend(rows_with_holds(held, progress));
    }
    if wants("store") {
        all.extend(rows_in_a_store(stored, progress));
    }
    all
}
