//! The uniform strategy: one unit per interval, without a burst. The step of `gcra` with a burst of
//! 1.

use crate::limit::{LimitKind, Quota, QuotaError};
use crate::strategy::{Descriptor, Traits, most_of_rate, worst_window};

use super::gcra;
pub(crate) use super::gcra::Step;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "uniform",
    kind: LimitKind::Rate,
    code: 'u',
    summary: "one unit each D/N, no bursts: a steady gate",
    page: include_str!("uniform.md"),
    options: &["debt"],
    steps: &[&gcra::LUA],
    traits,
    most_in,
};

pub(crate) fn compile(quota: &Quota) -> Result<Step, QuotaError> {
    Step::new(quota, 1)
}

fn most_in(quota: &Quota, span_us: u64) -> u128 {
    most_of_rate(quota, 1, span_us)
}

fn traits(quota: &Quota) -> Traits {
    Traits {
        worst_window: worst_window(quota, most_in),
        sustained: quota.rate(),
        bytes: "16".to_owned(),
        burst: format!("none: one each {}", quota.gap()),
        retry: "the exact time at which the gate opens",
    }
}
