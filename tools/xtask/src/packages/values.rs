//! Wrong values of a chart, made from its schema: one for each rule of each value.

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

/// A value that must be refused.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// Where it is, as an error names it: `/service/port`.
    pub(crate) at: String,
    /// All values, with this one among them.
    pub(crate) values: Value,
}

/// One step on the way to a value.
#[derive(Debug, Clone)]
enum Step {
    Key(String),
    Item,
}

/// Everything that the schema refuses, once for each of its rules.
pub(crate) fn wrong(schema: &Value) -> Result<Vec<Wrong>> {
    let mut found = Vec::new();
    walk(schema, schema, &[], &mut found)?;
    Ok(found)
}

/// The names of all values that are not groups of others: `service.port`.
pub(crate) fn names(schema: &Value) -> Result<Vec<String>> {
    let mut found = Vec::new();
    name(schema, schema, "", &mut found)?;
    Ok(found)
}

fn name(root: &Value, rule: &Value, at: &str, found: &mut Vec<String>) -> Result<()> {
    let rule = resolved(root, rule)?;
    let Some(properties) = rule["properties"].as_object() else {
        found.push(at.to_owned());
        return Ok(());
    };
    for (key, rule) in properties {
        let inner = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        name(root, rule, &inner, found)?;
    }
    Ok(())
}

fn resolved<'a>(root: &'a Value, rule: &'a Value) -> Result<&'a Value> {
    match rule["$ref"].as_str() {
        None => Ok(rule),
        Some(path) => {
            let found = root.pointer(path.trim_start_matches('#'));
            found.with_context(|| format!("the schema has no {path}"))
        }
    }
}

fn walk(root: &Value, rule: &Value, way: &[Step], found: &mut Vec<Wrong>) -> Result<()> {
    let rule = resolved(root, rule)?;
    let mut values = Vec::new();
    if !way.is_empty() {
        values.push(other_type(rule)?);
    }
    values.extend(bounds(rule)?);
    for value in values {
        found.push(Wrong { at: place(way), values: around(way, value) });
    }
    if rule["additionalProperties"] == false {
        let value = json!({"noSuchValue": 1});
        found.push(Wrong { at: "noSuchValue".to_owned(), values: around(way, value) });
    }
    let further = |step: Step| [way, &[step]].concat();
    for (key, inner) in rule["properties"].as_object().into_iter().flatten() {
        // What every chart has, and no rule is about.
        if key != "global" {
            walk(root, inner, &further(Step::Key(key.clone())), found)?;
        }
    }
    if rule["additionalProperties"].is_object() {
        let way = further(Step::Key("any".to_owned()));
        walk(root, &rule["additionalProperties"], &way, found)?;
    }
    if rule["items"].is_object() {
        walk(root, &rule["items"], &further(Step::Item), found)?;
    }
    Ok(())
}

/// A value of a type that the rule does not have.
fn other_type(rule: &Value) -> Result<Value> {
    if rule["enum"].is_array() || rule["oneOf"].is_array() {
        return Ok(json!([]));
    }
    let is = |kind: &str| match &rule["type"] {
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        one => one == kind,
    };
    let all = [("integer", json!(7)), ("string", json!("seven")), ("boolean", json!(true))];
    let fits = |(kind, _): &(&str, Value)| !(is(kind) || *kind == "integer" && is("number"));
    let value = all.into_iter().find(fits).map(|(_, value)| value);
    if !rule["type"].is_string() && !rule["type"].is_array() {
        bail!("a rule without a type: {rule}");
    }
    value.with_context(|| format!("every type fits {rule}"))
}

/// Values of the right type just beyond the bounds.
fn bounds(rule: &Value) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    if let Some(least) = rule["minimum"].as_i64() {
        found.push(json!(least - 1));
    }
    if let Some(most) = rule["maximum"].as_i64() {
        found.push(json!(most + 1));
    }
    if rule["minLength"].as_u64().is_some_and(|least| least > 0) {
        found.push(json!(""));
    }
    if rule["pattern"].is_string() || rule["enum"].is_array() {
        // No pattern of ours has it, and no list.
        found.push(json!("!*"));
    }
    if let Some(key) = rule["required"][0].as_str() {
        // Helm takes a null as the wish to have no such value.
        found.push(Value::Object(Map::from_iter([(key.to_owned(), Value::Null)])));
    }
    Ok(found)
}

/// `/extraEnv/0/name`.
fn place(way: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) => format!("/{key}"),
        Step::Item => "/0".to_owned(),
    };
    way.iter().map(step).collect()
}

/// All values with this one at its place.
fn around(way: &[Step], value: Value) -> Value {
    way.iter().rev().fold(value, |inner, step| match step {
        Step::Key(key) => Value::Object(Map::from_iter([(key.clone(), inner)])),
        Step::Item => json!([inner]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn schema() -> Value {
        let path = "packages/helm/tollgate/values.schema.json";
        let text = std::fs::read_to_string(Tree::find().unwrap().root.join(path)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn each_rule_has_a_value_that_breaks_it() {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "a": {"$ref": "#/definitions/port"},
            "b": {"type": "array", "items": {"type": "string", "pattern": "^x$"}},
        }, "definitions": {"port": {"type": "integer", "minimum": 1, "maximum": 9}}});
        let found = wrong(&schema).unwrap();
        let found: Vec<String> =
            found.iter().map(|one| format!("{} {}", one.at, one.values)).collect();
        assert_eq!(
            found,
            [
                r#"noSuchValue {"noSuchValue":1}"#,
                r#"/a {"a":"seven"}"#,
                r#"/a {"a":0}"#,
                r#"/a {"a":10}"#,
                r#"/b {"b":7}"#,
                r#"/b/0 {"b":[7]}"#,
                r#"/b/0 {"b":["!*"]}"#,
            ]
        );
        assert_eq!(names(&schema).unwrap(), ["a", "b"]);
    }

    /// Every object of the chart's schema says which keys it has, or is one of Kubernetes' own.
    #[test]
    fn the_page_names_every_value() {
        let page = Tree::find().unwrap().root.join("docs/kubernetes.md");
        let page = std::fs::read_to_string(page).unwrap();
        let table: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let table = table.join("\n");
        let names = names(&schema()).unwrap();
        let missing: Vec<&String> = names
            .iter()
            .filter(|name| *name != "global" && !table.contains(&format!("`{name}`")))
            .collect();
        assert!(missing.is_empty(), "docs/kubernetes.md has no row for {missing:?}");
        assert!(names.len() > 80, "{names:?}");
    }
}
