//! Limits: a quota under a strategy, with an identity; and sets of them that count together.

use core::fmt;
use core::ops::Range;
use core::str::FromStr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use crate::error::ParseError;
use crate::notation;
use crate::strategy::{Compiled, Greedy, LuaSpec, Shape, Step, Strategy};
use crate::time::Period;

mod weight;

/// The largest `N` and the largest burst: 2^40.
pub const MAX_UNITS: u64 = 1 << 40;

/// The largest cost of one check: 2^40.
pub const MAX_COST: u64 = 1 << 40;

/// The most limits in one set.
pub const MAX_LIMITS: usize = 32;

/// The most of a bare quota (without `via`) that is taken as a `sliding_log`.
pub const MAX_BARE_UNITS: u64 = 1_000;

/// How the straddling sub-bucket of a `sliding_window` counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Rounding {
    /// In full: never more than N in any D.
    #[default]
    Conservative,
    /// By the share of it that is still inside the window.
    Interpolate,
    /// Not at all.
    Truncate,
}

/// How a `token_bucket` refills.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Refill {
    /// Steadily: one token each D/N.
    #[default]
    Greedy,
    /// N at once, at every multiple of D since the epoch.
    Interval,
}

/// Where a `fixed_window` starts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Anchor {
    /// At multiples of D since the epoch.
    #[default]
    Epoch,
    /// At the first admitted check after the last window ended.
    FirstHit,
}

/// How much: `units` per `period`, and what the strategy takes beside.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Quota {
    /// N, from 1 to [`MAX_UNITS`].
    pub units: u64,
    /// D.
    pub period: Period,
    /// The capacity of a bucket, in total.
    pub burst: Option<u64>,
    /// The length of a sub-bucket.
    pub precision: Option<Period>,
    /// How the straddling sub-bucket counts.
    pub rounding: Option<Rounding>,
    /// How a bucket refills.
    pub refill: Option<Refill>,
    /// Where windows start.
    pub anchor: Option<Anchor>,
}

impl Quota {
    /// `units` per `period`, everything else left to the strategy's defaults.
    #[must_use]
    pub const fn new(units: u64, period: Period) -> Self {
        Self {
            units,
            period,
            burst: None,
            precision: None,
            rounding: None,
            refill: None,
            anchor: None,
        }
    }

    /// `10 per 1s`.
    pub(crate) fn rate(&self) -> String {
        format!("{} per {}", self.units, self.period)
    }

    /// The time between two units, for people.
    pub(crate) fn gap(&self) -> String {
        let us = self.period.as_micros();
        if us.is_multiple_of(self.units) {
            Period::from_micros(us / self.units).map_or_else(String::new, |gap| gap.to_string())
        } else {
            format!("{}/{}", self.period, self.units)
        }
    }
}

/// The part of a limit's text that a refusal is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Units,
    Period,
    Burst,
    Precision,
}

/// Why a quota cannot be counted: which number, what is wrong, what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) word: Word,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Refusal {
    pub(crate) fn new(word: Word, what: String, remedy: String) -> Self {
        Self { word, what, remedy }
    }
}

/// A quota under a strategy, with an identity: its name, else strategy and window.
///
/// ```
/// use tollgate::Limit;
/// let limit: Limit = "api: 100/s burst 200 via token_bucket".parse()?;
/// assert_eq!(limit.identity(), "api");
/// assert_eq!(limit.to_string(), "api: 100/s burst 200 refill greedy via token_bucket");
/// let bare: Limit = "5/10s".parse()?;
/// assert_eq!(bare.to_string(), "5/10s via sliding_log");
/// assert_eq!(bare.identity(), "sliding_log/10s");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    name: Option<String>,
    quota: Quota,
    strategy: Strategy,
    identity: String,
    full_text: String,
    step: Compiled,
}

