//! The meaning of a policy file, without positions: the same for TOML, YAML and programs.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use tollgate::{LimitKind, LimitSet, ParseError, Share};

use crate::cost::CostRule;
use crate::field::{Field, advice};
use crate::on_failure::OnFailure;
use crate::pattern::{Condition, Pattern};
use crate::response_headers::ResponseHeaders;
use crate::tiers::Tiers;

/// The default deadline of a store call: 500 ms.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(500);

/// The shortest deadline: 1 ms.
pub const MIN_DEADLINE: Duration = Duration::from_millis(1);

/// The longest deadline: 1 minute.
pub const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// Which of the policies that apply to a request are checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename_all = "snake_case"))]
#[allow(clippy::exhaustive_enums)] // one or all: there is no third
pub enum Combine {
    /// The first that applies.
    First,
    /// Every one that applies; all must admit.
    All,
}

impl Combine {
    /// `first` or `all`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::All => "all",
        }
    }
}

/// A policy: which requests, which subjects, which limits.
///
/// ```
/// use tollgate_policy::{Combine, Entry, Field, OnFailure, Policies, Policy};
/// let per_user = Entry::new(["user"], "10/s, 240/h")?.absent("skip")?;
/// let policy = Policy::new("api", OnFailure::Allow)
///     .when("path", ["/api/*"])?
///     .entry(Entry::new(["ip"], "100/s")?)
///     .entry(per_user);
/// let policies = Policies::new(Combine::First, vec![policy])?;
/// assert_eq!(policies.policies()[0].name, "api");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// The name: 1 to 64 letters, digits, `_`, `-` or `.`. It is part of every count.
    pub name: String,
    /// The conditions: all must hold. Without conditions, the policy applies to every request.
    pub when: Vec<Condition>,
    /// The subjects and their limits; none if it is [unlimited](Policy::unlimited).
    pub entries: Vec<Entry>,
    /// True for a policy that matches and limits nothing.
    pub unlimited: bool,
    /// The tiers of keys, for the overrides with a condition on `tier`.
    pub tiers: Option<Tiers>,
    /// The answer when the store does not answer in time.
    pub on_failure: OnFailure,
    /// The longest time to wait for the store, from [`MIN_DEADLINE`] to [`MAX_DEADLINE`]. `None`
    /// for the deadline of the store's URL, or else [`DEFAULT_DEADLINE`].
    pub deadline: Option<Duration>,
    /// The cost of a request.
    pub cost: CostRule,
    /// The dimension that all subjects share on a cluster.
    pub shard: Shard,
    /// True for a shadow policy: it counts and never denies.
    pub shadow: bool,
    /// The headers that tell clients of these limits; `None` for those of the front.
    pub headers: Option<ResponseHeaders>,
}

impl Policy {
    /// A policy for every request, with no limits yet, a cost of 1, and the default deadline.
    /// [`crate::Policies::new`] reports an invalid name.
    #[must_use]
    pub fn new(name: impl Into<String>, on_failure: OnFailure) -> Self {
        Self {
            name: name.into(),
            when: Vec::new(),
            entries: Vec::new(),
            unlimited: false,
            tiers: None,
            on_failure,
            deadline: None,
            cost: CostRule::default(),
            shard: Shard::Unsaid,
            shadow: false,
            headers: None,
        }
    }

    /// A policy that matches every request and limits nothing. The store is not asked.
    #[must_use]
    pub fn unlimited(name: impl Into<String>) -> Self {
        Self { unlimited: true, ..Self::new(name, OnFailure::Allow) }
    }

    /// Sets the tiers of keys.
    #[must_use]
    pub fn tiers(self, tiers: Tiers) -> Self {
        Self { tiers: Some(tiers), ..self }
    }

    /// Adds a condition: `field` must match one of these patterns, written as in a file.
    ///
    /// # Errors
    /// An invalid field or pattern.
    pub fn when<'p>(
        mut self,
        field: &str,
        any_of: impl IntoIterator<Item = &'p str>,
    ) -> Result<Self, ParseError> {
        let field = Field::parse_condition(field)?;
        let any_of: Result<_, _> =
            any_of.into_iter().map(|text| Pattern::parse(&field, text)).collect();
        self.when.push(Condition::new(field, any_of?));
        Ok(self)
    }

    /// Adds a condition: `field` must match none of these patterns.
    ///
    /// # Errors
    /// An invalid field or pattern.
    pub fn when_not<'p>(
        self,
        field: &str,
        none_of: impl IntoIterator<Item = &'p str>,
    ) -> Result<Self, ParseError> {
        let mut this = self.when(field, none_of)?;
        let negated = this.when.pop().map(Condition::negate);
        this.when.extend(negated);
        Ok(this)
    }

    /// Adds a subject with its limits.
    #[must_use]
    pub fn entry(mut self, entry: Entry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Sets the longest time to wait for the store.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Sets the cost of a request.
    #[must_use]
    pub fn cost(self, cost: impl Into<CostRule>) -> Self {
        Self { cost: cost.into(), ..self }
    }

    /// Sets the dimension that all subjects share on a cluster.
    #[must_use]
    pub fn shard(self, field: Field) -> Self {
        Self { shard: Shard::By(field), ..self }
    }

    /// Makes it a shadow policy: it counts and never denies.
    #[must_use]
    pub fn shadow(self) -> Self {
        Self { shadow: true, ..self }
    }
}

