//! The decisions of this process alone while the store is away: by its share of each limit, by the
//! same strategies, in memory.

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use tollgate::{
    Adjustment, Ask, Cost, Decision, Error, Limit, LimitSet, Limiter, MemoryStore, ParseError,
    Receipt, RequestId, Store as _, Subject, Unit, at_once,
};

use super::known::{Note, Notes, RecentCounts};
use crate::on_failure::OnFailure;
use crate::ready::Local;

/// The counts of this process, and the store's last answers. The counts stay when the store is
/// back, so that a further outage does not add a new burst.
#[derive(Debug)]
pub(super) struct LocalCounts {
    pub(super) limiter: Limiter<MemoryStore>,
    known: RecentCounts,
    hash: foldhash::fast::RandomState,
}

/// A request's demand, without its limits.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) cost: Cost,
    pub(super) is_partial: bool,
    pub(super) is_peek: bool,
    /// Whether the caller waits where it is denied.
    pub(super) waits: bool,
}

/// A count with its limits, and the share of them that this process may admit.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedCount<'a> {
    pub(super) subject: &'a Subject,
    pub(super) whole: &'a LimitSet,
    pub(super) local: &'a Local,
}

/// Inline limits with their shares, for when the store fails.
#[derive(Debug)]
pub(super) struct InlineShares {
    pub(super) counts: Vec<(Subject, LimitSet, Local)>,
    pub(super) demand: Demand,
    /// The text of the request id, and the rest of it.
    request: Option<(Box<str>, RequestId<'static>)>,
}

impl InlineShares {
    /// The shares of an ask, where its failure rule is local.
    ///
    /// # Errors
    /// An invalid subject; a limit that no such share can be counted of.
    pub(super) fn new(
        ask: &Ask<'_>,
        rule: OnFailure,
        is_peek: bool,
    ) -> Result<Option<Box<Self>>, ParseError> {
        let Some(share) = rule.share() else { return Ok(None) };
        let counts = ask.parts().filter_map(|(subject, limits)| Some((subject, limits?)));
        let counts: Result<_, ParseError> = counts
            .map(|(subject, whole)| {
                let limits = whole.share(share)?;
                Ok((subject.clone().resolve()?, whole.clone(), Local { share, limits }))
            })
            .collect();
        let (is_partial, waits) = (ask.is_partial(), ask.is_waiting());
        let cost = ask.amounts().into();
        let demand = Demand { cost, is_partial, is_peek, waits };
        let request = ask.request_id().map(|id| (id.text().into(), id.with_text("")));
        Ok(Some(Box::new(Self { counts: counts?, demand, request })))
    }

    pub(super) fn request(&self) -> Option<RequestId<'_>> {
        self.request.as_ref().map(|(text, id)| id.with_text(text))
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = SharedCount<'_>> + Clone {
        let each = self.counts.iter();
        each.map(|(subject, whole, local)| SharedCount { subject, whole, local })
    }
}

impl LocalCounts {
    pub(super) fn new(unused: LimitSet, store: MemoryStore) -> Self {
        let limiter = Limiter::new(unused, store);
        Self { limiter, known: RecentCounts::new(), hash: foldhash::fast::RandomState::default() }
    }

    fn key(&self, subject: &str, limits: &LimitSet) -> u64 {
        self.hash.hash_one((subject, limits.identity()))
    }

