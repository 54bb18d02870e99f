//! P1: the maximum that a strategy admits in any interval, from the allowed calls alone.

use std::collections::VecDeque;

use crate::oracle::{Rounding, Rule};

use super::plan::{Plan, Planned};
use super::record::Fault;

/// An allowed call as one count sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted<'p, 'h> {
    pub(super) planned: &'p Planned<'h>,
    pub(super) rule: Rule,
}

/// The finding about one count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bounded {
    Held,
    /// Ids of the calls of one interval, and the bound that they exceed.
    Broken(Vec<u64>, String),
    Unknown(String),
}

/// A point of the sweep: an allowed call at a time that never goes back.
#[derive(Clone, Copy, Debug)]
struct Point {
    id: u64,
    at: i128,
    cost: i128,
}

/// A bound of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Most {
    /// In any interval of length `t`: `burst + n*t/d`. With `whole`, `t/d` counts the multiples of
    /// `d` in it.
    Rate { n: i128, d: i128, burst: i128, whole: bool },
    /// In any half-open interval of this length.
    Window { len: i128, most: i128 },
    /// In each window of the epoch.
    Aligned { d: i128, most: i128 },
}

/// The bounds of a rule. `stepped` is for a clock that stepped back: windows of the epoch then no
/// longer match the time that passed.
pub(super) fn bounds_of(rule: Rule, stepped: bool) -> Vec<Most> {
    let window = |d_us: u64, most: u64| Most::Window { len: d_us.into(), most: most.into() };
    match rule {
        Rule::Greedy { n, d_us, burst } => {
            vec![Most::Rate { n: n.into(), d: d_us.into(), burst: burst.into(), whole: false }]
        }
        Rule::Interval { n, d_us, burst } => {
            // Off the multiples an interval has at most one refill more than it is long.
            let more = if stepped { n } else { 0 };
            let burst = i128::from(burst) + i128::from(more);
            vec![Most::Rate { n: n.into(), d: d_us.into(), burst, whole: !stepped }]
        }
        Rule::FixedEpoch { n, d_us } if stepped => vec![window(d_us, 2 * n)],
        Rule::FixedEpoch { n, d_us } => vec![Most::Aligned { d: d_us.into(), most: n.into() }],
        Rule::FixedFirstHit { n, d_us } => vec![window(d_us, 2 * n - 1)],
        // No window is shorter than two thirds of the least length: of a day, 23 hours or more.
        Rule::Dates { n, d_us, .. } => vec![window(d_us * 2 / 3, 2 * n)],
        Rule::Log { n, d_us } => vec![window(d_us, n)],
        Rule::Window { n, d_us, precision_us, rounding } => match rounding {
            Rounding::Conservative => vec![window(d_us, n)],
            Rounding::Interpolate => vec![window(d_us, 2 * n - 1)],
            Rounding::Truncate if precision_us < d_us && !stepped => {
                vec![window(d_us - precision_us, n), window(d_us, 2 * n)]
            }
            Rounding::Truncate => vec![window(d_us, 2 * n)],
        },
    }
}

/// The capacity of a fresh subject.
pub(super) fn capacity(rule: Rule) -> i128 {
    match rule {
        Rule::Greedy { burst, .. } | Rule::Interval { burst, .. } => burst.into(),
        Rule::FixedEpoch { n, .. }
        | Rule::FixedFirstHit { n, .. }
        | Rule::Dates { n, .. }
        | Rule::Log { n, .. }
        | Rule::Window { n, .. } => n.into(),
    }
}

/// How much more the faults allow to an interval of points.
struct Credit {
    /// For each point, the units that begin at or before it.
    begun: Vec<i128>,
    /// For each point, the units that were over before it.
    over: Vec<i128>,
}

