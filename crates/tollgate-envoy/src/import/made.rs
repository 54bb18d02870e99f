//! Policies that are made of the rules of others, and the file that has them.

use core::fmt::Write as _;

use tollgate_policy::{Field, Format, Level, MAX_NAME_BYTES, Policies};

/// A policy file, and what is not in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Imported {
    /// The policies, in TOML.
    pub policies: String,
    /// The settings without an equal, each with its rule.
    pub notes: Vec<String>,
}

/// A policy that is made.
pub(super) struct Made {
    pub(super) name: String,
    /// Fields and patterns of them.
    pub(super) when: Vec<(String, String)>,
    pub(super) subject: Vec<String>,
    pub(super) limit: String,
    pub(super) is_ban: bool,
    pub(super) on_failure: tollgate_policy::OnFailure,
    pub(super) shadow: bool,
}

/// The policy, if Tollgate takes it: a path, for one, has more rules than other texts.
pub(super) fn sound(made: Made) -> Result<Made, String> {
    let text = written("first", "a rule", core::slice::from_ref(&made));
    let problems = match Policies::parse(&text, Format::Toml) {
        Ok(_) => return Ok(made),
        Err(problems) => problems,
    };
    let first = problems.iter().find(|problem| problem.level() == Level::Error);
    Err(first.map_or_else(String::new, |problem| problem.what().to_owned()))
}

/// Writes a policy file: its first lines, and its policies.
pub(super) fn written(combine: &str, from: &str, all: &[Made]) -> String {
    let mut text = format!("# Made from {from}. Look through it before it decides anything.\n");
    text.push_str("version = 1\n");
    if all.len() > 1 {
        let _ = writeln!(text, "match = \"{combine}\"");
    }
    for made in all {
        let Made { name, when, subject, limit, is_ban, on_failure, shadow } = made;
        let conditions: Vec<_> =
            when.iter().map(|(field, value)| format!("{field} = {}", quoted(value))).collect();
        let on_failure = match on_failure.share() {
            Some(share) => format!("{{ local = \"{share}\" }}"),
            None => format!("\"{on_failure}\""),
        };
        let subjects: Vec<_> = subject.iter().map(|field| quoted(field)).collect();
        let _ =
            write!(text, "\n[[policies]]\nname = {}\non_failure = {on_failure}\n", quoted(name));
        if *shadow {
            text.push_str("shadow = true\n");
        }
        let _ = write!(text, "when = {{ {} }}\n\n[[policies.limits]]\n", conditions.join(", "));
        let _ = write!(text, "subject = [{}]\nlimit = {}\n", subjects.join(", "), quoted(limit));
        text.push_str("absent = \"deny\"\n");
        if *is_ban {
            let first = conditions.first().map_or("", String::as_str);
            let banned = "limit = \"banned\"";
            let _ =
                write!(text, "\n[[policies.limits.overrides]]\nwhen = {{ {first} }}\n{banned}\n");
        }
    }
    text
}

/// A text in quotes, as TOML has them.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007f")
}

/// The field that an entry of this key is.
pub(super) fn field_of(key: &str) -> Option<String> {
    let field = match key {
        "remote_address" => "ip".to_owned(),
        "ip" | "host" | "method" | "path" | "route" | "user" | "api_key" => key.to_owned(),
        other => format!("field.{other}"),
    };
    Field::parse(&field).ok()?;
    // A key with a point is one in quotes, or TOML takes it apart.
    Some(match field.strip_prefix("field.") {
        Some(name) if name.contains('.') => format!("field.{}", quoted(name)),
        _ => field,
    })
}

/// The same within a list: without the quotes of a key.
pub(super) fn plain(field: &str) -> String {
    field.replace('"', "")
}

/// A name that no other policy has.
pub(super) fn name_of(text: &str, taken: &[Made]) -> String {
    let is_sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let sound: String = text.chars().map(|c| if is_sound(c) { c } else { '-' }).collect();
    let sound: String = sound.trim_matches('-').chars().take(MAX_NAME_BYTES - 6).collect();
    let sound = if sound.is_empty() { "limit".to_owned() } else { sound };
    let is_free = |name: &str| !taken.iter().any(|made| made.name == name);
    let numbered = (2..).map(|number| format!("{sound}-{number}"));
    core::iter::once(sound.clone()).chain(numbered).find(|name| is_free(name)).unwrap_or(sound)
}
