//! `reserve` and `commit`: units that are set aside until it is known how many were used. `charge`:
//! units without a reservation.

use std::io::Write as _;

use anyhow::{Context as _, Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate::wire::{Answer, Charge, Committed, HoldAnswer};
use tollgate::{
    ChargedLimit, Cost, Error, Hold, HoldKind, HoldName, HoldTerms, Holding, LimitKind, LimitSet,
    ParseError, Subject,
};

use crate::args::{Check, Commit, Credit, CreditArgs, Reserve, SubjectArgs};
use crate::input;
use crate::show::decision::{exit_code, lines};
use crate::show::{self, Output};
use crate::store::BlockingLimiter;
use crate::subject_limits::SubjectLimits;

/// The exit code of a commit of a hold that is not open.
const NOT_OPEN: u8 = 1;

pub(crate) fn reserve(args: &Reserve, out: &mut Output) -> Result<u8> {
    let counts = SubjectLimits::read(&args.which)?;
    let cost = input::costs(&args.cost, false)?;
    let ttl = HoldTerms::read_ttl(&args.ttl).context("`--ttl`")?;
    let mut terms = tollgate::Reserve::from(ttl);
    if args.charge_at_end {
        terms = terms.charging();
    }
    let mut ask = counts.ask().cost(cost);
    if let Some(id) = &args.id {
        ask = ask.named(name_of(id)?);
    }
    let counter = BlockingLimiter::open(&args.place, &args.which, &counts)?;
    let held = counter.wait(counter.limiter.hold(ask.reserve(terms)))?;
    let Holding { decision, hold, ahead, .. } = held;
    if args.json {
        let hold = hold.map(|hold| (word_of(&hold), hold.fence, hold.end));
        out.json(&HoldAnswer::new(Answer::from(&decision), hold, ahead))?;
    } else if let Some(hold) = &hold {
        out.exact(&format!("{}\n", word_of(hold)))?;
    } else {
        // Standard output is for the hold.
        let _ = anstream::stderr().lock().write_all(lines(&decision, false).as_bytes());
    }
    Ok(exit_code(&decision))
}

pub(crate) fn commit(args: &Commit, out: &mut Output) -> Result<u8> {
    let (subject, actual) = match (&args.which.subject, &args.actual) {
        (subject, Some(actual)) => (subject.clone(), actual),
        (Some(actual), None) if args.id.is_some() => (None, actual),
        _ => bail!("give the hold and the used units, as in `tollgate commit \"$hold\" 300`"),
    };
    let which = SubjectArgs { subject, ..args.which.clone() };
    let actual = input::actual(actual)?;
    let (counter, hold) = open(&which, args)?;
    let settled = match counter.wait(counter.limiter.commit(&hold, actual)) {
        Ok(settled) => settled,
        Err(Error::NotOpen(what)) => {
            let _ = writeln!(anstream::stderr().lock(), "error: {what}");
            return Ok(NOT_OPEN);
        }
        Err(error) => return Err(error.into()),
    };
    if args.json {
        out.json(&Committed::new(&hold, &settled))?;
        return Ok(0);
    }
    if hold.kind() == HoldKind::Credit {
        let what = if settled.already { "was taken back before" } else { "is taken back" };
        out.line(format!("what was left of the credit {what}"))?;
        return Ok(0);
    }
    let tollgate::Settled { already, is_early, ref actual, .. } = settled;
    let units = match actual.plain() {
        Some(units) => show::count(units, "unit"),
        None => actual.to_string(),
    };
    if is_early {
        out.line("no hold has this id, so nothing was charged: one that comes later is refused")?;
    } else if already {
        out.line(format!("it was committed before, with {units}: nothing was charged now"))?;
    }
    say_charged(actual, hold.charged(&settled), out)?;
    Ok(0)
}

/// Gives units to a subject once.
pub(crate) fn credit(args: &Credit, out: &mut Output) -> Result<u8> {
    let counts = SubjectLimits::read(&args.which)?;
    let CreditArgs { units, lasts, id } = &args.credit;
    let cost = input::costs(units, false).context("`--units`")?;
    let lasts = HoldTerms::read_ttl(lasts).context("`--for`")?;
    let mut ask = counts.ask().cost(cost.clone()).holding(HoldKind::Credit, Some(lasts));
    if let Some(id) = id {
        ask = ask.named(name_of(id)?);
    }
    let counter = BlockingLimiter::open(&args.place, &args.which, &counts)?;
    let Holding { decision, hold, .. } = counter.wait(counter.limiter.hold(ask))?;
    let hold = hold.context("the store gave no credit")?;
    if args.json {
        let hold = Some((word_of(&hold), hold.fence, hold.end));
        out.json(&HoldAnswer::new(Answer::from(&decision), hold, 0))?;
        return Ok(0);
    }
    let end = show::time(hold.end.as_micros());
    for report in decision.reports().filter(|report| report.limit().kind() == LimitKind::Rate) {
        let (limit, left, subject) = (report.limit(), report.remaining(), report.subject());
        let amount = cost.amounts().of(limit.unit());
        if amount > 0 {
            let given = format!("a credit of {amount} {} until {end}", limit.unit());
            out.line(format!("{subject} has {given}: {left} left ({limit})"))?;
        }
    }
    out.line(format!("take back what is left: tollgate commit {} 0", word_of(&hold)))?;
    Ok(0)
}

/// Charges without a check.
pub(crate) fn charge(args: &Check, out: &mut Output) -> Result<u8> {
    let counts = SubjectLimits::read(&args.which)?;
    let cost = input::costs(&args.cost, false)?;
    let counter = BlockingLimiter::open(&args.place, &args.which, &counts)?;
    let charged = counter.wait(counter.limiter.charge(counts.ask().cost(cost.clone())))?;
    let counts: Vec<(Subject, LimitSet)> = counts.parts().to_vec();
    let counts = counts.iter().map(|(subject, limits)| (subject, limits));
    if args.json {
        out.json(&Charge::new(cost, counts, &charged))?;
        return Ok(0);
    }
    say_charged(&cost, ChargedLimit::each(counts, &charged), out)?;
    Ok(0)
}

/// A line for each limit that was charged.
fn say_charged<'a>(
    cost: &Cost,
    charged: impl Iterator<Item = ChargedLimit<'a>>,
    out: &mut Output,
) -> Result<()> {
    for ChargedLimit { subject, limit, charged, .. } in charged {
        let units = match (cost.plain(), cost.amounts().of(limit.unit())) {
            (Some(units), _) => show::count(units, "unit"),
            // Nothing was charged to it.
            (None, 0) => continue,
            (None, amount) => format!("{amount} {}", limit.unit()),
        };
        let cut = match (charged.cut, cost.plain()) {
            (0, _) => String::new(),
            (cut, Some(_)) => {
                format!(", {} of them cut, more than can be owed", show::count(cut, "unit"))
            }
            (cut, None) => format!(", {cut} of them cut, more than can be owed"),
        };
        let left = charged.remaining;
        out.line(format!("charged {units}{cut} to {subject}: {left} left ({limit})"))?;
    }
    Ok(())
}

