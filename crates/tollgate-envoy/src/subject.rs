//! The subject of a descriptor: a text of its domain and its entries that no others have.

use core::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use tollgate::{ParseError, Subject};

/// The most bytes of a subject as it is; a longer one is hashed. Clients choose what is in headers
/// and paths, and a store keeps the text of each subject.
pub const MAX_SUBJECT_BYTES: usize = 1_024;

/// The dimension of subjects as they are.
const PLAIN: &str = "envoy";

/// The dimension of hashed subjects. It is another one, so that no plain text is equal to a hash.
const HASHED: &str = "envoy.sha256";

/// The subject of a descriptor: `envoy:DOMAIN|KEY=VALUE|KEY=VALUE`.
///
/// A `\` is written before each `|` and `\`, and before a `=` of a key. So different descriptors
/// have different subjects.
///
/// # Errors
/// An empty text, which is not a subject: never for a domain that is not empty.
pub fn subject<'e>(
    domain: &str,
    entries: impl Iterator<Item = (&'e str, &'e str)>,
) -> Result<Subject, ParseError> {
    let mut text = String::with_capacity(96);
    push(&mut text, domain, "|\\");
    for (key, value) in entries {
        text.push('|');
        push(&mut text, key, "|\\=");
        text.push('=');
        push(&mut text, value, "|\\");
    }
    if text.len() <= MAX_SUBJECT_BYTES {
        return Subject::new(PLAIN, text);
    }
    let mut hash = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    Subject::new(HASHED, hash)
}

fn push(text: &mut String, part: &str, marked: &str) {
    if !part.contains(['|', '\\', '=']) {
        return text.push_str(part);
    }
    for c in part.chars() {
        if marked.contains(c) {
            text.push('\\');
        }
        text.push(c);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn of(domain: &str, entries: &[(&str, &str)]) -> String {
        subject(domain, entries.iter().copied()).unwrap().to_string()
    }

    #[test]
    fn a_subject_can_be_read() {
        assert_eq!(of("rl", &[("foo", "1"), ("bar", "")]), "envoy:rl|foo=1|bar=");
        assert_eq!(of("rl", &[("a=b", "c=d")]), r"envoy:rl|a\=b=c=d");
        assert_eq!(of("a|b", &[("k", "x|y\\")]), r"envoy:a\|b|k=x\|y\\");
        assert_eq!(of("rl", &[("k", "a,b %")]), "envoy:rl|k=a%2Cb%20%25");
    }

    /// All descriptors of up to two entries over the characters that have a meaning.
    #[test]
    fn no_two_descriptors_share_a_subject() {
        let mut words = vec![String::new()];
        for length in 0..3 {
            let last: Vec<String> = words.iter().filter(|w| w.len() == length).cloned().collect();
            words
                .extend(last.iter().flat_map(|w| "a_|=\\".chars().map(move |c| format!("{w}{c}"))));
        }
        words.retain(|word| word.len() < 3);
        let mut seen: HashMap<String, (String, Vec<(String, String)>)> = HashMap::new();
        let mut see = |domain: &str, entries: &[(&str, &str)]| {
            let text = of(domain, entries);
            let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
            let new = (domain.to_owned(), entries.iter().map(own).collect::<Vec<_>>());
            if let Some(old) = seen.insert(text.clone(), new.clone()) {
                assert_eq!(old, new, "{text}");
            }
        };
        for one in words.iter().filter(|word| !word.is_empty()) {
            see(one, &[]);
            for other in &words {
                see("a", &[(one, other)]);
                see(one, &[("a", other)]);
                see("a", &[(one, other), ("=", "|")]);
                see("a", &[("a", one), (one, other)]);
            }
        }
        assert!(seen.len() > 3_000, "{}", seen.len());
    }

    #[test]
    fn a_long_one_is_a_hash_of_all_of_it() {
        let long = "x".repeat(5_000);
        let (one, other) = (of("rl", &[("k", &long)]), of("rl", &[("k", &format!("{long}y"))]));
        assert!(one.starts_with("envoy.sha256:") && one.len() == 13 + 64, "{one}");
        assert_ne!(one, other);
        // A plain one cannot be equal to it.
        assert!(of("rl", &[("k", &one)]).starts_with("envoy:rl"));
        let fits = "x".repeat(MAX_SUBJECT_BYTES - "rl|k=".len());
        assert!(of("rl", &[("k", &fits)]).starts_with("envoy:rl"));
        assert!(of("rl", &[("k", &format!("{fits}x"))]).starts_with("envoy.sha256:"));
    }
}
