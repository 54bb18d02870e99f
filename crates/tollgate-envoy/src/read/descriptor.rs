//! Reads descriptors and their limits.

use tollgate::{Calendar, LimitSet, ParseError};
use tollgate_policy::tree::{Node as Tree, Span, Value};

use super::fields::{DESCRIPTOR, Fields, RATE_LIMIT, REPLACES};
use super::scalar::Reader;
use crate::config::{Counting, Level, Node, Rule, Wild};
use crate::pattern::Pattern;
use crate::unit::Unit;

/// The descriptors down to one.
#[derive(Clone)]
pub(super) struct Way {
    /// The domain, and `KEY` or `KEY_VALUE` of each.
    steps: Vec<Box<str>>,
    /// Whether the metrics of each have its value.
    valued: Vec<bool>,
}

impl Way {
    pub(super) fn new(domain: &str) -> Self {
        Self { steps: vec![domain.into()], valued: Vec::new() }
    }

    fn to(&self, step: &str, is_valued: bool) -> Self {
        let mut way = self.clone();
        way.steps.push(step.into());
        way.valued.push(is_valued);
        way
    }
}

/// The contents of `rate_limit`.
#[derive(Default)]
struct Rate {
    unlimited: bool,
    quota: Option<(u32, Unit)>,
    name: String,
    replaces: Vec<Box<str>>,
}

