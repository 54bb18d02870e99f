//! Decides in this process and writes by compare-and-swap: for strategies without a step in Lua.

use tollgate::engine::{self, Carries, Outcome, Part, VecStates};
use tollgate::{Question, SKEW_US, StoreError, Time};

use super::reply::{StoredValue, damaged};
use crate::state;

/// The arguments of the swap script for each state: the expected value, the new value, its
/// lifetime, and the shortest time for which a later reset is remembered.
type Writes = Vec<Vec<u8>>;

/// Judges the stored states, and returns what to write, if anything.
pub(super) fn decide(
    question: &Question<'_>,
    states: &[StoredValue],
    now: Time,
) -> Result<(Outcome, Option<Writes>), StoreError> {
    let mut loaded: Vec<(VecStates, Carries)> = Vec::new();
    let mut outlived: Vec<u64> = Vec::new();
    for (part, found) in question.parts.iter().zip(states) {
        let limits = part.limits;
        outlived.push(0);
        loaded.push(match found {
            StoredValue::Nothing => (VecStates::fresh(limits), Carries::new()),
            StoredValue::Log(_) => return Err(damaged("it is a log")),
            StoredValue::State(bytes) => {
                let (was, mut old) = state::decode(limits, Some(bytes), &[]).map_err(damaged)?;
                if was.full_text() == limits.full_text() {
                    (old, Carries::new())
                } else {
                    let mut held = VecStates::fresh(limits);
                    let carried = engine::migrate(limits, &mut held, &was, &mut old, now);
                    let span_us = |limits| engine::refundable_until_us(limits, Time::default());
                    if let (Some(last), true) =
                        (outlived.last_mut(), span_us(&was) > span_us(limits))
                    {
                        *last = (span_us(&was) + SKEW_US).div_ceil(1_000);
                    }
                    (held, carried)
                }
            }
        });
    }
    let mut parts: Vec<Part<'_>> = loaded
        .iter_mut()
        .zip(question.parts)
        .map(|((held, carried), part)| Part::new(part.limits, held).carrying(carried.clone()))
        .collect();
    let outcome = engine::decide(&mut parts, now, question.cost, question.mode, None)?;
    drop(parts);
    if !outcome.changed {
        return Ok((outcome, None));
    }
    let mut writes = Writes::new();
    let each = question.parts.iter().zip(states).zip(&mut loaded).zip(outlived);
    for (((part, found), (held, _)), outlived_ms) in each {
        writes.push(match found {
            StoredValue::State(bytes) => bytes.clone(),
            _ => Vec::new(),
        });
        let limits = part.limits;
        let fresh = *held == VecStates::fresh(limits);
        let state = if fresh { None } else { state::encode(limits, held) };
        writes.push(state.unwrap_or_default());
        let counts_us = engine::fresh_at_us(limits, held).saturating_sub(now.as_micros());
        writes.push((counts_us + SKEW_US).div_ceil(1_000).to_string().into_bytes());
        writes.push(outlived_ms.to_string().into_bytes());
    }
    Ok((outcome, Some(writes)))
}
