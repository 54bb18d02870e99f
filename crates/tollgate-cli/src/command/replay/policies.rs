//! `replay --policy`: the effect that a policy file would have had.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use tollgate_logs::Error;
use tollgate_logs::policy::{self, Decided, PolicyReport};

use crate::args::Replay;
use crate::command::log::{Csv, LogOptions, Rules, deciding, headline, share};
use crate::file::beside;
use crate::show::{self, Output};
use crate::stop::Stop;

/// How many of the most denied clients the text lists.
const SHOWN_CLIENTS: usize = 5;

pub(super) fn replay(args: &Replay, path: &Path, out: &mut Output) -> Result<u8> {
    let log = LogOptions::new(&args.log)?;
    let rules = Rules::load(path)?;
    // Fail before the log is read if the file cannot be written, not an hour later.
    if let Some(path) = &args.csv {
        beside(path)?;
    }
    let start = Instant::now();
    let requests = log.requests(&args.logs, &args.fields, &[&rules.policies])?;
    let reading = start.elapsed();
    // The file is made once a signal can remove it.
    let stop = Stop::listen()?;
    let mut csv = args.csv.as_deref().map(Csv::new).transpose()?;
    let mut each = |it: Decided<'_>| match &mut csv {
        Some(csv) => csv.row((it.line, it.at_us), it.client, it.is_admitted, it.policy),
        None => Ok(()),
    };
    let report = deciding(&stop, |go| policy::replay(&requests, &rules.policies, &mut each, go));
    let report = match report {
        Err(Error::Stopped) => {
            show::note("interrupted: nothing is written");
            return Ok(stop.code());
        }
        report => report?,
    };
    let written = csv.map(Csv::finish).transpose()?;
    let notes = log.notes(&requests.summary);
    if args.json {
        out.json(&report)?;
        notes.iter().for_each(|note| show::note(note));
        return Ok(0);
    }
    out.text(&headline(&requests.summary, &log.by, reading))?;
    out.text(&text(&report))?;
    for note in &notes {
        out.line(format!("\nnote: {note}"))?;
    }
    if let Some(path) = written {
        out.line(format!("\nwritten to {path}"))?;
    }
    Ok(0)
}

fn text(report: &PolicyReport) -> String {
    let mut table = show::table(["policy", "admitted", "denied", "share"]);
    for counts in &report.policies {
        table.add_row([
            counts.policy.clone(),
            counts.admitted.to_string(),
            counts.denied.to_string(),
            share(counts.denied, counts.admitted + counts.denied),
        ]);
    }
    table.add_row([
        "(none applies)".to_owned(),
        report.no_policy.to_string(),
        "0".to_owned(),
        "-".to_owned(),
    ]);
    let top = report.top_denied.iter().take(SHOWN_CLIENTS);
    let top: Vec<String> = top.map(|(client, denials)| format!("{client} ({denials})")).collect();
    let top = if top.is_empty() { "nobody".to_owned() } else { top.join(", ") };
    format!(
        "{table}\n\n{} of {} denied, {} of {}\n  most denied: {top}\n",
        report.denied,
        show::count(report.events, "request"),
        report.clients_denied,
        show::count(report.clients, "client"),
    )
}
