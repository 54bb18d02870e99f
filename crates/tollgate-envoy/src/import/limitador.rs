//! From the limits of limitador: conditions and variables in the two forms that nearly all have.

use tollgate_policy::tree::{Node, Value, advice, parse};
use tollgate_policy::{Format, Problem, Problems};

use super::made::{Imported, Made, field_of, name_of, plain, sound, written};

const KEYS: &[&str] =
    &["id", "name", "namespace", "max_value", "seconds", "conditions", "variables"];

/// Policies that mean what these limits mean, as far as policies can.
///
/// # Errors
/// An invalid file of limits, with the line of the error.
pub fn limitador(name: &str, text: &str) -> Result<Imported, Problems> {
    let mut problems = Vec::new();
    let Some(root) = parse(text, Format::Yaml, &mut problems) else {
        return Err(Problems::new(name, text, problems));
    };
    let (mut made, mut notes) = (Vec::new(), Vec::new());
    match &root.value {
        Value::List(limits) => {
            for (number, limit) in (1..).zip(limits) {
                let Some(limit) = Limit::read(limit, &mut problems) else { continue };
                match limit.policy(number, &made).and_then(sound) {
                    Ok(policy) => made.push(policy),
                    Err(why) => notes.push(format!("limit {number}: left out: {why}")),
                }
            }
        }
        _ => problems.push(Problem::error(
            Some(root.at),
            format!("the file is {}", root.kind()),
            "a file of limitador is a list of limits, whose parts begin with `- `",
        )),
    }
    if !problems.is_empty() {
        return Err(Problems::new(name, text, problems));
    }
    if !made.is_empty() {
        notes.push("on_failure is \"deny\": limitador answers an error then".to_owned());
    }
    Ok(Imported { policies: written("all", name, &made), notes })
}

/// A limit, as it is written.
#[derive(Default)]
struct Limit {
    name: String,
    namespace: String,
    max_value: u64,
    seconds: u64,
    conditions: Vec<String>,
    variables: Vec<String>,
}

impl Limit {
    fn read(node: &Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let before = problems.len();
        let mut wrong = |node: &Node, what: String, remedy: &str| {
            problems.push(Problem::error(Some(node.at), what, remedy));
        };
        let Value::Table(pairs) = &node.value else {
            let keys = format!("a limit has the keys {}", KEYS.join(", "));
            wrong(node, format!("a limit is {}", node.kind()), &keys);
            return None;
        };
        let mut limit = Self::default();
        for (key, value) in pairs {
            let number = match &value.value {
                Value::Whole(number) => u64::try_from(*number).ok().filter(|number| *number > 0),
                _ => None,
            };
            let text = match &value.value {
                Value::Text(text) => Some(text.clone()),
                Value::Whole(number) => Some(number.to_string()),
                _ => None,
            };
            let is_fine = match &*key.text {
                "id" => true,
                "name" => set(&mut limit.name, text),
                "namespace" => set(&mut limit.namespace, text),
                "max_value" => set(&mut limit.max_value, number),
                "seconds" => set(&mut limit.seconds, number),
                "conditions" => set(&mut limit.conditions, texts(value)),
                "variables" => set(&mut limit.variables, texts(value)),
                other => {
                    let keys = format!("a limit has the keys {}", KEYS.join(", "));
                    let right = advice(other, KEYS.iter().copied(), &keys);
                    wrong(value, format!("unknown key `{other}`"), &right);
                    true
                }
            };
            if !is_fine {
                let what = format!("`{}` is {}", key.text, value.kind());
                wrong(value, what, "write texts, and numbers from 1 on");
            }
        }
        for (is_there, key) in [
            (!limit.namespace.is_empty(), "namespace"),
            (limit.max_value > 0, "max_value"),
            (limit.seconds > 0, "seconds"),
        ] {
            if !is_there && problems.len() == before {
                let what = format!("the limit has no `{key}`");
                problems.push(Problem::error(Some(node.at), what, "each limit has one"));
            }
        }
        (problems.len() == before).then_some(limit)
    }

    fn policy(&self, number: usize, taken: &[Made]) -> Result<Made, String> {
        let mut when = vec![("field.domain".to_owned(), self.namespace.clone())];
        let mut subject = vec!["field.domain".to_owned()];
        for condition in &self.conditions {
            let (key, value) = equality(condition)
                .ok_or_else(|| format!("the condition `{condition}` has no equal"))?;
            let field = field_of(&key).ok_or_else(|| {
                format!(
                    "`{key}` is not the name of a \
                                                              field"
                )
            })?;
            if value.contains('*') || when.iter().any(|(known, _)| *known == field) {
                return Err(format!("the condition `{condition}` has no equal"));
            }
            when.push((field, value));
        }
        for variable in &self.variables {
            let key = selector(variable)
                .ok_or_else(|| format!("the variable `{variable}` has no equal"))?;
            let field = field_of(&key).ok_or_else(|| {
                format!(
                    "`{key}` is not the name of a \
                                                              field"
                )
            })?;
            if field == "path" {
                return Err("a policy does not count by `path`, which callers choose".to_owned());
            }
            if !when.iter().any(|(known, _)| *known == field) {
                when.push((field.clone(), "*".to_owned()));
            }
            if !subject.contains(&plain(&field)) {
                subject.push(plain(&field));
            }
        }
        let Self { max_value, seconds, .. } = self;
        let limit = format!("{max_value}/{seconds}s anchor first-hit via fixed_window");
        let limits: tollgate::LimitSet = limit.parse().map_err(|error: tollgate::ParseError| {
            format!("{}: {}", error.what(), error.remedy())
        })?;
        let name = if self.name.is_empty() {
            format!("{}-{number}", self.namespace)
        } else {
            self.name.clone()
        };
        Ok(Made {
            name: name_of(&name, taken),
            when,
            subject,
            limit: limits.to_string(),
            is_ban: false,
            on_failure: tollgate_policy::OnFailure::Deny,
            shadow: false,
        })
    }
}

fn set<T>(field: &mut T, value: Option<T>) -> bool {
    let is_there = value.is_some();
    if let Some(value) = value {
        *field = value;
    }
    is_there
}

fn texts(node: &Node) -> Option<Vec<String>> {
    // limitador's own example has lists that are left empty: `conditions:`.
    if node.is_nothing() {
        return Some(Vec::new());
    }
    let Value::List(list) = &node.value else { return None };
    let text = |each: &Node| match &each.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    };
    list.iter().map(text).collect()
}

/// The field that a variable names: `user_id`, `descriptors[0].user_id` or
/// `descriptors[0]['user_id']`.
fn selector(text: &str) -> Option<String> {
    let text = text.trim();
    let inner = match text.strip_prefix("descriptors[0]") {
        Some(rest) => match rest.strip_prefix('.') {
            Some(key) => key,
            None => return in_quotes(rest.strip_prefix('[')?.strip_suffix(']')?),
        },
        None => text,
    };
    let is_sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (!inner.is_empty() && inner.chars().all(is_sound)).then(|| inner.to_owned())
}

/// A condition that compares with a text.
fn equality(text: &str) -> Option<(String, String)> {
    let (left, right) = text.split_once("==")?;
    Some((selector(left)?, in_quotes(right)?))
}

fn in_quotes(text: &str) -> Option<String> {
    let text = text.trim();
    let inner = ['\'', '"'].iter().find_map(|quote| {
        text.strip_prefix(*quote)?.strip_suffix(*quote).filter(|inner| !inner.contains(*quote))
    })?;
    (!inner.contains('\\')).then(|| inner.to_owned())
}
