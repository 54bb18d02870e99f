//! From a request to what is asked of the store: whose counts, under which limits, at what cost.

use core::time::Duration;

use smallvec::SmallVec;
use tollgate::{LimitSet, MAX_PARTS, Subject};

use crate::field::{Field, Fields, value};
use crate::index::Index;
use crate::model::{Cost, OnFailure};
use crate::policies::{Costs, Policies};

/// A policy made ready.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) entries: Vec<ReadyEntry>,
    pub(crate) cost: Cost,
    pub(crate) on_failure: OnFailure,
    pub(crate) deadline: Duration,
    pub(crate) shadow: bool,
    /// The field by which counts lie together on a cluster.
    pub(crate) shard: Option<Field>,
}

#[derive(Debug)]
pub(crate) struct ReadyEntry {
    pub(crate) dimensions: Vec<ReadyDimension>,
    pub(crate) limits: LimitSet,
    /// The conditions of the overrides, when there are any, and what each says.
    pub(crate) others: Option<Index>,
    pub(crate) rules: Vec<ReadyRule>,
}

#[derive(Debug)]
pub(crate) enum ReadyRule {
    Limits(LimitSet),
    Unlimited,
    Banned,
}

#[derive(Debug)]
pub(crate) enum ReadyDimension {
    Field { field: Field, name: Box<str>, absent: Without },
    Constant { name: Box<str>, value: Box<str> },
}

#[derive(Debug)]
pub(crate) enum Without {
    Skip,
    Deny,
    Instead(Box<ReadyDimension>),
}

/// Where the limits of one subject of a decision lie among the policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Part {
    /// The place of the policy in [`Policies::policies`].
    pub policy: usize,
    /// The place of the entry in its policy.
    pub entry: usize,
    /// The place of the override that holds in the entry; none when it is the entry's own limits.
    pub rule: Option<usize>,
}

/// What is asked of the store. It is filled where it lies: moving it takes as long as making it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Whose counts; where the limits of each lie is in `parts`, in the same order.
    pub(crate) subjects: SmallVec<[Subject; 1]>,
    pub(crate) parts: SmallVec<[Part; 1]>,
    pub(crate) cost: u64,
    pub(crate) shard: Option<Box<str>>,
    pub(crate) deadline: Duration,
    pub(crate) on_failure: OnFailure,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            subjects: SmallVec::new(),
            parts: SmallVec::new(),
            cost: 1,
            shard: None,
            deadline: Duration::MAX,
            on_failure: OnFailure::Allow,
        }
    }
}

/// Why a request is denied before anybody is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Banned {
        policy: usize,
    },
    Missing {
        policy: usize,
        field: Field,
    },
    /// Its cost is above the bound.
    Cost {
        policy: usize,
    },
    /// It would take more subjects than one check has.
    Parts {
        policy: usize,
    },
}

/// What becomes of one entry.
enum Made {
    Part(Subject, Option<usize>),
    Nothing,
    Banned,
    Missing(Field),
}

impl Policies {
    #[inline]
    pub(crate) fn limits_of(&self, part: Part) -> Option<&LimitSet> {
        let entry = self.ready(part.policy)?.entries.get(part.entry)?;
        match part.rule {
            None => Some(&entry.limits),
            Some(rule) => match entry.rules.get(rule)? {
                ReadyRule::Limits(set) => Some(set),
                ReadyRule::Unlimited | ReadyRule::Banned => None,
            },
        }
    }