impl Limit {
    /// A limit of `quota` under `strategy`.
    ///
    /// # Errors
    /// Numbers that are out of range or cannot be counted exactly, and an option that the
    /// strategy does not take; the error names the number to change.
    pub fn new(quota: Quota, strategy: Strategy) -> Result<Self, ParseError> {
        Self::build(None, quota, strategy)
            .map_err(|(text, refusal)| ParseError::whole(&text, refusal.what, refusal.remedy))
    }

    pub(crate) fn build(
        name: Option<String>,
        mut quota: Quota,
        strategy: Strategy,
    ) -> Result<Self, (String, Refusal)> {
        let text = quota.rate();
        check_options(&quota, strategy).map_err(|refusal| (text.clone(), refusal))?;
        check_ranges(&quota).map_err(|refusal| (text.clone(), refusal))?;
        let step = strategy.compile(&quota).map_err(|refusal| (text, refusal))?;
        fill_defaults(&mut quota, strategy);
        let mut identity = name.clone().unwrap_or_else(|| format!("{strategy}/{}", quota.period));
        identity.shrink_to_fit();
        let full_text = full_text(name.as_deref(), &quota, strategy);
        Ok(Self { name, quota, strategy, identity, full_text, step })
    }

    /// The same limit under a name of its own.
    ///
    /// # Errors
    /// A name that is not a letter followed by letters, digits, `_`, `-` or `.`, at most 64.
    pub fn named(self, name: &str) -> Result<Self, ParseError> {
        notation::check_name(name, name, 0..name.len())?;
        let full_text = full_text(Some(name), &self.quota, self.strategy);
        Ok(Self { identity: name.to_owned(), name: Some(name.to_owned()), full_text, ..self })
    }

    /// The full form, with every default written out: it reads back as an equal limit.
    #[must_use]
    pub fn full_text(&self) -> &str {
        &self.full_text
    }

    /// What a count belongs to: the name, else strategy and window.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// How much, with the strategy's defaults filled in.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// How it counts.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// What a fresh subject can take at once: 1 for `uniform`, the burst for `token_bucket` and
    /// `gcra`, else N.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.step.capacity()
    }

    /// The shape of its state, for stores.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.step.shape()
    }

    /// The same limit for a store whose steps run in Lua.
    #[must_use]
    pub fn lua_spec(&self) -> LuaSpec {
        self.step.lua_spec()
    }

    #[inline]
    pub(crate) fn step(&self) -> &Compiled {
        &self.step
    }
}

/// Refuses an option that the strategy does not take: it would be lost.
fn check_options(quota: &Quota, strategy: Strategy) -> Result<(), Refusal> {
    let given = [
        ("burst", quota.burst.is_some(), Word::Burst),
        ("precision", quota.precision.is_some(), Word::Precision),
        ("rounding", quota.rounding.is_some(), Word::Units),
        ("refill", quota.refill.is_some(), Word::Units),
        ("anchor", quota.anchor.is_some(), Word::Units),
    ];
    for (option, is_given, word) in given {
        if is_given && !strategy.options().contains(&option) {
            let mut takers = Strategy::ALL.iter().filter(|s| s.options().contains(&option));
            let taker = takers.next().map_or("another", |s| s.name());
            return Err(Refusal::new(
                word,
                format!("`{strategy}` takes no `{option}`"),
                format!("leave it out, or use `via {taker}`"),
            ));
        }
    }
    Ok(())
}

fn check_ranges(quota: &Quota) -> Result<(), Refusal> {
    let range = |word, what: &str, value: u64| {
        if value == 0 {
            return Err(Refusal::new(
                word,
                format!("{what} of 0 would never admit anything"),
                "give at least 1".to_owned(),
            ));
        }
        if value > MAX_UNITS {
            return Err(Refusal::new(
                word,
                format!("{what} of {value} is too large"),
                format!("the largest is 2^40 = {MAX_UNITS}"),
            ));
        }
        Ok(())
    };
    range(Word::Units, "a quota", quota.units)?;
    quota.burst.map_or(Ok(()), |burst| range(Word::Burst, "a burst", burst))
}

