//! The transactions of a question, a refund and an inspection.

use smallvec::SmallVec;
use tollgate::engine::{self, Carries, Outcome, Part, Portion, Recalled, decide};
use tollgate::{
    Amounts, Charged, Charges, Counted, Hold, Inspection, LimitSet, MAX_SHOWN_HOLDS, Question,
    Receipt, Refund, RequestId, StoreError, Time,
};

use crate::amounts::{cost_in, cost_value};
use crate::context::Context;
use crate::holds::SqlHolds;
use crate::state::{self, LoadedState};
use crate::{requests, sweep};

pub(crate) fn check(cx: &Context<'_>, question: &Question<'_>) -> Result<Outcome, StoreError> {
    let mut found: SmallVec<[LoadedState<'_>; 1]> = SmallVec::new();
    for part in question.parts {
        found.push(LoadedState::load(cx, *part)?);
    }
    if question.hold.is_some() && !question.mode.is_peek() {
        found.iter_mut().try_for_each(LoadedState::hold)?;
    }
    let mut outcome = with_parts(&mut found, |parts| {
        decide(parts, cx.now(), question.cost, question.mode, question.hold.copied())
    })?;
    cx.checked()?;
    // A repeated answer has no receipt: the first one had it.
    let is_repeated = outcome.hold.as_ref().is_some_and(|placed| placed.answer > 1);
    if outcome.granted > 0 && question.charges() && !is_repeated {
        // Later than every reset of the counts that it charges.
        let reset = found.iter().map(LoadedState::reset).max().unwrap_or(0);
        outcome.receipt = cx.numbers_above(reset, question.receipts)?;
    }
    if outcome.changed {
        for found in found {
            found.save()?;
        }
    }
    Ok(outcome)
}

/// Answers a question under a request id: as before, if it was admitted before. Also returns the
/// number of ids that are forgotten before their time.
pub(crate) fn check_once(
    cx: &Context<'_>,
    question: &Question<'_>,
    request: RequestId<'_>,
) -> Result<(Outcome, u64), StoreError> {
    if question.hold.is_some() {
        return Err(StoreError::misuse(
            "a hold is not remembered under a request id: ask without one",
        ));
    }
    let (id, asked) = question.fingerprints(request);
    let recalled = requests::recall(cx, question, (request, &id, &asked))?;
    if let Recalled::Repeated(known) = recalled {
        return Ok((known, 0));
    }
    let (outcome, is_kept) = recalled.judged(check(cx, question)?, question.mode);
    let forgotten = match is_kept {
        true => requests::remember(cx, question, (request, &id, &asked), &outcome)?,
        false => 0,
    };
    Ok((outcome, forgotten))
}

/// Runs `work` on counts and their holds.
fn with_parts<'c, T>(found: &mut [LoadedState<'c>], work: impl FnOnce(&mut [Part<'_>]) -> T) -> T {
    let mut each: SmallVec<[_; 1]> = found
        .iter_mut()
        .map(|found| (found.limits().clone(), found.carried(), found.take_holds(), found))
        .collect();
    let answer = {
        let mut parts: SmallVec<[Part<'_>; 1]> = each
            .iter_mut()
            .map(|(limits, carried, holds, found)| part_of((limits, carried), found, holds))
            .collect();
        work(&mut parts)
    };
    for (_, _, holds, found) in each {
        found.give_holds(holds);
    }
    answer
}

/// A count as a part, with its holds if it has any.
fn part_of<'p>(
    (limits, carried): (&'p LimitSet, &Carries),
    found: &'p mut LoadedState<'_>,
    holds: &'p mut Option<SqlHolds<'_>>,
) -> Part<'p> {
    let part = Part::new(limits, found).carrying(carried.clone());
    match holds {
        Some(holds) => part.holding(holds),
        None => part,
    }
}

/// Settles or renews a hold: `work` on its counts, under the numbers that each is written under.
/// One that `marks` may leave something on the first count where nothing is held.
pub(crate) fn with_hold<T>(
    cx: &Context<'_>,
    hold: &Hold,
    marks: bool,
    work: impl FnOnce(&mut [Part<'_>], &[&LimitSet]) -> T,
) -> Result<T, StoreError> {
    let mut found: SmallVec<[LoadedState<'_>; 1]> = SmallVec::new();
    let mut asked = Vec::new();
    for (subject, limits) in &hold.counts {
        let mut loaded = LoadedState::as_written(cx, Counted::new(subject, limits))?;
        if marks && found.is_empty() {
            loaded.hold()?;
        }
        // A count without holds is left as it is.
        if loaded.is_held() {
            found.push(loaded);
            asked.push(limits);
        }
    }
    let answer = with_parts(&mut found, |parts| work(parts, &asked));
    for found in found {
        found.save()?;
    }
    Ok(answer)
}

/// Runs `work` on one count and its holds.
pub(crate) fn with_part<T>(
    found: &mut LoadedState<'_>,
    work: impl FnOnce(&mut Part<'_>) -> T,
) -> T {
    let (limits, carried, mut holds) =
        (found.limits().clone(), found.carried(), found.take_holds());
    let answer = work(&mut part_of((&limits, &carried), found, &mut holds));
    found.give_holds(holds);
    answer
}

/// Charges without a check.
pub(crate) fn charge(
    cx: &Context<'_>,
    counted: Counted<'_>,
    cost: Amounts<'_>,
) -> Result<Vec<Charged>, StoreError> {
    let mut found = LoadedState::load(cx, counted)?;
    let charged = if found.is_held() {
        with_part(&mut found, |part| engine::charge_holding(part, cx.now(), cost).into_vec())
    } else {
        engine::charge(counted.limits, &mut found, cost, true, cx.now()).into_vec()
    };
    found.save()?;
    Ok(charged)
}

pub(crate) fn refund(
    cx: &Context<'_>,
    receipt: &Receipt,
    units: Amounts<'_>,
) -> Result<Refund, StoreError> {
    let number = receipt.number.cast_signed();
    let sql = "SELECT units FROM spent WHERE number = ?1";
    let before = cx.first(sql, [number], |row| cost_in(row, 0))?.unwrap_or_else(|| 0.into());
    let portion = Portion::part(receipt.cost.amounts(), before.amounts(), units);
    if portion.is_nothing() {
        let limits = receipt.charges.iter().map(|c| c.limits.limits().len()).sum();
        return Ok(Refund::already(limits, portion.left_after()));
    }
    let mut given = Vec::new();
    for charge in &receipt.charges {
        let Charges { subject, limits, at_us, .. } = charge;
        let counted = Counted::new(subject, limits);
        let mut found = LoadedState::as_written(cx, counted)?;
        if receipt.number <= found.reset() {
            given.extend(at_us.iter().map(|_| 0));
            continue;
        }
        given.extend(with_part(&mut found, |part| {
            engine::refund(part, limits, (at_us, receipt.at), &portion, cx.now())
        }));
        found.save()?;
    }
    // Also for a charge that no longer counts: it might count again after the clock is set back.
    let until_us = engine::receipt_until_us(receipt).max(cx.now().as_micros());
    let sql = "INSERT OR REPLACE INTO spent (number, until_us, units) VALUES (?1, ?2, ?3)";
    cx.execute(sql, (number, until_us.cast_signed(), cost_value(&portion.sum())))?;
    cx.add_sweep_debt(sweep::DEBT_PER_ROW);
    Ok(Refund::new(given, portion.left_after()))
}

pub(crate) fn inspect(
    cx: &Context<'_>,
    counted: Counted<'_>,
) -> Result<Option<Inspection>, StoreError> {
    let Some(state::Row { was, mut own, holds, .. }) = state::look_up(cx, counted)?.row else {
        return Ok(None);
    };
    let limits = was.as_ref().unwrap_or(counted.limits);
    let last = |holds: &dyn engine::Holds| {
        let last_us = holds.last().map_or(0, |hold| hold.end_us);
        last_us.max(holds.sums().credits.last_us())
    };
    let last_us = holds.as_ref().map_or(0, |holds| last(holds));
    let open = holds.as_ref().map(|holds| engine::open_holds(holds, cx.now(), MAX_SHOWN_HOLDS));
    let fresh_at = Time::from_micros(engine::fresh_at_us(limits, &mut own).max(last_us));
    let logs = own.logs.iter().map(crate::log::SqlLog::events).collect();
    let text = limits.full_text().to_owned();
    let held = Inspection::new(text, own.words.into_vec(), logs, fresh_at, false);
    cx.checked()?;
    Ok(Some(held.holding(open.unwrap_or_default())))
}