    /// Notes what remains of these counts by the store's answer. Counts without a share have no
    /// limits here.
    pub(super) fn note<'s>(
        &self,
        decision: &Decision<'_>,
        whole: impl Fn(usize) -> Option<&'s LimitSet>,
    ) {
        // A full store answered by a count that others share.
        if decision.is_shared() {
            return;
        }
        let now = self.limiter.store().now();
        let mut current: Option<(usize, u64, MutexGuard<'_, Notes>)> = None;
        for report in decision.reports() {
            let part = report.part();
            if current.as_ref().is_none_or(|(last, ..)| *last != part) {
                // The lock of the last part ends before the next begins.
                drop(current.take());
                let Some(limits) = whole(part) else { continue };
                let key = self.key(report.subject(), limits);
                current = Some((part, key, self.known.lock(key)));
            }
            if let Some((_, key, notes)) = &mut current {
                let key = self.hash.hash_one((*key, report.limit().identity()));
                let until = now.plus(report.reset_after());
                notes.put(key, Note { remaining: report.remaining(), until });
            }
        }
    }

    /// Begins a count from the store's last answer: at most the share of the units that remained
    /// then does remain. Other decisions about it wait until this is done.
    fn begin(&self, count: SharedCount<'_>) -> Result<(), Error> {
        let SharedCount { subject, whole, local } = count;
        let key = self.key(subject.as_str(), whole);
        let mut notes = self.known.lock(key);
        let now = self.limiter.store().now();
        let each = whole.limits().iter();
        let known: SmallVec<[Option<Note>; 4]> = each
            .map(|limit| notes.take(self.hash.hash_one((key, limit.identity())), now))
            .collect();
        if known.iter().all(Option::is_none) {
            return Ok(());
        }
        let units = local.limits.limits().iter();
        let units = units.filter(|limit| limit.has_capacity() && !limit.is_uncounted());
        let units = units.map(unit_of);
        let units: BTreeSet<Unit> = units.collect();
        for unit in units {
            let ask = || Ask::new(subject).under(&local.limits).cost(Cost::of_unit(unit, 1));
            let fresh = self.limiter.check(ask().peek()).now()?;
            // A full memory counts newcomers together: they must not begin with the use of each.
            if fresh.is_shared() {
                return Ok(());
            }
            let beyond = |(report, note): (tollgate::Report<'_>, &Option<Note>)| {
                let (limit, note) = (report.limit(), note.as_ref()?);
                // A ban bounds every unit.
                let bounds = unit_of(limit) == unit || !limit.has_capacity();
                let most = local.share.of(note.remaining);
                bounds.then(|| report.remaining().saturating_sub(most))
            };
            // One correction takes as much from every limit of the unit.
            let beyond = fresh.reports().zip(&known).filter_map(beyond).max().unwrap_or(0);
            if let Ok(beyond @ 1..) = i64::try_from(beyond) {
                let by = Adjustment::of_unit(unit, -beyond);
                at_once(self.limiter.admin().adjust(ask(), by)).transpose()?;
            }
        }
        Ok(())
    }

    /// Decides by the shares of these counts.
    pub(super) fn decide<'a>(
        &'a self,
        counts: impl Iterator<Item = SharedCount<'a>>,
        demand: &Demand,
        request: Option<RequestId<'a>>,
    ) -> Result<Decision<'a>, Error> {
        let mut parts = Vec::new();
        for count in counts {
            self.begin(count)?;
            parts.push((count.subject, &count.local.limits));
        }
        let mut ask = Ask::from(parts).cost(demand.cost.clone());
        if demand.is_partial {
            ask = ask.partial();
        }
        if demand.waits {
            ask = ask.waiting();
        }
        if let Some(request) = request {
            ask = ask.request(request);
        }
        match demand.is_peek {
            true => self.limiter.check(ask.peek()).now(),
            false => self.limiter.check(ask).now(),
        }
    }

    /// True for the receipt of a charge that was made here.
    pub(super) fn issued(&self, receipt: &Receipt) -> bool {
        self.limiter.store().issued(receipt)
    }
}

/// The amounts of a cost that these counts have limits of. The others are of policies that count
/// nothing while the store is away.
pub(super) fn counted_by<'a>(
    cost: &Cost,
    counts: impl Iterator<Item = SharedCount<'a>> + Clone,
) -> Cost {
    let is_counted = |unit: &Unit| {
        let mut limits = counts.clone().flat_map(|count| count.whole.limits());
        limits.any(|limit| limit.has_capacity() && [*limit.unit(), unit_of(limit)].contains(unit))
    };
    let amounts = cost.amounts().iter().filter(|(unit, _)| is_counted(unit));
    amounts.map(|(unit, amount)| (*unit, amount)).collect()
}

/// The unit of which a limit bounds a cost: a plain number of requests is of slots, too.
fn unit_of(limit: &Limit) -> Unit {
    match *limit.unit() {
        Unit::SLOTS => Unit::REQUESTS,
        unit => unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::ManualClock;

    /// Five outages of a second, a second apart, under as much demand as there can be: one burst of
    /// the share, and the units of the share in the whole time.
    #[test]
    fn outages_that_come_and_go_admit_one_burst_and_the_rate_of_the_share() {
        let share: tollgate::Share = "1/4".parse().unwrap();
        for (text, burst, rate) in [
            ("100/s via gcra", 25, 25),
            ("100/s via token_bucket", 25, 25),
            ("100/s burst 8 via gcra", 2, 25),
            ("2/s via gcra", 1, 0),
            ("4/s via uniform", 1, 1),
            ("40/4s via sliding_log", 10, 2),
            ("40/4s via fixed_window", 20, 2),
            ("40/4s via sliding_window", 10, 2),
        ] {
            let clock = ManualClock::at_micros(1_700_000_000_000_000);
            let store = MemoryStore::builder().clock(clock.clone()).build();
            let whole: LimitSet = text.parse().unwrap();
            let counts = LocalCounts::new(whole.clone(), store);
            let server =
                Limiter::new(whole.clone(), MemoryStore::builder().clock(clock.clone()).build());
            let local = Local { share, limits: whole.share(share).unwrap() };
            let subject = Subject::literal("user:1").unwrap();
            let count = SharedCount { subject: &subject, whole: &whole, local: &local };
            let (is_partial, is_peek, waits) = (false, false, false);
            let demand = Demand { cost: Cost::from(1), is_partial, is_peek, waits };
            let mut admitted = 0;
            for step in 0..10_000_u64 {
                if step / 1_000 % 2 == 0 {
                    let decision = counts.decide([count].into_iter(), &demand, None).unwrap();
                    admitted += decision.granted();
                } else if step % 100 == 0 {
                    let decision = server.check(&subject).now().unwrap();
                    counts.note(&decision, |_| Some(&whole));
                }
                clock.advance(core::time::Duration::from_millis(1));
            }
            let most = burst + 10 * rate + u64::from(rate == 0) * 5;
            assert!(admitted <= most, "{text}: {admitted} of {most}");
            assert!(admitted > 0, "{text}");
        }
    }
}
