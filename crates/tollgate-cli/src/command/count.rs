//! `reset`, `adjust` and `inspect`: an administrator's operations on a count.

use anyhow::Result;
use serde::Serialize;
use tollgate::wire::{OpenHold, duration};
use tollgate::{Adjustment, Ask, Decision, Inspection, LimitSet, Place, Unit};

use super::hold::word_of;
use crate::args::{Adjust, CountArgs};
use crate::input;
use crate::show::decision::used;
use crate::show::{self, Output, Wait};
use crate::store::BlockingLimiter;
use crate::subject_limits::SubjectLimits;

/// The most events of a log that are printed.
const SHOWN_EVENTS: usize = 20;

#[derive(Debug, Serialize)]
struct ResetJson {
    subject: String,
    limits: String,
    was_there: bool,
}

pub(crate) fn reset(args: &CountArgs, out: &mut Output) -> Result<u8> {
    let counts = SubjectLimits::read(&args.which)?;
    let counter = BlockingLimiter::open(&args.place, &args.which, &counts)?;
    let limiter = &counter.limiter;
    let mut done = Vec::new();
    for (subject, limits) in counts.parts() {
        let was_there = counter.wait(limiter.admin().reset(Ask::new(subject).under(limits)))?;
        let (subject, limits) = (subject.to_string(), limits.to_string());
        if !args.json {
            let what = if was_there { "reset" } else { "nothing was held for" };
            out.line(format!("{what} {subject} ({limits})"))?;
        }
        done.push(ResetJson { subject, limits, was_there });
    }
    if args.json {
        #[derive(Serialize)]
        struct All {
            reset: Vec<ResetJson>,
        }
        out.json(&All { reset: done })?;
    }
    Ok(0)
}

#[derive(Debug, Serialize)]
struct AdjustJson {
    subject: String,
    by: Adjustment,
    limits: Vec<ChangeJson>,
}

#[derive(Debug, Serialize)]
struct ChangeJson {
    limit: String,
    remaining_changed_by: i64,
    remaining: u64,
    capacity: u64,
}

pub(crate) fn adjust(args: &Adjust, out: &mut Output) -> Result<u8> {
    let counts = SubjectLimits::read(&args.which)?;
    let (subject, limits) = counts.only()?;
    let by = input::delta(&args.by)?;
    let counter = BlockingLimiter::open(&args.place, &args.which, &counts)?;
    let limiter = &counter.limiter;
    let changes =
        counter.wait(limiter.admin().adjust(Ask::new(subject).under(limits), by.clone()))?;
    let after = counter.wait(limiter.check(counts.ask().peek()))?;
    let gives = by.gives();
    let changes: Vec<_> = changes
        .iter()
        .zip(after.reports())
        .map(|(change, report)| ChangeJson {
            limit: report.limit().to_string(),
            remaining_changed_by: *change,
            remaining: report.remaining(),
            capacity: report.limit().capacity(),
        })
        .collect();
    if args.json {
        out.json(&AdjustJson { subject: subject.to_string(), by, limits: changes })?;
        return Ok(0);
    }
    for ChangeJson { limit, remaining_changed_by: change, remaining, capacity } in &changes {
        let units = show::count(change.unsigned_abs(), "unit");
        let what = match change {
            0 if gives && remaining == capacity => "nothing was charged to".to_owned(),
            0 => "changed nothing for".to_owned(),
            1.. => format!("gave back {units} to"),
            _ => format!("took {units} from"),
        };
        out.line(format!("{what} {subject}: {remaining} of {capacity} left ({limit})"))?;
    }
    if changes.iter().all(|change| change.remaining_changed_by == 0) {
        return Ok(0);
    }
    if !gives {
        out.line("bound: units taken count as used from now on, at most what remained")?;
    }
    for (unit, given) in by.iter().filter(|(_, given)| *given > 0) {
        let given = match *unit {
            Unit::REQUESTS => show::count(given.unsigned_abs(), "unit"),
            unit => format!("{given} {unit}"),
        };
        out.line(format!(
            "bound: any window that holds this admits at most {given} more than the limit's own bound"
        ))?;
    }
    Ok(0)
}

#[derive(Debug, Serialize)]
struct InspectJson {
    subject: String,
    limits: String,
    identity: String,
    held: Option<HeldJson>,
    peek: Decision<'static>,
}

