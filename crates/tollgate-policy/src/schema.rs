//! The JSON Schema of policy files, for checks in editors. Only `config check` checks what policies
//! mean.

#![expect(dead_code, reason = "of these types only the schema is used")]

use std::collections::BTreeMap;

use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, schema_for};
use serde_json::{Value, json};

use tollgate::MAX_COST_UNITS;

use crate::model::Combine;
use crate::sum::MAX_TERMS;

/// The schema, as JSON.
#[must_use]
pub fn schema() -> Schema {
    let mut schema = schema_for!(File);
    without_null(&mut schema);
    schema
}

/// Removes `null` from optional keys: a key may be omitted, but not written without a value.
fn without_null(schema: &mut Schema) {
    let types = schema.get_mut("type").and_then(|types| types.as_array_mut());
    let kept = types.and_then(|types| {
        types.retain(|name| name != "null");
        types.pop().filter(|_| types.is_empty())
    });
    if let Some(kept) = kept {
        schema.insert("type".to_owned(), kept);
    }
    if let Some(any) = schema.get_mut("anyOf").and_then(|any| any.as_array_mut()) {
        any.retain(|one| one.get("type").is_none_or(|name| name != "null"));
    }
    transform_subschemas(&mut without_null, schema);
}

/// The conditions that hold by the clock: `time`, such as `22:00-06:00 Europe/Berlin`, and `day`,
/// such as `Mon-Fri`.
fn times() -> Value {
    let texts = |pattern: String, what: &str| {
        let one = json!({ "type": "string", "pattern": pattern });
        let several = json!({ "type": "array", "items": one, "minItems": 1, "maxItems": 10_000 });
        json!({ "description": what, "anyOf": [one, several] })
    };
    let one = json!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": { "$ref": "#/$defs/Patterns" },
    });
    let several = json!({ "type": "array", "items": one, "minItems": 1, "maxItems": 64 });
    let (time, day) = ("([01][0-9]|2[0-3]):[0-5][0-9]", "(Mon|Tue|Wed|Thu|Fri|Sat|Sun)");
    json!({
        "not": {
            "description": "A field that must match none of its patterns, or a list of them.",
            "anyOf": [one, several],
        },
        "time": texts(
            format!("^{time}-{time}( .+)?$"),
            "A span of each day, such as `22:00-06:00 Europe/Berlin`; without a zone UTC.",
        ),
        "day": texts(
            format!("^{day}(-{day})?( .+)?$"),
            "Days of the week, such as `Mon-Fri`, in the zone of `time` or their own; else UTC.",
        ),
    })
}

/// A policy file of Tollgate: the requests that are limited, the subjects, and their limits.
#[derive(JsonSchema)]
#[schemars(title = "Tollgate policies", deny_unknown_fields)]
#[schemars(extend(
    "if" = { "required": ["policies"], "properties": { "policies": { "minItems": 2 } } },
    "then" = { "required": ["match"] }
))]
struct File {
    /// The version of the format.
    #[schemars(range(min = 1, max = 1))]
    version: u64,
    /// Which of the policies that apply count; required with two or more.
    #[serde(rename = "match")]
    combine: Option<Combine>,
    /// The number of nodes that admit a share each while the store is away.
    #[schemars(range(min = 1, max = 1_000_000))]
    nodes: Option<u32>,
    /// The policies, in order.
    #[schemars(length(min = 1, max = 20_000))]
    policies: Vec<Policy>,
}

/// A rule: the requests, the subjects, and their limits.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(extend(
    "if" = { "properties": { "limits": { "const": "unlimited" } } },
    "then" = {
        "properties": {
            "tiers": false, "on_failure": false, "deadline": false, "cost": false, "shard": false
        }
    },
    "else" = { "required": ["on_failure"] }
))]
struct Policy {
    /// Its name, part of every count.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]{1,64}$"))]
    name: String,
    /// The conditions; all must hold.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 64, "properties" = times()))]
    when: Option<BTreeMap<String, Patterns>>,
    /// The subjects and their limits, or `unlimited`.
    limits: Limits,
    /// The tiers of keys, for the overrides with a condition on `tier`.
    tiers: Option<Tiers>,
    /// The answer when the store cannot answer in time; required unless it is unlimited.
    on_failure: Option<OnFailure>,
    /// How long the store may take, such as `20ms`; the default is 500ms.
    #[schemars(regex(pattern = r"^[0-9]+(us|ms|s|m)$"))]
    deadline: Option<String>,
    /// The cost of a request; the default is 1.
    cost: Option<Cost>,
    /// The field that all subjects share on a cluster, or `never`.
    shard: Option<String>,
    /// True: counts, and never denies.
    shadow: Option<bool>,
    /// The headers that tell clients of these limits; the default is that of the front.
    #[schemars(regex(pattern = r"^(draft|legacy|both|off)$"))]
    headers: Option<String>,
}

