//! The headers and refusals for the decisions of a limiter.

use core::time::Duration;

use http::HeaderMap;
use tollgate::{Decision, LimitSet};
use tollgate_tower::answer::{Answers, HeaderTemplate, Wire};

use crate::http::{Refusal, answers, pairs};
use crate::{Failure, Limiter, Result};

impl Limiter {
    /// The headers of a response to a request that a decision was made for.
    ///
    /// # Errors
    /// There is no such profile, or headers cannot name the limits.
    pub fn headers(&self, decision: &Decision<'_>, profile: &str) -> Result<Vec<(String, String)>> {
        let (answers, mut map) = (answers(profile)?, HeaderMap::new());
        let own = self.templates(decision)?;
        answers.mark(&mut map, &self.all(&own), decision);
        Ok(pairs(&map))
    }

    /// The response to a denied request; `None` if it was admitted.
    ///
    /// # Errors
    /// As [`Limiter::headers`].
    pub fn refusal(&self, decision: &Decision<'_>, profile: &str) -> Result<Option<Refusal>> {
        let answers = answers(profile)?;
        let own = self.templates(decision)?;
        Ok(answers.refused(Wire::Http, &self.all(&own), decision).map(Refusal::from))
    }

    /// The response where the store could not answer.
    #[must_use]
    pub fn unavailable(&self, retry_after: Duration) -> Refusal {
        Answers::default().unavailable(Wire::Http, &[&self.name], retry_after).into()
    }

    /// A template for each subject of a decision over several subjects, or over limits that are not
    /// the limiter's. Without any it is a decision of the limiter alone.
    fn templates(&self, decision: &Decision<'_>) -> Result<Vec<HeaderTemplate>> {
        let mut sets = decision.limit_sets();
        let first = sets.next();
        let is_own = |first: &LimitSet| {
            (first.full_text(), first.policy()) == (self.limits.full_text(), self.limits.policy())
        };
        if sets.next().is_none() && first.is_none_or(is_own) {
            return Ok(Vec::new());
        }
        let names = names(&self.name, decision);
        let made = names.iter().zip(decision.limit_sets());
        let made = made.map(|(name, limits)| HeaderTemplate::new(name, limits));
        made.collect::<core::result::Result<_, _>>()
            .map_err(|it| Failure::argument(format!("policy: {it}")))
    }

    /// These templates, or the limiter's.
    fn all<'t>(&'t self, own: &'t [HeaderTemplate]) -> Vec<&'t HeaderTemplate> {
        match own {
            [] => vec![&self.template],
            own => own.iter().collect(),
        }
    }
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
        let numbered = (2..).map(|number| format!("{name}/{number}"));
        let mut each = core::iter::once(name.clone()).chain(numbered);
        names.push(each.find(|name| !names.contains(name)).unwrap_or(name));
    }
    names
}