#[derive(Debug, Serialize)]
struct HeldJson {
    written_under: String,
    words: Vec<u64>,
    logs: Vec<Vec<(u64, u64)>>,
    fresh_at_us: u64,
    fresh_after: Wait,
    shared: bool,
    /// How many holds are open, and the first 100 of them to end.
    open: u64,
    holds: Vec<OpenHold>,
}

pub(crate) fn inspect(args: &CountArgs, out: &mut Output) -> Result<u8> {
    let counts = SubjectLimits::read(&args.which)?;
    let counter = BlockingLimiter::open(&args.place, &args.which, &counts)?;
    let limiter = &counter.limiter;
    let mut all = Vec::new();
    for (subject, limits) in counts.parts() {
        let held = counter.wait(limiter.admin().inspect(Ask::new(subject).under(limits)))?;
        let peek = counter.wait(limiter.check(Ask::new(subject).under(limits).peek()))?;
        if args.json {
            all.push(InspectJson {
                subject: subject.to_string(),
                limits: limits.to_string(),
                identity: limits.identity().to_owned(),
                held: held.map(|held| {
                    let count = (subject, limits, args.which.shard.as_deref());
                    let holds = OpenHold::each(count, &held, word_of);
                    held_json(held, holds, &peek)
                }),
                peek: peek.into_owned(),
            });
        } else {
            out.text(&held_text(limits, held.as_ref(), &peek))?;
            if let Some(held) = &held {
                let count = (subject, limits, args.which.shard.as_deref());
                let holds = OpenHold::each(count, held, word_of);
                out.text(&holds_text(held.open, &holds, &peek))?;
            }
        }
    }
    if args.json {
        #[derive(Serialize)]
        struct All {
            subjects: Vec<InspectJson>,
        }
        out.json(&All { subjects: all })?;
    }
    Ok(0)
}

fn held_json(held: Inspection, holds: Vec<OpenHold>, peek: &Decision<'_>) -> HeldJson {
    let left_us = held.fresh_at.as_micros().saturating_sub(peek.at().as_micros());
    HeldJson {
        written_under: held.written_under,
        words: held.words,
        logs: held.logs,
        fresh_at_us: held.fresh_at.as_micros(),
        fresh_after: Wait(std::time::Duration::from_micros(left_us)),
        shared: held.shared,
        open: held.open,
        holds,
    }
}

/// The first open holds of a count to end, each with the word that settles it.
fn holds_text(open: u64, holds: &[OpenHold], peek: &Decision<'_>) -> String {
    if open == 0 {
        return String::new();
    }
    let mut text = format!("  {} open\n", show::count(open, "hold"));
    for OpenHold { hold, kind, cost, end_us, age, .. } in holds {
        let ends = show::distance(tollgate::Time::from_micros(*end_us), peek.at());
        let age = age.map_or_else(|| "-".to_owned(), |Wait(age)| duration(age));
        let end = show::time(*end_us);
        text.push_str(&format!("    {kind} {cost} until {end} ({ends}), age {age}\n"));
        text.push_str(&format!("      give it back: tollgate commit {hold} 0\n"));
    }
    let hidden = open.saturating_sub(holds.len() as u64);
    if hidden > 0 {
        text.push_str(&format!("    ... {hidden} more, which end later\n"));
    }
    text
}

/// The stored state of one subject, in words.
fn held_text(limits: &LimitSet, held: Option<&Inspection>, peek: &Decision<'_>) -> String {
    let subject = peek.binding().subject();
    let mut text = format!("{subject}\n");
    for (report, place) in peek.reports().zip(limits.places()) {
        text.push_str(&format!("  {}\n    {}\n", report.limit(), used(&report)));
        let Some(held) = held else { continue };
        match place {
            Place::Log(log) => text.push_str(&events_text(held.logs.get(*log), peek)),
            words => {
                let words = held.words.get(words.words()).unwrap_or_default();
                text.push_str(&format!("    words {words:?}\n"));
            }
        }
    }
    let Some(held) = held else {
        text.push_str("  nothing is held: fresh\n");
        return text;
    };
    if held.written_under != limits.full_text() {
        // The words above then have the layout of those limits.
        text.push_str(&format!("  written under {}\n", held.written_under));
    }
    if held.shared {
        text.push_str("  shared with other subjects: the store is full\n");
    }
    text.push_str(&format!(
        "  fresh at {} ({})\n",
        show::time(held.fresh_at.as_micros()),
        show::distance(held.fresh_at, peek.at()),
    ));
    text
}

