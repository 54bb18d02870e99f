//! The last reloads of the policies, with the changes of each.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde::Serialize;
use tollgate_policy::{Condition, Dimension, Policies, Policy};

use crate::metrics::Reloaded;

/// The most reloads that are kept.
const MAX_RELOADS: usize = 10;

/// The most changed policies of a reload that are kept.
const MAX_CHANGES: usize = 50;

/// The most lines of a changed policy that are kept, and the most bytes of a line.
const MAX_LINES: usize = 40;
const MAX_LINE_BYTES: usize = 300;

/// The most bytes of an error that are kept.
const MAX_ERROR_BYTES: usize = 4_096;

/// The last reloads, the newest first.
#[derive(Debug)]
pub(crate) struct History(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The policies that the next ones are compared with.
    policies: Policies,
    reloads: VecDeque<OneReload>,
}

/// A reload of a changed file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OneReload {
    /// When, in seconds since the Unix epoch.
    at_s: u64,
    /// `taken`, `broken`, or `unchanged` for a file that was broken and is as before again.
    result: &'static str,
    /// The revision in force afterwards.
    revision: String,
    /// Why the file was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    changes: Vec<Change>,
    /// The changed policies that are not listed.
    further: usize,
}

/// A change in a policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Change {
    /// The policy; `None` for a change of the whole file.
    policy: Option<String>,
    /// `added`, `removed` or `changed`.
    what: &'static str,
    /// The removed lines, after `- `, and the added lines, after `+ `.
    lines: Vec<String>,
}

impl History {
    /// A history that begins with these policies.
    pub(crate) fn new(policies: Policies) -> Self {
        Self(Mutex::new(State { policies, reloads: VecDeque::new() }))
    }

    /// Keeps that these policies are in force from now on.
    pub(crate) fn taken(&self, at_s: u64, revision: String, policies: Policies) {
        let mut state = self.0.lock();
        let (changes, further) = changes(&state.policies, &policies);
        state.policies = policies;
        let result = Reloaded::Taken.name();
        state.keep(OneReload { at_s, result, revision, error: None, changes, further });
    }

    /// Keeps that the file was broken.
    pub(crate) fn broken(&self, at_s: u64, revision: String, error: &str) {
        let (result, error) = (Reloaded::Broken.name(), Some(cut(error, MAX_ERROR_BYTES)));
        let changes = Vec::new();
        self.0.lock().keep(OneReload { at_s, result, revision, error, changes, further: 0 });
    }

    /// Keeps that the file is not broken any more, if it was: its policies are those in force.
    pub(crate) fn unchanged(&self, at_s: u64, revision: String) {
        let mut state = self.0.lock();
        if state.reloads.front().is_some_and(|last| last.error.is_some()) {
            let (result, changes) = (Reloaded::Unchanged.name(), Vec::new());
            state.keep(OneReload { at_s, result, revision, error: None, changes, further: 0 });
        }
    }

    /// The last reloads, the newest first.
    pub(crate) fn list(&self) -> Vec<OneReload> {
        self.0.lock().reloads.iter().cloned().collect()
    }
}

impl State {
    fn keep(&mut self, reload: OneReload) {
        self.reloads.truncate(MAX_RELOADS - 1);
        self.reloads.push_front(reload);
    }
}

/// The differences between two files, in the order of the policies' names, and the number of
/// further policies that differ.
fn changes(old: &Policies, new: &Policies) -> (Vec<Change>, usize) {
    let named = |policies: &Policies| -> BTreeMap<String, Policy> {
        let each = policies.policies().iter();
        each.map(|policy| (policy.name.clone(), policy.clone())).collect()
    };
    let (olds, news) = (named(old), named(new));
    let mut changes = Vec::new();
    let lines = differing(&file_lines(old, &news), &file_lines(new, &olds));
    if !lines.is_empty() {
        changes.push(Change { policy: None, what: "changed", lines });
    }
    let gone = olds.iter().map(|(name, policy)| (name, (Some(policy), news.get(name))));
    let came = news.iter().filter(|(name, _)| !olds.contains_key(*name));
    let came = came.map(|(name, policy)| (name, (None, Some(policy))));
    let each: BTreeMap<&String, (Option<&Policy>, Option<&Policy>)> = gone.chain(came).collect();
    let mut further = 0;
    for (name, (old, new)) in each {
        if old == new {
            continue;
        }
        if changes.len() >= MAX_CHANGES {
            further += 1;
            continue;
        }
        let what = match (old, new) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        let [old, new] = [old, new].map(|policy| policy.map(policy_lines).unwrap_or_default());
        changes.push(Change { policy: Some(name.clone()), what, lines: differing(&old, &new) });
    }
    (changes, further)
}

/// The lines of one list that the other does not have, with their signs.
fn differing(old: &[String], new: &[String]) -> Vec<String> {
    let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("- {line}"));
    let came = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {line}"));
    gone.chain(came).take(MAX_LINES).map(|line| cut(&line, MAX_LINE_BYTES)).collect()
}

/// The settings that apply to the whole file. The order is that of the policies that the other file
/// has too.
fn file_lines(policies: &Policies, others: &BTreeMap<String, Policy>) -> Vec<String> {
    let names = policies.policies().iter().map(|policy| policy.name.as_str());
    let names: Vec<_> = names.filter(|name| others.contains_key(*name)).collect();
    let nodes = policies.nodes().map(|nodes| format!("nodes: {nodes}"));
    let lines =
        [format!("match: {}", policies.combine().name()), format!("order: {}", names.join(", "))];
    lines.into_iter().chain(nodes).collect()
}

