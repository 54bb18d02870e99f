//! Checks a recorded history: `check_history FILE [--late-us N] [--queue-bound N] [--nodes N]`. It
//! prints the report. It exits with 1 when a promise was broken, and with 2 when the file is not a
//! history.

use std::process::ExitCode;

use tollgate_proof::history::{Bounds, History, check};

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("check_history: {message}");
            ExitCode::from(2)
        }
    }
}

/// Whether no promise was broken.
fn run(mut args: impl Iterator<Item = String>) -> Result<bool, String> {
    let (mut path, mut bounds) = (None, Bounds::default());
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or_else(|| format!("{arg} takes a number"))?;
            text.parse().map_err(|_| format!("{arg} {text}: give a whole number"))
        };
        match arg.as_str() {
            "--late-us" => bounds.late_us = number()?,
            "--queue-bound" => bounds.queue_bound = Some(number()?),
            "--nodes" => bounds.nodes = Some(number()?),
            _ if path.is_none() && !arg.starts_with('-') => path = Some(arg),
            _ => return Err(format!("{arg} is not known")),
        }
    }
    let path = path.ok_or("name a file")?;
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let history: History = text.parse().map_err(|e| format!("{path}: {e}"))?;
    let report = check(&history, &bounds);
    print!("{report}");
    Ok(report.broken().is_empty())
}
