//! P1 for counts with leases. Units are spent on nodes, where no answer has the store's time: each
//! call was decided between its two instants, and the bound is that of `Lease::most_in`.

use std::collections::BTreeSet;

use tollgate::{Lease, Limit, Period};

use super::bound::{Admitted, Bounded};
use super::plan::{Plan, Planned};
use super::record::Bounds;

/// The shortest interval that is looked at.
const LEAST_US: u64 = 100;

/// An allowed call of one count.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    invoked_us: u64,
    returned_us: u64,
    cost: u128,
    id: u64,
}

/// A limit with its lease, on this many nodes. A continuing count with other numbers starts again:
/// carrying over only lowers the admitted units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeasedLimit<'h> {
    pub(super) limit: &'h Limit,
    pub(super) lease: &'h Lease,
    pub(super) nodes: u64,
}

impl<'h> LeasedLimit<'h> {
    /// The limit of this count for a call, if it has a lease there.
    pub(super) fn of(planned: &Planned<'h>, track: usize, nodes: u64) -> Option<Self> {
        let limits =
            planned.call.parts.iter().flat_map(|part| {
                part.limits.limits().iter().map(|limit| (limit, part.limits.lease()))
            });
        let (_, (limit, lease)) =
            planned.asked.iter().zip(limits).find(|(asked, _)| asked.track == track)?;
        Some(Self { limit, lease: lease?, nodes })
    }

    fn most_in(&self, length_us: u64) -> Option<u64> {
        Some(self.lease.most_in(self.limit, Period::from_micros(length_us)?, self.nodes))
    }
}

