//! Rewrites errors of the TOML parser in terms of the file.

/// The key whose value begins where this text ends.
pub(super) fn key_before(text: &str) -> Option<&str> {
    let before = text.trim_end().strip_suffix('=')?.trim_end();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let key = before.rsplit(|c| !is_part(c)).next()?;
    (!key.is_empty()).then_some(key)
}

/// The parser's message on a value of the wrong type, in terms of the file.
pub(super) fn in_words(message: &str, key: Option<&str>) -> String {
    let kinds = ["invalid type: ", "invalid value: "];
    let told = kinds.iter().find_map(|kind| message.strip_prefix(kind)?.split_once(", expected "));
    let is = match told {
        Some((found, expected)) => format!("{}, not {}", wanted(expected), given(found)),
        None if message.contains("untagged enum OneOrMany") => {
            "a text in quotes, or a list of them".to_owned()
        }
        None => return message.to_owned(),
    };
    match key {
        Some(key) => format!("`{key}` is {is}"),
        None => format!("this is to be {is}"),
    }
}

fn wanted(expected: &str) -> String {
    match expected {
        "u64" | "i64" => "a whole number".to_owned(),
        "u32" => format!("a whole number up to {}", u32::MAX),
        "f64" => "a number".to_owned(),
        "a string" | "path string" => "a text in quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list in [ ]".to_owned(),
        table if table.starts_with("struct ") || table == "a map" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

fn given(found: &str) -> String {
    let of_kind = |kind: &str| found.strip_prefix(kind).map(|value| value.trim_matches('`'));
    match (found, found.strip_prefix("string ")) {
        (_, Some(text)) => format!("the text {text}"),
        ("map", _) => "a table".to_owned(),
        ("sequence", _) => "a list".to_owned(),
        _ => ["integer ", "floating point ", "boolean "]
            .iter()
            .find_map(|kind| of_kind(kind))
            .unwrap_or(found)
            .to_owned(),
    }
}
