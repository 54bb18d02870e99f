//! Sets of limits that one check covers.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use super::lease::{Lease, LeaseRefusal, LeaseSize};
use super::name::check_policy;
use super::{Limit, MAX_LIMITS, Unit};
use crate::error::ParseError;
use crate::strategy::{Compiled, Shape};
use crate::time::{Period, Time};

mod weight;

/// Limits that are checked together. One check over them is all or nothing, and their state for a
/// subject is stored as one.
///
/// A count is identified by its policy (or none), its subject, and the set's sorted identities.
/// Clones are cheap.
///
/// ```
/// use tollgate::LimitSet;
/// let set: LimitSet = "10/s, 120/m, 240/h".parse()?;
/// assert_eq!(set.limits().len(), 3);
/// assert_eq!(set.identity(), "sliding_log/1h,sliding_log/1m,sliding_log/1s");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone)]
#[doc(alias("rate limits", "limits"))]
pub struct LimitSet(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    limits: Vec<Limit>,
    /// The units that a node may charge ahead. It is not a part of what is counted, nor of a state.
    lease: Option<Lease>,
    /// Each limit's place in the state, in declared order; states are sorted by identity.
    places: Vec<Place>,
    words: usize,
    logs: usize,
    identity: String,
    full_text: String,
    identity_hash: u64,
    serial: u64,
    /// The shortest hold of its concurrency limits.
    hold: Option<Period>,
    /// Whether one of the limits counts denials.
    hears_denials: bool,
    /// Whether every limit counts requests or slots, or bans.
    is_plain: bool,
    /// The compiled step of a set of one limit, so that a check need not look it up.
    only: Option<Compiled>,
}

/// Where a limit's state is in the state of its set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// A range of words.
    Words {
        /// The first word.
        start: usize,
        /// One past the last.
        end: usize,
    },
    /// The index of a log.
    Log(usize),
}

impl Place {
    /// The words as a range; empty for a log.
    #[must_use]
    pub fn words(self) -> Range<usize> {
        match self {
            Self::Words { start, end } => start..end,
            Self::Log(_) => 0..0,
        }
    }
}

/// The next serial: it distinguishes sets without a comparison of their texts.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

impl LimitSet {
    /// A set of `limits`, reported in this order.
    ///
    /// # Errors
    /// No limits, more than [`MAX_LIMITS`], or two with the same identity; names make identities
    /// differ.
    pub fn new(mut limits: Vec<Limit>) -> Result<Self, ParseError> {
        let text = || limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if limits.is_empty() || limits.len() > MAX_LIMITS {
            return Err(ParseError::whole(
                "",
                format!("a set has 1 to {MAX_LIMITS} limits, not {}", limits.len()),
                "write them joined by `,`, as in `10/s, 240/h`",
            ));
        }
        let mut order: Vec<usize> = (0..limits.len()).collect();
        order.sort_by(|a, b| limits[*a].identity.cmp(&limits[*b].identity));
        let later = |at: usize| &limits[at + 1..];
        let mut each = limits.iter().enumerate();
        if let Some((_, limit)) =
            each.find(|(at, limit)| later(*at).iter().any(|it| limit.is_same(it)))
        {
            return Err(ParseError::whole(
                &text(),
                format!("two limits have the identity `{}`", limit.identity),
                "name them, as in `short: 5/10s, long: 20/10s`",
            ));
        }
        limits.shrink_to_fit();
        let (mut words, mut logs) = (0, 0);
        let mut places = vec![Place::Log(0); limits.len()];
        for &i in &order {
            places[i] = match limits[i].shape() {
                Shape::Words(count) => {
                    words += count;
                    Place::Words { start: words - count, end: words }
                }
                Shape::Log => {
                    logs += 1;
                    Place::Log(logs - 1)
                }
            };
        }
        let identity = order.iter().map(|i| limits[*i].identity()).collect::<Vec<_>>().join(",");
        let full_text = order.iter().map(|i| limits[*i].full_text()).collect::<Vec<_>>().join(", ");
        let only = match &limits[..] {
            [limit] => Some(limit.step().clone()),
            _ => None,
        };
        let slots = limits.iter().filter(|limit| limit.needs_hold());
        let hold = slots.map(|limit| limit.quota().period).min();
        Ok(Self(Arc::new(Inner {
            hold,
            hears_denials: limits.iter().any(Limit::hears_denials),
            is_plain: limits.iter().all(|it| [Unit::REQUESTS, Unit::SLOTS].contains(it.unit())),
            limits,
            lease: None,
            only,
            places,
            words,
            logs,
            identity_hash: hash_of(&identity),
            identity,
            full_text,
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
        })))
    }

