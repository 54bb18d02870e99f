//! The uniform strategy: one unit per interval, without a burst. The step of `gcra` with a burst of
//! 1.

use crate::limit::{Quota, Refusal};
use crate::strategy::{Descriptor, Traits};

use super::gcra;
pub(crate) use super::gcra::Step;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "uniform",
    code: 'u',
    summary: "one unit each D/N, no bursts: a steady gate",
    page: include_str!("uniform.md"),
    options: &["debt"],
    steps: &[&gcra::LUA],
    traits,
};

pub(crate) fn compile(quota: &Quota) -> Result<Step, Refusal> {
    Step::new(quota, 1)
}

fn traits(quota: &Quota) -> Traits {
    Traits {
        worst_window: quota.units,
        sustained: quota.rate(),
        bytes: "16".to_owned(),
        burst: format!("none: one each {}", quota.gap()),
        retry: "the exact time at which the gate opens",
    }
}