/// Writes down what the strategy takes when nothing was said, so that one meaning has one text.
fn fill_defaults(quota: &mut Quota, strategy: Strategy) {
    for option in strategy.options() {
        match *option {
            "burst" => quota.burst = quota.burst.or(Some(quota.units)),
            "rounding" => quota.rounding = quota.rounding.or(Some(Rounding::default())),
            "refill" => quota.refill = quota.refill.or(Some(Refill::default())),
            "anchor" => quota.anchor = quota.anchor.or(Some(Anchor::default())),
            "precision" => {
                let tenth = Period::from_micros(quota.period.as_micros() / 10);
                quota.precision = quota.precision.or(tenth);
            }
            _ => {}
        }
    }
}

impl FromStr for Limit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        notation::parse_limit(text, 0..text.len(), None)
    }
}

impl fmt::Display for Limit {
    /// [`Limit::full_text`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full_text)
    }
}

fn full_text(name: Option<&str>, quota: &Quota, strategy: Strategy) -> String {
    let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
    let mut text = format!("{name}{}/{:#}", quota.units, quota.period);
    if let Some(burst) = quota.burst {
        text += &format!(" burst {burst}");
    }
    if let Some(precision) = quota.precision {
        text += &format!(" precision {precision}");
    }
    text += match quota.rounding {
        Some(Rounding::Conservative) => " rounding conservative",
        Some(Rounding::Interpolate) => " rounding interpolate",
        Some(Rounding::Truncate) => " rounding truncate",
        None => "",
    };
    text += match quota.refill {
        Some(Refill::Greedy) => " refill greedy",
        Some(Refill::Interval) => " refill interval",
        None => "",
    };
    text += match quota.anchor {
        Some(Anchor::Epoch) => " anchor epoch",
        Some(Anchor::FirstHit) => " anchor first-hit",
        None => "",
    };
    text += &format!(" via {strategy}");
    // Kept for long, and counted by its length.
    text.shrink_to_fit();
    text
}

/// Limits that count together: one check over them is all or nothing, and their state for a
/// subject is kept in one place.
///
/// A count belongs to (policy or none, subject, the set's sorted identities). Cheap to clone.
///
/// ```
/// use tollgate::LimitSet;
/// let set: LimitSet = "10/s, 120/m, 240/h".parse()?;
/// assert_eq!(set.limits().len(), 3);
/// assert_eq!(set.identity(), "sliding_log/1h,sliding_log/1m,sliding_log/1s");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone)]
pub struct LimitSet(Arc<Inner>);

struct Inner {
    limits: Vec<Limit>,
    /// For each limit in declared order, its place among the sorted identities.
    places: Vec<Place>,
    words: usize,
    logs: usize,
    identity: String,
    full_text: String,
    identity_hash: u64,
    serial: u64,
    /// The step of a set that is one greedy limit.
    greedy: Option<Greedy>,
}

/// Where a limit's state lies in the state of its set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// These words.
    Words {
        /// The first word.
        start: usize,
        /// One past the last.
        end: usize,
    },
    /// This log.
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

/// Tells sets apart without comparing them.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

impl LimitSet {
    /// A set of `limits`, in the order in which they are reported.
    ///
    /// # Errors
    /// None, more than [`MAX_LIMITS`], or two with the same identity: name them.
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
        if let Some(pair) =
            order.windows(2).find(|w| limits[w[0]].identity == limits[w[1]].identity)
        {
            return Err(ParseError::whole(
                &text(),
                format!("two limits have the identity `{}`", limits[pair[0]].identity),
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
        let greedy = match &limits[..] {
            [limit] => limit.step.greedy().copied(),
            _ => None,
        };
        Ok(Self(Arc::new(Inner {
            limits,
            places,
            words,
            logs,
            identity_hash: hash_of(&identity),
            identity,
            full_text,
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            greedy,
        })))
    }

    /// The same limits within a policy: they count apart from those of every other policy and from
    /// those of none. The identity begins with `NAME>`; the full form stays as it is. A set that
    /// is in a policy already moves to this one.
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
    /// A name that is not 1 to 64 letters, digits, `_`, `-` or `.`.
    pub fn in_policy(self, name: &str) -> Result<Self, ParseError> {
        notation::check_policy(name)?;
        let Inner { limits, places, words, logs, identity, full_text, greedy, .. } = &*self.0;
        // No identity of a limit has a `>`, so that the policy can be told from what follows.
        let bare = identity.split_once('>').map_or(identity.as_str(), |(_, bare)| bare);
        let mut identity = format!("{name}>{bare}");
        identity.shrink_to_fit();
        Ok(Self(Arc::new(Inner {
            limits: limits.clone(),
            places: places.clone(),
            words: *words,
            logs: *logs,
            identity_hash: hash_of(&identity),
            identity,
            full_text: full_text.clone(),
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            greedy: *greedy,
        })))
    }

    /// The policy that they are in.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.0.identity.split_once('>').map(|(policy, _)| policy)
    }

    /// The limits, in declared order.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.0.limits
    }