/// Entries, or none for a policy that limits nothing.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Limits {
    Entries(#[schemars(length(min = 1, max = 16))] Vec<Entry>),
    Word(#[schemars(regex(pattern = r"^unlimited$"))] String),
}

/// The tiers of keys in a file with the columns `key` and `tier`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Tiers {
    /// The path, from the folder of this file.
    #[schemars(length(min = 1))]
    file: String,
    /// The field whose values are the keys, such as `field.tenant`.
    by: String,
    /// The tier of keys that are not in the file.
    otherwise: Option<String>,
}

/// The answer when the store cannot answer in time.
#[derive(JsonSchema)]
#[serde(untagged)]
enum OnFailure {
    Word(FailureWord),
    Local(LocalShare),
}

/// One answer for every request, or, with `nodes`, a share of each limit for each node.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum FailureWord {
    Allow,
    Deny,
    Local,
}

/// The share of each limit that this node admits by itself.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct LocalShare {
    /// A percentage or a fraction, such as `25 %` or `1/4`.
    #[schemars(regex(pattern = r"^ *([0-9]+(\.[0-9]{1,4})? *%|[0-9]+ */ *[0-9]+) *$"))]
    local: String,
}

/// The values that a field may have: `abc`, `abc*`, `*`, a host such as `*.example.com`, an address
/// in a network such as `192.0.2.0/24`, or a list of these; also `{ file = "list.txt" }`.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Patterns {
    One(#[schemars(length(min = 1, max = 1_024))] String),
    Several(#[schemars(length(min = 1, max = 10_000))] Vec<OnePattern>),
    /// The tree that TOML makes of `header.x-tier = "gold"`.
    Named(BTreeMap<String, Self>),
}

/// One of several.
#[derive(JsonSchema)]
#[serde(untagged)]
enum OnePattern {
    Text(#[schemars(length(min = 1, max = 1_024))] String),
    Listed(Listed),
}

/// Values, one in each line of a file beside this one; for `ip` networks.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Listed {
    #[schemars(length(min = 1))]
    file: String,
}

/// One text or a list of them.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Texts {
    One(#[schemars(length(min = 1))] String),
    Several(#[schemars(length(min = 1))] Vec<String>),
}

/// One subject and its limits.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Entry {
    /// A field as `ip`, `user`, `header.NAME`, `field.NAME`, a constant as `pool=all`, or several.
    subject: Texts,
    /// Limits, such as `10/s, 240/h`.
    limit: Texts,
    /// The rule without a dimension: `skip`, `deny`, or the replacement; or that by field.
    absent: Option<Absent>,
    /// Other limits for some requests; the first that holds counts.
    #[schemars(length(min = 1, max = 10_000))]
    overrides: Option<Vec<Override>>,
    /// Parts of the limits, such as `80 %`: a charge that reaches one is reported.
    notify: Option<Texts>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum Absent {
    Every(String),
    Each(BTreeMap<String, Self>),
}

/// Other limits where conditions hold.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Override {
    /// The conditions; all must hold.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 64, "properties" = times()))]
    when: BTreeMap<String, Patterns>,
    /// Limits, `unlimited` or `banned`.
    limit: Texts,
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum Cost {
    Requests(Amount),
    /// An amount of each unit.
    Units(
        #[schemars(extend(
            "minProperties" = 1,
            "maxProperties" = MAX_COST_UNITS,
            "propertyNames" = {"pattern": "^[a-z][a-z0-9_]{0,31}$"}
        ))]
        BTreeMap<String, Amount>,
    ),
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum Amount {
    Fixed(#[schemars(range(min = 1, max = 1_099_511_627_776_u64))] u64),
    From(FromField),
    Reserve(Reserve),
}

/// A factor of a sum: a whole number, or a decimal number as a text.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Factor {
    Whole(#[schemars(range(min = 1, max = 1_099_511_627_776_u64))] u64),
    Decimal(#[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,6})?$"))] String),
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum Factors {
    One(Factor),
    Several(#[schemars(length(min = 1, max = MAX_TERMS))] Vec<Factor>),
}

/// Sources of numbers, which are added up.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Sources {
    One(String),
    Several(#[schemars(length(min = 1, max = MAX_TERMS))] Vec<String>),
}

/// A cost that is known afterwards.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Reserve {
    /// The units that are held until then: a number, `header.NAME` or `field.NAME` of the request,
    /// several of them, or `p90`.
    reserve: Estimate,
    /// A factor for each field, and for each header of `commit`; the default is 1.
    times: Option<Factors>,
    /// When the field is absent or no number: an estimate, or `deny`.
    otherwise: Option<Otherwise>,
    /// The part of each limit that an estimate by a quantile takes at most; the default is `10 %`.
    #[schemars(regex(pattern = r"^ *([0-9]+(\.[0-9]{1,4})? *%|[0-9]+ */ *[0-9]+) *$"))]
    at_most: Option<String>,
    /// The source of the cost: `header.NAME` of the response, several of them, or `bytes`.
    commit: Option<Sources>,
    /// The most that is reserved and charged.
    #[schemars(range(min = 1, max = 1_099_511_627_776_u64))]
    max: u64,
    /// How long it is held without being renewed, such as `2m`.
    #[schemars(regex(pattern = r"^([0-9]+(us|ms|s|m|h|d|w))+$"))]
    hold: String,
    /// Where nobody says what was used; the default is `charge`.
    at_end: Option<AtEnd>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum Estimate {
    Units(#[schemars(range(min = 1, max = 1_099_511_627_776_u64))] u64),
    From(Sources),
}

/// Charges the estimate, or nothing.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum AtEnd {
    Charge,
    Nothing,
}

/// A cost that fields say.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FromField {
    /// `field.NAME` or `header.NAME`, or several, which are added up.
    from: Sources,
    /// A factor for each field; the default is 1.
    times: Option<Factors>,
    /// The most that is admitted.
    #[schemars(range(min = 1, max = 1_099_511_627_776_u64))]
    max: u64,
    /// When the field is absent or no number: a cost, or `deny`.
    otherwise: Otherwise,
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum Otherwise {
    Units(#[schemars(range(min = 1, max = 1_099_511_627_776_u64))] u64),
    Deny(#[schemars(regex(pattern = r"^deny$"))] String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    /// The keys that the reader takes are those that the schema names: neither can be forgotten.
    #[test]
    fn the_schema_has_the_keys_of_the_reader() {
        let schema = schema().to_value();
        let keys = |at: &str| {
            let object = schema.pointer(at).and_then(|value| value.as_object()).unwrap();
            let mut keys: Vec<String> = object.keys().cloned().collect();
            keys.sort();
            keys
        };
        let sorted = |known: &[&str]| {
            let mut known: Vec<String> = known.iter().map(ToString::to_string).collect();
            known.sort();
            known
        };
        assert_eq!(keys("/properties"), sorted(&read::FILE_KEYS));
        assert!(!schema.to_string().contains("\"null\""), "{schema:#}");
        for (name, known) in [
            ("Policy", &read::POLICY_KEYS[..]),
            ("Entry", &read::ENTRY_KEYS[..]),
            ("Override", &read::OVERRIDE_KEYS[..]),
            ("FromField", &read::COST_KEYS[..]),
            ("Reserve", &read::RESERVE_KEYS[..]),
            ("LocalShare", &read::LOCAL_KEYS[..]),
            ("Tiers", &read::TIERS_KEYS[..]),
        ] {
            assert_eq!(keys(&format!("/$defs/{name}/properties")), sorted(known), "{name}");
        }
    }
}
