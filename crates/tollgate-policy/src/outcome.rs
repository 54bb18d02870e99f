//! What becomes of a request, and who says so.

use tollgate::Verdict;

use crate::model::OnFailure;

/// What became of a request, or of one policy's part in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// No policy applies: admitted, nothing counted.
    NoPolicy,
    /// A policy applies, and no limit does: each entry was skipped or is unlimited, or an
    /// administrator has exempted the request.
    Unlimited,
    /// Every limit admitted, and was charged.
    Allowed,
    /// This policy would have admitted, another one denied; nothing was charged. Only of a policy
    /// within an answer, never of an answer.
    Withheld,
    /// A limit denied; later it may admit.
    Denied,
    /// The cost is above what can ever pass.
    Never,
    /// An override says `banned`, or an administrator has.
    Banned,
    /// A dimension is absent without which there is no answer but no.
    Missing,
    /// The store could not answer, and the failure rule admitted; nothing was counted.
    FailedOpen,
    /// The store could not answer, and the failure rule denied.
    FailedClosed,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 10] = [
        Self::NoPolicy,
        Self::Unlimited,
        Self::Allowed,
        Self::Withheld,
        Self::Denied,
        Self::Never,
        Self::Banned,
        Self::Missing,
        Self::FailedOpen,
        Self::FailedClosed,
    ];

    /// In small letters, for labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoPolicy => "no_policy",
            Self::Unlimited => "unlimited",
            Self::Allowed => "allowed",
            Self::Withheld => "withheld",
            Self::Denied => "denied",
            Self::Never => "never",
            Self::Banned => "banned",
            Self::Missing => "missing",
            Self::FailedOpen => "failed_open",
            Self::FailedClosed => "failed_closed",
        }
    }

    /// True when the request may go on.
    #[must_use]
    pub fn admits(self) -> bool {
        matches!(self, Self::NoPolicy | Self::Unlimited | Self::Allowed | Self::FailedOpen)
    }
}

impl From<Verdict> for Outcome {
    /// What the limits said.
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allowed,
            Verdict::NotYet(_) => Self::Denied,
            Verdict::Never => Self::Never,
        }
    }
}

impl From<OnFailure> for Outcome {
    /// What the failure rule says in place of the store.
    fn from(rule: OnFailure) -> Self {
        match rule {
            OnFailure::Allow => Self::FailedOpen,
            OnFailure::Deny => Self::FailedClosed,
        }
    }
}

/// Who gave an answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Authority {
    /// The policies alone: nothing had to be counted.
    Policy,
    /// The store that keeps the counts.
    Store,
    /// A policy in shadow: recorded, without effect.
    Shadow,
    /// The failure rule, in place of the store.
    FailureRule,
    /// A ban or an exemption of an administrator.
    Ruling,
}

impl Authority {
    /// Every authority.
    pub const ALL: [Self; 5] =
        [Self::Policy, Self::Store, Self::Shadow, Self::FailureRule, Self::Ruling];

    /// In small letters, for labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Store => "store",
            Self::Shadow => "shadow",
            Self::FailureRule => "failure_rule",
            Self::Ruling => "ruling",
        }
    }
}
