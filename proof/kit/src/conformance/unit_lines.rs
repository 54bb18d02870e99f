//! The case that runs the time lines of `vectors/units.txt`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use tollgate::{Ask, Cost};

use super::StoreMaker;
use super::hold_lines::decided;
use super::world::World;
use crate::vectors::holds::Said;
use crate::vectors::{self, units};

/// Every line of `vectors/units.txt` is answered as it says.
pub(super) fn time_lines_of_units_are_answered_as_written<M: StoreMaker>(maker: &M) {
    let (name, text) = units::UNIT_VECTORS;
    for time_line in units::parse(text).unwrap() {
        let first_us = time_line.lines.first().map_or(0, |line| line.at_us);
        let world = World::new(maker, &time_line.limits, first_us);
        for line in &time_line.lines {
            world.at(line.at_us);
            let what = format!("{name}:{}: {} ({})", line.number, line.case, line.cost);
            let ask = Ask::new("zoo").cost(line.cost.parse::<Cost>().expect(&what));
            let seen = match line.ask {
                vectors::Ask::Peek => decided(&world.peek(ask), Said::Yes),
                vectors::Ask::Partial => {
                    let decision = world.check(ask.partial());
                    decided(&decision, Said::Granted(decision.granted()))
                }
                _ => decided(&world.check(ask), Said::Yes),
            };
            let expect = line.expect.as_ref().expect(&what);
            assert!(expect.allows(&seen), "{what}: answered {seen} instead of {expect}");
        }
    }
}
