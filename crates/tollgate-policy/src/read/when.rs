//! Reads conditions: the fields that a request must have, and their values.

use super::keys::{Reader, Unlisted};
use crate::field::Field;
use crate::form;
use crate::list::ValueList;
use crate::pattern::{Condition, Pattern};
use crate::source::{Key, Node, Value};

/// The keys of a list in a file.
pub(crate) const LIST_KEYS: [&str; 1] = ["file"];

/// The key of conditions that must not hold.
const NOT: &str = "not";

/// The most patterns of one condition.
pub(crate) const MAX_PATTERNS: usize = 10_000;

/// The most conditions of one `when`.
pub(crate) const MAX_CONDITIONS: usize = 64;

/// Reads conditions: a table of fields, each with one pattern or a list of them.
pub(super) fn when(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<Condition>> {
    let Value::Table(pairs) = &node.value else {
        reader.wrong(node, "when", "a table of fields, e.g. `{ path = \"/api/*\" }`");
        return None;
    };
    let mut conditions: Vec<Condition> = Vec::new();
    let mut sound = true;
    let pairs = flat(pairs);
    if pairs.is_empty() {
        let remedy = "write a condition, e.g. `path = \"/api/*\"`; a policy without `when` applies \
                      to every request";
        reader.error(node.at, "`when` has no condition", remedy);
        sound = false;
    }
    if pairs.len() > MAX_CONDITIONS {
        let remedy = format!("at most {MAX_CONDITIONS}: let the front tell a field that says it");
        reader.error(node.at, format!("`when` has {} conditions", pairs.len()), remedy);
        return None;
    }
    for (key, value) in pairs {
        if key.text == NOT {
            if conditions.iter().any(|condition| condition.negated) {
                let remedy = "give it once, with a list of tables";
                reader.error(key.at, "`not` is given twice", remedy);
                sound = false;
            }
            match negated(reader, value) {
                Some(more) => conditions.extend(more),
                None => sound = false,
            }
            continue;
        }
        let field = match Field::parse_condition(&key.text) {
            Ok(field) => field,
            Err(error) => {
                reader.refused_key(&key, &error);
                sound = false;
                continue;
            }
        };
        if conditions.iter().any(|condition| condition.field == field && !condition.negated) {
            let remedy = "give it once, with a list of what it may be";
            reader.error(key.at, format!("`{field}` is given twice"), remedy);
            sound = false;
            continue;
        }
        match patterns(reader, &field, value) {
            Some(any_of) => conditions.push(Condition::new(field, any_of)),
            None => sound = false,
        }
    }
    // Tables in TOML have no order; sorting gives equal conditions one form.
    conditions.sort_by(|a, b| (&a.field, a.negated).cmp(&(&b.field, b.negated)));
    sound.then_some(conditions)
}

/// Reads `not`: a table of one field, or a list of such tables, none of which may match.
fn negated(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<Condition>> {
    let right = "a table of one field, e.g. `not = { path = \"/healthz\" }`, or a list of them";
    let tables = match &node.value {
        Value::List(tables) if !tables.is_empty() => tables.iter().collect(),
        _ => vec![node],
    };
    let mut sound = true;
    let mut conditions = Vec::new();
    for table in tables {
        let Value::Table(pairs) = &table.value else {
            reader.wrong(table, NOT, right);
            sound = false;
            continue;
        };
        let pairs = flat(pairs);
        let [(key, value)] = &pairs[..] else {
            let what = format!("a `not` has {} fields", pairs.len());
            let remedy = "write a table for each, none of which may match: `not = [{ path = ... }, \
                          { method = ... }]`";
            reader.error(table.at, what, remedy);
            sound = false;
            continue;
        };
        let field = match Field::parse_condition(&key.text) {
            Ok(field) => field,
            Err(error) => {
                reader.refused_key(key, &error);
                sound = false;
                continue;
            }
        };
        match patterns(reader, &field, value) {
            Some(any_of) => conditions.push(Condition::new(field, any_of).negate()),
            None => sound = false,
        }
    }
    sound.then_some(conditions)
}

fn patterns(reader: &mut Reader<'_>, field: &Field, node: &Node) -> Option<Vec<Pattern>> {
    let key = field.to_string();
    let nodes = reader.one_or_more(node, &key);
    if nodes.len() > MAX_PATTERNS {
        let remedy = format!("at most {MAX_PATTERNS}: write prefixes, e.g. `abc*`");
        reader.error(node.at, format!("there are {} values of `{key}`", nodes.len()), remedy);
        return None;
    }
    let mut sound = !nodes.is_empty();
    let mut all = Vec::new();
    for node in nodes {
        let right = match field {
            Field::Ip => {
                "a text in quotes, e.g. `\"192.0.2.0/24\"`, `{ file = \"list.txt\" }`, or a \
                          list of them"
            }
            Field::Time => {
                "a text in quotes, e.g. `\"22:00-06:00 Europe/Berlin\"`, or a list of them"
            }
            Field::Day => "a text in quotes, e.g. `\"Mon-Fri\"`, or a list of them",
            Field::Tier => "a text in quotes, e.g. `\"gold\"`, or a list of them",
            _ => {
                "a text in quotes, e.g. `\"abc\"` or `\"abc*\"`, `{ file = \"list.txt\" }`, or a \
                 list of them"
            }
        };
        let has_file = |pairs: &[(Key, Node)]| pairs.iter().any(|(key, _)| key.text == "file");
        if let Value::Table(pairs) = &node.value
            && field.is_of_request()
            && (*field == Field::Ip || has_file(pairs))
        {
            match listed(reader, field, node) {
                Some(list) => all.push(Pattern::Listed(list)),
                None => sound = false,
            }
            continue;
        }
        let Some(text) = reader.text(node, &key, right) else {
            sound = false;
            continue;
        };
        match Pattern::parse(field, text) {
            Ok(pattern) => {
                suspect(reader, field, node, &pattern, text);
                all.push(pattern);
            }
            Err(error) => {
                reader.refused(node, text, &error);
                sound = false;
            }
        }
    }
    sound.then_some(all)
}

/// Reads a list in a separate file: `{ file = "list.txt" }`.
fn listed(reader: &mut Reader<'_>, field: &Field, node: &Node) -> Option<ValueList> {
    let keys = reader.keys(node, "a list in a file", &LIST_KEYS)?;
    let (path, at) = reader.file(&keys, "list.txt")?;
    let known = (path.to_owned(), field.clone());
    let list = match reader.lists.get(&known) {
        Some(list) => list.clone(),
        None => {
            let list = (reader.files)(path).and_then(|text| {
                let remedy = match field {
                    Field::Ip => {
                        "correct the list: a network or an address in each line, and comments after \
                         a `#`"
                    }
                    _ => "correct the list: a whole value in each line, and comments in their own",
                };
                ValueList::parse(field, path, &text).map_err(|what| Unlisted { what, remedy })
            });
            reader.lists.insert(known, list.clone());
            list
        }
    };
    list.map_err(|Unlisted { what, remedy }| reader.error(at, what, remedy)).ok()
}

/// Warns of a pattern that is certainly unintended.
fn suspect(reader: &mut Reader<'_>, field: &Field, node: &Node, pattern: &Pattern, text: &str) {
    let small = |text: &str| text.bytes().any(|b| b.is_ascii_lowercase());
    if *field == Field::Method && matches!(pattern, Pattern::Exact(text) if small(text)) {
        let upper = text.to_ascii_uppercase();
        reader.warning(
            node.at,
            format!("`{text}` is not `{upper}`: methods are compared exactly"),
            format!("write `{upper}`, unless the method really is in small letters"),
        );
    }
    if *field == Field::Path
        && let Some(setting) = form::setting(pattern)
    {
        reader.warning(
            node.at,
            format!("a path like `{text}` is refused, unless a setting says how it is read"),
            format!(
                "start with `tollgate serve {setting}`, or set the same with `Builder::paths`: \
                 right when the server behind keeps such a path as it is (docs/proxies.md)"
            ),
        );
    }
    // `Bearer *` is a scheme, and `*` matches any value: neither is a secret.
    let scheme = |text: &str| text.ends_with(' ') && !text.trim_end().contains(' ');
    let open = match pattern {
        Pattern::Any => true,
        Pattern::Prefix(text) => scheme(text),
        _ => false,
    };
    if field.is_secret() && !open {
        // The warning must not contain the secret itself.
        let remedy = "a secret in a file is read by whoever reads the file or its check: compare \
                      `api_key` or `user`, or write `*` for any value";
        reader.warning(node.at, format!("`{field}` is compared with a secret"), remedy);
    }
}

/// The pairs with their full names: TOML reads `header.x-tier = "gold"` as a table in a table. A
/// table with the key `file` alone is a list in a file.
pub(super) fn flat(pairs: &[(Key, Node)]) -> Vec<(Key, &Node)> {
    fn add<'n>(prefix: &str, pairs: &'n [(Key, Node)], into: &mut Vec<(Key, &'n Node)>) {
        for (key, node) in pairs {
            let text =
                if prefix.is_empty() { key.text.clone() } else { format!("{prefix}.{}", key.text) };
            let named = ["header", "field"].iter().any(|kind| {
                text == *kind || text.strip_prefix(kind).is_some_and(|t| t.starts_with('.'))
            });
            match &node.value {
                // A name this long is an error anyway, and nesting would make it longer each time.
                Value::Table(inner)
                    if named && !inner.is_empty() && text.len() < 256 && !is_list(&text, inner) =>
                {
                    add(&text, inner, into);
                }
                _ => into.push((Key { text, at: key.at }, node)),
            }
        }
    }
    /// `header = { file = "x" }` is a header of that name.
    fn is_list(name: &str, pairs: &[(Key, Node)]) -> bool {
        name.contains('.') && matches!(pairs, [(key, _)] if LIST_KEYS.contains(&key.text.as_str()))
    }
    let mut all = Vec::new();
    add("", pairs, &mut all);
    all
}
