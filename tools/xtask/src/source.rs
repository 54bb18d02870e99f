//! Rust source as tokens with places: which are code or tests, and the literals.

use std::ops::Range;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One Rust file, lexed.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    starts: Vec<usize>,
}

/// A token that is code: neither comment nor delimiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// Where it is, in bytes of the file.
    pub(crate) range: Range<usize>,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Whether it belongs to an item under `#[cfg(test)]` or `#[test]`.
    pub(crate) test: bool,
    /// Whether it is part of an attribute.
    pub(crate) attribute: bool,
}

/// The kinds of token that the rules tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or a keyword.
    Word,
    /// A sign, one character.
    Sign,
    /// An integer literal, but not the `0` of `pair.0`, which is a field's name.
    Integer,
    /// A literal with a point or an exponent or a float's suffix.
    Float,
    /// A string, byte string, character or byte.
    Text,
    /// The number of a tuple's field.
    Field,
    /// A bracket of any shape.
    Bracket,
}

/// The surroundings of a stream of tokens.
#[derive(Debug, Clone, Copy)]
struct Around {
    test: bool,
    attribute: bool,
}

impl<'a> Source<'a> {
    /// Lexes a file; an error says where it cannot be read as Rust.
    pub(crate) fn lex(path: &str, text: &'a str) -> Result<Self> {
        // The lexer leaves out a byte order mark, and then counts from after it.
        if text.starts_with('\u{feff}') {
            return Err(anyhow!("{path}:1: starts with a byte order mark; remove it"));
        }
        let stream: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            anyhow!("{path}:{}: does not lex as Rust: {error}", error.span().start().line)
        })?;
        let mut source = Self { text, tokens: Vec::new(), starts: line_starts(text) };
        let test = is_test_path(path) || whole_file_is_test(&stream);
        source.add(stream, Around { test, attribute: false });
        Ok(source)
    }

    /// The tokens in order.
    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// A token as it is written.
    pub(crate) fn written(&self, token: &Token) -> &'a str {
        self.text.get(token.range.clone()).unwrap_or_default()
    }

    /// Line and column of a byte, both counted from 1, the column in characters.
    pub(crate) fn place(&self, byte: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= byte);
        let start = line.checked_sub(1).and_then(|index| self.starts.get(index)).copied();
        let before = self.text.get(start.unwrap_or_default()..byte).unwrap_or_default();
        (line, before.chars().count() + 1)
    }

    /// The lines, counted from 1, that hold at least a part of a token that `wanted` names.
    pub(crate) fn lines_of(&self, wanted: impl Fn(&Token) -> bool) -> Vec<usize> {
        let mut lines = Vec::new();
        for token in self.tokens.iter().filter(|token| wanted(token)) {
            let (first, _) = self.place(token.range.start);
            let (last, _) = self.place(token.range.end.saturating_sub(1));
            lines.extend(first..=last);
        }
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// The text with everything blanked but the tokens that `wanted` names: same lines and
    /// columns, no comments.
    pub(crate) fn only(&self, wanted: impl Fn(&Token) -> bool) -> String {
        let mut keep = vec![false; self.text.len()];
        for token in self.tokens.iter().filter(|token| wanted(token)) {
            if let Some(bytes) = keep.get_mut(token.range.clone()) {
                bytes.fill(true);
            }
        }
        let blank = |(at, c): (usize, char)| {
            if c == '\n' || keep.get(at).copied().unwrap_or_default() { c } else { ' ' }
        };
        self.text.char_indices().map(blank).collect()
    }

    fn add(&mut self, stream: TokenStream, around: Around) {
        let mut trees = stream.into_iter().peekable();
        // An item under a test attribute ends with its first block or its semicolon.
        let mut in_test_item = false;
        let mut after_point = false;
        while let Some(tree) = trees.next() {
            let here = Around { test: around.test || in_test_item, ..around };
            let range = tree.span().byte_range();
            let starts_attribute = matches!(&tree, TokenTree::Punct(sign) if sign.as_char() == '#');
            let point = matches!(&tree, TokenTree::Punct(sign) if sign.as_char() == '.');
            if starts_attribute && self.is_comment(&range) {
                // A doc comment is lexed as `#[doc = "..."]`, with `!` when it is an inner one.
                while trees.peek().is_some_and(|next| next.span().byte_range() == range) {
                    trees.next();
                }
                continue;
            }
            match tree {
                TokenTree::Punct(sign) if sign.as_char() == '#' => {
                    let inner = matches!(
                        trees.peek(), Some(TokenTree::Punct(sign)) if sign.as_char() == '!'
                    );
                    if let Some(TokenTree::Group(group)) = trees.peek()
                        && group.delimiter() == Delimiter::Bracket
                    {
                        in_test_item |= is_test_attribute(group.stream());
                    }
                    let here = Around { attribute: true, test: around.test || in_test_item };
                    self.push(range, Kind::Sign, here);
                    if inner && let Some(sign) = trees.next() {
                        self.push(sign.span().byte_range(), Kind::Sign, here);
                    }
                    if let Some(TokenTree::Group(group)) = trees.peek().cloned()
                        && group.delimiter() == Delimiter::Bracket
                    {
                        trees.next();
                        self.group(&group, here);
                    }
                }
                TokenTree::Group(group) => {
                    self.group(&group, here);
                    if group.delimiter() == Delimiter::Brace {
                        in_test_item = false;
                    }
                }
                TokenTree::Ident(_) => self.push(range, Kind::Word, here),
                TokenTree::Punct(sign) => {
                    self.push(range, Kind::Sign, here);
                    if sign.as_char() == ';' {
                        in_test_item = false;
                    }
                }
                TokenTree::Literal(literal) => {
                    self.push(range, kind_of_literal(&literal.to_string(), after_point), here);
                }
            }
            // `a..0` is a range whose end is a literal; `a.0` is a field.
            after_point = point && !after_point;
        }
    }

    fn group(&mut self, group: &proc_macro2::Group, around: Around) {
        if group.delimiter() == Delimiter::None {
            return self.add(group.stream(), around);
        }
        self.push(group.span_open().byte_range(), Kind::Bracket, around);
        self.add(group.stream(), around);
        self.push(group.span_close().byte_range(), Kind::Bracket, around);
    }

    fn push(&mut self, range: Range<usize>, kind: Kind, around: Around) {
        let Around { test, attribute } = around;
        self.tokens.push(Token { range, kind, test, attribute });
    }

    fn is_comment(&self, range: &Range<usize>) -> bool {
        self.text.get(range.clone()).is_some_and(|text| text.starts_with('/'))
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0).chain(after_breaks.map(|(at, _)| at + 1)).collect()
}

