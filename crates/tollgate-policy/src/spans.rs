//! The positions of the parts of policies in their file; empty for those of a program.

use crate::model::Policy;
use crate::problem::Span;

#[derive(Debug, Default)]
pub(crate) struct FileSpans {
    pub(crate) policies: Vec<PolicySpans>,
    /// True if `match` is missing or invalid: its meaning is then unknown.
    pub(crate) combine_is_unknown: bool,
}

/// The positions of one policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicySpans {
    pub(crate) whole: Option<Span>,
    pub(crate) name: Option<Span>,
    pub(crate) when: Option<Span>,
    pub(crate) cost: Option<Span>,
    pub(crate) shard: Option<Span>,
    pub(crate) on_failure: Option<Span>,
    pub(crate) tiers: Option<Span>,
    pub(crate) entries: Vec<EntrySpans>,
}

/// The positions of one entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntrySpans {
    pub(crate) subject: Option<Span>,
    /// For each limit, the text that contains it.
    pub(crate) limits: Vec<Option<Span>>,
    pub(crate) absent: Option<Span>,
    pub(crate) overrides: Vec<OverrideSpans>,
}

/// The positions of one override.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverrideSpans {
    pub(crate) whole: Option<Span>,
    /// For each limit, the text that contains it.
    pub(crate) limits: Vec<Option<Span>>,
}

impl FileSpans {
    /// For policies without a file.
    pub(crate) fn nowhere(policies: &[Policy]) -> Self {
        let place = |policy: &Policy| PolicySpans {
            entries: policy
                .entries
                .iter()
                .map(|entry| EntrySpans {
                    limits: vec![None; entry.limits.limits().len()],
                    overrides: vec![OverrideSpans::default(); entry.overrides.len()],
                    ..EntrySpans::default()
                })
                .collect(),
            ..PolicySpans::default()
        };
        Self { policies: policies.iter().map(place).collect(), combine_is_unknown: false }
    }
}
