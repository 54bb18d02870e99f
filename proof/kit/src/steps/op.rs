//! The operations on a count, all of them for small numbers.

use core::fmt;

use tollgate::SKEW_US;

use super::pair::{Numbers, Pair};
use super::place::signed;
use crate::oracle::Rule;

/// One operation. Those with a `set` are asked under these numbers: the count is carried over to
/// them where it has others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Check { set: usize, cost: u64 },
    Part { set: usize, cost: u64 },
    Peek { set: usize, cost: u64 },
    Charge { set: usize, cost: u64 },
    Adjust { by: i64 },
    Refund(Refund),
}

/// A refund of any charge that there can be, whether there was one or not: of `cost`, under these
/// numbers, at that time from now on. `left` of it was not given back before, `units` are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refund {
    pub(super) charged: usize,
    pub(super) after_us: i64,
    pub(super) cost: u64,
    pub(super) left: u64,
    pub(super) units: u64,
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check { set, cost } => write!(out, "check {cost} under {set}"),
            Self::Part { set, cost } => write!(out, "part of {cost} under {set}"),
            Self::Peek { set, cost } => write!(out, "peek {cost} under {set}"),
            Self::Charge { set, cost } => write!(out, "charge {cost} under {set}"),
            Self::Adjust { by } => write!(out, "adjust {by:+}"),
            Self::Refund(Refund { charged, after_us, cost, left, units }) => write!(
                out,
                "refund {units} of {left} left of {cost} charged under {charged} at {after_us:+}"
            ),
        }
    }
}

/// All operations on a count. A cost above the capacity is never admitted, and one of them is
/// enough; so is a charge of one more than all that can be used.
pub(super) fn all(pair: &Pair) -> Vec<Op> {
    let mut ops = Vec::new();
    for (set, numbers) in pair.sets.iter().enumerate() {
        for cost in 1..=numbers.capacity + 1 {
            let each = [Op::Check { set, cost }, Op::Part { set, cost }, Op::Peek { set, cost }];
            ops.extend(each);
        }
        ops.extend((1..=numbers.most + 1).map(|cost| Op::Charge { set, cost }));
        ops.extend(refunds(set, numbers));
    }
    let most = pair.sets.iter().map(|set| signed(set.most)).max().unwrap_or(0);
    ops.extend((1..=most + 1).flat_map(|by| [by, -by]).map(|by| Op::Adjust { by }));
    ops
}

/// The refunds of all charges, from the last that no longer counts to one from after now.
fn refunds(charged: usize, numbers: &Numbers) -> Vec<Op> {
    let skew_us = signed(SKEW_US);
    let mut ops = Vec::new();
    for cost in 1..=numbers.capacity {
        let longest_us = match numbers.rule {
            Rule::Greedy { .. } => numbers.rule.counts_until(0, cost),
            _ => numbers.longest_us,
        };
        for after_us in (-signed(longest_us) - 1..=1).chain([skew_us, skew_us + 1]) {
            let parts = (1..=cost).flat_map(|left| (1..=left).map(move |units| (left, units)));
            let each = parts.map(|(left, units)| Refund { charged, after_us, cost, left, units });
            // Of the other strategies the time and the units matter, and neither the cost nor what
            // was given back before.
            let is_greedy = matches!(numbers.rule, Rule::Greedy { .. });
            let matters = |refund: &Refund| is_greedy || refund.units == cost;
            ops.extend(each.filter(matters).map(Op::Refund));
        }
    }
    ops
}
