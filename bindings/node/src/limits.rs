//! Limits that were parsed.

use napi_derive::napi;
use tollgate::LimitSet;
use tollgate_binding::{SubjectPart, argument};

use crate::error::{self, Result};
use crate::handles::Handled as _;

/// Limits as JavaScript sees them.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct Described {
    /// The limits as text.
    pub text: String,
    /// The text that two limits share if they count the same.
    pub identity: String,
    /// The name of the policy, within which they count.
    pub policy: Option<String>,
}

/// The number of the limits that a text says.
#[napi(catch_unwind)]
pub(crate) fn limits(text: String, policy: Option<String>) -> Result<u32> {
    let limits = argument::limits(&text).map_err(error::raised)?;
    Ok(within(limits, policy.as_deref())?.put())
}

/// The number of the same limits within a policy.
#[napi(catch_unwind)]
pub(crate) fn limits_in_policy(limits: u32, policy: Option<String>) -> Result<u32> {
    let limits = LimitSet::find(limits)?.as_ref().clone();
    Ok(within(limits, policy.as_deref())?.put())
}

fn within(limits: LimitSet, policy: Option<&str>) -> Result<LimitSet> {
    argument::in_policy(limits, policy).map_err(error::raised)
}

/// Subjects with the numbers of their limits.
///
/// # Errors
/// Limits that were closed.
pub(crate) fn parts(subjects: Vec<String>, limits: &[u32]) -> Result<Vec<SubjectPart>> {
    let limits = limits.iter().copied().chain(core::iter::repeat(0));
    let each = subjects.into_iter().zip(limits).map(|(subject, number)| {
        let limits = match number {
            0 => None,
            number => Some(LimitSet::find(number)?.as_ref().clone()),
        };
        Ok(SubjectPart { subject, limits })
    });
    each.collect()
}

/// The description of limits.
#[napi(catch_unwind)]
pub(crate) fn describe_limits(limits: u32) -> Result<Described> {
    let limits = LimitSet::find(limits)?;
    Ok(Described {
        text: limits.to_string(),
        identity: format!("{}\n{}", limits.identity(), limits.full_text()),
        policy: limits.policy().map(str::to_owned),
    })
}

/// Forgets limits that nobody has any more.
#[napi(catch_unwind)]
pub(crate) fn forget_limits(limits: u32) {
    LimitSet::forget(limits);
}