/// How many nodes there are: without a number each client may be one.
pub(super) fn nodes(calls: &[&Planned<'_>], bounds: &Bounds) -> u64 {
    let clients = || calls.iter().map(|planned| planned.call.client.as_str());
    bounds.nodes.unwrap_or_else(|| clients().collect::<BTreeSet<_>>().len() as u64)
}

/// Checks one count in intervals of many lengths, each a quarter longer than the one before.
pub(super) fn check(
    admitted: &[Admitted<'_, '_>],
    of: LeasedLimit<'_>,
    plan: &Plan<'_>,
) -> Bounded {
    let mut calls: Vec<Allowed> = admitted
        .iter()
        .map(|Admitted { planned, .. }| Allowed {
            invoked_us: planned.call.invoked_us,
            returned_us: planned.returned_us(),
            cost: planned.call.cost.into(),
            id: planned.call.id,
        })
        .collect();
    calls.sort_by_key(|call| (call.invoked_us, call.id));
    let Some(first) = calls.first() else { return Bounded::Held };
    let last_us = calls.iter().map(|call| call.returned_us).max().unwrap_or(0);
    // The last call lies within it.
    let span_us = last_us.saturating_sub(first.invoked_us).saturating_add(1).max(LEAST_US);
    let (period_us, ttl_us) = (of.limit.quota().period.as_micros(), of.lease.ttl().as_micros());
    let longer = |us: &u64| us.checked_add(us.div_ceil(4));
    let lengths = core::iter::successors(Some(LEAST_US), longer).take_while(|us| *us < span_us);
    let marked = [period_us, ttl_us, period_us.saturating_add(ttl_us), span_us];
    let mut verdict = Bounded::Held;
    for length_us in lengths.chain(marked) {
        let Some(most) = of.most_in(length_us) else { continue };
        match within(&calls, length_us, most, |from_us| credit(plan, of, from_us, length_us)) {
            Bounded::Held => {}
            found @ Bounded::Broken(..) => return found,
            found @ Bounded::Unknown(_) => verdict = found,
        }
    }
    verdict
}

/// The excess that the faults allow an interval. For lost state it is one capacity and the units of
/// all nodes; for a step of the store's clock it is one capacity.
fn credit(plan: &Plan<'_>, of: LeasedLimit<'_>, from_us: u64, length_us: u64) -> u64 {
    let to_us = from_us.saturating_add(length_us);
    let touched = |began_us: u64, ended_us: u64| began_us <= to_us && from_us <= ended_us;
    let capacity = of.limit.capacity();
    let lost = capacity.saturating_add(of.nodes.saturating_mul(of.lease.units()));
    // Units that were charged before a loss are spent until their lease ends.
    let held_us = |ended_us: u64| ended_us.saturating_add(of.lease.ttl().as_micros());
    let losses = plan.losses.iter().filter(|loss| touched(loss.began_us, held_us(loss.ended_us)));
    let losses = losses.map(|loss| u64::from(loss.lost_states).saturating_mul(lost));
    let steps = plan.shifts.iter().filter(|step| touched(step.began_us, step.ended_us));
    losses.chain(steps.map(|_| capacity)).fold(0, u64::saturating_add)
}

/// Intervals of one length that begin with a call. Broken when the calls that certainly lie in one
/// exceed the bound; unknown when only those that may lie in it do.
fn within(calls: &[Allowed], length_us: u64, most: u64, credit: impl Fn(u64) -> u64) -> Bounded {
    let mut by_return: Vec<(u64, usize)> =
        calls.iter().map(|call| call.returned_us).zip(0..).collect();
    by_return.sort_unstable();
    let mut places = vec![0; calls.len()];
    for (place, (_, call)) in by_return.iter().enumerate() {
        if let Some(slot) = places.get_mut(*call) {
            *slot = place;
        }
    }
    let mut sums =
        Sums::new(by_return.iter().map(|(_, call)| calls.get(*call).map_or(0, |c| c.cost)));
    let mut verdict = Bounded::Held;
    let total: u128 = calls.iter().map(|call| call.cost).sum();
    // The units that returned before the start, and those that began after the end.
    let (mut over, mut over_place) = (0, 0);
    let (mut begun, mut begun_place) = (0, 0);
    for (call, place) in calls.iter().zip(&places) {
        let (from_us, end_us) = (call.invoked_us, call.invoked_us.saturating_add(length_us));
        let most = u128::from(most.saturating_add(credit(from_us)));
        let ended = by_return.partition_point(|(returned_us, _)| *returned_us < end_us);
        let surely = sums.before(ended);
        if surely > most {
            let inside = |call: &&Allowed| call.invoked_us >= from_us && call.returned_us < end_us;
            let ids = calls.iter().filter(inside).map(|call| call.id).collect();
            let reason =
                format!("{surely} admitted between {from_us} and {end_us}; at most {most}");
            return Bounded::Broken(ids, reason);
        }
        while let Some((returned_us, returned)) = by_return.get(over_place) {
            if *returned_us >= from_us {
                break;
            }
            over += calls.get(*returned).map_or(0, |call| call.cost);
            over_place += 1;
        }
        while let Some(next) = calls.get(begun_place).filter(|next| next.invoked_us < end_us) {
            begun += next.cost;
            begun_place += 1;
        }
        let later = total - begun;
        if total - over - later > most {
            let reason = "without the store's time the calls may lie so close or not";
            verdict = Bounded::Unknown(reason.to_owned());
        }
        sums.remove(*place, call.cost);
    }
    verdict
}

/// Sums of the first values, some of them taken out (P. Fenwick, "A New Data Structure for
/// Cumulative Frequency Tables", 1994).
struct Sums(Vec<u128>);

impl Sums {
    fn new(values: impl Iterator<Item = u128>) -> Self {
        let mut sums = Self(core::iter::once(0).chain(values).collect());
        for place in 1..sums.0.len() {
            let above = place + (place & place.wrapping_neg());
            let value = sums.0.get(place).copied().unwrap_or(0);
            if let Some(slot) = sums.0.get_mut(above) {
                *slot += value;
            }
        }
        sums
    }

    /// The sum of the first `number` values.
    fn before(&self, number: usize) -> u128 {
        let mut sum = 0;
        let mut place = number;
        while place > 0 {
            sum += self.0.get(place).copied().unwrap_or(0);
            place &= place - 1;
        }
        sum
    }

    /// Takes so much of a value, by its place from 0.
    fn remove(&mut self, place: usize, value: u128) {
        let mut place = place + 1;
        while let Some(slot) = self.0.get_mut(place) {
            *slot -= value;
            place += place & place.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_the_first_values_without_those_taken_out() {
        let mut sums = Sums::new([3, 0, 7, 2, 9].into_iter());
        let all = |sums: &Sums| (0..=5).map(|number| sums.before(number)).collect::<Vec<_>>();
        assert_eq!(all(&sums), [0, 3, 3, 10, 12, 21]);
        sums.remove(2, 7);
        sums.remove(0, 1);
        assert_eq!(all(&sums), [0, 2, 2, 2, 4, 13]);
    }
}
