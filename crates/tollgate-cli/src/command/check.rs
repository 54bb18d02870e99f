//! `check` and `peek`: one decision.

use anyhow::{Result, bail};

use crate::args::Check;
use crate::input;
use crate::show::Output;
use crate::show::decision::{DecisionJson, exit_code, lines};
use crate::store::BlockingLimiter;
use crate::subject_limits::SubjectLimits;

pub(crate) fn check(args: &Check, out: &mut Output) -> Result<u8> {
    decide(args, out, false)
}

pub(crate) fn peek(args: &Check, out: &mut Output) -> Result<u8> {
    decide(args, out, true)
}

fn decide(args: &Check, out: &mut Output, peek: bool) -> Result<u8> {
    let counts = SubjectLimits::read(&args.which)?;
    let cost = input::cost(&args.cost, peek)?;
    let slots = counts.parts().iter().flat_map(|(_, limits)| limits.limits());
    if let (false, Some(limit)) = (peek, slots.into_iter().find(|limit| limit.counts_slots())) {
        bail!(
            "`{limit}` counts what is at work, and a check would never give a slot back: use \
             `tollgate run SUBJECT --at-once {} -- COMMAND`",
            limit.capacity()
        );
    }
    let counter = BlockingLimiter::open(&args.place, &args.which, &counts)?;
    let (limiter, ask) = (&counter.limiter, counts.ask().cost(cost));
    let decision = counter
        .wait(async { if peek { limiter.peek(ask).await } else { limiter.check(ask).await } })?;
    if args.json {
        out.json(&DecisionJson::from_decision(&decision))?;
    } else {
        out.text(&lines(&decision, peek))?;
    }
    Ok(exit_code(&decision))
}
