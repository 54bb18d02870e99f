//! Limits that administrators set at run time in place of those of a policy.

use core::fmt;
use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;
use tollgate::{Limit, LimitKind, LimitSet, ParseError, Share};

use crate::field::advice;
use crate::policies::Policies;
use crate::ready::{Local, Ready, ReadyEntry, ReadyLimits, ReadyRule};

/// The text of a limit that no longer counts.
const UNLIMITED: &str = "unlimited";

/// A limit of a policy for some requests: other numbers, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RuledLimit {
    /// The limit of the policy: its name or, if it has none, its identity.
    pub name: String,
    /// The limit in its place, without a name; `None` where it does not count.
    pub limit: Option<Limit>,
}

/// Limits that are set for a request, of each name one.
pub(crate) type Ruled<'r> = SmallVec<[&'r RuledLimit; 2]>;

/// Changes of the limits of a set, with their places.
pub(crate) type Changes<'r> = SmallVec<[(usize, &'r RuledLimit); 2]>;

impl RuledLimit {
    /// A limit in place of the one of this name, or `None` for `unlimited`. In a ruling its name is
    /// that in the policy, and it has none of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, limit: Option<Limit>) -> Self {
        Self { name: name.into(), limit }
    }

    /// Reads a limit in place of `was`. It has the strategy and the options of `was` that the text
    /// does not write.
    fn read(was: &Limit, text: &str) -> Result<Self, ParseError> {
        let name = was.name().unwrap_or(was.identity()).to_owned();
        if text.trim() == UNLIMITED {
            return Ok(Self { name, limit: None });
        }
        if !text.contains(|character: char| character.is_ascii_digit()) {
            let what = format!("`{text}` is not a limit");
            let right = "write one, e.g. `500/m`, or `unlimited`";
            return Err(ParseError::whole(text, what, advice(text, [UNLIMITED], right)));
        }
        let has_strategy = was.kind() != LimitKind::Rate
            || text.split_whitespace().any(|word| word == "via" || word.starts_with("via="));
        let read = |text: &str| match has_strategy {
            true => text.parse::<Limit>().map(LimitSet::from),
            false => LimitSet::parse_with(text, was.strategy()),
        };
        let written = read(text)?;
        let set = match read(&format!("{text}{}", unwritten(was, text))) {
            Ok(whole) => whole,
            // Another limit, which does not take the options of this one.
            Err(_)
                if written
                    .limits()
                    .iter()
                    .all(|it| bare(it).identity() != bare(was).identity()) =>
            {
                written
            }
            Err(error) => return Err(error),
        };
        let ([limit], None) = (set.limits(), set.lease()) else {
            let what = "this is not one limit alone";
            return Err(ParseError::whole(text, what, "give one limit, or `unlimited`"));
        };
        if let Some(other) = limit.name().filter(|other| Some(*other) != was.name()) {
            let what = format!("the limit `{name}` cannot be named `{other}`");
            return Err(ParseError::whole(text, what, "leave out the name before the colon"));
        }
        if limit.kind() == LimitKind::Rate && limit.is_uncounted() {
            let what = "this limit would count nothing";
            return Err(ParseError::whole(text, what, "write `unlimited`"));
        }
        let ruled = Self { name, limit: Some(bare(limit)) };
        ruled.in_place_of(was)?;
        Ok(ruled)
    }

    /// Reads the stored form.
    pub(crate) fn stored(name: String, text: &str) -> Result<Self, ParseError> {
        let limit = (text != UNLIMITED).then(|| text.parse()).transpose()?;
        Ok(Self { name, limit })
    }

    /// The limit in words, and as stored.
    #[must_use]
    pub fn text(&self) -> &str {
        self.limit.as_ref().map_or(UNLIMITED, Limit::full_text)
    }

    /// True for the limit that this one takes the place of.
    fn replaces(&self, limit: &Limit) -> bool {
        self.name == limit.name().unwrap_or(limit.identity())
    }

    /// The limit in place of `was`, with its name.
    fn in_place_of(&self, was: &Limit) -> Result<Limit, ParseError> {
        let Some(limit) = &self.limit else { return was.uncounted() };
        let (old, new) = (bare(was), limit.identity());
        if old.identity() != new {
            return Err(ParseError::whole(
                limit.full_text(),
                format!(
                    "the limit `{}` counts as `{}`, and `{limit}` would count as `{new}`, from \
                     nothing",
                    self.name,
                    old.identity()
                ),
                "keep the strategy, the period and the unit, so that the count goes on",
            ));
        }
        match was.name() {
            Some(name) => limit.clone().named(name),
            None => Ok(limit.clone()),
        }
    }
}

