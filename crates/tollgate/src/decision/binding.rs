//! The limit of a decision that binds, and the numbers that are shown of it.

use core::time::Duration;

use super::{Decision, Report};
use crate::limit::{Limit, Unit};
use crate::strategy::NEVER_US;

impl Decision<'_> {
    /// The largest cost that every limit of this [`Decision::unit`] would admit now.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> u64 {
        if self.limits == 1 {
            return self.numbers[0].remaining;
        }
        if self.is_allowed() && self.is_plain() {
            // The binding limit has the smallest.
            return self.fields().map(|fields| fields.remaining).min().unwrap_or(0);
        }
        self.remaining_of_unit()
    }

    /// Whether no limit counts a unit of its own.
    fn is_plain(&self) -> bool {
        self.parts().all(|(_, limits)| limits.is_plain())
    }

    /// The least of the limits of the binding limit's unit, and of bans: different units have no
    /// least number together.
    #[inline(never)]
    fn remaining_of_unit(&self) -> u64 {
        let unit = self.unit();
        let is_one =
            |report: &Report<'_>| !report.limit().has_capacity() || report.limit().unit() == unit;
        self.reports().filter(is_one).map(|report| report.remaining()).min().unwrap_or(0)
    }

    /// The capacity of the binding limit, in units. Where that is a ban, which has none, it is the
    /// least capacity of the limits beside it.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.measure().capacity()
    }

    /// The unit of [`Decision::limit`] and [`Decision::remaining`].
    #[must_use]
    pub fn unit(&self) -> &Unit {
        self.measure().unit()
    }

    /// The binding limit, or beside a ban that binds, the one with the least capacity.
    fn measure(&self) -> &Limit {
        let binding = self.binding().limit();
        if binding.has_capacity() {
            return binding;
        }
        let each = self.reports().map(|report| report.limit());
        let counts = |limit: &&Limit| limit.has_capacity() && !limit.is_uncounted();
        each.filter(counts).min_by_key(|it| it.capacity()).unwrap_or(binding)
    }

    /// The shortest wait until the binding limit is fresh.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.binding().reset_after()
    }

    /// The binding limit: on a denial the one with the longest wait, on an Allow the one with the
    /// least remaining. Of several units it is the one that has room for the fewest more such
    /// checks. Ties go to the first declared.
    #[must_use]
    #[inline]
    pub fn binding(&self) -> Report<'_> {
        self.binding_at().1
    }

    /// The place of the binding limit among the [reports](Decision::reports), from 0.
    #[must_use]
    pub fn binding_place(&self) -> usize {
        self.binding_at().0
    }

    /// The binding limit, and its place among the reports.
    #[inline]
    pub(crate) fn binding_at(&self) -> (usize, Report<'_>) {
        if self.limits == 1 {
            return (0, self.report(0));
        }
        let place = self.binding_of_all();
        (place, self.report(place))
    }

    #[inline(never)]
    fn binding_of_all(&self) -> usize {
        if self.is_allowed() && !self.is_plain() {
            return self.binding_of_units();
        }
        let mut best = (0, self.field(0));
        for (index, field) in self.fields().enumerate().skip(1) {
            let better = if self.is_allowed() {
                field.remaining < best.1.remaining
            } else {
                // `None` means never, and counts as longer than every wait.
                field.retry_after_us.unwrap_or(NEVER_US) > best.1.retry_after_us.unwrap_or(NEVER_US)
            };
            if better {
                best = (index, field);
            }
        }
        best.0
    }

    /// The limit that has room for the fewest more such checks. One of which the cost takes nothing
    /// has room for any number.
    fn binding_of_units(&self) -> usize {
        let amounts = self.amounts();
        let room = |report: Report<'_>| match report.limit().has_capacity() {
            true => report.remaining().checked_div(amounts.of(report.limit().unit())),
            false => None,
        };
        let each = self
            .reports()
            .map(|report| (room(report).unwrap_or(u64::MAX), report.limit().is_uncounted()));
        each.enumerate().min_by_key(|(_, room)| *room).map_or(0, |(place, _)| place)
    }
}
