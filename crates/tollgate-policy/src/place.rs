//! Where the parts of policies stand in their file; nowhere for those of a program.

use crate::model::Policy;
use crate::problem::Span;

#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) policies: Vec<Place>,
    /// True where `match` is missing or wrong: what it would mean is not known.
    pub(crate) combine_unsaid: bool,
}

/// Of one policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) whole: Option<Span>,
    pub(crate) name: Option<Span>,
    pub(crate) when: Option<Span>,
    pub(crate) cost: Option<Span>,
    pub(crate) shard: Option<Span>,
    pub(crate) entries: Vec<EntryPlace>,
}

/// Of one entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryPlace {
    pub(crate) subject: Option<Span>,
    /// For each limit the text that it is in.
    pub(crate) limits: Vec<Option<Span>>,
    pub(crate) absent: Option<Span>,
    pub(crate) overrides: Vec<OverridePlace>,
}

/// Of one override.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverridePlace {
    pub(crate) whole: Option<Span>,
    /// For each limit the text that it is in.
    pub(crate) limits: Vec<Option<Span>>,
}

impl Places {
    /// For policies that no file has.
    pub(crate) fn nowhere(policies: &[Policy]) -> Self {
        let place = |policy: &Policy| Place {
            entries: policy
                .entries
                .iter()
                .map(|entry| EntryPlace {
                    limits: vec![None; entry.limits.limits().len()],
                    overrides: vec![OverridePlace::default(); entry.overrides.len()],
                    ..EntryPlace::default()
                })
                .collect(),
            ..Place::default()
        };
        Self { policies: policies.iter().map(place).collect(), combine_unsaid: false }
    }
}
