//! Parses a workload of a file.

use std::sync::Arc;

use super::raw::{KINDS, RawWorkload, kinds};
use super::reader::{FileReader, ReadResult};
use super::units::{optional, rate};
use crate::experiment::arrivals::BEFORE_EDGE_US;
use crate::experiment::{Arrivals, Retry, Workload};
use tollgate_logs::parse::By;
use tollgate_logs::read::Reading;

/// The most clients of a workload.
const MAX_CLIENTS: u32 = 10_000_000;

/// The most requests of one burst, one loop, or one client of a gang.
const MAX_REQUESTS: u64 = 1_000_000_000;

/// The most requests of a gang, which are generated together to be sorted.
const MAX_GANG: u64 = 10_000_000;

/// The default number of retries of a request.
const TIMES: u32 = 10;

/// The kind of the arrivals, once the keys fit it.
fn kind_of(raw: &RawWorkload) -> ReadResult<&'static str> {
    let kind = match (&raw.arrivals, &raw.log) {
        (Some(kind), _) => kind.as_str(),
        (None, Some(_)) => "log",
        (None, None) => return Err(format!("`arrivals` is missing: {}", kinds())),
    };
    let Some((kind, needed, others)) = KINDS.iter().find(|(name, ..)| *name == kind) else {
        return Err(format!("there are no arrivals `{kind}`: {}", kinds()));
    };
    let present = raw.present_keys();
    if let Some(missing) = needed.iter().find(|key| !present.contains(*key)) {
        return Err(format!("{kind} needs `{missing}`"));
    }
    if let Some(odd) = present.iter().find(|key| !needed.contains(*key) && !others.contains(*key)) {
        let known: Vec<&str> = needed.iter().chain(others.iter()).copied().collect();
        return Err(format!("`{odd}` does not apply to {kind}, which has {}", known.join(", ")));
    }
    Ok(kind)
}

