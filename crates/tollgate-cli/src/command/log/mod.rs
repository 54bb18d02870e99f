//! Reads the logs of `replay`, `advise` and `diff`, and reports the lines that were read and those
//! that were not.

mod rules;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
pub(super) use rules::{Csv, Rules, deciding};
use tollgate_logs::policy::Requests;
use tollgate_logs::{By, Error, Hints, Lines, Progress, Summary, Traffic};

use crate::args::LogArgs;
use crate::input::shown;
use crate::show;

/// The options of a log, checked.
pub(super) struct LogOptions {
    pub(super) by: By,
    pub(super) cost: Option<By>,
    pub(super) spread: Option<u64>,
    pub(super) hints: Hints,
}

impl LogOptions {
    pub(super) fn new(args: &LogArgs) -> Result<Self> {
        let cost = args.cost.as_deref().map(str::parse::<By>).transpose().context("--cost")?;
        if let Some(several @ (By::All | By::Several(_))) = &cost {
            bail!("--cost {several}: a cost is read from one field, such as `bytes`");
        }
        let mut hints = Hints::default();
        hints.format = args.format.as_deref().and_then(|name| name.parse().ok());
        hints.time_field.clone_from(&args.time_field);
        hints.client_field.clone_from(&args.client_field);
        Ok(Self { by: args.by.parse()?, cost, spread: args.spread, hints })
    }

    /// Reads the logs by `reading`, which must find an event.
    pub(super) fn read<T: WasRead>(
        &self,
        logs: &[PathBuf],
        reading: impl FnOnce(Lines, &mut dyn FnMut(Progress)) -> Result<T, Error>,
    ) -> Result<T> {
        let traffic = read(logs, reading)?;
        let summary = traffic.summary();
        if summary.not_addresses > summary.events {
            bail!("{}", no_addresses(summary));
        }
        if summary.events == 0 {
            bail!("{}", nothing(&self.by, summary));
        }
        if let Some(cost) = &self.cost
            && summary.without_cost == summary.events
        {
            bail!(
                "no event of the log has a whole number of at least 1 in the field `{}`: --cost \
                 names another field",
                shown(&cost.to_string())
            );
        }
        match self.spread {
            Some(seed) => Ok(traffic.spread_by(seed)?),
            None => Ok(traffic),
        }
    }

    /// Notes on what was read.
    pub(super) fn notes(&self, summary: &Summary) -> Vec<String> {
        let mut notes = Vec::new();
        if summary.out_of_order > 0 {
            notes.push(format!(
                "{} stamped earlier than the line before: the events were sorted first",
                lines_are(summary.out_of_order)
            ));
        }
        if summary.unparsed > 0 {
            let first = first_unparsed(summary);
            notes.push(format!("skipped {}{first}", show::count(summary.unparsed, "line")));
        }
        for repeat in &summary.repeats {
            notes.push(format!(
                "{} % of the lines of {} are in {}, too: each counts twice",
                repeat.percent,
                shown(&repeat.path.display().to_string()),
                shown(&repeat.of.display().to_string())
            ));
        }
        if summary.forwarded > 0 {
            notes.push(format!(
                "{} from a proxy of a private network: the client is the address that the proxy \
                 passed on (--client-field names another field)",
                lines_are(summary.forwarded)
            ));
        }
        if summary.without_zone > 0 {
            notes.push(format!(
                "{} without a time zone: the times are taken as UTC",
                lines_are(summary.without_zone)
            ));
        }
        if let (Some(cost), 1..) = (&self.cost, summary.without_cost) {
            notes.push(format!(
                "{} without a whole number of at least 1 in `{}`: each costs 1",
                lines_are(summary.without_cost),
                shown(&cost.to_string())
            ));
        }
        if summary.whole_seconds && self.spread.is_none() {
            notes.push(
                "all stamps are whole seconds: requests of one second look simultaneous, and \
                 limits over a few seconds or less look harsher than they are; `--spread 1` \
                 places each request at random within its second (any number is a seed)"
                    .to_owned(),
            );
        }
        notes
    }
}

/// The results of reading logs.
pub(super) trait WasRead: Sized {
    fn summary(&self) -> &Summary;
    fn spread_by(self, seed: u64) -> Result<Self, Error>;
}

impl WasRead for Traffic {
    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn spread_by(self, seed: u64) -> Result<Self, Error> {
        self.spread(seed)
    }
}

impl WasRead for Requests {
    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn spread_by(self, seed: u64) -> Result<Self, Error> {
        self.spread(seed)
    }
}

fn read<T>(
    logs: &[PathBuf],
    reading: impl FnOnce(Lines, &mut dyn FnMut(Progress)) -> Result<T, Error>,
) -> Result<T> {
    let bar = show::progress(None).with_message("reading");
    let known = show::bar("{msg:20} {bar:30} {bytes}/{total_bytes}");
    let mut update = |progress: Progress| {
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
    let traffic = reading(Lines::open_all(logs)?, &mut update);
    bar.finish_and_clear();
    Ok(traffic?)
}

/// A summary of the logs: events, clients, and the time from the first to the last.
pub(super) fn headline(summary: &Summary, by: &By, reading: Duration) -> String {
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
pub(super) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let tenths = (u128::from(part) * 2_000 + u128::from(whole)) / (u128::from(whole) * 2);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Why a log without events gives nothing.
fn nothing(by: &By, summary: &Summary) -> String {
    if summary.unparsed == 0 {
        let what = if summary.lines == 0 { "is empty" } else { "has only headers" };
        return format!("the log {what}: there is nothing to replay");
    }
    format!(
        "no line of the log is an event with the field `{}`: skipped {}{}\n`tollgate help logs` has \
         the formats that are read; `--by` names another field",
        shown(&by.to_string()),
        show::count(summary.unparsed, "line"),
        first_unparsed(summary)
    )
}

/// Why a log gives nothing whose clients are no addresses.
fn no_addresses(summary: &Summary) -> String {
    let values: Vec<String> =
        summary.first_not_addresses.iter().map(|value| format!("`{value}`")).collect();
    let field = &summary.not_address_field;
    // By this name, addresses are counted alone.
    let remedy = if field == "ip" {
        "`--client-field` names the field with the address".to_owned()
    } else {
        format!(
            "`--by {field}` counts by these values, and `--client-field` names the field with the \
             address"
        )
    };
    format!(
        "the clients of {} are no addresses: `{field}` is {}\n{remedy}",
        show::count(summary.not_addresses, "line"),
        values.join(", ")
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
