//! Rules as control planes send them (`ratelimit.config.ratelimit.v3`).
//!
//! They become the tree of a file, so that one reader decides what rules may be. Messages about
//! them have a line: that of the descriptor in a text which is written for them.

use core::fmt::Write as _;

use prost_types::Struct;
use prost_types::value::Kind;
use tollgate_policy::Problems;
use tollgate_policy::tree::{FRACTION, Key, NOTHING, Node, Span, Value};

use crate::config::{Config, SameDomain};
use crate::proto::rules::{RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit};
use crate::read::Input;

impl Config {
    /// Reads the resources of a control plane.
    ///
    /// # Errors
    /// All problems of all resources. Each names the resource, and the descriptor as one line.
    pub fn from_resources(
        same_domain: SameDomain,
        resources: &[RateLimitConfig],
    ) -> Result<Self, Vec<Problems>> {
        let inputs = resources.iter().enumerate().map(|(place, resource)| input(place, resource));
        Self::read_all(same_domain, inputs)
    }
}

/// A resource as the text and the tree of a file.
fn input(place: usize, resource: &RateLimitConfig) -> Input<'static> {
    let mut writer = Writer { text: String::new() };
    let at = writer.line(0, &format!("domain: {:?}", resource.domain));
    let descriptors = writer.descriptors(0, &resource.descriptors);
    let domain = Value::Text(resource.domain.clone());
    let root = table(at, [("domain", domain), ("descriptors", descriptors)]);
    let name = match resource.name.is_empty() {
        true => format!("resources[{place}]"),
        false => resource.name.clone(),
    };
    Input { name: name.into(), text: writer.text.into(), root: Some(root) }
}

/// Writes the text of a resource, so that messages have a line to show.
struct Writer {
    text: String,
}

impl Writer {
    /// Adds a line, and says where it is.
    fn line(&mut self, depth: usize, line: &str) -> Span {
        self.text.extend(core::iter::repeat_n("  ", depth));
        let start = self.text.len();
        self.text.push_str(line);
        let end = self.text.len();
        self.text.push('\n');
        Span::new(start, end)
    }

    fn descriptors(&mut self, depth: usize, all: &[RateLimitDescriptor]) -> Value {
        Value::List(all.iter().map(|each| self.descriptor(depth, each)).collect())
    }

    fn descriptor(&mut self, depth: usize, descriptor: &RateLimitDescriptor) -> Node {
        let RateLimitDescriptor { key, value, rate_limit, descriptors, metadata, .. } = descriptor;
        let at = self.line(depth, &format!("- {}", shown(descriptor)));
        let mut fields = vec![("key", Value::Text(key.clone()))];
        if !value.is_empty() {
            fields.push(("value", Value::Text(value.clone())));
        }
        if let Some(limit) = rate_limit {
            fields.push(("rate_limit", policy(at, limit)));
        }
        for (name, is_so) in [
            ("shadow_mode", descriptor.shadow_mode),
            ("detailed_metric", descriptor.detailed_metric),
            ("quota_mode", descriptor.quota_mode),
        ] {
            if is_so {
                fields.push((name, Value::Bool(true)));
            }
        }
        if let Some(metadata) = metadata.as_ref().filter(|metadata| !metadata.fields.is_empty()) {
            fields.push(("metadata", self.metadata(depth + 1, at, metadata)));
        }
        if !descriptors.is_empty() {
            fields.push(("descriptors", self.descriptors(depth + 1, descriptors)));
        }
        table(at, fields)
    }

    fn metadata(&mut self, depth: usize, at: Span, metadata: &Struct) -> Value {
        let pairs = metadata.fields.iter().map(|(name, value)| {
            (Key::new(name.clone(), at), self.any(depth, at, value.kind.as_ref()))
        });
        Value::Table(pairs.collect())
    }