    /// What a count belongs to: the sorted identities of the limits, joined by `,`; within a policy
    /// its name and `>` before them.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// The full form of all limits in the order of their identities: what a state is written
    /// under. Equal texts mean equal counting.
    #[must_use]
    pub fn full_text(&self) -> &str {
        &self.0.full_text
    }

    /// Where each limit's state lies, in declared order. States are laid out by identity, so the
    /// same set written in another order shares its counts.
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

    /// True when both are the very same set, or count equally.
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

    /// A number that only this set and its clones have in this process: what was worked out for
    /// a set can be found by it.
    #[must_use]
    #[inline]
    pub fn serial(&self) -> u64 {
        self.0.serial
    }

    /// The step of a set that is one greedy limit, for the shortest path.
    #[inline]
    pub(crate) fn greedy(&self) -> Option<&Greedy> {
        self.0.greedy.as_ref()
    }

    /// The one limit of a set whose state is two words.
    #[inline]
    pub(crate) fn single_pair(&self) -> Option<&Limit> {
        match (self.0.words, self.0.logs, &self.0.limits[..]) {
            (2, 0, [limit]) => Some(limit),
            _ => None,
        }
    }

    /// Reads a set, with `strategy` for every limit that has no `via`.
    ///
    /// # Errors
    /// As parsing does; also a limit that has a `via` already.
    pub fn parse_with(text: &str, strategy: Strategy) -> Result<Self, ParseError> {
        notation::parse_set(text, Some(strategy))
    }
}

/// The same in every process.
fn hash_of(identity: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(identity)
}

impl FromStr for LimitSet {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        notation::parse_set(text, None)
    }
}

impl From<Limit> for LimitSet {
    fn from(limit: Limit) -> Self {
        // A single limit has no identity to share, and one is within the bounds.
        Self::new(vec![limit]).unwrap_or_else(|_| unreachable!("one limit is always a set"))
    }
}

impl PartialEq for LimitSet {
    fn eq(&self, other: &Self) -> bool {
        self.0.serial == other.0.serial
            || (self.0.limits == other.0.limits && self.0.identity == other.0.identity)
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
        Ok(())
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
            assert!(error.contains("no name of a policy"), "{name}: {error}");
        }
    }

    #[test]
    fn policies_do_not_share_counts_in_memory() {
        let limiter = crate::Limiter::memory("1/h via gcra".parse().unwrap());
        let one = limiter.limits().clone().in_policy("one").unwrap();
        let two = limiter.limits().clone().in_policy("two").unwrap();
        for set in [limiter.limits(), &one, &two] {
            let ask = || crate::Ask::new("bob").under(set);
            assert!(limiter.check_now(ask()).unwrap().is_allowed(), "{}", set.identity());
            assert!(!limiter.check_now(ask()).unwrap().is_allowed(), "{}", set.identity());
        }
        // Parsed anew, as a reload does, it is the same count.
        let again: LimitSet = "1/h via gcra".parse().unwrap();
        let again = again.in_policy("two").unwrap();
        assert!(!limiter.check_now(crate::Ask::new("bob").under(&again)).unwrap().is_allowed());
    }
}
