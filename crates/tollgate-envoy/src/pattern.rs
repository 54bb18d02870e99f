//! Texts with `*` in them, which match many.

/// A text in which each `*` matches any text, also an empty one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    /// The text before the first `*`, between two, and after the last: at least one piece.
    pieces: Box<[Box<str>]>,
}

impl Pattern {
    /// Reads a pattern.
    pub(crate) fn new(text: &str) -> Self {
        Self { pieces: text.split('*').map(Into::into).collect() }
    }

    /// The pattern, as it was read.
    pub(crate) fn text(&self) -> String {
        self.pieces.join("*")
    }

    /// Whether it is about this text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &*self.pieces else {
            return self.pieces.first().is_some_and(|only| **only == *text);
        };
        let Some(rest) = text.strip_prefix(&**first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&**last) else { return false };
        // The first place that fits leaves most for the pieces that follow.
        for piece in middle {
            let Some(at) = rest.find(&**piece) else { return false };
            rest = rest.get(at + piece.len()..).unwrap_or_default();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_star_is_any_text() {
        for (pattern, yes, no) in [
            ("foo", &["foo"][..], &["", "fo", "foo1"][..]),
            ("foo*", &["foo", "foo1", "foo*"], &["fo", "afoo"]),
            ("*foo", &["foo", "1foo"], &["foo1"]),
            ("*", &["", "a", "*"], &[]),
            ("a*b", &["ab", "axb", "abb"], &["a", "b", "aba", "a"]),
            ("aa*aa", &["aaaa", "aa-aa"], &["aa", "aaa"]),
            ("a*b*c", &["abc", "a-b-c", "abbc", "abcbc"], &["ac", "acb", "a-c"]),
            ("a*bb*b", &["abbb", "a-bb-b"], &["abb", "ab-b"]),
            ("**", &["", "x"], &[]),
        ] {
            for text in yes {
                assert!(Pattern::new(pattern).matches(text), "{pattern} {text}");
            }
            for text in no {
                assert!(!Pattern::new(pattern).matches(text), "{pattern} {text}");
            }
        }
    }
}
