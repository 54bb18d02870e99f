//! Reads policies from the tree of a file, and collects every problem.

use std::time::Duration;

use tollgate::{MAX_PARTS, Period};

use crate::cost::CostRule;
use crate::field::{Field, advice, closest};
use crate::model::{Combine, MAX_DEADLINE, MIN_DEADLINE, Policy, Shard};
use crate::on_failure::OnFailure;
use crate::problem::{Problem, Span};
use crate::response_headers::ResponseHeaders;
use crate::source::{Format, Node, Value, tree};
use crate::spans::{FileSpans, PolicySpans};

mod cost;
mod entry;
pub(crate) mod keys;
mod on_failure;
mod tiers;
mod when;

pub(crate) use entry::MAX_ABSENT;

#[cfg(test)]
pub(crate) use cost::{COST_KEYS, RESERVE_KEYS};
#[cfg(test)]
pub(crate) use entry::{ENTRY_KEYS, OVERRIDE_KEYS};
use keys::{Files, Keys, Reader, shown};
#[cfg(test)]
pub(crate) use on_failure::LOCAL_KEYS;
use on_failure::Nodes;
#[cfg(test)]
pub(crate) use tiers::TIERS_KEYS;

/// The most policies of one file.
pub const MAX_POLICIES: usize = 20_000;

/// The keys of the file.
pub(crate) const FILE_KEYS: [&str; 4] = ["version", "match", "nodes", "policies"];

/// The keys of a policy.
pub(crate) const POLICY_KEYS: [&str; 10] = [
    "name",
    "when",
    "limits",
    "tiers",
    "on_failure",
    "deadline",
    "cost",
    "shard",
    "shadow",
    "headers",
];

/// The keys that say nothing about a policy without limits.
const LIMITED_KEYS: [&str; 6] = ["tiers", "on_failure", "deadline", "cost", "shard", "headers"];

/// The result of reading: as much as is valid, and the problems with the rest.
pub(crate) struct Read {
    pub(crate) combine: Combine,
    /// The number of nodes, if the file has it.
    pub(crate) nodes: Option<u32>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) places: FileSpans,
    pub(crate) problems: Vec<Problem>,
}

/// Reads a file. If no problem is an error, the result is complete.
pub(crate) fn read<'l>(text: &'l str, format: Format, files: &'l mut Files<'l>) -> Read {
    let mut reader = Reader::new(text, files);
    let mut read = Read {
        combine: Combine::First,
        nodes: None,
        policies: Vec::new(),
        places: FileSpans::default(),
        problems: Vec::new(),
    };
    if let Some(tree) = tree(text, format, &mut reader.problems) {
        file(&mut reader, &tree, &mut read);
    }
    read.problems = reader.problems;
    read
}

fn file(reader: &mut Reader<'_>, tree: &Node, read: &mut Read) {
    let Some(keys) = reader.keys(tree, "the file", &FILE_KEYS) else { return };
    let start = Span::new(0, 0);
    let remedy = "write `version = 1` (YAML: `version: 1`) at the top";
    if let Some(node) = reader.required(&keys, start, "version", remedy)
        && !matches!(node.value, Value::Whole(1))
    {
        let remedy = match &node.value {
            Value::Whole(_) => "this program reads version 1: write `version = 1`",
            _ => "it is the whole number 1, without quotes: `version = 1` (YAML: `version: 1`)",
        };
        reader.error(node.at, "this is not a version of a policy file", remedy);
    }
    let combine = keys.get("match").and_then(|node| match &node.value {
        Value::Text(word) if word == "first" => Some(Combine::First),
        Value::Text(word) if word == "all" => Some(Combine::All),
        _ => {
            reader.error(
                node.at,
                "`match` is neither `first` nor `all`",
                "`first`: the first policy that applies counts; `all`: every one that applies",
            );
            None
        }
    });
    let nodes = on_failure::nodes(reader, &keys);
    read.nodes = nodes.number();
    let remedy = "write at least one: `[[policies]]` with a `name`, `limits` and `on_failure`";
    let Some(policies) = reader.required(&keys, start, "policies", remedy) else { return };
    let Value::List(list) = &policies.value else {
        let right = "a list: in TOML `[[policies]]` before each, in YAML `- name: ...`";
        return reader.wrong(policies, "policies", right);
    };
    if list.is_empty() {
        reader.error(policies.at, "there is no policy", remedy);
    }
    if list.len() > MAX_POLICIES {
        reader.error(
            policies.at,
            format!("there are {} policies", list.len()),
            format!("at most {MAX_POLICIES}: use overrides, or fields in subjects"),
        );
        return;
    }
    if let [_, second, ..] = &list[..]
        && keys.get("match").is_none()
    {
        reader.error(
            second.at,
            "`match` is missing: there are several policies",
            "write `match = \"first\"` (the first that applies counts) or `match = \"all\"` (every \
             one that applies does) at the top",
        );
    }
    read.combine = combine.unwrap_or(Combine::First);
    read.places.combine_is_unknown = combine.is_none() && list.len() > 1;
    for node in list {
        if let Some((policy, place)) = policy(reader, node, nodes) {
            read.policies.push(policy);
            read.places.policies.push(place);
        }
    }
}

