//! Tests of the documents of the HTTP API: they say what the table of operations says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{INDEX, OPENAPI, admin};
use crate::operations::{Callers, Kind, Methods, Operation, Row, TABLE};

/// The rows of operations for clients.
fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(|row| row.operation.is_for(Callers::Clients))
}

/// The target of a reference.
fn resolved<'d>(document: &'d Value, mut value: &'d Value) -> &'d Value {
    while let Some(path) = value["$ref"].as_str() {
        value = document.pointer(&path[1..]).unwrap_or_else(|| panic!("{path}"));
    }
    value
}

/// The parts of a schema with `allOf` or `oneOf`.
fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    ["allOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten()
}

/// Adds the fields of a schema, in the words of the table.
fn add_fields(document: &Value, schema: &Value, found: &mut BTreeMap<String, String>) {
    let schema = resolved(document, schema);
    parts(schema).for_each(|part| add_fields(document, part, found));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        found.entry(name.clone()).or_insert_with(|| type_of(document, field));
    }
}

/// The values that a field may have.
fn type_of(document: &Value, field: &Value) -> String {
    let field = resolved(document, field);
    if let Some(words) = field["enum"].as_array() {
        let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        return format!("one of {}", words.join(", "));
    }
    let kind = match field["type"].as_str() {
        Some("string") => field["maxLength"]
            .as_u64()
            .map_or(Kind::Parsed, |most| Kind::Text(usize::try_from(most).unwrap())),
        Some("integer") => {
            Kind::Whole(field["minimum"].as_i64().unwrap(), field["maximum"].as_u64().unwrap())
        }
        Some("boolean") => Kind::Flag,
        Some("array") => Kind::List(usize::try_from(field["maxItems"].as_u64().unwrap()).unwrap()),
        Some(_) => Kind::Object,
        None if field["oneOf"].is_array() => Kind::Either,
        None => return parts(field).map(|part| type_of(document, part)).collect(),
    };
    kind.to_string()
}

#[test]
fn the_openapi_document_has_the_operations_of_the_table() {
    let document: Value = serde_saphyr::from_str(OPENAPI).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let known: BTreeSet<&str> = rows().map(|row| row.path).collect();
    assert_eq!(paths.keys().map(String::as_str).collect::<BTreeSet<_>>(), known);
    for row in rows() {
        let path = &paths[row.path];
        let methods: Vec<&str> = path.as_object().unwrap().keys().map(String::as_str).collect();
        let methods: Vec<&str> = methods.into_iter().filter(|name| *name != "parameters").collect();
        let expected: &[&str] = match row.methods {
            Methods::Post => &["post"],
            Methods::Read | Methods::Get => &["get"],
            Methods::PostOrRead => &["get", "post"],
            Methods::Any => &["delete", "get", "head", "options", "patch", "post", "put", "trace"],
        };
        assert_eq!(
            methods.iter().copied().collect::<BTreeSet<_>>(),
            expected.iter().copied().collect(),
            "{}",
            row.path
        );
        let asked = if expected.contains(&"post") { "post" } else { "get" };
        let asked = &path[asked];
        let parameters = asked["parameters"].as_array().into_iter().flatten();
        let parameters = parameters.map(|it| resolved(&document, it));
        let query = parameters.filter(|it| it["in"] == "query");
        let query: BTreeSet<&str> = query.filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(query, row.query.iter().copied().collect(), "{}", row.path);
        let mut fields = BTreeMap::new();
        let body = resolved(&document, &asked["requestBody"]);
        for content in body["content"].as_object().into_iter().flat_map(|it| it.values()) {
            add_fields(&document, &content["schema"], &mut fields);
        }
        let expected = row
            .fields
            .iter()
            .copied()
            .flatten()
            .map(|it| (it.name.to_owned(), it.kind.to_string()));
        assert_eq!(fields, expected.collect(), "{}", row.path);
    }
}

#[test]
fn the_indexes_name_the_operations_of_the_table() {
    for (index, caller) in
        [(INDEX, Callers::Clients), (admin::ADMIN_INDEX, Callers::Administrators)]
    {
        let index = index.replace("/NAME", "/{name}");
        for row in TABLE.iter().filter(|row| row.operation.is_for(caller)) {
            let last = format!("/{}", row.operation.word());
            assert!(index.contains(row.path) || index.contains(&last), "{}", row.path);
        }
        let words = index.split([' ', '\n', ',', ';']).map(|word| word.trim_end_matches(':'));
        for path in words.filter(|word| word.starts_with("/v1/")) {
            let found = Operation::at(path).filter(|it| it.is_for(caller));
            assert!(found.is_some(), "{path}");
        }
    }
}

/// Many generators of clients read YAML 1.1, where a bare `on` is `true`.
#[test]
fn the_openapi_document_has_no_word_that_yaml_1_1_reads_as_a_boolean() {
    let booleans = ["on", "off", "yes", "no", "y", "n"];
    for (number, line) in OPENAPI.lines().enumerate() {
        let (before, value) = line.split_once(':').unwrap_or(("", line));
        let key = before.trim_start_matches([' ', '-']);
        let items = value.split(['[', ']', '{', '}', ',']).map(str::trim);
        let found = items.chain([key]).find(|word| booleans.contains(word));
        assert_eq!(found, None, "line {}: quote it: {line}", number + 1);
    }
}

/// Without a format a generated client has 32 bits for an integer.
#[test]
fn an_integer_of_the_openapi_document_is_small_or_says_that_it_is_not() {
    let lines: Vec<&str> = OPENAPI.lines().collect();
    let mut found = 0;
    for (number, line) in lines.iter().enumerate() {
        if !line.contains("type: integer") && !line.contains("type: [integer") {
            continue;
        }
        found += 1;
        let next = lines.get(number + 1).copied().unwrap_or_default();
        let (_, most) = line.split_once("maximum: ").unwrap_or(("", "none"));
        let most: String = most.chars().take_while(char::is_ascii_digit).collect();
        // The value of a field may be any integer of 64 bits, with a sign or without.
        let is_any = line.contains("minimum: -9223372036854775808");
        let is_small = most.parse::<i32>().is_ok();
        let is_long = line.contains("format: int64") || next.trim() == "format: int64";
        assert!(is_small || is_long || is_any, "line {}: {line}", number + 1);
    }
    assert!(found > 40, "{found}");
}
