//! Leases: how much of a set of limits a node may charge ahead and spend by itself.

use core::fmt;

use super::{Limit, MAX_UNITS, Unit};
use crate::strategy::Strategy;
use crate::time::Period;

/// The shortest time that a lease lasts: 1 ms.
pub const MIN_LEASE_US: u64 = 1_000;

/// The longest time that `lease auto` lasts unless it is given: 200 ms.
const AUTO_US: u64 = 200_000;

/// The share of the capacity that `lease auto` holds at most unless it is given.
const AUTO_SHARE: LeaseShare = LeaseShare(100);

/// The least size of a lease. One unit would ask the store as often as no lease.
const MIN_UNITS: u64 = 2;

/// A share in hundredths of a percent: from 1 (0.01 %) to 5,000 (50 %).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseShare(u32);

impl LeaseShare {
    /// The largest share that one node may hold: half.
    const MAX: u32 = 5_000;

    /// A share in hundredths of a percent. `None` outside of 1 to 5,000.
    #[must_use]
    pub const fn new(hundredths: u32) -> Option<Self> {
        if hundredths >= 1 && hundredths <= Self::MAX { Some(Self(hundredths)) } else { None }
    }

    /// Reads `1%` or `0.25%`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = text.strip_suffix('%')?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 2 || whole.len() > 2 {
            return None;
        }
        let scale = if fraction.len() == 1 { 10 } else { 1 };
        Self::new(whole.parse::<u32>().ok()? * 100 + fraction.parse::<u32>().ok()? * scale)
    }

    /// This share of `units`, rounded down.
    fn of(self, units: u64) -> u64 {
        // At most 2^40 units.
        units * u64::from(self.0) / 10_000
    }
}

/// `1%`, `0.25%`.
impl fmt::Display for LeaseShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 100, self.0 % 100);
        match fraction {
            0 => write!(f, "{whole}%"),
            tenths if tenths % 10 == 0 => write!(f, "{whole}.{}%", tenths / 10),
            hundredths => write!(f, "{whole}.{hundredths:02}%"),
        }
    }
}

/// How many units a node holds at most.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::exhaustive_enums)] // a number or a share
pub enum LeaseSize {
    /// This many.
    Units(u64),
    /// This share of the least capacity of the set.
    Share(LeaseShare),
}

/// A lease of a set of limits: a node charges units ahead, in one call, and spends them in memory.
/// It takes as many as it needs, and at most [`Lease::units`].
///
/// In notation it is the last option of one limit of the set: `lease 50 for 200ms`, `lease auto`,
/// `lease auto 0.25% for 100ms`. `docs/leases.md` has the bound.
///
/// ```
/// use tollgate::LimitSet;
/// let set: LimitSet = "1000/s via gcra lease auto".parse()?;
/// let lease = set.lease().expect("it has one");
/// assert_eq!((lease.units(), lease.ttl().to_string().as_str()), (10, "100ms"));
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    size: LeaseSize,
    ttl: Period,
    units: u64,
    unit: Unit,
}

/// The part of a lease that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeasePart {
    Size,
    Ttl,
}