impl FileReader<'_> {
    pub(super) fn workload(
        &self,
        raw: &RawWorkload,
        place: usize,
        duration_us: Option<u64>,
    ) -> ReadResult<Workload> {
        let kind = kind_of(raw)?;
        let from_us = optional(raw.from.as_deref(), "from")?.unwrap_or(0);
        let until_us = optional(raw.until.as_deref(), "until")?.or(duration_us);
        let until_us = until_us.unwrap_or(u64::MAX);
        if until_us <= from_us {
            return Err("`until` is not after `from`".to_owned());
        }
        let (arrivals, clients) = self.arrivals(raw, kind)?;
        if clients == 0 || clients > MAX_CLIENTS && !matches!(arrivals, Arrivals::Log(_)) {
            return Err(format!("`clients` is 1 to {MAX_CLIENTS}"));
        }
        if matches!(arrivals, Arrivals::Gang { each, .. } if u64::from(clients) * each > MAX_GANG) {
            return Err(format!(
                "a gang makes at most {MAX_GANG} requests: `clients` times `each`"
            ));
        }
        if let Some(zipf) = raw.zipf.filter(|zipf| !(0.0..=10.0).contains(zipf)) {
            return Err(format!("`zipf` is an exponent from 0 to 10, not {zipf}"));
        }
        let retry = retry(raw)?;
        let name = raw.name.clone().unwrap_or_else(|| format!("{kind} {}", place + 1));
        Ok(Workload { name, clients, arrivals, from_us, until_us, retry, zipf: raw.zipf })
    }

    /// When requests come, and from how many clients.
    fn arrivals(&self, raw: &RawWorkload, kind: &str) -> ReadResult<(Arrivals, u32)> {
        let rate_of = || rate(raw.rate.as_deref().unwrap_or_default());
        let time_of = |text: &Option<String>, key| optional(text.as_deref(), key);
        let positive = |time: Option<u64>, key: &str| match time {
            Some(0) => Err(format!("`{key}` is more than 0")),
            other => Ok(other),
        };
        let every_us = positive(time_of(&raw.every, "every")?, "every")?;
        for (key, number) in [("size", raw.size), ("each", raw.each), ("count", raw.count)] {
            if number.is_some_and(|number| number == 0 || number > MAX_REQUESTS) {
                return Err(format!("`{key}` is 1 to {MAX_REQUESTS}"));
            }
        }
        let within_us = time_of(&raw.within, "within")?.unwrap_or(0);
        if every_us.is_some_and(|every_us| within_us > every_us) {
            return Err("`within` is longer than `every`: gangs do not overlap".to_owned());
        }
        let mut clients = raw.clients.unwrap_or(1);
        let arrivals = match kind {
            "steady" => Arrivals::Steady(rate_of()?),
            "poisson" => Arrivals::Poisson(rate_of()?),
            "diurnal" => {
                let day_us = positive(time_of(&raw.day, "day")?, "day")?;
                Arrivals::Diurnal { rate: rate_of()?, day_us: day_us.unwrap_or(86_400_000_000) }
            }
            "bursts" => {
                Arrivals::Bursts { size: raw.size.unwrap_or(1), every_us: every_us.unwrap_or(1) }
            }
            "loop" => {
                Arrivals::Loop { count: raw.count.unwrap_or(1), every_us: every_us.unwrap_or(1) }
            }
            "edge" => {
                let window_us = positive(time_of(&raw.window, "window")?, "window")?.unwrap_or(1);
                let before_us = positive(time_of(&raw.before, "before")?, "before")?;
                if before_us.is_some_and(|before_us| before_us > window_us / 2) {
                    return Err("`before` is at most half of the `window`".to_owned());
                }
                let before_us = before_us.unwrap_or(BEFORE_EDGE_US);
                Arrivals::Edge { window_us, size: raw.size.unwrap_or(1), before_us }
            }
            "gang" => Arrivals::Gang {
                each: raw.each.unwrap_or(1),
                within_us,
                every_us,
                is_new: raw.new.unwrap_or(false),
            },
            _ => {
                if raw.clients.is_some() {
                    return Err("the log says how many `clients` there are".to_owned());
                }
                let traffic = self.log(raw)?;
                clients = u32::try_from(traffic.clients.len()).unwrap_or(u32::MAX);
                Arrivals::Log(Arc::new(traffic))
            }
        };
        Ok((arrivals, clients))
    }

    pub(super) fn log(&self, raw: &RawWorkload) -> ReadResult<tollgate_logs::read::Traffic> {
        let named = raw.log.clone().unwrap_or_default();
        let path = match &self.folder {
            Some(folder) => folder.join(&named),
            None => named,
        };
        let by: By = match &raw.by {
            Some(by) => by.parse().map_err(|error| format!("`by`: {error}"))?,
            None => By::default(),
        };
        let traffic = Reading::by(by).read(&path, |_| ());
        let traffic = traffic.map_err(|error| error.to_string())?;
        if traffic.summary.events == 0 {
            let lines = traffic.summary.lines;
            return Err(format!(
                "{}: none of its {lines} lines could be read as a line of an access log",
                path.display()
            ));
        }
        Ok(traffic)
    }
}

fn retry(raw: &RawWorkload) -> ReadResult<Retry> {
    let how = raw.retry.as_deref().unwrap_or("never");
    let times = raw.times.unwrap_or(TIMES);
    let pause = optional(raw.pause.as_deref(), "pause")?;
    let pause_us = pause.unwrap_or(100_000);
    if pause == Some(0) {
        return Err("`pause` is more than 0: an answer takes some time".to_owned());
    }
    if how == "never" && (raw.times.is_some() || pause.is_some())
        || how == "obey" && pause.is_some()
    {
        return Err(format!("retry = \"{how}\" has no such `times` or `pause`"));
    }
    match how {
        "never" => Ok(Retry::Never),
        "at_once" => Ok(Retry::AtOnce { pause_us, times }),
        "obey" => Ok(Retry::Obey { times }),
        "back_off" => {
            let most_us = pause_us.saturating_mul(1_024);
            Ok(Retry::BackOff { base_us: pause_us, most_us, times })
        }
        other => Err(format!("there is no retry `{other}`: one of never, at_once, obey, back_off")),
    }
}

/// A note on the lines of a log that are not part of the traffic.
pub(super) fn unread(workload: &Workload) -> Option<String> {
    let Arrivals::Log(traffic) = &workload.arrivals else { return None };
    let (unparsed, lines) = (traffic.summary.unparsed, traffic.summary.lines);
    (unparsed > 0).then(|| {
        format!(
            "{}: {unparsed} of {lines} lines could not be read, and are left out.",
            workload.name
        )
    })
}