/// The newest events of a log.
fn events_text(log: Option<&Vec<(u64, u64)>>, peek: &Decision<'_>) -> String {
    let events = log.map_or(&[][..], Vec::as_slice);
    let mut text = format!("    {} held\n", show::count(events.len() as u64, "event"));
    let hidden = events.len().saturating_sub(SHOWN_EVENTS);
    if hidden > 0 {
        text.push_str(&format!("    ... {hidden} older ones: see --json\n"));
    }
    for (at_us, cost) in &events[hidden..] {
        text.push_str(&format!(
            "    {} ({})  cost {cost}\n",
            show::time(*at_us),
            show::distance(tollgate::Time::from_micros(*at_us), peek.at()),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pollster::block_on;
    use tollgate::engine::ShownHold;
    use tollgate::{Limiter, ManualClock, MemoryStore};

    use super::*;

    #[test]
    fn what_is_held_is_told_in_words() {
        let clock = ManualClock::at_micros(1_000_000_000_000_000);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new("3/60s, 10/s via gcra".parse().unwrap(), store);
        let told = || {
            let held = block_on(limiter.admin().inspect("zoo")).unwrap();
            let peek = limiter.check(Ask::new("zoo").peek()).now().unwrap();
            held_text(limiter.limits(), held.as_ref(), &peek)
        };
        assert!(told().ends_with("  nothing is held: fresh\n"), "{}", told());
        let _ = limiter.check("zoo").now().unwrap();
        clock.advance(Duration::from_millis(1_500));
        let _ = limiter.check(Ask::new("zoo").cost(2)).now().unwrap();
        let text = told();
        for says in [
            "zoo\n  3/m via sliding_log\n    0 of 3 left, 3 used\n    2 events held\n",
            "    2001-09-09T01:46:40Z (1.5s ago)  cost 1\n",
            "    2001-09-09T01:46:41.5Z (0s ago)  cost 2\n",
            "  10/s burst 10 via gcra\n    8 of 10 left, 2 used\n    words [",
            "  fresh at 2001-09-09T01:47:41.5Z (in 1m)\n",
        ] {
            assert!(text.contains(says), "{says}\nis not in\n{text}");
        }
    }

    #[test]
    fn open_holds_are_told_with_their_ages() {
        let clock = ManualClock::at_micros(1_000_000_000_000_000);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new("3 at once hold 1m".parse().unwrap(), store);
        assert!(limiter.hold(Ask::new("zoo").acquire()).now().unwrap().hold.is_some());
        clock.advance(Duration::from_millis(2_500));
        let mut held = block_on(limiter.admin().inspect("zoo")).unwrap().unwrap();
        // As one that an earlier version placed.
        let earlier = ShownHold { age_us: None, ..held.holds[0].clone() };
        (held.open, held.holds) = (2, vec![held.holds[0].clone(), earlier]);
        let peek = limiter.check(Ask::new("zoo").peek()).now().unwrap();
        let subject = "zoo".parse().unwrap();
        let holds = OpenHold::each((&subject, limiter.limits(), None), &held, |_| "H".into());
        let one = "    acquire 1 until 2001-09-09T01:47:40Z (in 57.5s), age";
        let back = "      give it back: tollgate commit H 0\n";
        let text = format!("  2 holds open\n{one} 2.5s\n{back}{one} -\n{back}");
        assert_eq!(holds_text(2, &holds, &peek), text);
    }

    #[test]
    fn a_long_log_shows_its_newest_events() {
        let limiter = Limiter::memory("100/h".parse().unwrap());
        for _ in 0..25 {
            let _ = limiter.check("zoo").now().unwrap();
        }
        let peek = limiter.check(Ask::new("zoo").peek()).now().unwrap();
        let log: Vec<_> = (0..25).map(|i| (i, 1)).collect();
        let text = events_text(Some(&log), &peek);
        assert!(text.starts_with("    25 events held\n    ... 5 older ones"), "{text}");
        assert_eq!(text.lines().count(), 2 + SHOWN_EVENTS);
    }
}