    /// The limits of all these sets as one set, outside of any policy, in this order. It has the
    /// lease of the one set that has one.
    ///
    /// ```
    /// use tollgate::LimitSet;
    /// let sets: Vec<LimitSet> = vec!["10/s".parse()?, "240/h lease 5 for 1s".parse()?];
    /// assert_eq!(LimitSet::of_all(&sets)?, "10/s, 240/h lease 5 for 1s".parse()?);
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// As [`LimitSet::new`]; two leases; a lease that not all of the limits can have.
    pub fn of_all(sets: &[Self]) -> Result<Self, ParseError> {
        let all = Self::new(sets.iter().flat_map(Self::limits).cloned().collect())?;
        let mut leases = sets.iter().filter_map(Self::lease);
        let Some(lease) = leases.next() else { return Ok(all) };
        if let Some(other) = leases.next() {
            return Err(ParseError::whole(
                &all.to_string(),
                format!("a lease is given twice: `lease {lease}` and `lease {other}`"),
                "one lease is for all limits of a set: leave one of them out",
            ));
        }
        all.with_lease(lease.size(), Some(lease.ttl()))
    }

    /// The same limits within a policy. They count separately from those of every other policy, and
    /// from those without a policy. The identity begins with `NAME>`; the full text does not
    /// change. A set that already is in a policy moves to this one.
    ///
    /// ```
    /// use tollgate::LimitSet;
    /// let set: LimitSet = "10/s, 240/h".parse()?;
    /// let api = set.clone().in_policy("api")?;
    /// assert_eq!(api.identity(), "api>sliding_log/1h,sliding_log/1s");
    /// assert_eq!((api.full_text(), api.to_string()), (set.full_text(), set.to_string()));
    /// assert!(!api.counts_as(&set));
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// A name other than 1 to 64 letters, digits, `_`, `-` or `.`.
    pub fn in_policy(self, name: &str) -> Result<Self, ParseError> {
        check_policy(name)?;
        let identity = &self.0.identity;
        // No identity of a limit contains `>`, so the policy ends at the first one.
        let bare = identity.split_once('>').map_or(identity.as_str(), |(_, bare)| bare);
        let mut identity = format!("{name}>{bare}");
        identity.shrink_to_fit();
        Ok(Self(Arc::new(Inner {
            identity_hash: hash_of(&identity),
            identity,
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            ..Inner::clone(&self.0)
        })))
    }

    /// The same limits with a lease of this size. Without a time, a lease by share lasts a tenth of
    /// the shortest window, and at most 200 ms. The counts are those of the set without a lease.
    ///
    /// # Errors
    /// A limit with a capacity below 4 units; a size of less than 2 units or of more than half of a
    /// limit; a size in units without a time; a time below 1 ms or longer than a window.
    pub fn with_lease(self, size: LeaseSize, ttl: Option<Period>) -> Result<Self, ParseError> {
        let text = self.to_string();
        self.leasing(size, ttl)
            .map_err(|refusal| ParseError::whole(&text, refusal.what, refusal.remedy))
    }

    pub(crate) fn leasing(
        self,
        size: LeaseSize,
        ttl: Option<Period>,
    ) -> Result<Self, LeaseRefusal> {
        let lease = Some(Lease::of(&self.0.limits, size, ttl)?);
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        Ok(Self(Arc::new(Inner { lease, serial, ..Inner::clone(&self.0) })))
    }

    /// The units that a node may charge ahead, if the set has a lease.
    #[must_use]
    #[inline]
    pub fn lease(&self) -> Option<&Lease> {
        self.0.lease.as_ref()
    }

    /// True when only holds take from one of the limits ([`Limit::needs_hold`]): a check is
    /// refused.
    #[must_use]
    #[inline]
    pub fn needs_hold(&self) -> bool {
        self.0.hold.is_some()
    }

    /// True when one of the limits counts denials ([`Limit::hears_denials`]): then a denial may
    /// change the state.
    #[must_use]
    #[inline]
    pub fn hears_denials(&self) -> bool {
        self.0.hears_denials
    }