/// How the counts of one check are kept together on a cluster.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Shard {
    /// Not specified: a check with several subjects causes a warning.
    Unsaid,
    /// The policy is not for use on a cluster.
    Never,
    /// By the value of this field, which must be a dimension of all subjects of the policy.
    By(Field),
}

/// One subject of a policy, and its limits.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The dimensions of the subject, 1 to 16.
    pub subject: Vec<Dimension>,
    /// The limits if no override holds.
    pub limits: LimitSet,
    /// The rule for each dimension that can be absent.
    pub absent: BTreeMap<Field, Absent>,
    /// Other limits for some requests: the first override that holds applies.
    pub overrides: Vec<Override>,
    /// The parts of each limit's capacity at which a charge is reported ([`crate::Crossing`]), by
    /// the limit's identity.
    pub notify: Vec<(String, Share)>,
}

impl Entry {
    /// A subject of these dimensions, written as in a file, under these limits.
    ///
    /// # Errors
    /// An invalid dimension or limit.
    pub fn new<'d>(
        subject: impl IntoIterator<Item = &'d str>,
        limits: &str,
    ) -> Result<Self, ParseError> {
        let subject: Result<_, _> = subject.into_iter().map(Dimension::parse).collect();
        Ok(Self {
            subject: subject?,
            limits: limits.parse()?,
            absent: BTreeMap::new(),
            overrides: Vec::new(),
            notify: Vec::new(),
        })
    }

    /// Sets the rule for every dimension of the subject that can be absent: `skip`, `deny`, or a
    /// substitute dimension. For `ip` it counts where no other dimension can be.
    ///
    /// # Errors
    /// A rule other than these.
    pub fn absent(mut self, what: &str) -> Result<Self, ParseError> {
        let what = Absent::parse(what)?;
        for field in uncertain(&self.subject) {
            self.absent.insert(field, what.clone());
        }
        Ok(self)
    }

    /// Sets the rule for the absence of this field.
    ///
    /// # Errors
    /// An invalid field; a rule other than `skip`, `deny` and a dimension.
    pub fn absent_field(mut self, field: &str, what: &str) -> Result<Self, ParseError> {
        self.absent.insert(Field::parse(field)?, Absent::parse(what)?);
        Ok(self)
    }

    /// Adds an override: another rule if these conditions hold.
    #[must_use]
    pub fn overridden(mut self, when: Vec<Condition>, rule: Rule) -> Self {
        self.overrides.push(Override { when, rule });
        self
    }

    /// Reports charges that reach one of these parts of a limit's capacity.
    #[must_use]
    pub fn notify(mut self, thresholds: impl IntoIterator<Item = Share>) -> Self {
        let limits = self.limits.limits().iter().filter(|limit| limit.kind() == LimitKind::Rate);
        let of_limit = |at| limits.clone().map(move |limit| (limit.identity().to_owned(), at));
        self.notify.extend(thresholds.into_iter().flat_map(of_limit));
        self
    }

    /// Every set of limits that it may count under: its own, and those of its overrides.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &LimitSet> {
        let others = self.overrides.iter().filter_map(|other| match &other.rule {
            Rule::Limits(set) => Some(set),
            Rule::Unlimited | Rule::Banned => None,
        });
        core::iter::once(&self.limits).chain(others)
    }

    /// Whether a subject with these dimensions, and no others, can belong to this entry: each
    /// dimension must be the entry's own or a substitute for it.
    pub(crate) fn counts_by(&self, has: &impl Fn(&str) -> bool, dimensions: usize) -> bool {
        let mut found = std::collections::BTreeSet::new();
        let all = self.subject.iter().all(|dimension| {
            let mut one = Some(dimension);
            while let Some(dimension) = one {
                let name = dimension.name();
                if has(&name) {
                    found.insert(name);
                    return true;
                }
                one = match dimension.field().and_then(|field| self.absent.get(field)) {
                    Some(Absent::Instead(other)) => Some(other),
                    _ => None,
                };
            }
            false
        });
        all && found.len() == dimensions
    }
}

