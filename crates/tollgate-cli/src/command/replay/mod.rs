//! `replay`: the effect that limits would have had on real traffic.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use tollgate_experiments::experiment::{Experiment, Timings};
use tollgate_experiments::report::html;
use tollgate_logs::replay::{self as replaying, CaseReport, Plan, Report, StrategyChoice};
use tollgate_logs::{Error, Reading, Summary, Traffic};
use tollgate_redis::Options;

use super::lab::{Stoppable, run};
use super::log::{LogOptions, headline, share};
use crate::args::Replay;
use crate::file::{beside, persist};
use crate::input::shown;
use crate::redis_decider::{RedisDecider, redis};
use crate::show::{self, Output, Table};
use crate::stop::Stop;

mod policies;

/// How many of the most denied clients the text lists; JSON lists more.
const SHOWN_CLIENTS: usize = 5;

pub(crate) fn replay(args: &Replay, out: &mut Output) -> Result<u8> {
    let redis = args.store.as_deref().map_or(Ok(None), |url| redis(url, "a replay"))?;
    if let Some(policy) = &args.policy {
        return policies::replay(args, policy, out);
    }
    if let [field, ..] = &args.fields.field[..] {
        bail!("--field {}: only a policy file has fields; add --policy FILE", shown(field));
    }
    if args.csv.is_some() {
        bail!("--csv writes the decisions of a policy file: add --policy FILE");
    }
    if args.limit.is_empty() {
        bail!("no limit is given: add one, as in `--limit 5/10s`");
    }
    let choice: StrategyChoice = match &args.strategy {
        Some(name) => name.parse()?,
        None => StrategyChoice::AsWritten,
    };
    let plan = Plan::new(&args.limit, choice)?;
    // Fail before the log is read if the report cannot be written, not an hour later.
    if let Some(path) = &args.report {
        beside(path)?;
    }
    let log = LogOptions::new(&args.log)?;
    let start = Instant::now();
    let reading = Reading::by(log.by.clone()).with_cost(log.cost.clone());
    let reading = reading.with_hints(log.hints.clone());
    let traffic = log.read(&args.logs, |lines, update| reading.read_lines(lines, update))?;
    let reading = start.elapsed();
    let traffic = Arc::new(traffic);
    let report = match redis {
        None => with_bar(&traffic, &plan, |progress| replaying::replay(&traffic, &plan, progress))?,
        Some(options) => match on_redis(options, &traffic, &plan)? {
            Ok(report) => report,
            Err(code) => return Ok(code),
        },
    };
    let written = match &args.report {
        Some(path) => match drawn(args, &log, &traffic, &plan, path)? {
            Ok(()) => Some(format!("written to {}", path.display())),
            Err(code) => return Ok(code),
        },
        None => None,
    };
    let notes = notes(&log, &traffic.summary, &report);
    if args.json {
        out.json(&report.to_json())?;
        notes.iter().for_each(|note| show::note(note));
        return Ok(0);
    }
    out.text(&headline(&traffic.summary, &log.by, reading))?;
    out.line(table(&report).to_string())?;
    out.text(&details(&report))?;
    for note in &notes {
        out.line(format!("\nnote: {note}"))?;
    }
    if let Some(written) = written {
        out.line(format!("\n{written}"))?;
    }
    Ok(0)
}

/// Writes the HTML report, with the same traffic and limits as a lab experiment. Returns a signal's
/// exit code if one arrived.
fn drawn(
    args: &Replay,
    log: &LogOptions,
    traffic: &Arc<Traffic>,
    plan: &Plan,
    path: &Path,
) -> Result<Result<(), u8>> {
    let stop = Stop::listen()?;
    let logs: Vec<String> = args.logs.iter().map(|log| log.display().to_string()).collect();
    let name = format!("{} by {}: {}", logs.join(" and "), log.by, args.limit.join(", "));
    let mut experiment = Experiment::from_log(&name, Arc::clone(traffic), plan);
    if let Some(cost) = &log.cost {
        experiment.notes.push(format!(
            "A request costs what its field `{cost}` says. Limits and their peaks count these \
             units, and all else counts requests."
        ));
    }
    let mut decider = Stoppable::new(stop.clone());
    let results = run(&experiment, &mut decider, &mut Timings::default())?;
    if !results.complete {
        show::note("interrupted: no report is written");
        return Ok(Err(stop.code()));
    }
    persist(beside(path)?, html(&results).as_bytes(), path)?;
    Ok(Ok(()))
}

/// Decides on Redis, and removes all its keys whatever happens. Returns a signal's exit code if one
/// arrived.
fn on_redis(options: Options, traffic: &Traffic, plan: &Plan) -> Result<Result<Report, u8>> {
    let stop = Stop::listen()?;
    let mut decider = RedisDecider::new(options, stop.clone())?;
    let report =
        with_bar(traffic, plan, |bar| replaying::replay_in(traffic, plan, &mut decider, bar));
    let cleared = decider.clear();
    match report {
        Ok(report) => {
            cleared?;
            Ok(Ok(report))
        }
        Err(Error::Stopped) => {
            cleared?;
            show::note("interrupted: the keys of this replay are removed");
            Ok(Err(stop.code()))
        }
        Err(error) => {
            if let Err(error) = cleared {
                show::note(&error.to_string());
            }
            Err(error.into())
        }
    }
}

/// Replays with a progress bar.
fn with_bar(
    traffic: &Traffic,
    plan: &Plan,
    replay: impl FnOnce(&mut dyn FnMut(replaying::Progress)) -> Result<Report, Error>,
) -> Result<Report, Error> {
    let total = traffic.summary.events.saturating_mul(plan.cases.len() as u64);
    let bar = show::progress(Some(total)).with_style(show::bar("{msg:20} {bar:30} {percent} %"));
    let report = replay(&mut |progress| {
        if let Some(case) = plan.cases.get(progress.case) {
            bar.set_message(case.strategy.clone());
        }
        bar.set_position(progress.case as u64 * progress.total_events + progress.events);
    });
    bar.finish_and_clear();
    report
}

fn table(report: &Report) -> Table {
    let mut table = show::table([
        "strategy",
        "admitted",
        "denied",
        "share",
        "peak in window",
        "clients denied",
        "decisions/s",
    ]);
    for case in &report.cases {
        table.add_row([
            case.strategy.clone(),
            case.admitted.to_string(),
            case.denied.to_string(),
            share(case.denied, case.admitted + case.denied),
            peaks(case),
            format!("{} of {}", case.clients_denied, report.clients),
            case.decisions_per_second().to_string(),
        ]);
    }
    table
}

/// One peak per limit, in declared order.
fn peaks(case: &CaseReport) -> String {
    case.peaks.iter().map(|peak| peak.peak.to_string()).collect::<Vec<_>>().join(" / ")
}

/// The full limits of each row, and the most denied clients.
fn details(report: &Report) -> String {
    let mut text = String::new();
    for case in &report.cases {
        text.push_str(&format!("\n{}\n", case.limit));
        let clients: Vec<_> = case
            .top_denied
            .iter()
            .take(SHOWN_CLIENTS)
            .map(|(client, denials)| format!("{client} ({denials})"))
            .collect();
        let clients = if clients.is_empty() { "nobody".to_owned() } else { clients.join(", ") };
        text.push_str(&format!("  most denied: {clients}\n"));
    }
    text
}

/// Notes for reading the table.
fn notes(log: &LogOptions, summary: &Summary, report: &Report) -> Vec<String> {
    let mut notes = log.notes(summary);
    for refused in &report.refused {
        notes.push(format!("{} does not support these limits: {}", refused.strategy, refused.why));
    }
    notes
}