/// A policy in lines.
fn policy_lines(policy: &Policy) -> Vec<String> {
    let Policy {
        when,
        entries,
        unlimited,
        tiers,
        on_failure,
        deadline,
        cost,
        shard,
        shadow,
        headers,
        ..
    } = policy;
    let mut lines = Vec::new();
    if !when.is_empty() {
        lines.push(format!("when: {}", conditions(when)));
    }
    if *unlimited {
        lines.push("limits: unlimited".to_owned());
        return lines;
    }
    if let Some(tiers) = tiers {
        lines.push(format!("tiers: {tiers}"));
    }
    for entry in entries {
        let subject: Vec<_> = entry.subject.iter().map(Dimension::to_string).collect();
        let subject = subject.join(", ");
        lines.push(format!("limit of {subject}: {}", entry.limits));
        for (field, absent) in &entry.absent {
            lines.push(format!("limit of {subject}, without {field}: {absent}"));
        }
        for other in &entry.overrides {
            let when = conditions(&other.when);
            lines.push(format!("limit of {subject}, when {when}: {}", other.rule));
        }
    }
    lines.push(format!("on failure: {on_failure}"));
    if let Some(deadline) = deadline {
        lines.push(format!("deadline: {}", tollgate::wire::duration(*deadline)));
    }
    lines.push(format!("cost: {cost}"));
    match shard {
        tollgate_policy::Shard::By(field) => lines.push(format!("shard: {field}")),
        tollgate_policy::Shard::Never => lines.push("shard: never".to_owned()),
        _ => {}
    }
    lines.push(format!("shadow: {shadow}"));
    lines.extend(headers.map(|headers| format!("headers: {}", headers.name())));
    lines
}

fn conditions(when: &[Condition]) -> String {
    when.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// At most this many bytes of a text.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use tollgate_policy::Format;

    use super::*;

    fn policies(text: &str) -> Policies {
        let combine = if text.starts_with("match") { "" } else { "match = \"all\"\n" };
        Policies::parse(&format!("version = 1\n{combine}{text}"), Format::Toml).unwrap()
    }

    fn policy(name: &str, more: &str) -> String {
        format!("[[policies]]\nname = \"{name}\"\non_failure = \"deny\"\n{more}\n")
    }

    const ONE: &str = "limits = [{ subject = \"ip\", limit = \"3/h\" }]";

    fn listed(old: &str, new: &str) -> Vec<(Option<String>, &'static str, String)> {
        let (changes, further) = changes(&policies(old), &policies(new));
        assert_eq!(further, 0);
        let told = changes.into_iter().map(|one| (one.policy, one.what, one.lines.join("; ")));
        told.collect()
    }

    #[test]
    fn a_change_is_told_by_what_is_gone_and_what_came() {
        let (login, pages) = (policy("login", ONE), policy("pages", ONE));
        let both = format!("{login}{pages}");
        assert_eq!(listed(&both, &both), []);
        let faster = both.replacen("3/h", "4/h", 1);
        let login = || Some("login".to_owned());
        let lines = "- limit of ip: 3/h via sliding_log; + limit of ip: 4/h via sliding_log";
        assert_eq!(listed(&both, &faster), [(login(), "changed", lines.to_owned())]);
        let lines = "- limit of ip: 3/h via sliding_log; - on failure: deny; - cost: 1; \
                     - shadow: false";
        assert_eq!(listed(&both, &pages), [(login(), "removed", lines.to_owned())]);
        assert_eq!(listed(&pages, &both)[0].1, "added");
        let shadow = both.replacen("\"deny\"", "\"deny\"\nshadow = true", 1);
        let lines = "- shadow: false; + shadow: true";
        assert_eq!(listed(&both, &shadow), [(login(), "changed", lines.to_owned())]);
        let turned = format!("match = \"first\"\n{pages}{}", policy("login", ONE));
        let lines = "- match: all; - order: login, pages; + match: first; + order: pages, login";
        assert_eq!(listed(&both, &turned), [(None, "changed", lines.to_owned())]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let many = |units: u32| {
            let limit = ONE.replace("3/h", &format!("{units}/h"));
            let all = (0..80).map(|number| policy(&format!("p{number:02}"), &limit));
            policies(&format!("match = \"first\"\n{}", all.collect::<String>()))
        };
        let history = History::new(many(1));
        for reload in 2..30 {
            history.taken(reload.into(), format!("{reload}-x"), many(reload));
        }
        history.broken(30, "29-x".to_owned(), &"é".repeat(MAX_ERROR_BYTES));
        let list = history.list();
        assert_eq!(list.len(), MAX_RELOADS);
        let error = list[0].error.as_ref().unwrap();
        assert!(list[0].result == "broken" && error.len() < MAX_ERROR_BYTES + 4, "{error}");
        assert_eq!((list[1].at_s, list[1].changes.len(), list[1].further), (29, MAX_CHANGES, 30));
        assert!(list[1].changes[0].lines[0].contains("28/h"), "{:?}", list[1].changes[0]);
        // A file that is whole again is kept once.
        for at_s in [31, 32] {
            history.unchanged(at_s, "29-x".to_owned());
        }
        let list = history.list();
        let told = |at: usize| (list[at].at_s, list[at].result);
        assert_eq!((told(0), told(1)), ((31, "unchanged"), (30, "broken")));
    }
}
