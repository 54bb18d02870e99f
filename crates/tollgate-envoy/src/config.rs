//! Rules as they were read and checked.

use std::collections::HashMap;

use serde_json::{Map, Value};
use tollgate::{LimitSet, Share};
use tollgate_policy::Problems;

use crate::pattern::Pattern;
use crate::unit::Unit;

/// The rules of some files.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub(crate) domains: Table<Domain>,
    pub(crate) rules: usize,
    pub(crate) warnings: Vec<Problems>,
}

/// A table that is searched by text.
pub(crate) type Table<T> = HashMap<Box<str>, T, foldhash::fast::RandomState>;

/// The meaning of a domain's rules when several descriptors are asked together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(clippy::exhaustive_enums)] // a file has one of these words
pub enum Meaning {
    /// Each descriptor is charged by itself, and denied requests count too.
    #[default]
    Envoy,
    /// All descriptors are charged, or none.
    Tollgate,
}

/// The answer when the store cannot answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(clippy::exhaustive_enums)] // a file has one of these words
pub enum OnFailure {
    /// An error: Envoy's own setting decides.
    #[default]
    Error,
    /// OK.
    Allow,
    /// OVER_LIMIT.
    Deny,
    /// By this share of each limit, which the process that answers counts by itself.
    Local(Share),
}

/// Several files or resources that have one domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(clippy::exhaustive_enums)] // they are one, or they are not
pub enum SameDomain {
    /// The second one is an error.
    #[default]
    Refused,
    /// Their rules are those of one domain.
    Merged,
}

/// The rules of one domain.
#[derive(Clone, Debug, Default)]
pub struct Domain {
    /// As far as a file gives them.
    pub(crate) meaning: Option<Meaning>,
    pub(crate) on_failure: Option<OnFailure>,
    pub(crate) level: Level,
}

/// The children that one entry of a descriptor can match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    /// By key and value.
    pub(crate) exact: Table<Table<Node>>,
    /// With a `*`, in the order of the file.
    pub(crate) wild: Vec<Wild>,
    /// By key, for every value.
    pub(crate) bare: Table<Node>,
}

/// A key and a value, at least one of them with a `*`; without a value, every one is meant.
#[derive(Clone, Debug)]
pub(crate) struct Wild {
    pub(crate) key: Pattern,
    pub(crate) value: Option<Pattern>,
    pub(crate) node: Node,
}

/// A descriptor of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) rule: Option<Rule>,
    /// The value as the file has it, when all values that it meets share one count.
    pub(crate) shared: Option<Box<str>>,
    pub(crate) level: Level,
}

/// The limits of a descriptor.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(crate) number: usize,
    pub(crate) steps: Box<[Box<str>]>,
    pub(crate) counting: Counting,
    pub(crate) requests_per_unit: u32,
    pub(crate) unit: Option<Unit>,
    /// Whether it is `rate_limit` alone.
    pub(crate) is_theirs: bool,
    pub(crate) name: Box<str>,
    pub(crate) replaces: Vec<Box<str>>,
    pub(crate) shadow: bool,
    pub(crate) quota: bool,
    /// Which entries have their values in the names of metrics; empty if none has.
    pub(crate) valued: Box<[bool]>,
    pub(crate) metadata: Map<String, Value>,
}

/// How a rule counts.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums)] // whoever asks a store must know each
pub enum Counting {
    /// Everything is admitted, and nothing counted.
    Unlimited,
    /// Nothing is admitted, and nothing counted.
    Ban,
    /// Under these limits.
    Limits(LimitSet),
}

impl Config {
    /// The rules of a domain.
    #[must_use]
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name)
    }

    /// The names of the domains, in no order.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(|name| &**name)
    }

    /// Every rule with its domain, in no order.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &Rule)> {
        self.domains.iter().flat_map(|(name, domain)| domain.rules().map(|rule| (&**name, rule)))
    }

    /// The warnings of each file that has any: entries that are allowed, but probably not intended.
    #[must_use]
    pub fn warnings(&self) -> &[Problems] {
        &self.warnings
    }
}

impl Level {
    pub(crate) fn list<'l>(&'l self, all: &mut Vec<&'l Rule>) {
        let exact = self.exact.values().flat_map(HashMap::values);
        let wild = self.wild.iter().map(|wild| &wild.node);
        for node in exact.chain(wild).chain(self.bare.values()) {
            all.extend(&node.rule);
            node.level.list(all);
        }
    }
}

impl Domain {
    /// Its rules, in no order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let mut all = Vec::new();
        self.level.list(&mut all);
        all.into_iter()
    }

    /// The meaning of its rules together.
    #[must_use]
    pub fn meaning(&self) -> Meaning {
        self.meaning.unwrap_or_default()
    }

    /// The answer when the store cannot answer.
    #[must_use]
    pub fn on_failure(&self) -> OnFailure {
        self.on_failure.unwrap_or_default()
    }
}

impl Rule {
    /// Its number: the rules of a configuration have the numbers from 0 on.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its place: `DOMAIN.KEY_VALUE.KEY`, as the reference names it.
    #[must_use]
    pub fn path(&self) -> String {
        self.steps.join(".")
    }

    /// The parts of its path: the domain, and `KEY` or `KEY_VALUE` of each descriptor down to it.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| &**step)
    }

    /// How it counts.
    #[must_use]
    pub fn counting(&self) -> &Counting {
        &self.counting
    }

    /// The quota that is reported; 0 for a rule without one.
    #[must_use]
    pub fn requests_per_unit(&self) -> u32 {
        self.requests_per_unit
    }

    /// The unit that is reported; `None` for a window that is not one of Envoy's units.
    #[must_use]
    pub fn unit(&self) -> Option<Unit> {
        self.unit
    }

    /// The name that others replace it by; empty without one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of rules that do not count where this one is met.
    pub fn replaces(&self) -> impl Iterator<Item = &str> {
        self.replaces.iter().map(|name| &**name)
    }

    /// The unit whose windows it counts in; `None` where limits in our notation count too.
    #[must_use]
    pub fn window(&self) -> Option<Unit> {
        self.unit.filter(|_| self.is_theirs)
    }

    /// Whether its status is always OK.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether it denies only together with all others of this mode.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        self.quota
    }

    /// Whether its metrics are by the values of a request too: see
    /// [`Found::steps`](crate::Found::steps).
    #[must_use]
    pub fn is_valued(&self) -> bool {
        !self.valued.is_empty()
    }

    /// The metadata for Envoy where a descriptor is admitted.
    #[must_use]
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.metadata
    }
}