impl Credit {
    fn new(admitted: &[Admitted<'_, '_>], losses: &[&Fault], capacity: i128) -> Self {
        let (mut begun, mut over) = (vec![0; admitted.len()], vec![0; admitted.len()]);
        for loss in losses {
            let units = i128::from(loss.lost_states) * capacity;
            let first = admitted.iter().position(|one| one.planned.returned_us() >= loss.began_us);
            let last =
                admitted.iter().rposition(|one| one.planned.call.invoked_us <= loss.ended_us);
            for slot in begun.iter_mut().skip(first.unwrap_or(usize::MAX)) {
                *slot += units;
            }
            for slot in over.iter_mut().skip(last.map_or(0, |last| last + 1)) {
                *slot += units;
            }
        }
        Self { begun, over }
    }

    fn begun(&self, at: usize) -> i128 {
        self.begun.get(at).copied().unwrap_or(0)
    }

    fn over(&self, at: usize) -> i128 {
        self.over.get(at).copied().unwrap_or(0)
    }

    /// For the points `first` to `last`.
    fn between(&self, first: usize, last: usize) -> i128 {
        self.begun(last) - self.over(first)
    }
}

/// Checks one count. The allowed calls are in the order of their decisions, if the store's times
/// are known and can be trusted.
pub(super) fn check(admitted: &[Admitted<'_, '_>], plan: &Plan<'_>, trusted: bool) -> Bounded {
    let mut verdict = Bounded::Held;
    // Numbers that change start again: carrying over only lowers the admitted units.
    for run in admitted.chunk_by(|one, two| one.rule == two.rule) {
        let Some(rule) = run.first().map(|one| one.rule) else { continue };
        let mut losses = plan.losses.clone();
        // These two know no edges: by the store's time a step gives them nothing.
        if !trusted || !matches!(rule, Rule::Greedy { .. } | Rule::Log { .. }) {
            losses.extend(&plan.shifts);
        }
        let found = if trusted {
            timed_run(run, rule, &Credit::new(run, &losses, capacity(rule)))
        } else {
            super::interval::untimed_run(run, rule, &losses)
        };
        match found {
            Bounded::Broken(..) => return found,
            Bounded::Unknown(_) => verdict = found,
            Bounded::Held => {}
        }
    }
    verdict
}

/// More time than any bound looks at: earlier units count no more.
const UNBOUNDED_US: i128 = 1 << 60;

/// How much time has passed at most for the store from one call to another. Across one clock step
/// it is the store's clock, or the recorder's if that is more: a step back takes no time away.
/// Across several steps nobody knows: the clock may have been ahead in between.
fn passed_us(before: &Planned<'_>, after: &Planned<'_>) -> i128 {
    let by_store = || after.call.decided_us?.checked_sub(before.call.decided_us?);
    let by_recorder = after.returned_us().saturating_sub(before.call.invoked_us);
    match before.epoch.zip(after.epoch).and_then(|(from, to)| to.checked_sub(from)) {
        Some(0) => by_store().unwrap_or(0).into(),
        Some(1) => by_store().unwrap_or(0).max(by_recorder).into(),
        _ => UNBOUNDED_US,
    }
}