fn policy(reader: &mut Reader<'_>, node: &Node, nodes: Nodes) -> Option<(Policy, PolicySpans)> {
    let keys = reader.keys(node, "a policy", &POLICY_KEYS)?;
    let mut place = PolicySpans { whole: Some(keys.at), ..PolicySpans::default() };
    let name =
        reader.required(&keys, keys.at, "name", "every policy has one, e.g. `name = \"api\"`");
    let name = name.and_then(|node| {
        place.name = Some(node.at);
        let right = "a text in quotes of 1 to 64 letters, digits, `_`, `-` or `.`";
        let name = reader.text(node, "name", right)?;
        let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > 64 || !name.bytes().all(sound) {
            reader.error(node.at, "this is not the name of a policy", format!("it is {right}"));
            return None;
        }
        Some(name.to_owned())
    });
    let when = match keys.get("when") {
        Some(node) => {
            place.when = Some(keys.at("when"));
            when::when(reader, node)
        }
        None => Some(Vec::new()),
    };
    let limits = keys.get("limits").map(|node| &node.value);
    let unlimited = matches!(limits, Some(Value::Text(word)) if word == "unlimited");
    for key in LIMITED_KEYS.iter().filter(|key| unlimited && keys.get(key).is_some()) {
        let what = format!("`{key}` says nothing here: the policy is `unlimited`");
        reader.error(keys.at(key), what, "leave it out");
    }
    let on_failure = match unlimited {
        true => Some(OnFailure::Allow),
        false => {
            reader.required(&keys, keys.at, "on_failure", on_failure::REMEDY).and_then(|node| {
                place.on_failure = Some(node.at);
                on_failure::rule(reader, node, nodes)
            })
        }
    };
    let shadow = keys.get("shadow").map_or(Some(false), |node| match node.value {
        Value::Bool(yes) => Some(yes),
        _ => {
            reader.wrong(node, "shadow", "true or false");
            None
        }
    });
    let headers = keys.get("headers").map_or(Some(None), |node| headers(reader, node).map(Some));
    let deadline = match keys.get("deadline") {
        None => Some(None),
        Some(node) => deadline(reader, node).map(Some),
    };
    let cost = keys.get("cost").map_or(Some(CostRule::default()), |node| {
        place.cost = Some(keys.at("cost"));
        cost::cost(reader, node)
    });
    let shard = keys.get("shard").map_or(Some(Shard::Unsaid), |node| {
        place.shard = Some(node.at);
        shard(reader, node)
    });
    let tiers = keys.get("tiers").map_or(Some(None), |node| {
        place.tiers = Some(keys.at("tiers"));
        tiers::tiers(reader, node).map(Some)
    });
    let entries = if unlimited { Some(Vec::new()) } else { entries(reader, &keys, &mut place) };
    let policy = Policy {
        name: name?,
        when: when?,
        entries: entries?,
        unlimited,
        tiers: tiers?,
        on_failure: on_failure?,
        deadline: deadline?,
        cost: cost?,
        shard: shard?,
        shadow: shadow?,
        headers: headers?,
    };
    Some((policy, place))
}

