//! `replay`: what limits would have done to real traffic.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use comfy_table::Table;
use indicatif::ProgressBar;
use tollgate_lab::experiment::{Experiment, Timings};
use tollgate_lab::replay::{self as replaying, CaseReport, Plan, Report, StrategyChoice};
use tollgate_lab::report::html;
use tollgate_lab::{By, Error, Lines, Progress, Reading, Summary, Traffic};
use tollgate_redis::Options;

use super::lab::{Stoppable, run, write};
use crate::args::Replay;
use crate::input::shown;
use crate::redis_decider::{RedisDecider, redis};
use crate::show::{self, Output};
use crate::stop::Stop;

mod joined;

use joined::Joined;

/// How many of the most denied clients the text lists; JSON lists more.
const SHOWN_CLIENTS: usize = 5;

pub(crate) fn replay(args: &Replay, out: &mut Output) -> Result<u8> {
    let redis = args.store.as_deref().map_or(Ok(None), |url| redis(url, "a replay"))?;
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
        write::beside(path)?;
    }
    let by: By = args.by.parse()?;
    let start = Instant::now();
    let mut traffic = read(args, &by)?;
    let reading = start.elapsed();
    if traffic.summary.events == 0 {
        bail!("{}", nothing(args, &traffic.summary));
    }
    if let Some(seed) = args.spread {
        traffic = traffic.spread(seed)?;
    }
    let traffic = Arc::new(traffic);
    let report = match redis {
        None => with_bar(&traffic, &plan, |progress| replaying::replay(&traffic, &plan, progress))?,
        Some(options) => match on_redis(options, &traffic, &plan)? {
            Ok(report) => report,
            Err(code) => return Ok(code),
        },
    };
    let written = match &args.report {
        Some(path) => match drawn(args, &by, &traffic, &plan, path)? {
            Ok(()) => Some(format!("written to {}", path.display())),
            Err(code) => return Ok(code),
        },
        None => None,
    };
    let notes = notes(args, &traffic.summary, &report);
    if args.json {
        out.json(&report.to_json())?;
        notes.iter().for_each(|note| show::note(note));
        return Ok(0);
    }
    out.text(&headline(&traffic.summary, &by, reading))?;
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
    by: &By,
    traffic: &Arc<Traffic>,
    plan: &Plan,
    path: &Path,
) -> Result<Result<(), u8>> {
    let stop = Stop::listen()?;
    let logs: Vec<String> = args.logs.iter().map(|log| log.display().to_string()).collect();
    let name = format!("{} by {by}: {}", logs.join(" and "), args.limit.join(", "));
    let experiment = Experiment::from_log(&name, Arc::clone(traffic), plan);
    let mut decider = Stoppable::new(stop.clone());
    let results = run(&experiment, &mut decider, &mut Timings::default())?;
    if !results.complete {
        show::note("interrupted: no report is written");
        return Ok(Err(stop.code()));
    }
    write::persist(write::beside(path)?, html(&results).as_bytes(), path)?;
    Ok(Ok(()))
}

fn read(args: &Replay, by: &By) -> Result<Traffic> {
    let bar = ProgressBar::new_spinner().with_message("reading");
    let known = show::bar("{msg:20} {bar:30} {bytes}/{total_bytes}");
    let update = |progress: Progress| {
        if let Some(total) = progress.total_bytes {
            if bar.length().is_none() {
                bar.set_length(total);
                bar.set_style(known.clone());
            }
            bar.set_position(progress.bytes_read);
        } else {
            bar.set_message(format!("reading, {} lines", progress.lines));
            bar.tick();
        }
    };
    let reading = Reading::by(by.clone());
    let traffic = match &args.logs[..] {
        [log] => reading.read(log, update),
        logs => {
            let joined = Joined::new(logs)?;
            let lines = Lines::from_reader(joined, Path::new("one of the logs"), None)?;
            reading.read_lines(lines, update)
        }
    };
    bar.finish_and_clear();
    Ok(traffic?)
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
    let bar = ProgressBar::new(total).with_style(show::bar("{msg:20} {bar:30} {percent} %"));
    let report = replay(&mut |progress| {
        if let Some(case) = plan.cases.get(progress.case) {
            bar.set_message(case.strategy.clone());
        }
        bar.set_position(progress.case as u64 * progress.total_events + progress.events);
    });
    bar.finish_and_clear();
    report
}

fn headline(summary: &Summary, by: &By, reading: Duration) -> String {
    let span = summary.first_last_us.map_or_else(String::new, |(first, last)| {
        format!(", {} to {}", show::time(first), show::time(last))
    });
    format!(
        "{} of {} by {by}{span}\nread at {} lines per second\n",
        show::count(summary.events, "event"),
        show::count(summary.clients as u64, "client"),
        per_second(summary.lines, reading),
    )
}

/// `count` per second over this time, rounded down.
fn per_second(count: u64, time: Duration) -> u128 {
    u128::from(count) * 1_000_000_000 / time.as_nanos().max(1)
}

/// `part` of `whole` as a percentage with one decimal, rounded to the nearest.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let tenths = (u128::from(part) * 2_000 + u128::from(whole)) / (u128::from(whole) * 2);
    format!("{}.{} %", tenths / 10, tenths % 10)
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
fn notes(args: &Replay, summary: &Summary, report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if summary.out_of_order > 0 {
        notes.push(format!(
            "{} stamped earlier than the line before: the replay sorted the events first",
            lines_are(summary.out_of_order)
        ));
    }
    if summary.unparsed > 0 {
        let first = first_unparsed(summary);
        notes.push(format!("{} no event{first}", lines_are(summary.unparsed)));
    }
    if report.whole_seconds && args.spread.is_none() {
        notes.push(
            "all stamps are whole seconds: requests of one second look simultaneous, and limits\n  \
             over a few seconds or less look harsher than they are; `--spread 1` places each\n  \
             request at random within its second (any number is a seed)"
                .to_owned(),
        );
    }
    for refused in &report.refused {
        notes.push(format!("{} does not support these limits: {}", refused.strategy, refused.why));
    }
    notes
}

/// Why a log without events gives no table.
fn nothing(args: &Replay, summary: &Summary) -> String {
    if summary.unparsed == 0 {
        return "the log is empty: there is nothing to replay".to_owned();
    }
    format!(
        "no line of the log is an event with the field `{}`: {} none{}\nA log is common, combined or \
         JSON lines; `--by` names another field",
        shown(&args.by),
        lines_are(summary.unparsed),
        first_unparsed(summary)
    )
}

/// The first lines that are not events, and why.
fn first_unparsed(summary: &Summary) -> String {
    let each = summary.first_unparsed.iter();
    each.map(|it| format!("\n  line {}: {}\n    {}", it.line, it.reason, it.text)).collect()
}

/// `1 line is`, `5 lines are`.
fn lines_are(count: u64) -> String {
    format!("{} {}", show::count(count, "line"), if count == 1 { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_to_the_nearest_tenth() {
        for (part, whole, text) in [
            (0, 0, "-"),
            (0, 7, "0.0 %"),
            (1, 3, "33.3 %"),
            (2, 3, "66.7 %"),
            (1, 2_000, "0.1 %"),
            (7, 7, "100.0 %"),
            (u64::MAX, u64::MAX, "100.0 %"),
        ] {
            assert_eq!(share(part, whole), text);
        }
    }
}