fn timed_run(run: &[Admitted<'_, '_>], rule: Rule, credit: &Credit) -> Bounded {
    let (mut points, mut stepped) = (Vec::new(), false);
    let mut last: Option<(i128, &Planned<'_>)> = None;
    for one in run {
        let call = one.planned.call;
        let at = match last {
            None => call.decided_us.unwrap_or(0).into(),
            Some((at, before)) => {
                stepped |= before.epoch != one.planned.epoch;
                at + passed_us(before, one.planned)
            }
        };
        last = Some((at, one.planned));
        points.push(Point { id: call.id, at, cost: call.cost.into() });
    }
    for most in bounds_of(rule, stepped) {
        let exceeded = match most {
            Most::Rate { n, d, burst, whole } => rate(&points, credit, Rate { n, d, burst, whole }),
            Most::Window { len, most } => window(&points, credit, len, most),
            Most::Aligned { d, most } => aligned(&points, credit, d, most),
        };
        if let Some((first, last, bound)) = exceeded {
            let calls = points.get(first..=last).unwrap_or(&[]);
            let sum: i128 = calls.iter().map(|point| point.cost).sum();
            let from = calls.first().map_or(0, |point| point.at);
            let to = calls.last().map_or(0, |point| point.at);
            let reason = format!("{sum} admitted from {from} to {to}; at most {bound}");
            return Bounded::Broken(least(calls, bound), reason);
        }
    }
    Bounded::Held
}

/// As few of the calls of an interval as exceed its bound: those of the largest cost.
fn least(calls: &[Point], bound: i128) -> Vec<u64> {
    let mut by_cost: Vec<&Point> = calls.iter().collect();
    by_cost.sort_by_key(|point| std::cmp::Reverse(point.cost));
    let mut sum = 0;
    let enough = by_cost.iter().take_while(|point| {
        let more = sum <= bound;
        sum += point.cost;
        more
    });
    enough.map(|point| point.id).collect()
}

#[derive(Clone, Copy)]
struct Rate {
    n: i128,
    d: i128,
    burst: i128,
    whole: bool,
}

/// One pass: the least `d*P - n*t` over the starts seen so far, `P` the sum before the start.
fn rate(points: &[Point], credit: &Credit, rate: Rate) -> Option<(usize, usize, i128)> {
    let Rate { n, d, burst, whole } = rate;
    let unit = if whole { 1 } else { d };
    let time = |at: i128| if whole { at.div_euclid(d) } else { at };
    let (mut sum, mut least, mut start) = (0_i128, i128::MAX, 0);
    for (position, point) in points.iter().enumerate() {
        let here = unit * (sum - credit.over(position)) - n * time(point.at);
        if here < least {
            (least, start) = (here, position);
        }
        sum += point.cost;
        let reached = unit * (sum - credit.begun(position)) - n * time(point.at);
        if reached - least > burst * unit {
            let from = points.get(start).map_or(point.at, |point| point.at);
            let refilled = n * (time(point.at) - time(from)) / unit;
            return Some((start, position, burst + refilled + credit.between(start, position)));
        }
    }
    None
}

/// The starts of an interval that ends at the last point; the minimum is wanted.
#[derive(Default)]
struct Starts {
    /// Values and positions that may still become the minimum: both rise.
    rising: VecDeque<(i128, usize)>,
}

impl Starts {
    fn push(&mut self, value: i128, position: usize) {
        while self.rising.back().is_some_and(|&(last, _)| last >= value) {
            self.rising.pop_back();
        }
        self.rising.push_back((value, position));
    }

    fn forget_before(&mut self, first: usize) {
        while self.rising.front().is_some_and(|&(_, position)| position < first) {
            self.rising.pop_front();
        }
    }

    fn least(&self) -> Option<(i128, usize)> {
        self.rising.front().copied()
    }
}

/// Every interval that ends at a point and begins at `begins` or later: its units, less those that
/// the faults allow to it, are at most `most`.
fn sums(
    points: &[Point],
    credit: &Credit,
    most: i128,
    mut begins: impl FnMut(usize) -> usize,
) -> Option<(usize, usize, i128)> {
    let (mut sum, mut starts) = (0, Starts::default());
    for (position, point) in points.iter().enumerate() {
        starts.push(sum - credit.over(position), position);
        starts.forget_before(begins(position));
        sum += point.cost;
        let (least, start) = starts.least()?;
        if sum - credit.begun(position) - least > most {
            return Some((start, position, most + credit.between(start, position)));
        }
    }
    None
}

/// At most `most` in `(t - len, t]` at each point.
fn window(
    points: &[Point],
    credit: &Credit,
    len: i128,
    most: i128,
) -> Option<(usize, usize, i128)> {
    let mut first = 0;
    sums(points, credit, most, |position| {
        let from = points.get(position).map_or(0, |point| point.at - len);
        while points.get(first).is_some_and(|oldest| oldest.at <= from) {
            first += 1;
        }
        first
    })
}

/// At most `most` in each multiple of `d`.
fn aligned(points: &[Point], credit: &Credit, d: i128, most: i128) -> Option<(usize, usize, i128)> {
    let (mut first, mut window) = (0, None);
    sums(points, credit, most, |position| {
        let own = points.get(position).map(|point| point.at.div_euclid(d));
        if window != own {
            (window, first) = (own, position);
        }
        first
    })
}
