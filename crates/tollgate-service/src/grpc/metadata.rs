//! Dynamic metadata: facts for Envoy about a request, and about the rules that admitted it.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::{Map, Value as Json};
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::{Rule, Unit};

use super::answer::Judged;
use super::plan::Planned;
use super::question::entries;

/// The metadata of an answer.
pub(super) fn of(request: &RateLimitRequest, planned: &[Planned<'_>], judged: &[Judged]) -> Struct {
    let descriptors = request.descriptors.iter().map(descriptor).collect();
    let mut fields = vec![("domain", text(&request.domain)), ("descriptors", list(descriptors))];
    if request.hits_addend != 0 {
        fields.push(("hitsAddend", number(f64::from(request.hits_addend))));
    }
    let mut merged = Map::new();
    let admitted = planned.iter().zip(judged).filter(|(_, judged)| !judged.is_over());
    for rule in admitted.filter_map(|(planned, _)| planned.rule) {
        merge(&mut merged, Rule::metadata(rule));
    }
    if !merged.is_empty() {
        fields.push(("metadata", value(&Json::Object(merged))));
    }
    structure(fields)
}

fn descriptor(descriptor: &RateLimitDescriptor) -> Value {
    let entries = entries(descriptor).map(|(key, value)| text(&format!("{key}={value}")));
    let mut fields = vec![("entries", list(entries.collect()))];
    if let Some(limit) = &descriptor.limit {
        let unit = Unit::from_number(limit.unit).map_or("UNKNOWN", Unit::name);
        let limit = format!("requests_per_unit:{} unit:{unit}", limit.requests_per_unit);
        fields.push(("limit", text(&limit)));
    }
    if let Some(hits) = descriptor.hits_addend {
        // Hits are at most 2^40, which is exact.
        fields.push(("hitsAddend", number(hits as f64)));
    }
    Value { kind: Some(Kind::StructValue(structure(fields))) }
}

/// The first of two values stays; two mappings become one.
fn merge(merged: &mut Map<String, Json>, more: &Map<String, Json>) {
    for (key, value) in more {
        match (merged.get_mut(key), value) {
            (Some(Json::Object(merged)), Json::Object(more)) => merge(merged, more),
            (Some(_), _) => {}
            (None, _) => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
}

fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

fn number(number: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(number)) }
}

fn list(values: Vec<Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values })) }
}

fn structure<'k>(fields: impl IntoIterator<Item = (&'k str, Value)>) -> Struct {
    Struct { fields: fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect() }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value { kind: Some(Kind::NullValue(0)) },
        Json::Bool(is_so) => Value { kind: Some(Kind::BoolValue(*is_so)) },
        Json::Number(given) => number(given.as_f64().unwrap_or_default()),
        Json::String(given) => text(given),
        Json::Array(values) => list(values.iter().map(value).collect()),
        Json::Object(fields) => {
            let fields = fields.iter().map(|(key, json)| (key.as_str(), value(json)));
            Value { kind: Some(Kind::StructValue(structure(fields))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_stays_and_mappings_become_one() {
        let map = |text: &str| serde_json::from_str::<Map<String, Json>>(text).unwrap();
        let mut merged = map(r#"{"a": {"x": 1}, "b": 1}"#);
        merge(&mut merged, &map(r#"{"a": {"x": 2, "y": 3}, "b": {"z": 1}, "c": [1]}"#));
        assert_eq!(merged, map(r#"{"a": {"x": 1, "y": 3}, "b": 1, "c": [1]}"#));
    }
}
