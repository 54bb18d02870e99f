//! `reserve` and `commit`: units that are set aside until it is known how many were used.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tollgate::{Error, Hold, Holding};

use crate::args::{Commit, Reserve};
use crate::input;
use crate::show::decision::{DecisionJson, exit_code, lines};
use crate::show::{self, Output, Wait};
use crate::store::BlockingLimiter;
use crate::subject_limits::SubjectLimits;

/// The exit code of a commit of a hold that is not open.
const NOT_OPEN: u8 = 1;

#[derive(Debug, Serialize)]
struct ReserveJson {
    hold: Option<String>,
    fence: Option<u64>,
    ends_after: Option<Wait>,
    decision: Box<RawValue>,
}

pub(crate) fn reserve(args: &Reserve, out: &mut Output) -> Result<u8> {
    let counts = SubjectLimits::read(&args.which)?;
    let cost = input::cost(&args.cost, false)?;
    let ttl = input::wait(&args.ttl).context("`--ttl`")?;
    let mut terms = tollgate::Reserve::from(ttl);
    if args.charge_at_end {
        terms = terms.charging();
    }
    let counter = BlockingLimiter::open(&args.place, &args.which, &counts)?;
    let held = counter.wait(counter.limiter.reserve(counts.ask().cost(cost), terms))?;
    let Holding { decision, hold, .. } = held;
    let word = hold.as_ref().map(word_of);
    if args.json {
        let ends_after = hold.as_ref().map(|hold| {
            let us = hold.end.as_micros().saturating_sub(decision.at().as_micros());
            Wait(Duration::from_micros(us))
        });
        out.json(&ReserveJson {
            hold: word,
            fence: hold.map(|hold| hold.fence),
            ends_after,
            decision: to_raw_value(&DecisionJson::from_decision(&decision))?,
        })?;
    } else if let Some(word) = word {
        out.line(word)?;
    } else {
        // Standard output is for the hold.
        let _ = anstream::stderr().lock().write_all(lines(&decision, false).as_bytes());
    }
    Ok(exit_code(&decision))
}

#[derive(Debug, Serialize)]
struct CommitJson {
    already: bool,
    actual: u64,
    limits: Vec<ChargedJson>,
}

#[derive(Debug, Serialize)]
struct ChargedJson {
    subject: String,
    limit: String,
    fits: bool,
    cut: u64,
    remaining: u64,
}

pub(crate) fn commit(args: &Commit, out: &mut Output) -> Result<u8> {
    let hold = hold_of(&args.hold)?;
    let actual = input::actual(&args.actual)?;
    let counter = BlockingLimiter::of_hold(&args.place, &hold)?;
    let settled = match counter.wait(counter.limiter.commit(&hold, actual)) {
        Ok(settled) => settled,
        Err(Error::NotOpen(what)) => {
            let _ = writeln!(anstream::stderr().lock(), "error: {what}");
            return Ok(NOT_OPEN);
        }
        Err(error) => return Err(error.into()),
    };
    let limits = hold.counts.iter().flat_map(|(subject, set)| {
        set.limits().iter().map(move |limit| (subject.to_string(), limit.to_string()))
    });
    let charged = settled.charged.iter().zip(limits).map(|(charged, (subject, limit))| {
        let (fits, cut, remaining) = (charged.fits, charged.cut, charged.remaining);
        ChargedJson { subject, limit, fits, cut, remaining }
    });
    let limits: Vec<_> = charged.collect();
    let (already, actual) = (settled.already, settled.actual);
    if args.json {
        out.json(&CommitJson { already, actual, limits })?;
        return Ok(0);
    }
    let units = show::count(actual, "unit");
    if already {
        out.line(format!("it was committed before, with {units}: nothing was charged now"))?;
    }
    for ChargedJson { subject, limit, cut, remaining, .. } in &limits {
        let cut = match cut {
            0 => String::new(),
            cut => format!(", {} of them cut, more than can be owed", show::count(*cut, "unit")),
        };
        out.line(format!("charged {units}{cut} to {subject}: {remaining} left ({limit})"))?;
    }
    Ok(0)
}

/// A hold as one word, which no shell changes.
fn word_of(hold: &Hold) -> String {
    URL_SAFE_NO_PAD.encode(hold.to_string())
}

fn hold_of(word: &str) -> Result<Hold> {
    let strange = || {
        anyhow!(
            "`{}` is no hold: give the word that `tollgate reserve` printed, whole and unchanged",
            input::shown(word)
        )
    };
    if word.is_empty() {
        bail!("the hold is empty: was the reservation denied? It is what `reserve` printed");
    }
    let text = URL_SAFE_NO_PAD.decode(word).map_err(|_| strange())?;
    let text = String::from_utf8(text).map_err(|_| strange())?;
    text.parse().map_err(|_| strange())
}
