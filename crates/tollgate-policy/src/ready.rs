//! Policies in the form that requests are answered by, and how they are brought into it.

use core::time::Duration;

use smallvec::SmallVec;
use tollgate::{LimitSet, ParseError, Share, SubjectPrefix};

use crate::cost::{Amount, CostRule};
use crate::field::Field;
use crate::index::Index;
use crate::model::{Absent, Dimension, Entry, Policy, Rule, Shard};
use crate::on_failure::OnFailure;
use crate::tiers::Tiers;

/// A policy, prepared for requests.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) entries: Vec<ReadyEntry>,
    pub(crate) tiers: Option<Tiers>,
    pub(crate) cost: CostRule,
    pub(crate) on_failure: OnFailure,
    /// `None` for the store's deadline.
    pub(crate) deadline: Option<Duration>,
    pub(crate) shadow: bool,
    /// The field whose value keeps the counts together on a cluster.
    pub(crate) shard: Option<Field>,
}

#[derive(Debug)]
pub(crate) struct ReadyEntry {
    pub(crate) dimensions: Vec<ReadyDimension>,
    pub(crate) limits: ReadyLimits,
    /// The index of the overrides' conditions, if there are any, and the rule of each.
    pub(crate) others: Option<Index>,
    pub(crate) rules: Vec<ReadyRule>,
    /// The thresholds at which a charge is reported.
    pub(crate) notify: Box<[(String, Share)]>,
}

/// Limits of a policy.
#[derive(Debug)]
pub(crate) struct ReadyLimits {
    pub(crate) whole: LimitSet,
    /// The units of them that this process may admit by itself, where the policy allows it.
    pub(crate) local: Option<Box<Local>>,
}

/// A share of limits, counted in this process while the store is away.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) share: Share,
    pub(crate) limits: LimitSet,
}

#[derive(Debug)]
pub(crate) enum ReadyRule {
    Limits(ReadyLimits),
    Unlimited,
    Banned,
}

#[derive(Debug)]
pub(crate) enum ReadyDimension {
    Field { field: Field, prefix: SubjectPrefix, absent: Without },
    Constant { prefix: SubjectPrefix, value: Box<str> },
}

#[derive(Debug)]
pub(crate) enum Without {
    Skip,
    Deny,
    Instead(Box<ReadyDimension>),
}

/// The position of the limits of one subject of a decision in the policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PolicyPart {
    /// The position of the policy in [`Policies::policies`](crate::Policies::policies).
    pub policy: usize,
    /// The position of the entry in its policy.
    pub entry: usize,
    /// The position of the override that holds in the entry; `None` for the entry's own limits.
    pub rule: Option<usize>,
    /// Whether some of its limits were set for the request, by an administrator or by the program
    /// ([`Prepared::limits`](crate::Prepared::limits)): then the decision has them, and not those
    /// of the policies.
    pub is_ruled: bool,
}

/// One for each subject of a question.
pub(crate) type Parts = SmallVec<[PolicyPart; 1]>;

/// The check of a policy of which only the value of one field varies.
pub(crate) struct SingleCheck {
    pub(crate) part: PolicyPart,
    pub(crate) field: Field,
    pub(crate) prefix: SubjectPrefix,
    pub(crate) limits: LimitSet,
    pub(crate) cost: u64,
}

/// The check of a policy that is not in shadow, with one entry without overrides, one subject of
/// one field, one fixed cost, no shard, no local share, and no thresholds.
pub(crate) fn single_check((policy, ready): (usize, &Ready)) -> Option<SingleCheck> {
    let Ready { entries, cost, shadow: false, shard: None, on_failure, .. } = ready else {
        return None;
    };
    let Some(Amount::Fixed(cost)) = cost.plain() else { return None };
    // The store's answer is noted there, which the fast path does not do.
    if on_failure.share().is_some() {
        return None;
    }
    let [ReadyEntry { dimensions, limits, others: None, notify, .. }] = &entries[..] else {
        return None;
    };
    if !notify.is_empty() {
        return None;
    }
    let [ReadyDimension::Field { field, prefix, .. }] = &dimensions[..] else { return None };
    Some(SingleCheck {
        part: PolicyPart { policy, entry: 0, rule: None, is_ruled: false },
        field: field.clone(),
        prefix: prefix.clone(),
        limits: limits.whole.clone(),
        cost: *cost,
    })
}

pub(crate) fn ready(policy: &Policy, sharded: bool) -> Result<Ready, ParseError> {
    let entries: Result<_, _> =
        policy.entries.iter().map(|entry| ready_entry(policy, entry)).collect();
    Ok(Ready {
        entries: entries?,
        tiers: policy.tiers.clone(),
        cost: policy.cost.clone(),
        on_failure: policy.on_failure,
        deadline: policy.deadline,
        shadow: policy.shadow,
        shard: match &policy.shard {
            Shard::By(field) if sharded => Some(field.clone()),
            _ => None,
        },
    })
}

fn ready_entry(policy: &Policy, entry: &Entry) -> Result<ReadyEntry, ParseError> {
    let dimension = |dimension: &Dimension| ready_dimension(entry, dimension);
    let mut lists = Vec::new();
    let mut rules = Vec::new();
    for other in &entry.overrides {
        lists.push(other.when.clone());
        rules.push(match &other.rule {
            Rule::Limits(set) => ReadyRule::Limits(ready_limits(policy, set)?),
            Rule::Unlimited => ReadyRule::Unlimited,
            Rule::Banned => ReadyRule::Banned,
        });
    }
    Ok(ReadyEntry {
        dimensions: entry.subject.iter().map(dimension).collect::<Result<_, _>>()?,
        limits: ready_limits(policy, &entry.limits)?,
        others: (!lists.is_empty()).then(|| Index::new(lists)),
        rules,
        notify: entry.notify.clone().into(),
    })
}

fn ready_limits(policy: &Policy, limits: &LimitSet) -> Result<ReadyLimits, ParseError> {
    ReadyLimits::new(&policy.name, policy.on_failure.share(), limits)
}

/// A dimension with all its substitutes in order. It terminates: cycles were rejected before.
fn ready_dimension(entry: &Entry, dimension: &Dimension) -> Result<ReadyDimension, ParseError> {
    let field = match dimension {
        Dimension::Constant { name, value } => {
            let prefix = SubjectPrefix::new(name)?;
            return Ok(ReadyDimension::Constant { prefix, value: value.clone() });
        }
        Dimension::Field(field) => field.clone(),
    };
    let absent = match entry.absent.get(&field) {
        Some(Absent::Skip) => Without::Skip,
        Some(Absent::Instead(other)) => Without::Instead(Box::new(ready_dimension(entry, other)?)),
        // The front guarantees that this field is always present; if it is not, it counts as
        // missing.
        Some(Absent::Deny) | None => Without::Deny,
    };
    let prefix = SubjectPrefix::new(&field.to_string())?;
    Ok(ReadyDimension::Field { field, prefix, absent })
}
