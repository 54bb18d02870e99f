//! Counts whose limits have changed numbers.

use super::{Carried, Carries, States};
use crate::limit::LimitSet;
use crate::strategy::Step as _;
use crate::time::Time;

/// Carries a state `old`, counted under `was`, over into the fresh `states` of `limits`. Limits are
/// matched by identity.
pub fn migrate(
    limits: &LimitSet,
    states: &mut dyn States,
    was: &LimitSet,
    old: &mut dyn States,
    now: Time,
) -> Carries {
    let mut carries = Carries::new();
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        let before = was.limits().iter().zip(was.places());
        let found = before.into_iter().find(|(held, _)| held.identity() == limit.identity());
        carries.push(match found {
            Some((held, from)) if held.strategy() == limit.strategy() => {
                let (mut cell, mut from) = (states.cell(*place), old.cell(*from));
                if held.step() == limit.step() {
                    // The same numbers in another notation, such as 60/1m and 1/1s under one name.
                    cell.copy(&mut from);
                    Carried::Same
                } else {
                    limit.step().migrate(&mut cell, held.step(), &mut from, now);
                    Carried::Over
                }
            }
            _ => Carried::Fresh,
        });
    }
    carries
}
