//! Templates: words and texts in which the subject, the cost and the request id are filled in.

use anyhow::{Result, bail};
use tollgate_proof::judge::Ask;

/// The words of a command: blanks separate them, except in quotes.
pub(super) fn words(text: &str, option: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if open == c => quote = None,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() {
        bail!("{option}: a quote is not closed");
    }
    if words.is_empty() {
        bail!("{option} is empty");
    }
    Ok(words)
}

/// Whether a template has a place for something.
pub(super) fn has(templates: &[String], name: &str) -> bool {
    templates.iter().any(|text| text.contains(&format!("{{{name}}}")))
}

/// How a subject is written in its surroundings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Written {
    AsItIs,
    InJson,
    InUrl,
}

impl Written {
    fn of(self, text: &str) -> String {
        match self {
            Self::AsItIs => text.to_owned(),
            Self::InJson => {
                let quoted = serde_json::Value::from(text).to_string();
                let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                inner.unwrap_or(&quoted).to_owned()
            }
            Self::InUrl => form_urlencoded::byte_serialize(text.as_bytes())
                .collect::<String>()
                // A `+` is a blank in queries alone.
                .replace('+', "%20"),
        }
    }
}

/// A template with its values.
pub(super) fn filled(template: &str, ask: &Ask, written: Written) -> String {
    let id = ask.request.clone().unwrap_or_else(|| format!("{}-{}", ask.subject, ask.id));
    template
        .replace("{cost}", &ask.cost.to_string())
        .replace("{id}", &written.of(&id))
        .replace("{subject}", &written.of(&ask.subject))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_is_in_quotes() {
        let found = words("A {subject} \"10/s via gcra\" ''", "--ask").unwrap();
        assert_eq!(found, ["A", "{subject}", "10/s via gcra", ""]);
        assert!(words("a \"b", "--ask").is_err());
        assert!(words(" ", "--ask").is_err());
    }

    #[test]
    fn subjects_are_written_as_their_surroundings_need_it() {
        assert_eq!(Written::InJson.of("a\"b"), "a\\\"b");
        assert_eq!(Written::InUrl.of("a|b:c d"), "a%7Cb%3Ac%20d");
    }
}
