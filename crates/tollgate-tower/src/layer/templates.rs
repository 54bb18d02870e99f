//! The header templates of all policies, built once per revision.

use std::borrow::Cow;

use smallvec::SmallVec;
use tollgate::{Decision, LimitSet};
use tollgate_policy::{
    Answer, Dimension, Entry, Policies, Policy, PolicyPart, ResponseHeaders, Rule,
};

use crate::answer::{HeaderTemplate, Profile, Reset};

/// The templates of one revision, by policy and entry.
#[derive(Debug)]
pub(super) struct Templates(Vec<Vec<EntryTemplates>>);

/// The templates of the entry's own limits, and of each override's.
#[derive(Debug)]
struct EntryTemplates {
    own: Option<HeaderTemplate>,
    rules: Vec<Option<HeaderTemplate>>,
}

/// The template of one part of an answer: of the policies, or made for limits that were
/// set for the request.
type Found<'a> = Cow<'a, HeaderTemplate>;

/// The templates of an answer's parts, in order; empty when one of them has none.
pub(super) fn all<'a>(answer: &'a Answer<'_>) -> SmallVec<[Found<'a>; 2]> {
    let all = answer.extension(Templates::new);
    let counted = answer.decision().into_iter().flat_map(Decision::limit_sets);
    let each = answer.parts().iter().zip(counted);
    let found = each.map(|(part, limits)| match part.is_ruled {
        false => all.get(part).map(Cow::Borrowed),
        true => ruled(answer.policies(), part, limits).map(Cow::Owned),
    });
    found.collect::<Option<_>>().unwrap_or_default()
}

/// The same templates, as answers take them.
pub(super) fn lent<'a>(all: &'a [Found<'_>]) -> SmallVec<[&'a HeaderTemplate; 2]> {
    all.iter().map(|template| &**template).collect()
}

/// The header templates of an answer's parts, in order, for a front that writes its headers by
/// itself; empty when one of them has none.
#[must_use]
pub fn header_templates<'a>(answer: &'a Answer<'_>) -> Vec<Found<'a>> {
    all(answer).into_vec()
}

/// The template of limits that were set for the request in place of those of a part.
#[cold]
fn ruled(policies: &Policies, part: &PolicyPart, limits: &LimitSet) -> Option<HeaderTemplate> {
    let policy = policies.policies().get(part.policy)?;
    let entry = policy.entries.get(part.entry)?;
    let made = HeaderTemplate::new(&name(policy, part.entry, entry), limits).ok()?;
    Some(of_policy(made, policy))
}

/// With the headers that the policy chooses.
fn of_policy(template: HeaderTemplate, policy: &Policy) -> HeaderTemplate {
    let Some(headers) = policy.headers else { return template };
    template.profile(match headers {
        ResponseHeaders::Legacy => Profile::Legacy(Reset::Delta),
        ResponseHeaders::Both => Profile::Both(Reset::Delta),
        ResponseHeaders::Off => Profile::None,
        _ => Profile::Draft,
    })
}

/// The template of an answer with one part, as most have.
#[inline]
pub(super) fn only<'a>(answer: &'a Answer<'_>) -> Option<&'a HeaderTemplate> {
    let [part] = answer.parts() else { return None };
    if part.is_ruled {
        return None;
    }
    answer.extension(Templates::new).get(part)
}

impl EntryTemplates {
    #[inline]
    fn get(&self, rule: Option<usize>) -> Option<&HeaderTemplate> {
        match rule {
            None => self.own.as_ref(),
            Some(rule) => self.rules.get(rule)?.as_ref(),
        }
    }
}

impl Templates {
    #[inline]
    fn get(&self, part: &PolicyPart) -> Option<&HeaderTemplate> {
        self.0.get(part.policy)?.get(part.entry)?.get(part.rule)
    }

    #[cold]
    pub(super) fn new(policies: &Policies) -> Self {
        Self(policies.policies().iter().map(entries).collect())
    }
}

fn entries(policy: &Policy) -> Vec<EntryTemplates> {
    let made = |(number, entry): (usize, &Entry)| EntryTemplates {
        own: template(policy, number, None),
        rules: (0..entry.overrides.len())
            .map(|rule| template(policy, number, Some(rule)))
            .collect(),
    };
    policy.entries.iter().enumerate().map(made).collect()
}

/// The template of an entry's own limits, or of those of one of its overrides.
fn template(policy: &Policy, number: usize, rule: Option<usize>) -> Option<HeaderTemplate> {
    let entry = policy.entries.get(number)?;
    let limits = match rule {
        None => &entry.limits,
        Some(rule) => match &entry.overrides.get(rule)?.rule {
            Rule::Limits(limits) => limits,
            _ => return None,
        },
    };
    let made = HeaderTemplate::new(&name(policy, number, entry), limits).ok()?;
    Some(of_policy(made, policy))
}

/// The longest subject in a header name, in bytes; a longer one is replaced by a number.
pub(super) const MAX_SUBJECT_BYTES: usize = 24;

/// The policy's name. If the policy has several entries, the entry's subject is appended, which no
/// other entry has: `api/user`. A long subject is replaced by the entry's number, from 1.
fn name(policy: &Policy, number: usize, entry: &Entry) -> String {
    if policy.entries.len() == 1 {
        return policy.name.clone();
    }
    let names: Vec<String> = entry.subject.iter().map(Dimension::name).collect();
    let subject = names.join("+");
    if subject.len() > MAX_SUBJECT_BYTES {
        return format!("{}/{}", policy.name, number + 1);
    }
    format!("{}/{subject}", policy.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_policy::Format;

    /// The text on a template must fit for every possible policy.
    #[test]
    fn the_longest_names_fit_on_a_card() {
        let (policy, limit) = ("p".repeat(64), "l".repeat(64));
        for subject in ["a".repeat(MAX_SUBJECT_BYTES - 7), "a".repeat(60)] {
            let text = format!(
                "version = 1\n[[policies]]\nname = \"{policy}\"\non_failure = \"deny\"\n\
                 shard = \"never\"\n[[policies.limits]]\nsubject = \"header.{subject}\"\n\
                 absent = \"deny\"\nlimit = \"{limit}: 1/s via gcra, other: 2/s via gcra\"\n\
                 [[policies.limits]]\nsubject = \"ip\"\nlimit = \"1/s via gcra\"\n"
            );
            let policies = Policies::parse(&text, Format::Toml).unwrap();
            let all = Templates::new(&policies);
            let templates = all.0[0].iter().map(|entry| entry.get(None).unwrap().policy());
            let templates: Vec<&str> = templates.collect();
            let name =
                if subject.len() < 20 { format!("header.{subject}") } else { "1".to_owned() };
            assert!(
                templates[0].starts_with(&format!("\"{policy}/{name}/{limit}\";q=1")),
                "{templates:?}"
            );
            assert!(templates[1].starts_with(&format!("\"{policy}/ip\"")), "{templates:?}");
        }
    }
}