    fn any(&mut self, depth: usize, at: Span, value: Option<&Kind>) -> Node {
        let value = match value {
            None | Some(Kind::NullValue(_)) => Value::Other(NOTHING),
            Some(Kind::BoolValue(is_so)) => Value::Bool(*is_so),
            Some(Kind::StringValue(text)) => Value::Text(text.clone()),
            Some(Kind::StructValue(metadata)) => self.metadata(depth, at, metadata),
            Some(Kind::ListValue(list)) => {
                let values = list.values.iter();
                Value::List(values.map(|each| self.any(depth, at, each.kind.as_ref())).collect())
            }
            // A fraction is read from where it is written.
            Some(Kind::NumberValue(number)) => {
                let at = self.line(depth, &number.to_string());
                return Node::new(at, Value::Other(FRACTION));
            }
        };
        Node::new(at, value)
    }
}

fn policy(at: Span, policy: &RateLimitPolicy) -> Value {
    let RateLimitPolicy { unit, requests_per_unit, unlimited, name, replaces } = policy;
    let mut fields = Vec::new();
    if *unlimited {
        fields.push(("unlimited", Value::Bool(true)));
    }
    if !*unlimited || *unit != 0 {
        fields.push(("unit", Value::Text(unit_of(*unit))));
    }
    if !*unlimited || *requests_per_unit != 0 {
        fields.push(("requests_per_unit", Value::Whole((*requests_per_unit).into())));
    }
    if !name.is_empty() {
        fields.push(("name", Value::Text(name.clone())));
    }
    if !replaces.is_empty() {
        let name = |other: &str| table(at, [("name", Value::Text(other.to_owned()))]);
        let names = replaces.iter().map(|replace| name(&replace.name));
        fields.push(("replaces", Value::List(names.collect())));
    }
    table(at, fields).value
}

fn unit_of(number: i32) -> String {
    let unit = RateLimitUnit::try_from(number);
    unit.map_or_else(|_| number.to_string(), |unit| unit.as_str_name().to_owned())
}

/// A descriptor in one line, as a file could have it.
fn shown(descriptor: &RateLimitDescriptor) -> String {
    let mut shown = format!("{{key: {:?}", descriptor.key);
    // Writing to a string cannot fail.
    if !descriptor.value.is_empty() {
        let _ = write!(shown, ", value: {:?}", descriptor.value);
    }
    if let Some(RateLimitPolicy { unit, requests_per_unit, unlimited, .. }) = &descriptor.rate_limit
    {
        let _ = match unlimited {
            true => write!(shown, ", rate_limit: {{unlimited: true}}"),
            false => {
                let unit = unit_of(*unit);
                write!(
                    shown,
                    ", rate_limit: {{unit: {unit}, requests_per_unit: {requests_per_unit}}}"
                )
            }
        };
    }
    shown.push('}');
    shown
}