impl fmt::Display for RuledLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.text())
    }
}

/// The options of a limit that the text of another does not write, as its full text has them. A
/// burst that is as large as the units was not chosen.
fn unwritten(was: &Limit, text: &str) -> String {
    let taken: &[&str] = match was.kind() {
        LimitKind::Rate => {
            &["in", "from", "burst", "precision", "rounding", "refill", "anchor", "debt"]
        }
        LimitKind::Slots => &["hold"],
        LimitKind::Ban => &["up"],
    };
    let is_written = |option: &str| {
        let mut words = text.split_whitespace();
        words.any(|word| word.split_once('=').map_or(word, |(word, _)| word) == option)
    };
    let quota = was.quota();
    let is_usual = |option: &str| option == "burst" && quota.burst == Some(quota.units);
    let (mut all, mut takes) = (String::new(), false);
    for word in bare(was).full_text().split_whitespace() {
        if taken.contains(&word) || ["of", "via"].contains(&word) {
            takes = taken.contains(&word) && !is_written(word) && !is_usual(word);
        }
        if takes {
            all += &format!(" {word}");
        }
    }
    all
}

/// The limit without its name: its identity says how it counts.
fn bare(limit: &Limit) -> Limit {
    let Some(name) = limit.name() else { return limit.clone() };
    let text = limit.full_text().get(name.len() + 1..).unwrap_or_default();
    // Always parses: it is the text of a limit behind its name.
    text.parse().unwrap_or_else(|_| limit.clone())
}

/// The changes of these limits.
pub(crate) fn changes_of<'r>(limits: &LimitSet, ruled: &[&'r RuledLimit]) -> Changes<'r> {
    let each = limits.limits().iter().enumerate();
    each.filter_map(|(place, limit)| {
        Some((place, *ruled.iter().find(|ruled| ruled.replaces(limit))?))
    })
    .collect()
}

impl ReadyLimits {
    /// The limits of a policy, with the share of them that a process may admit by itself.
    pub(crate) fn new(
        policy: &str,
        share: Option<Share>,
        limits: &LimitSet,
    ) -> Result<Self, ParseError> {
        let whole = limits.clone().in_policy(policy)?;
        // Of limits that do not count there is no share: everything is admitted.
        let share = share.filter(|_| !whole.limits().iter().all(Limit::is_uncounted));
        let local = share.map(|share| Ok(Local { share, limits: whole.share(share)? }));
        Ok(Self { whole, local: local.transpose()?.map(Box::new) })
    }

    /// The same limits with these changes, counted as before. A lease that they cannot have is left
    /// out: the store is asked each time.
    pub(crate) fn with(&self, policy: &str, changes: &Changes<'_>) -> Result<Self, ParseError> {
        let mut limits = self.whole.limits().to_vec();
        for (place, ruled) in changes {
            if let Some(limit) = limits.get_mut(*place) {
                *limit = ruled.in_place_of(limit)?;
            }
        }
        let set = LimitSet::new(limits)?;
        let leased = self
            .whole
            .lease()
            .and_then(|lease| set.clone().with_lease(lease.size(), Some(lease.ttl())).ok());
        let share = self.local.as_ref().map(|local| local.share);
        Self::new(policy, share, &leased.unwrap_or(set))
    }
}

impl ReadyEntry {
    /// Every set of limits that its subject may count under.
    fn sets(&self) -> impl Iterator<Item = &ReadyLimits> {
        let rules = self.rules.iter().filter_map(|rule| match rule {
            ReadyRule::Limits(limits) => Some(limits),
            ReadyRule::Unlimited | ReadyRule::Banned => None,
        });
        core::iter::once(&self.limits).chain(rules)
    }
}

impl Ready {
    /// Every set of limits that the policy may count under.
    fn sets(&self) -> impl Iterator<Item = &ReadyLimits> {
        self.entries.iter().flat_map(ReadyEntry::sets)
    }

    /// One set of each shape: whether a limit fits depends on no other numbers.
    fn shapes(&self) -> Vec<&ReadyLimits> {
        let mut known = HashSet::new();
        let shape = |set: &ReadyLimits| {
            let each = set.whole.limits().iter();
            let each = each.map(|limit| (limit.name().map(str::to_owned), bare(limit)));
            each.map(|(name, limit)| (name, limit.identity().to_owned())).collect::<Vec<_>>()
        };
        self.sets().filter(|set| known.insert(shape(set))).collect()
    }
}

