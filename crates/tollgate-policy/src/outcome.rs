//! The outcome of a request, and the authority that decided it.

use tollgate::Verdict;

use crate::on_failure::OnFailure;

/// The outcome of a request, or of one policy for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// No policy applies: admitted without a count.
    NoPolicy,
    /// A policy applies, and no limit does: each entry was skipped or is unlimited, or an
    /// administrator exempted the request.
    Unlimited,
    /// Every limit admitted and was charged.
    Allowed,
    /// This policy would have admitted, but another one denied; nothing was charged. This is only
    /// the outcome of a single policy, never of an answer.
    Withheld,
    /// A limit denied; it may admit later.
    Denied,
    /// The cost is above a limit's capacity.
    Never,
    /// An override or an administrator bans the request.
    Banned,
    /// A required dimension is absent, and the policy denies without it.
    Missing,
    /// The store failed, and the failure rule admitted; nothing was counted.
    FailedOpen,
    /// The store failed, and the failure rule denied; or the cost is above the share of the limit
    /// that this process may admit by itself.
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

    /// The lower-case name, for labels.
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
    /// The outcome of the limits' verdict.
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allowed,
            Verdict::NotYet(_) => Self::Denied,
            Verdict::Never => Self::Never,
        }
    }
}

impl From<OnFailure> for Outcome {
    /// The outcome of the failure rule alone. A local share denies what it cannot count.
    fn from(rule: OnFailure) -> Self {
        match rule {
            OnFailure::Allow => Self::FailedOpen,
            OnFailure::Deny | OnFailure::Local(_) => Self::FailedClosed,
        }
    }
}

/// The authority that decided an answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Authority {
    /// The policies alone: nothing had to be counted.
    Policy,
    /// The store that keeps the counts.
    Store,
    /// A shadow policy: recorded, without effect.
    Shadow,
    /// The failure rule, because the store failed.
    FailureRule,
    /// A ban or an exemption of an administrator.
    Ruling,
    /// Units that this process had charged at the store before.
    Lease,
    /// A denial of the store, which still holds.
    DenyCache,
    /// The share of the limits that this process may admit by itself, because the store failed.
    LocalShare,
}

impl From<tollgate::Authority> for Authority {
    #[inline]
    fn from(authority: tollgate::Authority) -> Self {
        match authority {
            tollgate::Authority::Lease => Self::Lease,
            tollgate::Authority::DenyCache => Self::DenyCache,
            _ => Self::Store,
        }
    }
}

impl Authority {
    /// Every authority.
    pub const ALL: [Self; 8] = [
        Self::Policy,
        Self::Store,
        Self::Shadow,
        Self::FailureRule,
        Self::Ruling,
        Self::Lease,
        Self::DenyCache,
        Self::LocalShare,
    ];

    /// The lower-case name, for labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Store => "store",
            Self::Shadow => "shadow",
            Self::FailureRule => "failure_rule",
            Self::Ruling => "ruling",
            Self::Lease => "lease",
            Self::DenyCache => "deny_cache",
            Self::LocalShare => "local_share",
        }
    }

    /// True where the store was to decide, and something else did because it failed.
    #[must_use]
    #[inline]
    pub fn is_in_place_of_store(self) -> bool {
        matches!(self, Self::FailureRule | Self::LocalShare)
    }
}