/// The hold that is to be settled, and a limiter over its counts.
fn open(which: &SubjectArgs, args: &Commit) -> Result<(BlockingLimiter, Hold)> {
    let Commit { id, place, .. } = args;
    if let Some(id) = id {
        let name = name_of(id)?;
        let counts = SubjectLimits::read(which)?;
        let counter = BlockingLimiter::open(place, which, &counts)?;
        let hold = counts.ask().named(name).named_hold(counter.limiter.limits())?;
        return Ok((counter, hold));
    }
    let SubjectArgs { subject, limit, on, literal, strategy, shard } = which;
    let names_a_count = *literal || strategy.is_some() || shard.is_some();
    if names_a_count || !limit.is_empty() || !on.is_empty() {
        bail!("a hold names its subject: leave out the subject and its limits, or give `--id`");
    }
    let hold = hold_of(subject.as_deref().unwrap_or_default())?;
    Ok((BlockingLimiter::of_hold(place, &hold)?, hold))
}

/// A caller's id for its hold. No message repeats it.
fn name_of(id: &str) -> Result<HoldName> {
    let name: Result<HoldName, ParseError> = id.parse();
    name.map_err(|error| anyhow!("`--id`: {}: {}", error.what(), error.remedy()))
}

/// A hold as one word, which no shell changes.
pub(super) fn word_of(hold: &Hold) -> String {
    URL_SAFE_NO_PAD.encode(hold.to_string())
}

fn hold_of(word: &str) -> Result<Hold> {
    let strange = || {
        anyhow!(
            "`{}` is not a hold: give the word that `tollgate reserve` printed, whole and \
             unchanged",
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