/// Reads the field that all subjects share on a cluster, or `never`.
fn shard(reader: &mut Reader<'_>, node: &Node) -> Option<Shard> {
    let text = reader.text(node, "shard", "a field, e.g. `\"field.resource\"`, or `\"never\"`")?;
    if text == "never" {
        return Some(Shard::Never);
    }
    match Field::parse(text) {
        Ok(field) => Some(Shard::By(field)),
        Err(_) if closest(text, ["never"]).is_some() => {
            let remedy = "did you mean `never`? It is a field, or `never`";
            reader.error(node.at, format!("`{text}` is not a shard"), remedy);
            None
        }
        Err(error) => {
            reader.refused(node, text, &error);
            None
        }
    }
}

/// Reads the headers that tell clients of the limits.
fn headers(reader: &mut Reader<'_>, node: &Node) -> Option<ResponseHeaders> {
    let right = "`\"draft\"`, `\"legacy\"`, `\"both\"` or `\"off\"`";
    let text = reader.text(node, "headers", right)?;
    let found = ResponseHeaders::ALL.into_iter().find(|headers| headers.name() == text);
    if found.is_none() {
        let names = ResponseHeaders::ALL.map(ResponseHeaders::name);
        let remedy = advice(text, names, &format!("write {right}"));
        reader.error(node.at, format!("`{}` is not a choice of headers", shown(text)), remedy);
    }
    found
}

fn entries(
    reader: &mut Reader<'_>,
    keys: &Keys<'_>,
    place: &mut PolicySpans,
) -> Option<Vec<crate::model::Entry>> {
    let remedy =
        "say whose counts are kept: `limits = [{ subject = \"ip\", limit = \"100/m via gcra\" }]`";
    let list = reader.required(keys, keys.at, "limits", remedy)?;
    let Value::List(nodes) = &list.value else {
        let right = "a list of tables, each with a `subject` and a `limit`: `[{ ... }]`, in TOML \
                     also `[[policies.limits]]` before each";
        reader.wrong(list, "limits", right);
        return None;
    };
    if nodes.is_empty() {
        reader.error(list.at, "there is no limit", remedy);
        return None;
    }
    if nodes.len() > MAX_PARTS {
        let remedy = format!("at most {MAX_PARTS}: make it several policies");
        reader.error(list.at, format!("there are {} entries of limits", nodes.len()), remedy);
        return None;
    }
    let mut sound = true;
    let mut entries = Vec::new();
    for node in nodes {
        match entry::entry(reader, node) {
            Some((entry, at)) => {
                entries.push(entry);
                place.entries.push(at);
            }
            None => sound = false,
        }
    }
    sound.then_some(entries)
}

fn deadline(reader: &mut Reader<'_>, node: &Node) -> Option<Duration> {
    let remedy = "write a duration from 1ms to 1m, e.g. `deadline = \"20ms\"`";
    let Value::Text(text) = &node.value else {
        reader.wrong(node, "deadline", "a duration in quotes from 1ms to 1m, e.g. `\"20ms\"`");
        return None;
    };
    let found = parse_deadline(text);
    if found.is_none() {
        let what = match text.as_str() {
            "" => "an empty text is not a deadline".to_owned(),
            _ => format!("`{}` is not a deadline", shown(text)),
        };
        reader.error(node.at, what, remedy);
    }
    found
}

/// Parses a deadline, such as `20ms`, from [`MIN_DEADLINE`] to [`MAX_DEADLINE`].
#[must_use]
pub fn parse_deadline(text: &str) -> Option<Duration> {
    let duration = text.parse::<Period>().ok()?.as_duration();
    (MIN_DEADLINE..=MAX_DEADLINE).contains(&duration).then_some(duration)
}
