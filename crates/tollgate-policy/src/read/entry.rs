//! Reads one entry of a policy: its subject, limits, absent rules and overrides.

use std::collections::BTreeMap;

use tollgate::{Limit, LimitKind, LimitSet, MAX_DIMENSIONS, Share};

use super::keys::{Reader, shown};
use super::when::{flat, when};
use crate::field::Field;
use crate::model::{Absent, Dimension, Entry, Override, Rule, uncertain};
use crate::problem::Span;
use crate::source::{Node, Value};
use crate::spans::{EntrySpans, OverrideSpans};

/// The keys of an entry.
pub(crate) const ENTRY_KEYS: [&str; 5] = ["subject", "limit", "absent", "overrides", "notify"];

/// The keys of an override.
pub(crate) const OVERRIDE_KEYS: [&str; 2] = ["when", "limit"];

/// The most thresholds of one entry.
pub(crate) const MAX_THRESHOLDS: usize = 8;

/// The most overrides of one entry.
pub(crate) const MAX_OVERRIDES: usize = 10_000;

/// The most fields of one `absent`: those of the subject, and their substitutes.
pub(crate) const MAX_ABSENT: usize = 64;

pub(super) fn entry(reader: &mut Reader<'_>, node: &Node) -> Option<(Entry, EntrySpans)> {
    let keys = reader.keys(node, "an entry of limits", &ENTRY_KEYS)?;
    let mut place = EntrySpans::default();
    let remedy = "name the subject: `subject = \"ip\"`";
    let subject = reader.required(&keys, keys.at, "subject", remedy).and_then(|node| {
        place.subject = Some(node.at);
        subject(reader, node)
    });
    let remedy = "say how much, e.g. `limit = \"10/s, 240/h\"`";
    let limits = reader
        .required(&keys, keys.at, "limit", remedy)
        .and_then(|node| limits(reader, node, "leave the entry out, or write an override with it"));
    if let Some((_, at)) = &limits {
        place.limits.clone_from(at);
    }
    let absent = match (keys.get("absent"), &subject) {
        (Some(node), subject) => {
            place.absent = Some(keys.at("absent"));
            absent(reader, node, subject.as_deref().unwrap_or(&[]))
        }
        (None, _) => Some(BTreeMap::new()),
    };
    let overrides = match keys.get("overrides") {
        Some(node) => overrides(reader, node, &mut place),
        None => Some(Vec::new()),
    };
    let notify = match keys.get("notify") {
        Some(node) => notify(reader, node),
        None => Some(Vec::new()),
    };
    let (limits, _) = limits?;
    let (absent, overrides) = (absent?, overrides?);
    let entry = Entry { subject: subject?, limits, absent, overrides, notify: Vec::new() };
    let notify = notify?;
    let (asks, entry) = (!notify.is_empty(), entry.notify(notify));
    if asks && entry.notify.is_empty() {
        let remedy = "leave it out: slots and bans have none";
        reader.error(keys.at("notify"), "`notify` stands beside no rate", remedy);
    }
    Some((entry, place))
}

