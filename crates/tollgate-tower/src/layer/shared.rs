//! The state that all services of a layer share.

use core::sync::atomic::AtomicU64;
use core::time::Duration;

use tollgate_policy::Gate;

use super::charge::Charging;
use super::front::Front;
use super::limits::LimitsFunction;
use super::misconfigurations::{self, Misconfiguration, Misconfigurations};
use super::refused::OnRefused;
use super::share::Times;
use crate::answer::Answers;

/// The state that all services of a layer share.
pub(super) struct Shared<S> {
    pub(super) gate: Gate<S>,
    pub(super) front: Front,
    pub(super) answers: Answers,
    pub(super) show_revision: bool,
    pub(super) retry_when_unavailable: Duration,
    /// Whether it answers a proxy about another request: always as HTTP, whatever that request is.
    pub(super) for_proxies: bool,
    pub(super) charging: Charging,
    /// The functions that give the limits of policies.
    pub(super) limits: Vec<LimitsFunction>,
    /// Whether a request needs no more than a decision, so that the fast path may make it: no
    /// function gives its limits, and nothing is charged by its response.
    pub(super) is_plain: bool,
    pub(super) on_refused: Option<OnRefused>,
    pub(super) misconfigurations: Misconfigurations,
    pub(super) times: Times,
    /// The newest revision that was seen.
    pub(super) newest: AtomicU64,
}

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        if misconfigurations::one_is_gone(self.times.requests()) {
            self.misconfigurations.report(Misconfiguration::MadeForEachRequest);
        }
    }
}
