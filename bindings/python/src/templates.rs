//! The names under which headers list the limits of a decision.

use pyo3::prelude::*;
use tollgate::Decision;
use tollgate_binding::{Failure, Limiter};
use tollgate_tower::answer::HeaderTemplate;

use crate::error;

/// The templates of a decision over several subjects, or over limits that are not the limiter's.
/// Without any it is a decision of the limiter alone.
#[derive(Debug)]
pub(crate) struct Templates(Vec<HeaderTemplate>);

impl Templates {
    /// A template for each subject of the decision.
    pub(crate) fn all<'t>(&'t self, limiter: &'t Limiter) -> Vec<&'t HeaderTemplate> {
        match self.0.is_empty() {
            true => vec![&limiter.template],
            false => self.0.iter().collect(),
        }
    }
}

/// The templates of a decision.
pub(crate) fn templates(
    py: Python<'_>,
    limiter: &Limiter,
    decision: &Decision<'_>,
) -> PyResult<Templates> {
    let mut sets = decision.limit_sets();
    let first = sets.next();
    let is_own = |first: &tollgate::LimitSet| first.full_text() == limiter.limits.full_text();
    if sets.next().is_none() && first.is_none_or(is_own) {
        return Ok(Templates(Vec::new()));
    }
    let names = names(&limiter.name, decision);
    let made = names.iter().zip(decision.limit_sets());
    let made = made.map(|(name, limits)| HeaderTemplate::new(name, limits)).collect();
    let made: Result<_, tollgate::ParseError> = made;
    made.map(Templates).map_err(|it| error::raised(py, Failure::argument(format!("policy: {it}"))))
}

/// A name for each subject: its policy, followed where others have the same by the kind of the
/// subject, and by a number where that is the same too. A name never has a subject in it.
fn names(usual: &str, decision: &Decision<'_>) -> Vec<String> {
    let mut subjects: Vec<&str> = Vec::new();
    for report in decision.reports() {
        if report.part() == subjects.len() {
            subjects.push(report.subject());
        }
    }
    let policies = decision.limit_sets().map(|limits| limits.policy().unwrap_or(usual));
    let policies: Vec<&str> = policies.collect();
    let mut names: Vec<String> = Vec::new();
    for (policy, subject) in policies.iter().zip(subjects) {
        let is_alone = policies.iter().filter(|other| *other == policy).count() == 1;
        let name = match subject.split_once(':') {
            Some((kind, _)) if !is_alone => format!("{policy}/{kind}"),
            _ => (*policy).to_owned(),
        };
        let is_taken = |name: &String| names.contains(name);
        let free = (2..).map(|number| format!("{name}/{number}"));
        let free = core::iter::once(name.clone()).chain(free).find(|name| !is_taken(name));
        names.push(free.unwrap_or(name));
    }
    names
}