/// The thresholds of an entry.
fn notify(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<Share>> {
    let nodes = reader.one_or_more(node, "notify");
    let mut all: Vec<Share> = Vec::new();
    for each in nodes {
        let text = reader.text(each, "notify", "a part of the limit in quotes, e.g. `\"80 %\"`")?;
        match text.parse() {
            Ok(share) if all.contains(&share) => {
                let what = format!("`{}` is given twice", shown(text));
                reader.error(each.at, what, "give each threshold once");
            }
            Ok(share) => all.push(share),
            Err(error) => reader.refused(each, text, &error),
        }
    }
    if nodes.len() > MAX_THRESHOLDS {
        let what = format!("there are {} thresholds", nodes.len());
        reader.error(node.at, what, format!("at most {MAX_THRESHOLDS}"));
    }
    (!all.is_empty() && all.len() == nodes.len()).then_some(all)
}

fn subject(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<Dimension>> {
    let nodes = reader.one_or_more(node, "subject");
    if nodes.len() > MAX_DIMENSIONS {
        let remedy = "name only those that the count belongs to";
        reader.error(node.at, format!("a subject has at most {MAX_DIMENSIONS} dimensions"), remedy);
        return None;
    }
    let mut dimensions: Vec<Dimension> = Vec::new();
    let mut sound = !nodes.is_empty();
    for node in nodes {
        let right = "a field as `\"ip\"`, a constant as `\"pool=all\"`, or a list of them";
        let Some(text) = reader.text(node, "subject", right) else {
            sound = false;
            continue;
        };
        match Dimension::parse(text) {
            Ok(dimension) if dimensions.iter().any(|d| d.name() == dimension.name()) => {
                let name = dimension.name();
                reader.error(node.at, format!("`{name}` is in the subject twice"), "name it once");
                sound = false;
            }
            Ok(dimension) => dimensions.push(dimension),
            Err(error) => {
                reader.refused(node, text, &error);
                sound = false;
            }
        }
    }
    sound.then_some(dimensions)
}

/// Reads limits, and the text of each; `word` handles `unlimited` and `banned`.
fn limits(
    reader: &mut Reader<'_>,
    node: &Node,
    word: &str,
) -> Option<(LimitSet, Vec<Option<Span>>)> {
    // Only an administrator's ruling has such limits.
    let counts_nothing = |limit: &Limit| limit.kind() == LimitKind::Rate && limit.is_uncounted();
    let nodes = reader.one_or_more(node, "limit");
    let mut all: Vec<LimitSet> = Vec::new();
    let mut places = Vec::new();
    let mut sound = !nodes.is_empty();
    for node in nodes {
        let right = "a text in quotes, e.g. `\"10/s, 240/h\"`, or a list of them";
        let Some(text) = reader.text(node, "limit", right) else {
            sound = false;
            continue;
        };
        match text.parse::<LimitSet>() {
            Ok(set) if set.limits().iter().any(counts_nothing) => {
                let what = format!("`{text}` would count nothing");
                reader.error(node.at, what, "leave out the `-` before the unit");
                sound = false;
            }
            Ok(set) => {
                places.resize(places.len() + set.limits().len(), Some(node.at));
                all.push(set);
            }
            Err(_) if ["unlimited", "banned"].contains(&text.to_ascii_lowercase().as_str()) => {
                reader.error(node.at, format!("`{text}` is not a limit here"), word);
                sound = false;
            }
            Err(error) => {
                reader.refused(node, text, &error);
                sound = false;
            }
        }
    }
    if !sound {
        return None;
    }
    match LimitSet::of_all(&all) {
        Ok(set) => Some((set, places)),
        Err(error) => {
            reader.error(node.at, error.what(), error.remedy());
            None
        }
    }
}

fn absent(
    reader: &mut Reader<'_>,
    node: &Node,
    subject: &[Dimension],
) -> Option<BTreeMap<Field, Absent>> {
    if let Value::Text(text) = &node.value {
        return match Absent::parse(text) {
            Ok(what) => {
                let fields = uncertain(subject);
                if !subject.is_empty() && fields.is_empty() {
                    let remedy = "leave it out";
                    let what = "`absent` says nothing here: these dimensions are always there";
                    reader.warning(node.at, what, remedy);
                }
                Some(fields.into_iter().map(|field| (field, what.clone())).collect())
            }
            Err(error) => {
                reader.refused(node, text, &error);
                None
            }
        };
    }
    let Value::Table(pairs) = &node.value else {
        let right = "`\"skip\"`, `\"deny\"`, a field or constant, or a table of these by field";
        reader.wrong(node, "absent", right);
        return None;
    };
    let pairs = flat(pairs);
    if pairs.is_empty() {
        let remedy =
            "write what happens without each dimension that can be absent, or leave it out";
        reader.error(node.at, "`absent` is empty", remedy);
        return None;
    }
    if pairs.len() > MAX_ABSENT {
        let remedy = format!("at most {MAX_ABSENT}: name only what the subject needs");
        reader.error(node.at, format!("`absent` names {} fields", pairs.len()), remedy);
        return None;
    }
    let mut found = BTreeMap::new();
    let mut sound = true;
    for (key, value) in pairs {
        let field = match Field::parse(&key.text) {
            Ok(field) => field,
            Err(error) => {
                reader.refused_key(&key, &error);
                sound = false;
                continue;
            }
        };
        let right = "`\"skip\"`, `\"deny\"`, a field or a constant";
        let Some(text) = reader.text(value, "absent", right) else {
            sound = false;
            continue;
        };
        match Absent::parse(text) {
            Ok(what) => {
                if found.insert(field, what).is_some() {
                    reader.error(key.at, format!("`{}` is given twice", key.text), "give it once");
                    sound = false;
                }
            }
            Err(error) => {
                reader.refused(value, text, &error);
                sound = false;
            }
        }
    }
    sound.then_some(found)
}

fn overrides(
    reader: &mut Reader<'_>,
    node: &Node,
    place: &mut EntrySpans,
) -> Option<Vec<Override>> {
    let Value::List(nodes) = &node.value else {
        let right = "a list of tables, each with `when` and `limit`: in TOML \
                     `[[policies.limits.overrides]]` before each";
        reader.wrong(node, "overrides", right);
        return None;
    };
    if nodes.is_empty() {
        reader.empty(node, "overrides");
        return None;
    }
    if nodes.len() > MAX_OVERRIDES {
        let remedy = format!("at most {MAX_OVERRIDES}: let the front tell a plan as a field");
        reader.error(node.at, format!("there are {} overrides", nodes.len()), remedy);
        return None;
    }
    let mut all = Vec::new();
    let mut sound = true;
    for node in nodes {
        let Some(keys) = reader.keys(node, "an override", &OVERRIDE_KEYS) else {
            sound = false;
            continue;
        };
        let remedy = "say for whom, e.g. `when = { user = \"alice\" }`";
        let conditions =
            reader.required(&keys, keys.at, "when", remedy).and_then(|node| when(reader, node));
        let mut spans = Vec::new();
        let remedy = "say how much, e.g. `limit = \"100/s\"`, `\"unlimited\"` or `\"banned\"`";
        let rule =
            reader.required(&keys, keys.at, "limit", remedy).and_then(|node| match &node.value {
                Value::Text(word) if word == "unlimited" => Some(Rule::Unlimited),
                Value::Text(word) if word == "banned" => Some(Rule::Banned),
                _ => {
                    let word = "it stands alone, in small letters: `\"unlimited\"`, `\"banned\"`";
                    limits(reader, node, word).map(|(set, at)| {
                        spans = at;
                        Rule::Limits(set)
                    })
                }
            });
        match (conditions, rule) {
            (Some(when), Some(rule)) => {
                place.overrides.push(OverrideSpans { whole: Some(node.at), limits: spans });
                all.push(Override { when, rule });
            }
            _ => sound = false,
        }
    }
    sound.then_some(all)
}
