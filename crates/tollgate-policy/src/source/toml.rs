//! TOML as a tree.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::node::{Key, Node, Value};
use crate::problem::{Problem, Span};

pub(super) fn tree(text: &str, problems: &mut Vec<Problem>) -> Option<Node> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut guesswork = false;
    for error in &errors {
        let at = error.span().map_or(Span::new(0, 0), Span::from).within(text);
        let message = error.message();
        // Everything else is still readable: the tree has both keys, and the first one counts.
        if message.starts_with("duplicate key") {
            let key = text.get(at.start..at.end).unwrap_or_default();
            let what = format!("`{}` is given twice", key.trim_matches(['"', '\'']));
            problems.push(Problem::error(Some(at), what, "give it once, as a value or as a table"));
            continue;
        }
        guesswork = true;
        if message.starts_with("cannot extend value of type array") {
            let key = text.get(at.start..at.end).unwrap_or_default();
            problems.push(Problem::error(
                Some(at),
                format!("`{key}` is a list in brackets above, and a heading adds nothing to it"),
                format!(
                    "write its tables under headings too, e.g. `[[policies.{key}]]` in place of \
                     `{key} = [...]`; or write this within the brackets, e.g. `{{ subject = \"ip\", \
                     limit = \"10/s\", overrides = [{{ when = ..., limit = ... }}] }}`"
                ),
            ));
            continue;
        }
        let what = message.lines().next().unwrap_or("this is not TOML").to_owned();
        problems.push(Problem::error(Some(at), what, remedy(message)));
    }
    // The tree after a syntax error is a guess: existing keys could be reported as missing.
    if guesswork {
        return None;
    }
    let at = Span::from(table.span()).within(text);
    Some(Node { at, written: at, value: read_table(table.get_ref(), text) })
}

/// The rest of the parser's message, or general advice.
fn remedy(message: &str) -> String {
    let rest: Vec<&str> = message.lines().skip(1).collect();
    if rest.is_empty() { "write it as TOML: https://toml.io".to_owned() } else { rest.join(", ") }
}

fn read_table(table: &DeTable<'_>, text: &str) -> Value {
    let pairs = table.iter().map(|(key, value)| {
        let at = Span::from(key.span()).within(text);
        (Key { text: key.get_ref().to_string(), at }, read_node(value, text))
    });
    let mut pairs: Vec<(Key, Node)> = pairs.collect();
    // In the order of the file: of two equal keys, the second is the superfluous one.
    pairs.sort_by_key(|(key, _)| key.at);
    Value::Table(pairs)
}

fn read_node(value: &Spanned<DeValue<'_>>, text: &str) -> Node {
    let at = Span::from(value.span()).within(text);
    let value = match value.get_ref() {
        DeValue::String(string) => Value::Text(string.to_string()),
        DeValue::Integer(number) => {
            let parsed = i128::from_str_radix(number.as_str(), number.radix());
            parsed.map_or(Value::Other("a number too large to be read"), Value::Whole)
        }
        DeValue::Float(_) => Value::Other("a fraction"),
        DeValue::Boolean(yes) => Value::Bool(*yes),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(list) => Value::List(list.iter().map(|v| read_node(v, text)).collect()),
        DeValue::Table(table) => read_table(table, text),
    };
    Node { at, written: at, value }
}