    /// True when no limit has a unit of its own: each counts requests or slots, or bans.
    #[must_use]
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.0.is_plain
    }

    /// The same limits for a store that runs its steps in Lua, with the windows of their calendars
    /// around this time ([`Limit::lua_spec`]), and while these are the best to bring: one window
    /// of each holds. `None` if no limit is of a calendar.
    #[must_use]
    pub fn around(&self, now: Time) -> Option<(Self, Range<Time>)> {
        let calendars = || self.limits().iter().filter_map(|it| it.quota().calendar.as_ref());
        let windows = || calendars().map(|calendar| calendar.window(now));
        let start = windows().map(|window| window.start).max()?;
        let end = windows().map(|window| window.end).min()?;
        let limits = self.limits().iter().map(|limit| limit.around(now)).collect();
        Some((Self(Arc::new(Inner { limits, ..Inner::clone(&self.0) })), start..end))
    }

    /// How long a hold on a slot lasts at most: the shortest hold of the concurrency limits. `None`
    /// if there are none.
    #[must_use]
    pub fn hold(&self) -> Option<Period> {
        self.0.hold
    }

    /// The name of the policy, if the set is in one.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.0.identity.split_once('>').map(|(policy, _)| policy)
    }

    /// The limits, in declared order.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.0.limits
    }

    /// The identity of the counts: the sorted identities of the limits, joined by `,`. Within a
    /// policy, its name and `>` come first.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// The full texts of all limits, in the order of their identities. A state is stored with the
    /// text that it was written under. Sets with equal texts count equally.
    #[must_use]
    pub fn full_text(&self) -> &str {
        &self.0.full_text
    }

    /// Where each limit's state is, in declared order. States are laid out by identity, so the same
    /// set written in another order shares its counts.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.0.places
    }

    /// How many words the state of the set has.
    #[must_use]
    pub fn words(&self) -> usize {
        self.0.words
    }

    /// How many logs the state of the set has.
    #[must_use]
    pub fn logs(&self) -> usize {
        self.0.logs
    }

    /// True when both are the same set, or count equally.
    #[must_use]
    #[inline]
    pub fn counts_as(&self, other: &Self) -> bool {
        self.0.serial == other.0.serial
            || (self.0.full_text == other.0.full_text && self.0.identity == other.0.identity)
    }

    /// A hash of the identity, the same in every process.
    #[inline]
    pub(crate) fn identity_hash(&self) -> u64 {
        self.0.identity_hash
    }

    /// A number that only this set and its clones have in this process, to use as the key of a
    /// cache.
    #[must_use]
    #[inline]
    pub fn serial(&self) -> u64 {
        self.0.serial
    }

    /// The step of a set of one limit of requests.
    #[inline]
    pub(crate) fn only_plain_step(&self) -> Option<&Compiled> {
        self.0.only.as_ref().filter(|_| self.0.is_plain)
    }

    /// The one limit of a set, with its step.
    #[inline]
    pub(crate) fn only(&self) -> Option<(&Limit, &Compiled)> {
        Some((self.0.limits.first()?, self.0.only.as_ref()?))
    }

    /// The one limit of a set whose state is two words.
    #[inline]
    pub(crate) fn single_pair(&self) -> Option<&Limit> {
        match (self.0.words, self.0.logs, &self.0.limits[..]) {
            (2, 0, [limit]) => Some(limit),
            _ => None,
        }
    }
}

/// A hash of the identity, the same in every process.
fn hash_of(identity: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(identity)
}

impl From<Limit> for LimitSet {
    fn from(limit: Limit) -> Self {
        // A single limit cannot conflict with another, and is within the bounds.
        Self::new(vec![limit]).unwrap_or_else(|_| unreachable!("one limit is always a set"))
    }
}

impl PartialEq for LimitSet {
    fn eq(&self, other: &Self) -> bool {
        self.0.serial == other.0.serial
            || (self.0.limits == other.0.limits
                && self.0.identity == other.0.identity
                && self.0.lease == other.0.lease)
    }
}

impl Eq for LimitSet {}

impl fmt::Display for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, limit) in self.limits().iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{limit}")?;
        }
        match &self.0.lease {
            Some(lease) => write!(f, " lease {lease}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_part_of_the_identity_and_of_nothing_else() {
        let set: LimitSet = "api: 5/10s, 20/10s".parse().unwrap();
        let one = set.clone().in_policy("a-1_b.C").unwrap();
        let two = set.clone().in_policy("9").unwrap();
        assert_eq!(one.identity(), "a-1_b.C>api,sliding_log/10s");
        assert_eq!(one.clone().in_policy("9").unwrap(), two);
        assert_ne!(one, two);
        assert!(!one.counts_as(&two) && !one.counts_as(&set));
        assert_eq!((one.places(), one.full_text()), (set.places(), set.full_text()));
        for name in ["", "a>b", "a b", "ä", &"x".repeat(65)] {
            let error = set.clone().in_policy(name).unwrap_err().to_string();
            assert!(error.contains("not the name of a policy"), "{name}: {error}");
        }
    }

    #[test]
    fn policies_do_not_share_counts_in_memory() {
        let limiter = crate::Limiter::memory("1/h via gcra".parse().unwrap());
        let one = limiter.limits().clone().in_policy("one").unwrap();
        let two = limiter.limits().clone().in_policy("two").unwrap();
        for set in [limiter.limits(), &one, &two] {
            let ask = || crate::Ask::new("bob").under(set);
            assert!(limiter.check(ask()).now().unwrap().is_allowed(), "{}", set.identity());
            assert!(!limiter.check(ask()).now().unwrap().is_allowed(), "{}", set.identity());
        }
        // Parsed again, as a reload does, it is the same count.
        let again: LimitSet = "1/h via gcra".parse().unwrap();
        let again = again.in_policy("two").unwrap();
        assert!(!limiter.check(crate::Ask::new("bob").under(&again)).now().unwrap().is_allowed());
    }
}
