//! `advise`: which limit fits a log.

mod files;
mod text;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use tollgate::{LimitSet, Period};
use tollgate_logs::advise::{Go, Options, Progress, Step, Target, advise_each};
use tollgate_logs::{By, Error, Reading, Summary, Traffic};

use super::log::{LogOptions, headline};
use crate::args::{Advise, Outliers};
use crate::file::beside;
use crate::input;
use crate::show::{self, Output};
use crate::stop::Stop;

/// The exit code when the limit in force did not hold.
const DID_NOT_HOLD: u8 = 1;

pub(crate) fn advise(args: &Advise, out: &mut Output) -> Result<u8> {
    let log = LogOptions::new(&args.log)?;
    let each: Option<By> = args.each.as_deref().map(str::parse).transpose().context("--each")?;
    if let Some(each) = &each {
        check_each(each, &log.by)?;
    }
    let options = options(args, &log)?;
    // Fail before the log is read if a file cannot be written, not an hour later.
    for path in [&args.policy, &args.csv, &args.report].into_iter().flatten() {
        beside(path)?;
    }
    let applied = args.apply.as_deref().map(|path| files::Applied::new(path, each.is_some()));
    let applied = applied.transpose()?;
    let start = Instant::now();
    let reading = Reading::by(log.by.clone()).with_cost(log.cost.clone());
    let reading = reading.with_hints(log.hints.clone()).with_descriptions();
    let reading = reading.with_each(each.clone()).with_max_clients(args.max_clients);
    let traffic = log.read(&args.logs, |lines, update| reading.read_lines(lines, update))?;
    let mut read = Read { args, log: &log, traffic, took: start.elapsed(), written: Vec::new() };
    let stop = Stop::listen()?;
    let stopped = |stop: &Stop| {
        show::note("interrupted: no advice is written");
        Ok(stop.code())
    };
    if let Some(each) = each {
        let advice = with_bar(&stop, |go| advise_each(&read.traffic, (&options, &each), go));
        if let Err(Error::Stopped) = advice {
            return stopped(&stop);
        }
        let advice = advice?;
        read.written = files::write_each(args, applied, &advice)?;
        return if args.json {
            read.json(out, &advice)
        } else {
            read.show(out, &text::each_text(&advice), &advice.policy)
        }
        .map(|()| 0);
    }
    let advice = with_bar(&stop, |go| tollgate_logs::advise::advise(&read.traffic, &options, go));
    if let Err(Error::Stopped) = advice {
        return stopped(&stop);
    }
    let advice = advice?;
    read.written = files::write(args, applied, &advice)?;
    match args.json {
        true => read.json(out, &advice)?,
        false => read.show(out, &text::text(&advice), &advice.recommended.policy)?,
    }
    Ok(if advice.checked.as_ref().is_none_or(|it| it.holds) { 0 } else { DID_NOT_HOLD })
}

/// Whether there can be a limit for each value of this field.
fn check_each(each: &By, by: &By) -> Result<()> {
    if *each == By::All {
        bail!("--each all: name a field, such as `path`; without --each there is one limit");
    }
    if let Some(both) = each.fields().iter().find(|field| by.fields().contains(field)) {
        bail!(
            "--each {both}: --by {by} distinguishes the clients by it already. Leave it out of one \
             of them"
        );
    }
    Ok(())
}

/// A log that was read, and the files that were written.
struct Read<'a> {
    args: &'a Advise,
    log: &'a LogOptions,
    traffic: Traffic,
    took: Duration,
    written: Vec<String>,
}

impl Read<'_> {
    fn json(&self, out: &mut Output, advice: &impl Serialize) -> Result<()> {
        out.json(advice)?;
        self.log.notes(self.summary()).iter().for_each(|note| show::note(note));
        Ok(())
    }

    fn summary(&self) -> &Summary {
        &self.traffic.summary
    }

    /// Prints an advice, notes on the log, and the policy file or the way to put it in force.
    fn show(&self, out: &mut Output, advice: &str, policy: &str) -> Result<()> {
        let by = self.log.by.clone();
        out.text(&headline(self.summary(), &by, self.took))?;
        out.text(advice)?;
        for note in &self.log.notes(self.summary()) {
            out.line(format!("\nnote: {note}"))?;
        }
        for path in &self.written {
            out.line(format!("\nwritten to {path}"))?;
        }
        if let Some(path) = &self.args.apply {
            out.line(files::next_steps(path))?;
        } else if self.args.policy.is_none() {
            out.line("\nThe policy file (--policy FILE writes it):\n")?;
            out.exact(&format!("{}\n", text::policy(policy)))?;
        }
        Ok(())
    }
}

fn options(args: &Advise, log: &LogOptions) -> Result<Options> {
    let mut options = Options::by(log.by.clone());
    options.cost = log.cost.clone();
    if let Some(unit) = &args.unit {
        let limit: LimitSet = format!("1/m of {unit}").parse().context("--unit")?;
        options.unit = limit.limits().first().map_or(options.unit, |limit| *limit.unit());
    }
    if let Some(share) = &args.deny_clients {
        options.target = Target::Clients(share.parse().context("--deny-clients")?);
    }
    if let Some(share) = &args.deny_requests {
        options.target = Target::Requests(share.parse().context("--deny-requests")?);
    }
    if !args.per.is_empty() {
        let period = |text: &String| text.trim().parse::<Period>().context("--per");
        options.periods = args.per.iter().map(period).collect::<Result<_>>()?;
        options.max_wait = None;
    }
    options.strategy = args.strategy.as_deref().map(input::strategy).transpose()?;
    if let Some(wait) = &args.max_wait {
        options.max_wait = Some(wait.parse().context("--max-wait")?);
        if !options.wants_rate() {
            bail!("--max-wait is for a rate with a burst: leave out --strategy, or give `gcra`");
        }
    }
    options.wants_second = args.limits > 1;
    if options.wants_second && !options.wants_rate() {
        bail!("--limits 2 adds to a rate with a burst: leave out --strategy, or give `gcra`");
    }
    options.lists_clients = args.csv.is_some();
    options.is_shadow = args.apply.is_some();
    options.in_force = args.check.as_deref().map(files::in_force).transpose()?;
    if options.in_force.is_some() && !options.wants_rate() {
        bail!("--check judges beside a rate with a burst: leave out --strategy, or give `gcra`");
    }
    options.sets_outliers_apart = args.outliers == Outliers::Apart;
    Ok(options)
}

/// Advises with a progress bar, until a signal arrives.
fn with_bar<T>(
    stop: &Stop,
    advise: impl FnOnce(&mut Go<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let bar = show::progress(Some(0)).with_style(show::bar("{msg:20} {bar:30} {percent} %"));
    let advice = advise(&mut |progress: Progress| {
        bar.set_message(match progress.step {
            Step::Replay(strategy) => strategy.name(),
            _ => "looking at clients",
        });
        bar.set_length(progress.total_events);
        bar.set_position(progress.events);
        if stop.is_asked() { Err(Error::Stopped) } else { Ok(()) }
    });
    bar.finish_and_clear();
    advice
}