/// Why a set of limits cannot have a lease.
#[derive(Debug)]
pub(crate) struct LeaseRefusal {
    pub(crate) part: LeasePart,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Lease {
    /// The size, as it is written.
    #[must_use]
    pub fn size(&self) -> LeaseSize {
        self.size
    }

    /// How long after it was asked for a unit is spent at most.
    #[must_use]
    pub fn ttl(&self) -> Period {
        self.ttl
    }

    /// The unit of which a node charges ahead: that of each limit of the set.
    #[must_use]
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// The most units that one node holds, those of a renewal included.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The maximum number of units that `limit` admits in any half-open window of this length, over
    /// all of `nodes` nodes with this lease, on one live store. It is the limit's maximum in it and
    /// the units that every node held before it, or the limit's maximum in a window that is longer
    /// by the lease's time. A `fixed_window` lease ends with its window, and adds nothing.
    #[must_use]
    pub fn most_in(&self, limit: &Limit, window: Period, nodes: u64) -> u64 {
        let alone = limit.most_in(window);
        if limit.strategy() == Strategy::FixedWindow {
            return alone;
        }
        let held = alone.saturating_add(self.units.saturating_mul(nodes));
        let us = window.as_micros().saturating_add(self.ttl.as_micros());
        // Windows of more than 366 days are not periods.
        Period::from_micros(us).map_or(held, |longer| held.min(limit.most_in(longer)))
    }

    /// The lease of a set of these limits.
    pub(crate) fn of(
        limits: &[Limit],
        size: LeaseSize,
        ttl: Option<Period>,
    ) -> Result<Self, LeaseRefusal> {
        let refuse = |part, what: String, remedy: String| Err(LeaseRefusal { part, what, remedy });
        let unit = unit_of(limits)?;
        let least = limits.iter().min_by_key(|limit| limit.capacity());
        let capacity = least.map_or(0, Limit::capacity);
        if let Some(limit) = limits.iter().find(|limit| limit.capacity() < 2 * MIN_UNITS) {
            return refuse(
                LeasePart::Size,
                format!("`{limit}` has nothing to lease: it admits {capacity} at once"),
                "leave the lease out: a node holds at least 2 units, and at most half of the limit"
                    .to_owned(),
            );
        }
        let units = match size {
            LeaseSize::Units(units) => units,
            LeaseSize::Share(share) => share.of(capacity),
        };
        if units < MIN_UNITS {
            let (what, remedy) = match size {
                LeaseSize::Units(_) => (
                    "a lease of less than 2 units saves no question".to_owned(),
                    format!("give a number from 2 to {}, or leave the lease out", capacity / 2),
                ),
                LeaseSize::Share(share) => {
                    let enough = (MIN_UNITS * 10_000).div_ceil(capacity);
                    let enough =
                        u32::try_from(enough).ok().and_then(LeaseShare::new).unwrap_or(share);
                    (
                        format!("{share} of {capacity} units is less than 2"),
                        format!("write `lease auto {enough}`, or leave the lease out"),
                    )
                }
            };
            return refuse(LeasePart::Size, what, remedy);
        }
        if units > capacity / 2 || units > MAX_UNITS {
            return refuse(
                LeasePart::Size,
                format!("one node would hold {units} of the {capacity} units of a limit"),
                format!("a node holds at most half of it: {}", capacity / 2),
            );
        }
        let shortest = limits.iter().map(|limit| limit.quota().period).min();
        let shortest_us = shortest.map_or(0, Period::as_micros);
        let ttl_us = match (ttl, size) {
            (Some(ttl), _) => ttl.as_micros(),
            (None, LeaseSize::Share(_)) => AUTO_US.min(shortest_us / 10),
            (None, LeaseSize::Units(units)) => {
                return refuse(
                    LeasePart::Size,
                    format!("a lease of {units} units needs a time"),
                    format!("write how long it lasts, as in `lease {units} for 200ms`"),
                );
            }
        };
        let ends_in_time = |ttl: &Period| (MIN_LEASE_US..=shortest_us).contains(&ttl.as_micros());
        let Some(ttl_within) = Period::from_micros(ttl_us).filter(ends_in_time) else {
            let shortest = shortest.map(|period| period.to_string()).unwrap_or_default();
            let what = match ttl {
                Some(ttl) if ttl_us < MIN_LEASE_US => {
                    format!("a lease of {ttl} ends before it can be used")
                }
                Some(ttl) => format!("a lease of {ttl} is longer than the limit's {shortest}"),
                None => format!("a tenth of {shortest} is too short for a lease"),
            };
            let remedy = match shortest_us {
                ..MIN_LEASE_US => "leave the lease out".to_owned(),
                _ => format!("a lease lasts 1ms to {shortest}, as in `for 1ms`"),
            };
            let part = if ttl.is_some() { LeasePart::Ttl } else { LeasePart::Size };
            return refuse(part, what, remedy);
        };
        Ok(Self { size, ttl: ttl_within, units, unit })
    }
}

/// The unit that a node can charge ahead of these limits, whatever their numbers.
fn unit_of(limits: &[Limit]) -> Result<Unit, LeaseRefusal> {
    let refuse = |what: String, remedy: &str| {
        Err(LeaseRefusal { part: LeasePart::Size, what, remedy: remedy.to_owned() })
    };
    if limits.iter().any(Limit::hears_denials) {
        return refuse(
            "a set with a ban cannot be leased: a node would count only its own denials".to_owned(),
            "leave out the lease, or the ban",
        );
    }
    // Slots are held, and never charged.
    let mut charged = limits.iter().filter(|limit| *limit.unit() != Unit::SLOTS);
    let first = charged.next().map_or(Unit::REQUESTS, |limit| *limit.unit());
    match charged.find(|limit| *limit.unit() != first) {
        Some(limit) => refuse(
            format!("a lease is of one unit: `{limit}` counts {}, not {first}", limit.unit()),
            "leave out the lease, or give each unit a set of limits of its own",
        ),
        None => Ok(first),
    }
}

/// As after `lease`: `50 for 200ms`, `auto 1% for 100ms`.
impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            LeaseSize::Units(units) => write!(f, "{units}")?,
            LeaseSize::Share(share) => write!(f, "auto {share}")?,
        }
        write!(f, " for {}", self.ttl)
    }
}

