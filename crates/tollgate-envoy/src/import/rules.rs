//! From the rules of envoyproxy/ratelimit.

use tollgate_policy::OnFailure as Failure;

use super::made::{Imported, Made, field_of, name_of, plain, sound, written};
use crate::config::{Config, Counting, Level, Meaning, Node, OnFailure, Rule};

/// A descriptor on the way to a rule.
#[derive(Clone, Debug)]
struct Step<'c> {
    key: String,
    value: Met,
    shared: Option<&'c str>,
}

/// Which values are met; in the order in which they go before each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Met {
    Exactly(String),
    Like(String),
    Any,
}

/// Policies that mean what these rules mean, as far as policies can.
#[must_use]
pub fn rules(config: &Config, from: &str) -> Imported {
    let (mut made, mut notes) = (Vec::new(), Vec::new());
    let mut names: Vec<_> = config.domains.keys().collect();
    names.sort_unstable();
    for name in names {
        let Some(domain) = config.domain(name) else { continue };
        if domain.meaning() == Meaning::Envoy {
            notes.push(format!(
                "{name}: denied requests charge nothing, and a request is one of a descriptor"
            ));
        }
        let on_failure = match domain.on_failure() {
            OnFailure::Deny => Failure::Deny,
            OnFailure::Allow => Failure::Allow,
            OnFailure::Local(share) => Failure::Local(share),
            OnFailure::Error => {
                notes.push(format!(
                    "{name}: on_failure is \"allow\", since a policy does not leave it to Envoy"
                ));
                Failure::Allow
            }
        };
        let mut found = Vec::new();
        collect(&domain.level, &mut Vec::new(), &mut found);
        // The first policy that matches counts: the longest goes first, then the most exact.
        found.sort_by_key(|(steps, rule)| {
            let exactness: Vec<_> = steps.iter().map(|step| step.value.clone()).collect();
            (usize::MAX - steps.len(), exactness, rule.number())
        });
        for (steps, rule) in found {
            match policy(name, &steps, rule, on_failure, &made).and_then(sound) {
                Ok(policy) => made.push(policy),
                Err(why) => notes.push(format!("{}: left out: {why}", rule.path())),
            }
            notes.extend(lost(rule).map(|what| format!("{}: {what} has no equal", rule.path())));
        }
    }
    Imported { policies: written("first", from, &made), notes }
}

fn collect<'c>(
    level: &'c Level,
    before: &mut Vec<Step<'c>>,
    found: &mut Vec<(Vec<Step<'c>>, &'c Rule)>,
) {
    let mut enter = |key: String, value: Met, node: &'c Node| {
        before.push(Step { key, value, shared: node.shared.as_deref() });
        found.extend(node.rule.as_ref().map(|rule| (before.clone(), rule)));
        collect(&node.level, before, found);
        before.pop();
    };
    for (key, values) in &level.exact {
        for (value, node) in values {
            enter(key.to_string(), Met::Exactly(value.to_string()), node);
        }
    }
    for wild in &level.wild {
        let value = wild.value.as_ref().map_or(Met::Any, |value| Met::Like(value.text()));
        enter(wild.key.text(), value, &wild.node);
    }
    for (key, node) in &level.bare {
        enter(key.to_string(), Met::Any, node);
    }
}

fn policy(
    domain: &str,
    steps: &[Step<'_>],
    rule: &Rule,
    on_failure: Failure,
    taken: &[Made],
) -> Result<Made, String> {
    let mut when = vec![("field.domain".to_owned(), domain.to_owned())];
    let mut subject = vec!["field.domain".to_owned()];
    for step in steps {
        let field = field_of(&step.key);
        let field = field.ok_or_else(|| format!("`{}` is not the name of a field", step.key))?;
        if when.iter().any(|(known, _)| *known == field) {
            return Err(format!("`{}` is in it twice", step.key));
        }
        let pattern = match &step.value {
            Met::Exactly(value) if value.contains('*') => {
                return Err(format!("`{value}` has a literal `*`"));
            }
            Met::Exactly(value) => value.clone(),
            Met::Like(value) if value.find('*') == Some(value.len() - 1) => value.clone(),
            Met::Like(value) => return Err(format!("`{value}` has a `*` that is not its end")),
            Met::Any => "*".to_owned(),
        };
        let is_counted = !matches!(step.value, Met::Exactly(_)) && step.shared.is_none();
        if is_counted && field == "path" {
            return Err("a policy does not count by `path`, which callers choose".to_owned());
        }
        if is_counted {
            subject.push(plain(&field));
        }
        when.push((field, pattern));
    }
    let limit = match rule.counting() {
        Counting::Unlimited => return Err("it is unlimited: write an override".to_owned()),
        Counting::Ban => "1/s via gcra".to_owned(),
        Counting::Limits(limits) => {
            let all: Vec<_> = limits.limits().iter().map(ToString::to_string).collect();
            all.join(", ")
        }
    };
    let name = if rule.name().is_empty() { rule.path() } else { rule.name().to_owned() };
    Ok(Made {
        name: name_of(&name, taken),
        when,
        subject,
        limit,
        is_ban: matches!(rule.counting(), Counting::Ban),
        on_failure,
        shadow: rule.is_shadow(),
    })
}

/// The parts of a rule that a policy does not have.
fn lost(rule: &Rule) -> impl Iterator<Item = &'static str> {
    [
        (rule.is_quota(), "quota_mode"),
        (rule.replaces().next().is_some(), "replaces"),
        (!rule.metadata().is_empty(), "metadata"),
    ]
    .into_iter()
    .filter_map(|(is_there, what)| is_there.then_some(what))
}