impl Reader<'_> {
    pub(super) fn descriptors(
        &mut self,
        list: &Tree,
        parent: &Way,
        level: &mut Level,
        rules: &mut usize,
    ) {
        let Value::List(list) = &list.value else {
            return self.wrong("descriptors", list, "a list, whose parts begin with `- `");
        };
        for each in list {
            if !matches!(each.value, Value::Table(_)) {
                let shown = self.written(each.at);
                let what = format!(
                    "config error, yaml file contains list of type other than map: {shown}"
                );
                self.error(each.at, what, "write a descriptor, e.g. `- key: user`");
            } else if let Some(fields) = self.fields(each, "a descriptor", DESCRIPTOR) {
                self.descriptor(each.at, &fields, parent, level, rules);
            }
        }
    }

    fn descriptor(
        &mut self,
        at: Span,
        fields: &Fields<'_>,
        parent: &Way,
        level: &mut Level,
        rules: &mut usize,
    ) {
        let before = self.problems.len();
        let mut text = |name| fields.get(name).map_or(String::new(), |n| self.text_of(name, n));
        let (key, value) = (text("key"), text("value"));
        if key.is_empty() {
            if self.problems.len() > before {
                return;
            }
            let at = fields.at("key").unwrap_or(at);
            return self.error(at, "descriptor has empty key", "name the entry, e.g. `key: user`");
        }
        let joined = if value.is_empty() { key.clone() } else { format!("{key}_{value}") };
        let way = parent.to(&joined, self.is_so("value_to_metric", fields.get("value_to_metric")));
        let mut node = Node { rule: self.rule(fields, &way, rules), ..Node::default() };
        let is_wild = key.contains('*') || value.contains('*');
        if self.is_so("share_threshold", fields.get("share_threshold")) {
            if !is_wild {
                let what = format!(
                    "share_threshold can only be used with wildcard values (containing '*'), but \
                     found key '{joined}'"
                );
                let at = fields.at("share_threshold").unwrap_or(at);
                self.error(at, what, "leave it out, or put a `*` into `value`");
            }
            node.shared = Some(value.as_str().into());
        }
        if let Some(list) = fields.get("descriptors") {
            self.descriptors(list, &way, &mut node.level, rules);
        }
        if !level.insert(key, value, is_wild, node) {
            let at = fields.at("key").unwrap_or(at);
            let what = format!("duplicate descriptor composite key '{}'", way.steps.join("."));
            self.error(at, what, "put its children under one descriptor");
        }
    }

    fn rule(&mut self, fields: &Fields<'_>, way: &Way, rules: &mut usize) -> Option<Rule> {
        let is_detailed = self.is_so("detailed_metric", fields.get("detailed_metric"));
        let has_values = is_detailed || way.valued.contains(&true);
        let valued = way.valued.iter().map(|is_valued| is_detailed || *is_valued);
        let valued = valued.filter(|_| has_values).collect();
        let shadow = self.is_so("shadow_mode", fields.get("shadow_mode"));
        let quota = self.is_so("quota_mode", fields.get("quota_mode"));
        let limits = fields.get("limit").map(|node| (node, self.text_of("limit", node)));
        let rate = match fields.get("rate_limit") {
            Some(node) => self.rate(node, limits.is_some())?,
            None if limits.is_some() => Rate::default(),
            None => {
                for name in ["shadow_mode", "quota_mode", "metadata"] {
                    if let Some(at) = fields.at(name) {
                        let what = format!("`{name}` has no effect without a limit");
                        self.warn(at, what, "leave it out, or add `rate_limit` or `limit`");
                    }
                }
                return None;
            }
        };
        let metadata = match fields.get("metadata").map(|node| (node, self.json(node))) {
            Some((_, serde_json::Value::Object(metadata))) => metadata,
            Some((node, _)) => return self.wrong("metadata", node, "a mapping"),
            None => serde_json::Map::new(),
        };
        if let (true, Some((node, _))) = (rate.unlimited, &limits) {
            self.error(node.at, "`limit` beside `unlimited`", "leave one of them out");
            return None;
        }
        let is_ban = matches!(rate.quota, Some((0, _)));
        let counting = match (rate.unlimited, rate.quota) {
            (true, _) => Counting::Unlimited,
            _ if is_ban => Counting::Ban,
            _ => Counting::Limits(self.limits(&rate, limits.as_ref())?),
        };
        let reported = match (rate.quota, &counting) {
            (Some((number, unit)), _) => (number, Some(unit)),
            (None, Counting::Limits(limits)) => reported(limits),
            (None, _) => (0, None),
        };
        let number = *rules;
        *rules += 1;
        Some(Rule {
            number,
            steps: way.steps.as_slice().into(),
            counting,
            requests_per_unit: reported.0,
            unit: reported.1,
            is_theirs: limits.is_none() || is_ban,
            name: rate.name.into(),
            replaces: rate.replaces,
            shadow,
            quota,
            valued,
            metadata,
        })
    }

    fn rate(&mut self, node: &Tree, has_limit: bool) -> Option<Rate> {
        let fields = self.fields(node, "a rate_limit", RATE_LIMIT)?;
        let unlimited = self.is_so("unlimited", fields.get("unlimited"));
        let number = fields.get("requests_per_unit");
        let number = number.map(|node| self.number("requests_per_unit", node));
        let written = fields.get("unit").map_or(String::new(), |n| self.text_of("unit", n));
        let unit_at = fields.at("unit").unwrap_or(node.at);
        let quota = match (unlimited, Unit::parse(&written)) {
            (true, Some(_)) => {
                let what = "should not specify rate limit unit when unlimited";
                self.error(unit_at, what, "leave out `unit`, or `unlimited`");
                None
            }
            (true, None) => {
                for name in ["unit", "requests_per_unit"] {
                    if let Some(at) = fields.at(name) {
                        let what = format!("`{name}` has no effect beside `unlimited`");
                        self.warn(at, what, "leave it out");
                    }
                }
                None
            }
            (false, Some(unit)) => {
                if number.is_none() {
                    let what = "without `requests_per_unit`, nobody is admitted";
                    self.warn(node.at, what, "say how many; 0, if this is meant");
                }
                Some((number.unwrap_or(0), unit))
            }
            // Only a name, for a limit in our notation.
            (false, None) if has_limit && written.is_empty() && number.is_none() => None,
            (false, None) => {
                let what = format!("invalid rate limit unit '{written}'");
                let mut remedy = "write second, minute, hour, day, week, month or year".to_owned();
                if let Ok(calendar) = written.parse::<Calendar>() {
                    let number = number.unwrap_or(1);
                    remedy = format!("a calendar is a limit of ours: `limit: {number}/{calendar}`");
                }
                self.error(unit_at, what, &remedy);
                None
            }
        };
        let name = fields.get("name").map_or(String::new(), |n| self.text_of("name", n));
        let replaces = self.replaces(fields.get("replaces"), &name);
        Some(Rate { unlimited, quota, name, replaces })
    }

    fn replaces(&mut self, node: Option<&Tree>, own: &str) -> Vec<Box<str>> {
        let list = match node.map(|node| (&node.value, node)) {
            Some((Value::List(list), _)) => list,
            Some((_, node)) => return self.wrong("replaces", node, "a list of names"),
            None => return Vec::new(),
        };
        let mut names = Vec::new();
        for each in list {
            if !matches!(each.value, Value::Table(_)) {
                let shown = self.written(each.at);
                let what = format!(
                    "config error, yaml file contains list of type other than map: {shown}"
                );
                self.error(each.at, what, "write `- name: OTHER`");
                continue;
            }
            let Some(fields) = self.fields(each, "an entry of replaces", REPLACES) else {
                continue;
            };
            let name = fields.get("name").map_or(String::new(), |n| self.text_of("name", n));
            if name.is_empty() {
                let what = "should not have an empty replaces entry";
                self.error(each.at, what, "name the limit that does not count, or leave it out");
            } else if name == own {
                let what = "replaces should not contain name of same descriptor";
                self.error(each.at, what, "name another limit");
            }
            names.push(name.into());
        }
        names
    }

    /// The limits that count: theirs as fixed windows from the epoch, then ours.
    fn limits(&mut self, rate: &Rate, ours: Option<&(&Tree, String)>) -> Option<LimitSet> {
        let theirs = rate
            .quota
            .map(|(number, unit)| format!("{number}/{}s via fixed_window", unit.seconds()));
        let text = match (theirs, ours) {
            (Some(theirs), Some((_, ours))) => format!("{theirs}, {ours}"),
            (Some(theirs), None) => theirs,
            (None, Some((_, ours))) => ours.clone(),
            // The unit is wrong, which was reported.
            (None, None) => return None,
        };
        // Ours alone goes first, so that a mistake in it is not shown with theirs before it.
        let alone = ours.map_or(Ok(()), |(_, ours)| ours.parse::<LimitSet>().map(drop));
        match alone.and_then(|()| text.parse::<LimitSet>()) {
            Ok(limits) => match limits.limits().iter().find(|it| !it.counts_requests()) {
                None => Some(limits),
                Some(limit) => {
                    let what = format!("`limit`: `{limit}` counts no requests, and a hit is one");
                    let remedy = "leave its unit out, or write a policy, whose costs have an amount of each unit";
                    self.error(ours?.0.at, what, remedy);
                    None
                }
            },
            Err(error) => {
                let error: ParseError = error;
                if let Some((node, _)) = ours {
                    self.error(node.at, format!("`limit`: {}", error.what()), error.remedy());
                }
                None
            }
        }
    }
}

/// The reported quota of limits in our notation: that of the first.
fn reported(limits: &LimitSet) -> (u32, Option<Unit>) {
    let Some(quota) = limits.limits().first().map(tollgate::Limit::quota) else { return (0, None) };
    let number = u32::try_from(quota.units).unwrap_or(u32::MAX);
    (number, Unit::of(quota))
}

impl Level {
    /// Adds a descriptor; false if there is one of this key and value.
    fn insert(&mut self, key: String, value: String, is_wild: bool, node: Node) -> bool {
        if is_wild {
            let value = (!value.is_empty()).then(|| Pattern::new(&value));
            let key = Pattern::new(&key);
            let is_new = !self.wild.iter().any(|wild| wild.key == key && wild.value == value);
            self.wild.push(Wild { key, value, node });
            return is_new;
        }
        if value.is_empty() {
            return self.bare.insert(key.into(), node).is_none();
        }
        self.exact.entry(key.into()).or_default().insert(value.into(), node).is_none()
    }
}