/// The sets of policies that differ in more than their numbers, by the places of the policies.
#[derive(Default)]
pub(crate) struct Shapes<'p>(HashMap<usize, Vec<&'p ReadyLimits>>);

impl Policies {
    /// A limit to set in place of one of a policy ([`Effect::Set`](crate::Effect::Set)). `name` is
    /// the limit's name or, if it has none, its identity, such as `sliding_log/1m`. `text` is a
    /// limit of the same identity, or `unlimited`. It may leave out the strategy and the options,
    /// which are then those of the policy's limit.
    ///
    /// ```
    /// use tollgate_policy::{Format, Policies};
    /// let text = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
    ///             limits = [{ subject = \"ip\", limit = \"minute: 100/m via gcra\" }]";
    /// let policies = Policies::parse(text, Format::Toml)?;
    /// let limit = policies.ruled_limit("api", "minute", "500/m")?;
    /// assert_eq!(limit.to_string(), "minute = 500/m burst 500 via gcra");
    /// assert!(policies.ruled_limit("api", "minute", "500/h").is_err(), "another count");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A policy or a limit that does not exist; an invalid limit; one of another identity.
    pub fn ruled_limit(
        &self,
        policy: &str,
        name: &str,
        text: &str,
    ) -> Result<RuledLimit, ParseError> {
        let Some(ready) = self.place_of(policy).and_then(|place| self.ready(place)) else {
            let what = format!("there is no policy `{policy}`");
            let remedy = self.similar(policy).map(|near| format!("did you mean `{near}`?"));
            let remedy = remedy.unwrap_or_else(|| "name one of the policies".to_owned());
            return Err(ParseError::whole(policy, what, remedy));
        };
        let limits = || ready.sets().flat_map(|set| set.whole.limits());
        let is_it = |limit: &&Limit| limit.name() == Some(name) || limit.identity() == name;
        let of = ready.entries.iter().filter(|entry| {
            entry.sets().flat_map(|set| set.whole.limits()).any(|limit| is_it(&limit))
        });
        if of.count() > 1 {
            let what = format!("`{name}` is a limit of several subjects of `{policy}`");
            let remedy = "give each a name in the policy, and set that";
            return Err(ParseError::whole(name, what, remedy));
        }
        match limits().find(is_it) {
            Some(was) => RuledLimit::read(was, text),
            None => Err(no_limit(policy, name, limits())),
        }
    }

    /// Why a ruling about these limits of a policy has no effect, if it has none. `shapes` is for
    /// many such questions.
    pub(crate) fn misfit<'p>(
        &'p self,
        policy: &str,
        ruled: &[RuledLimit],
        shapes: &mut Shapes<'p>,
    ) -> Option<ParseError> {
        let Some((place, ready)) =
            self.place_of(policy).and_then(|place| Some((place, self.ready(place)?)))
        else {
            let what = format!("there is no policy `{policy}`");
            return Some(ParseError::whole(policy, what, "lift the ruling"));
        };
        let sets = shapes.0.entry(place).or_insert_with(|| ready.shapes());
        let limits = || sets.iter().flat_map(|set| set.whole.limits());
        let ruled: Ruled<'_> = ruled.iter().collect();
        for one in &ruled {
            if !limits().any(|limit| one.replaces(limit)) {
                return Some(no_limit(policy, &one.name, limits()));
            }
        }
        sets.iter().find_map(|set| {
            let changes = changes_of(&set.whole, &ruled);
            (!changes.is_empty()).then(|| set.with(policy, &changes).err())?
        })
    }
}

/// The error about a limit that a policy does not have.
fn no_limit<'l>(policy: &str, name: &str, known: impl Iterator<Item = &'l Limit>) -> ParseError {
    let mut names: Vec<&str> = known.map(|it| it.name().unwrap_or(it.identity())).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(MAX_NAMED);
    let right = match names.is_empty() {
        true => "it has no limits".to_owned(),
        false => format!("its limits are `{}`", names.join("`, `")),
    };
    let what = format!("the policy `{policy}` has no limit `{name}`");
    ParseError::whole(name, what, advice(name, names, &right))
}

/// The most limits that an error names.
const MAX_NAMED: usize = 20;
