//! The transactions of a question, a refund and an inspection.

use smallvec::SmallVec;
use tollgate::engine::{self, Outcome, Part, Portion, decide};
use tollgate::{Charges, Counted, Inspection, Question, Receipt, Refund, StoreError, Time};

use crate::context::Context;
use crate::state::{self, LoadedState};
use crate::sweep;

pub(crate) fn check(cx: &Context<'_>, question: &Question<'_>) -> Result<Outcome, StoreError> {
    let is_peek = question.mode.is_peek();
    let mut found: SmallVec<[LoadedState<'_>; 1]> = SmallVec::new();
    for part in &question.parts {
        found.push(LoadedState::load(cx, *part)?);
    }
    let mut outcome = {
        let mut parts: SmallVec<[Part<'_>; 1]> = question
            .parts
            .iter()
            .zip(&mut found)
            .map(|(part, found)| {
                let carried = found.carried();
                Part::new(part.limits, found).carrying(carried)
            })
            .collect();
        decide(&mut parts, cx.now(), question.cost, question.mode)
    };
    cx.checked()?;
    let charged = outcome.granted > 0 && !is_peek;
    if charged {
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

pub(crate) fn refund(
    cx: &Context<'_>,
    receipt: &Receipt,
    units: u64,
) -> Result<Refund, StoreError> {
    let number = receipt.number.cast_signed();
    let sql = "SELECT units FROM spent WHERE number = ?1";
    let before = cx.first(sql, [number], |row| row.get::<_, i64>(0))?.unwrap_or_default();
    let portion = Portion::part(receipt.cost, before.cast_unsigned(), units);
    if portion.is_nothing() {
        return Ok(Refund::already(receipt.charges.iter().map(|c| c.limits.limits().len()).sum()));
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
        let now_under = found.limits().clone();
        given.extend(engine::refund(&now_under, &mut found, limits, at_us, portion, cx.now()));
        found.save()?;
    }
    // Also for a charge that no longer counts: it might count again after the clock is set back.
    let until_us = engine::receipt_until_us(receipt).max(cx.now().as_micros());
    let sql = "INSERT OR REPLACE INTO spent (number, until_us, units) VALUES (?1, ?2, ?3)";
    cx.execute(sql, [number, until_us.cast_signed(), portion.sum().cast_signed()])?;
    cx.add_sweep_debt(sweep::DEBT_PER_ROW);
    Ok(Refund::new(given, portion.left_after()))
}

pub(crate) fn inspect(
    cx: &Context<'_>,
    counted: Counted<'_>,
) -> Result<Option<Inspection>, StoreError> {
    let Some(state::Row { was, mut own, .. }) = state::look_up(cx, counted)?.row else {
        return Ok(None);
    };
    let limits = was.as_ref().unwrap_or(counted.limits);
    let fresh_at = Time::from_micros(engine::fresh_at_us(limits, &mut own));
    let logs = own.logs.iter().map(crate::log::SqlLog::events).collect();
    let text = limits.full_text().to_owned();
    Ok(Some(Inspection::new(text, own.words.into_vec(), logs, fresh_at, false)))
}