fn table<'k>(at: Span, fields: impl IntoIterator<Item = (&'k str, Value)>) -> Node {
    let fields = fields.into_iter();
    let pairs = fields.map(|(key, value)| (Key::new(key, at), Node::new(at, value)));
    Node::new(at, Value::Table(pairs.collect()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prost_types::{ListValue, Value as Any};

    use super::*;
    use crate::Counting;
    use crate::proto::rules::RateLimitReplace;

    fn limit(unit: RateLimitUnit, requests_per_unit: u32) -> RateLimitPolicy {
        RateLimitPolicy { unit: unit.into(), requests_per_unit, ..RateLimitPolicy::default() }
    }

    fn descriptor(key: &str, value: &str, limit: Option<RateLimitPolicy>) -> RateLimitDescriptor {
        let (key, value) = (key.to_owned(), value.to_owned());
        RateLimitDescriptor { key, value, rate_limit: limit, ..RateLimitDescriptor::default() }
    }

    fn resource(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
        RateLimitConfig { name: format!("{domain}-rules"), domain: domain.to_owned(), descriptors }
    }

    fn read(resources: &[RateLimitConfig]) -> Result<Config, String> {
        Config::from_resources(SameDomain::Refused, resources)
            .map_err(|broken| broken.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_resource_has_the_rules_of_the_file_that_says_the_same() {
        let any = |kind| Any { kind: Some(kind) };
        let list =
            ListValue { values: vec![any(Kind::NumberValue(2.5)), any(Kind::BoolValue(true))] };
        let metadata = [
            ("list".to_owned(), any(Kind::ListValue(list))),
            ("none".to_owned(), any(Kind::NullValue(0))),
        ];
        let inner = RateLimitDescriptor {
            shadow_mode: true,
            quota_mode: true,
            detailed_metric: true,
            metadata: Some(Struct { fields: BTreeMap::from(metadata) }),
            ..descriptor("path", "/a*", Some(limit(RateLimitUnit::Week, 3)))
        };
        let outer =
            RateLimitDescriptor { descriptors: vec![inner], ..descriptor("tenant", "", None) };
        let free = RateLimitPolicy {
            unlimited: true,
            name: "free".to_owned(),
            replaces: vec![RateLimitReplace { name: "other".to_owned() }],
            ..RateLimitPolicy::default()
        };
        let resources = [resource("shop", vec![outer, descriptor("free", "", Some(free))])];
        let text = "
domain: shop
descriptors:
  - key: tenant
    descriptors:
      - key: path
        value: /a*
        shadow_mode: true
        quota_mode: true
        detailed_metric: true
        rate_limit: { unit: week, requests_per_unit: 3 }
        metadata: { list: [2.5, true], none: }
  - key: free
    rate_limit: { unlimited: true, name: free, replaces: [{ name: other }] }
";
        let of = |config: &Config| {
            let mut rules: Vec<_> = config.rules().map(|(_, rule)| format!("{rule:?}")).collect();
            rules.sort_unstable();
            rules
        };
        let config = read(&resources).unwrap();
        assert_eq!(config.warnings(), []);
        assert_eq!(of(&config), of(&Config::read([("a.yaml", text)]).unwrap()));
        assert_eq!(config.rules().count(), 2);
    }

    #[test]
    fn a_broken_resource_is_refused_with_its_name_and_its_descriptor() {
        let good = || descriptor("user", "", Some(limit(RateLimitUnit::Day, 5)));
        for (bad, says) in [
            (descriptor("", "", None), "descriptor has empty key"),
            (
                descriptor("a", "\n", Some(limit(RateLimitUnit::Unknown, 5))),
                "invalid rate limit unit 'UNKNOWN'",
            ),
            (
                descriptor(
                    "a",
                    "",
                    Some(RateLimitPolicy { unit: 9, ..RateLimitPolicy::default() }),
                ),
                "invalid rate limit unit '9'",
            ),
            (good(), "duplicate descriptor composite key 'shop.user'"),
        ] {
            let resources = [resource("fine", vec![good()]), resource("shop", vec![good(), bad])];
            let told = read(&resources).unwrap_err();
            assert!(told.contains(&format!("error: {says}")), "{told}\nis not {says}");
            assert!(told.contains("--> shop-rules:3:1"), "{told}");
            assert!(told.contains("3 | - {key: "), "{told}");
        }
        let told = read(&[resource("", vec![])]).unwrap_err();
        assert!(told.contains("config file cannot have empty domain"), "{told}");
        let unnamed = RateLimitConfig::default();
        assert!(read(&[unnamed]).unwrap_err().contains("--> resources[0]:1:1"));
        let twice =
            [resource("shop", vec![good()]), resource("shop", vec![descriptor("a", "", None)])];
        assert!(read(&twice).unwrap_err().contains("duplicate domain 'shop'"));
        let merged = Config::from_resources(SameDomain::Merged, &twice).unwrap();
        assert_eq!(merged.domains().count(), 1);
    }

    #[test]
    fn a_limit_of_none_bans() {
        let nobody = descriptor("user", "x", Some(limit(RateLimitUnit::Hour, 0)));
        let config = read(&[resource("shop", vec![nobody])]).unwrap();
        let found = config.domain("shop").unwrap().find([("user", "x")].into_iter()).unwrap();
        assert!(matches!(found.rule().counting(), Counting::Ban));
        assert_eq!(config.warnings(), []);
    }
}
