//! `diff`: the clients with other decisions under new policies.

use std::time::Instant;

use anyhow::Result;
use tollgate_logs::Error;
use tollgate_logs::policy::{self, Change, Changed};
use tollgate_policy::{Entry, Policies, Policy};

use super::log::{Csv, LogOptions, Rules, deciding, headline, share};
use crate::args::Diff;
use crate::file::beside;
use crate::show::{self, Output};
use crate::stop::Stop;

/// The exit code when somebody is decided otherwise.
const CHANGED: u8 = 1;

/// How many of the clients that change most the text lists.
const SHOWN_CLIENTS: usize = 5;

pub(crate) fn diff(args: &Diff, out: &mut Output) -> Result<u8> {
    let log = LogOptions::new(&args.log)?;
    let has_costs = log.cost.is_some();
    let (old, new) = (Rules::new(&args.old, has_costs)?, Rules::new(&args.new, has_costs)?);
    // Fail before the log is read if the file cannot be written, not an hour later.
    if let Some(path) = &args.csv {
        beside(path)?;
    }
    let start = Instant::now();
    let sides = [&old.policies, &new.policies];
    let requests = log.requests(&args.logs, &args.fields, &sides)?;
    let reading = start.elapsed();
    // The file is made once a signal can remove it.
    let stop = Stop::listen()?;
    let mut csv = args.csv.as_deref().map(Csv::new).transpose()?;
    let mut each = |it: Changed<'_>| match &mut csv {
        Some(csv) => csv.row((it.line, it.at_us), it.client, it.is_admitted, it.policy),
        None => Ok(()),
    };
    let found =
        deciding(&stop, |go| policy::diff(&requests, &old.policies, &new.policies, &mut each, go));
    let found = match found {
        Err(Error::Stopped) => {
            show::note("interrupted: nothing is written");
            return Ok(stop.code());
        }
        found => found?,
    };
    let written = csv.map(Csv::finish).transpose()?;
    let mut notes = log.notes(&requests.summary);
    notes.extend(fresh_counts(&old.policies, &new.policies));
    let code = if found.is_same() { 0 } else { CHANGED };
    if args.json {
        out.json(&found)?;
        notes.iter().for_each(|note| show::note(note));
        return Ok(code);
    }
    out.text(&headline(&requests.summary, &log.by, reading))?;
    let mut table = show::table(["", "admitted", "denied", "share"]);
    for (name, totals) in [(&old.name, found.old), (&new.name, found.new)] {
        table.add_row([
            name.clone(),
            totals.admitted.to_string(),
            totals.denied.to_string(),
            share(totals.denied, totals.admitted + totals.denied),
        ]);
    }
    out.line(table.to_string())?;
    if found.is_same() {
        out.line("\nnobody is decided otherwise")?;
    }
    out.text(&text("from admitted to denied", &found.to_denied, "by"))?;
    out.text(&text("from denied to admitted", &found.to_admitted, "no longer by"))?;
    for note in &notes {
        out.line(format!("\nnote: {note}"))?;
    }
    if let Some(path) = written {
        out.line(format!("\nwritten to {path}"))?;
    }
    Ok(code)
}

/// The limits of a policy and a subject that have other identities in the new policies.
fn fresh_counts(old: &Policies, new: &Policies) -> Vec<String> {
    let mut notes = Vec::new();
    for policy in new.policies() {
        let same = |before: &&Policy| before.name == policy.name;
        let Some(before) = old.policies().iter().find(same) else { continue };
        for entry in &policy.entries {
            let of_it = || before.entries.iter().filter(|it| it.subject == entry.subject);
            let keeps = |it: &Entry| it.limits.identity() == entry.limits.identity();
            if let Some(was) = of_it().next().filter(|_| !of_it().any(keeps)) {
                notes.push(format!(
                    "{}: `{}` counts apart from `{}`: with the new policies everybody begins anew",
                    policy.name, entry.limits, was.limits
                ));
            }
        }
    }
    notes
}

/// One direction, policy by policy, with examples.
fn text(direction: &str, change: &Change, by: &str) -> String {
    if change.requests == 0 {
        return String::new();
    }
    let bold = anstyle::Style::new().bold();
    let mut text = format!(
        "\n{bold}{direction}{bold:#}: {} of {}\n",
        show::count(change.requests, "request"),
        show::count(change.clients, "client")
    );
    for policy in &change.policies {
        text.push_str(&format!(
            "  {by} {}: {} of {}\n",
            policy.policy,
            show::count(policy.requests, "request"),
            show::count(policy.clients, "client")
        ));
        let most = policy.clients_most.iter().take(SHOWN_CLIENTS);
        let most: Vec<String> = most.map(|(client, count)| format!("{client} ({count})")).collect();
        text.push_str(&format!("    most: {}\n", most.join(", ")));
        for example in &policy.examples {
            text.push_str(&format!(
                "    line {}: {} {}\n",
                example.line,
                show::time(example.at_us),
                example.client
            ));
        }
    }
    text
}
