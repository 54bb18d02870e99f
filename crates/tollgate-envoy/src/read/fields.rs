//! The fields of a table: which there may be, and which there are.

use tollgate_policy::tree::{Key, NOTHING, Node, Span, Value, advice};

use super::scalar::Reader;

/// The keys of each place. A key of another place has no effect for the reference, and is a
/// warning here.
pub(super) const ROOT: &[&str] = &["domain", "descriptors", "meaning", "on_failure"];
pub(super) const DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];
pub(super) const LOCAL: &[&str] = &["local"];
pub(super) const RATE_LIMIT: &[&str] =
    &["unit", "requests_per_unit", "unlimited", "name", "replaces"];
pub(super) const REPLACES: &[&str] = &["name"];

impl Reader<'_> {
    /// The fields of a table at a place with `known` fields, each at most once.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n Node,
        place: &str,
        known: &[&str],
    ) -> Option<Fields<'n>> {
        let Value::Table(pairs) = &node.value else {
            let what = format!("error loading config file: {place} is {}", node.kind());
            self.error(node.at, what, &format!("{place} has the keys {}", known.join(", ")));
            return None;
        };
        let mut fields = Fields::default();
        for (key, value) in pairs {
            if fields.0.iter().any(|(other, _)| other.text == key.text) {
                let what = format!("the key `{}` is given twice", key.text);
                self.error(key.at, what, "give it once");
            } else if known.contains(&&*key.text) {
                fields.0.push((key, value));
            } else {
                self.no_key(key, place, known);
            }
        }
        Some(fields)
    }

    fn no_key(&mut self, key: &Key, place: &str, known: &[&str]) {
        let elsewhere = [ROOT, LOCAL, DESCRIPTOR, RATE_LIMIT, REPLACES].concat();
        let here = format!("{place} has the keys {}", known.join(", "));
        if self.is_not_text(key.at) {
            let shown = self.written(key.at);
            let what = format!("config error, key is not of type string: {shown}");
            self.error(key.at, what, &here);
        } else if elsewhere.contains(&&*key.text) {
            let what = format!("`{}` has no effect here", key.text);
            self.warn(key.at, what, &here);
        } else {
            let what = format!("config error, unknown key '{}'", key.text);
            self.error(key.at, what, &advice(&key.text, known.iter().copied(), &here));
        }
    }
}

/// The fields of a table, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Fields<'n>(Vec<(&'n Key, &'n Node)>);

impl<'n> Fields<'n> {
    /// A field with a value; a null counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        let found = self.0.iter().find(|(known, _)| known.text == key).map(|(_, node)| *node);
        found.filter(|node| !matches!(node.value, Value::Other(NOTHING)))
    }

    /// The place of a field, also of one without a value.
    pub(super) fn at(&self, key: &str) -> Option<Span> {
        self.0.iter().find(|(known, _)| known.text == key).map(|(key, _)| key.at)
    }
}