    /// What these policies ask for a request.
    pub(crate) fn plan(
        &self,
        places: &[usize],
        fields: &dyn Fields,
        plan: &mut Plan,
    ) -> Result<(), Refused> {
        let mut refused: Option<Refused> = None;
        let mut priced = false;
        for &policy in places {
            let Some(ready) = self.ready(policy) else { continue };
            plan.deadline = plan.deadline.min(ready.deadline);
            if ready.on_failure == OnFailure::Deny {
                plan.on_failure = OnFailure::Deny;
            }
            let before = plan.parts.len();
            for (entry, ready) in ready.entries.iter().enumerate() {
                match ready.make(fields) {
                    Made::Part(subject, rule) => {
                        plan.subjects.push(subject);
                        plan.parts.push(Part { policy, entry, rule });
                    }
                    Made::Nothing => {}
                    // Whatever the others say.
                    Made::Banned => return Err(Refused::Banned { policy }),
                    Made::Missing(field) => {
                        refused.get_or_insert(Refused::Missing { policy, field });
                    }
                }
            }
            // Policies that can apply together have one cost: the first that counts has all of it.
            if !priced && plan.parts.len() > before {
                priced = true;
                if let Some(field) = &ready.shard {
                    plan.shard = value(fields, field).map(|value| value.into_owned().into());
                }
                match ready.cost_of(fields) {
                    Costs::Units(units) => plan.cost = units,
                    Costs::Never => {
                        refused.get_or_insert(Refused::Cost { policy });
                    }
                    Costs::Missing(field) => {
                        refused.get_or_insert(Refused::Missing { policy, field });
                    }
                }
            }
        }
        // Only now is it known what all of them say: a later policy may deny.
        match (refused, plan.parts.get(MAX_PARTS)) {
            (Some(refused), _) => Err(refused),
            (None, Some(part)) => Err(Refused::Parts { policy: part.policy }),
            (None, None) => Ok(()),
        }
    }
}

impl ReadyEntry {
    fn make(&self, fields: &dyn Fields) -> Made {
        let rule = self.others.as_ref().and_then(|others| others.first(fields));
        let rule = rule.and_then(|rule| usize::try_from(rule).ok());
        let found = rule.and_then(|rule| self.rules.get(rule));
        match found {
            Some(ReadyRule::Unlimited) => return Made::Nothing,
            Some(ReadyRule::Banned) => return Made::Banned,
            Some(ReadyRule::Limits(_)) | None => {}
        }
        if let [one] = &self.dimensions[..] {
            return match one.value(fields) {
                // Only a value of many kilobytes is none: it is no identity.
                Ok(Some((name, value))) => match Subject::of(name, &*value) {
                    Ok(subject) => Made::Part(subject, rule),
                    Err(_) => Made::Missing(one.field()),
                },
                Ok(None) => Made::Nothing,
                Err(field) => Made::Missing(field.clone()),
            };
        }
        let mut pairs: SmallVec<[(&str, std::borrow::Cow<'_, str>); 4]> = SmallVec::new();
        for dimension in &self.dimensions {
            match dimension.value(fields) {
                // What stands in may be in the subject already: then it is there once.
                Ok(Some((name, _))) if pairs.iter().any(|(other, _)| *other == name) => {}
                Ok(Some(pair)) => pairs.push(pair),
                Ok(None) => return Made::Nothing,
                Err(field) => return Made::Missing(field.clone()),
            }
        }
        let all = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
        match (Subject::of_all(all), self.dimensions.first()) {
            (Ok(subject), _) => Made::Part(subject, rule),
            // Only a value of many kilobytes gets here: it is no identity.
            (Err(_), Some(first)) => Made::Missing(first.field()),
            (Err(_), None) => Made::Nothing,
        }
    }
}

type Pair<'v> = (&'v str, std::borrow::Cow<'v, str>);

impl ReadyDimension {
    /// Its name and value in this request; none to skip; or what is missed.
    fn value<'v>(&'v self, fields: &'v dyn Fields) -> Result<Option<Pair<'v>>, &'v Field> {
        match self {
            Self::Constant { name, value } => Ok(Some((name, std::borrow::Cow::Borrowed(value)))),
            Self::Field { field, name, absent } => match (value(fields, field), absent) {
                (Some(value), _) => Ok(Some((name, value))),
                (None, Without::Skip) => Ok(None),
                (None, Without::Deny) => Err(field),
                (None, Without::Instead(other)) => other.value(fields),
            },
        }
    }

    /// The field that it is made of.
    fn field(&self) -> Field {
        match self {
            Self::Field { field, .. } => field.clone(),
            Self::Constant { name, .. } => Field::Custom(name.clone()),
        }
    }
}
