//! `check` and `peek`: one decision.

use anyhow::{Context as _, Result};
use tollgate::HoldKind;

use crate::args::{Check, Peek};
use crate::input;
use crate::show::Output;
use crate::show::decision::{exit_code, lines};
use crate::store::BlockingLimiter;
use crate::subject_limits::SubjectLimits;

pub(crate) fn check(args: &Check, out: &mut Output) -> Result<u8> {
    decide(args, out, None)
}

pub(crate) fn peek(args: &Peek, out: &mut Output) -> Result<u8> {
    let kind = HoldKind::of_peek(&args.kind).context("`--kind`")?;
    decide(&args.check, out, Some(kind))
}

/// Checks, or with `Some` peeks, as for a hold of that kind.
fn decide(args: &Check, out: &mut Output, peek: Option<Option<HoldKind>>) -> Result<u8> {
    let (kind, peek) = (peek.flatten(), peek.is_some());
    let counts = SubjectLimits::read(&args.which)?;
    let cost = input::costs(&args.cost, peek).context("`--cost`")?;
    if !peek {
        input::refuse_slots(counts.parts(), "a check")?;
    }
    let counter = BlockingLimiter::open(&args.place, &args.which, &counts)?;
    let (limiter, mut ask) = (&counter.limiter, counts.ask().cost(cost));
    if let Some(kind) = kind {
        ask = ask.holding(kind, None);
    }
    let decision = counter.wait(async {
        if peek { limiter.check(ask.peek()).await } else { limiter.check(ask).await }
    })?;
    if args.json {
        out.json(&decision)?;
    } else {
        out.text(&lines(&decision, peek))?;
    }
    Ok(exit_code(&decision))
}