/// Files that are tests as a whole: cargo's `tests` folders, and the usual out-of-line module.
pub(crate) fn is_test_path(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Whether the file says `#![cfg(test)]`.
fn whole_file_is_test(stream: &TokenStream) -> bool {
    let trees: Vec<TokenTree> = stream.clone().into_iter().collect();
    trees.windows(3).any(|window| match window {
        [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(group)] => {
            hash.as_char() == '#' && bang.as_char() == '!' && is_test_attribute(group.stream())
        }
        _ => false,
    })
}

/// Whether an attribute makes its item a test: `test`, `tokio::test`, `cfg(test)`,
/// `cfg(all(test, ..))`; not `cfg(not(test))`, nor `cfg(any(test, ..))`, which ships.
fn is_test_attribute(stream: TokenStream) -> bool {
    let text: String = stream.to_string().split_whitespace().collect();
    text == "test"
        || text.ends_with("::test")
        || text.starts_with("cfg(test)")
        || text.starts_with("cfg(all(test,")
}

fn kind_of_literal(text: &str, after_point: bool) -> Kind {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Kind::Text;
    }
    if after_point {
        // `pair.0`, and `pair.0.1`, which lexes as one literal `0.1`.
        return Kind::Field;
    }
    let radix = text.starts_with("0x") || text.starts_with("0o") || text.starts_with("0b");
    let float = !radix
        && (text.contains('.')
            || text.ends_with("f32")
            || text.ends_with("f64")
            || text.bytes().any(|byte| matches!(byte, b'e' | b'E')) && !text.ends_with("size"));
    if float { Kind::Float } else { Kind::Integer }
}