/// The fields of a subject that one rule for all of them is about: those that a request may lack;
/// where all others are certain, the address.
pub(crate) fn uncertain(subject: &[Dimension]) -> Vec<Field> {
    let fields = |is_it: fn(&Field) -> bool| -> Vec<Field> {
        let all = subject.iter().filter_map(Dimension::field);
        all.filter(|field| is_it(field)).cloned().collect()
    };
    let found = fields(|field| !field.is_always_there());
    if found.is_empty() { fields(Field::may_be_absent) } else { found }
}

/// One dimension of a subject.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Dimension {
    /// The value of a field.
    Field(Field),
    /// A value that is the same for every request.
    Constant {
        /// The name; it must not be a field's.
        name: Box<str>,
        /// The value.
        value: Box<str>,
    },
}

impl Dimension {
    /// Parses a field, or a constant such as `pool=all`.
    ///
    /// # Errors
    /// Anything else; `path`, whose values a client can choose; a header that contains a secret; or
    /// a constant with the name of a field, which could be mistaken for a real one.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let Some((name, value)) = text.split_once('=') else {
            let field = Field::parse(text)?;
            if field == Field::Path {
                return Err(ParseError::whole(
                    text,
                    "`path` cannot be a subject",
                    "a caller chooses its segments, and each new one is a fresh count: use `route`",
                ));
            }
            if field.is_secret() {
                return Err(ParseError::whole(
                    text,
                    format!("`{field}` cannot be a subject: it holds a secret"),
                    "counts and logs would hold it too: use `api_key`, which the front hashes, or \
                     `user`",
                ));
            }
            return Ok(Self::Field(field));
        };
        let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > 64 || !name.bytes().all(sound) {
            return Err(ParseError::at(
                text,
                0..name.len().max(1),
                "this is not the name of a constant",
                "a constant is `NAME=VALUE`, the name 1 to 64 letters, digits, `_`, `-` or `.`",
            ));
        }
        let kind = name.split('.').next().unwrap_or(name);
        if Field::words().any(|word| word == kind) {
            return Err(ParseError::at(
                text,
                0..name.len(),
                format!("a constant cannot be named as the field `{kind}`"),
                format!(
                    "it could be mistaken for a real one: name it otherwise, e.g. `any-{kind}`"
                ),
            ));
        }
        if value.is_empty() || value.len() > 256 {
            return Err(ParseError::at(
                text,
                name.len()..text.len(),
                "the value of a constant has 1 to 256 bytes",
                "write it after the `=`, e.g. `pool=all`",
            ));
        }
        Ok(Self::Constant { name: name.into(), value: value.into() })
    }

    /// The field, if it is one.
    #[must_use]
    pub fn field(&self) -> Option<&Field> {
        match self {
            Self::Field(field) => Some(field),
            Self::Constant { .. } => None,
        }
    }

    /// The name of the dimension in a subject.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Field(field) => field.to_string(),
            Self::Constant { name, .. } => name.to_string(),
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => field.fmt(f),
            Self::Constant { name, value } => write!(f, "{name}={value}"),
        }
    }
}

/// The rule for a request that lacks a dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Absent {
    /// The entry does not apply.
    Skip,
    /// The request is denied.
    Deny,
    /// This dimension is used instead.
    Instead(Dimension),
}

impl Absent {
    /// Parses `skip`, `deny`, a field, or a constant such as `guests=all`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        match text {
            "skip" => Ok(Self::Skip),
            "deny" => Ok(Self::Deny),
            _ => Dimension::parse(text).map(Self::Instead).map_err(|error| {
                // For a field, or a likely misspelling of one, the field's own error is more
                // precise.
                if text.contains(['=', '.']) || Field::parse(text).is_ok() {
                    return error;
                }
                let words = ["skip", "deny"].into_iter().chain(Field::words());
                let right = "it is `skip` (this limit does not apply), `deny`, another field, or a \
                             constant as `guests=all`";
                let what = match text {
                    "" => "an empty text says not what happens without it".to_owned(),
                    _ => format!("`{text}` says not what happens without it"),
                };
                ParseError::whole(text, what, advice(text, words, right))
            }),
        }
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::Deny => f.write_str("deny"),
            Self::Instead(dimension) => dimension.fmt(f),
        }
    }
}

/// Other limits where conditions hold.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Override {
    /// The conditions: at least one, and all must hold.
    pub when: Vec<Condition>,
    /// The rule that then applies.
    pub rule: Rule,
}

/// The effect of an override.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// These limits.
    Limits(LimitSet),
    /// No limits.
    Unlimited,
    /// The request is denied.
    Banned,
}

/// The limits, `unlimited` or `banned`: as in a file.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limits(limits) => limits.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
            Self::Banned => f.write_str("banned"),
        }
    }
}