impl LeaseSize {
    /// The size of `lease auto` without a share.
    pub(crate) const AUTO: Self = Self::Share(AUTO_SHARE);
}

#[cfg(test)]
mod tests {
    use crate::limit::LimitSet;

    fn set(text: &str) -> LimitSet {
        text.parse().unwrap()
    }

    #[test]
    fn a_lease_is_printed_in_full_and_parses_back() {
        for (text, printed, units) in [
            ("1000/s via gcra lease auto", "auto 1% for 100ms", 10),
            ("1000/m via gcra lease auto", "auto 1% for 200ms", 10),
            ("1000/s via gcra lease auto 2.5%", "auto 2.5% for 100ms", 25),
            ("9000/s via gcra lease auto 0.25% for 1s", "auto 0.25% for 1s", 22),
            ("1000/s via gcra burst 400 lease=50 for 20ms", "50 for 20ms", 50),
            ("5/s lease 2 for 1ms, 9/m", "2 for 1ms", 2),
            ("5/s, 9/m lease 2 for 1ms", "2 for 1ms", 2),
        ] {
            let set = set(text);
            let lease = set.lease().unwrap();
            assert_eq!((lease.to_string().as_str(), lease.units()), (printed, units), "{text}");
            let again: LimitSet = set.to_string().parse().unwrap();
            assert_eq!(again, set);
            assert_eq!(again.lease(), set.lease());
        }
    }

    #[test]
    fn a_lease_is_no_part_of_what_is_counted() {
        let (plain, leased) = (set("1000/s via gcra"), set("1000/s via gcra lease auto"));
        assert_ne!(plain, leased);
        assert!(plain.counts_as(&leased));
        assert_eq!((plain.identity(), plain.full_text()), (leased.identity(), leased.full_text()));
        let named = leased.clone().in_policy("api").unwrap();
        assert_eq!(named.lease(), leased.lease());
        assert!("1000/s via gcra lease auto".parse::<crate::Limit>().is_err());
    }

    #[test]
    fn the_bound_of_a_calendar_is_by_its_shortest_window() {
        let set = set("10/month in UTC lease 2 for 1s, b: 10/day in Europe/Berlin");
        let most = |place: usize, window: &str| {
            let (limit, window) = (&set.limits()[place], window.parse().unwrap());
            assert_eq!(set.lease().unwrap().most_in(limit, window, 9), limit.most_in(window));
            limit.most_in(window)
        };
        assert_eq!((most(0, "1us"), most(0, "28d"), most(0, "29d")), (10, 20, 30));
        assert_eq!((most(1, "1us"), most(1, "23h"), most(1, "24h")), (10, 20, 30));
    }

    #[test]
    fn the_bound_is_the_smaller_of_two() {
        let set = set("100/s burst 50 via gcra lease 10 for 100ms, w: 100/s via fixed_window");
        let (lease, greedy) = (set.lease().unwrap(), &set.limits()[0]);
        let most = |window: &str, nodes| lease.most_in(greedy, window.parse().unwrap(), nodes);
        assert_eq!(greedy.most_in("1s".parse().unwrap()), 149);
        assert_eq!((most("1s", 0), most("1s", 1), most("1s", 2)), (149, 159, 159));
        assert_eq!((most("1us", 1), most("1us", 2)), (60, 60));
        let exact = &set.limits()[1];
        assert_eq!(lease.most_in(exact, "1s".parse().unwrap(), 9), 200);
    }
}