/// Lua with its comments blanked: same lines and columns.
pub(crate) fn lua_without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut quote = None;
    while let Some(c) = rest.chars().next() {
        let comment = if quote.is_none() && rest.starts_with("--[[") {
            rest.find("]]").map_or(rest.len(), |end| end + 2)
        } else if quote.is_none() && rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            0
        };
        let (head, tail) = rest.split_at(if comment > 0 { comment } else { c.len_utf8() });
        if comment > 0 {
            code.extend(head.chars().map(|c| if c == '\n' { c } else { ' ' }));
        } else {
            code.push(c);
            quote = match quote {
                None if c == '"' || c == '\'' => Some(c),
                Some(open) if open == c || c == '\n' => None,
                open => open,
            };
        }
        rest = tail;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_kind(text: &str, kind: Kind) -> Vec<&str> {
        let source = Source::lex("src/a.rs", text).unwrap();
        let tokens = source.tokens().iter().filter(|token| token.kind == kind);
        tokens.map(|token| source.written(token)).collect()
    }

    #[test]
    fn literals_are_told_apart() {
        let text = "let a = (1, 2.5, 1e3, 0x1e, 7usize, 3f64, 'c', b'x', \"9\", x.0, x.1.2, 4..5);";
        assert_eq!(of_kind(text, Kind::Integer), ["1", "0x1e", "7usize", "4", "5"]);
        assert_eq!(of_kind(text, Kind::Float), ["2.5", "1e3", "3f64"]);
        assert_eq!(of_kind(text, Kind::Field), ["0", "1.2"]);
    }

    #[test]
    fn comments_are_no_code() {
        let text = "//! One 1\n/// two 2\nfn f() -> u8 { /* 3 */ 4 } // 5\n";
        assert_eq!(of_kind(text, Kind::Integer), ["4"]);
        let source = Source::lex("src/a.rs", text).unwrap();
        let code = source.only(|_| true);
        assert_eq!(code.lines().nth(2).unwrap().trim_end(), "fn f() -> u8 {         4 }");
        assert!(!code.contains("One") && !code.contains("two"));
    }

    #[test]
    fn test_items_end_where_they_end() {
        let text = "fn a() { 1 }\n#[cfg(test)]\nmod tests { const B: u8 = 2; fn c() { 3 } }\n\
                    #[cfg(test)]\nuse d::e;\nconst F: u8 = 4;\n#[cfg(not(test))]\nconst G: u8 = 5;\n\
                    #[test]\nfn h() { 6 }\nconst I: u8 = 7;";
        let source = Source::lex("src/a.rs", text).unwrap();
        let shipped = |token: &&Token| token.kind == Kind::Integer && !token.test;
        let found: Vec<_> = source.tokens().iter().filter(shipped).collect();
        let written: Vec<_> = found.iter().map(|token| source.written(token)).collect();
        assert_eq!(written, ["1", "4", "5", "7"]);
    }

    #[test]
    fn a_whole_file_can_be_a_test() {
        for (path, text) in [
            ("crates/a/src/b.rs", "#![cfg(test)]\nconst A: u8 = 1;"),
            ("crates/a/tests/b.rs", "const A: u8 = 1;"),
            ("crates/a/src/b/tests.rs", "const A: u8 = 1;"),
        ] {
            let source = Source::lex(path, text).unwrap();
            assert!(source.tokens().iter().all(|token| token.test), "{path}");
        }
    }

    #[test]
    fn places_count_characters() {
        let source = Source::lex("src/a.rs", "const A: &str = \"é\"; const B: u8 = 1;").unwrap();
        let one = source.tokens().iter().find(|token| token.kind == Kind::Integer).unwrap();
        assert_eq!(source.place(one.range.start), (1, 36));
    }

    #[test]
    fn what_is_not_rust_is_an_error_with_a_line() {
        let error = Source::lex("src/a.rs", "fn a() {\n    )\n}").unwrap_err().to_string();
        assert!(error.starts_with("src/a.rs:2: does not lex"), "{error}");
    }

    #[test]
    fn lua_comments_are_blanked_and_strings_kept() {
        let text = "local a = '--' -- redis.call\n--[[ pairs(\n]] return a";
        assert_eq!(lua_without_comments(text).replace(' ', ""), "locala='--'\n\nreturna");
    }
}
