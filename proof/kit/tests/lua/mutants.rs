//! Small changes of the Lua texts: where they can be made, and a text with one of them.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tollgate::LimitSet;
use tollgate::engine::Mode;
use tollgate_redis::compose::{self, Check, Clock, Parts, ReplyFormat};

use super::histories::Texts;

/// The name for a file where Rust writes a line as a script is composed.
pub(crate) const COMPOSED: &str = "composed";

/// The change of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    /// Another word or sign.
    Write(&'static str),
    /// An integer moved.
    Move(i64),
}

/// One change of one line.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// From the root of the project, or [`COMPOSED`].
    pub(crate) file: String,
    /// From 1; of a composed line, its number among all different ones.
    pub(crate) line: usize,
    /// From 1.
    pub(crate) column: usize,
    pub(crate) original: String,
    pub(crate) replacement: String,
    /// The text of the line; of a composed one its shape, which all limits share.
    pub(crate) text: String,
    token: usize,
    change: Change,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Word,
    Integer,
    Fraction,
    Text,
    Sign,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Token {
    kind: Kind,
    range: Range<usize>,
}

/// The tokens of one line; a comment ends it. No text of ours has long brackets.
fn lex(line: &str) -> Vec<Token> {
    let bytes = line.as_bytes();
    let mut tokens = Vec::new();
    let mut i = 0;
    let run = |from: usize, holds: fn(u8) -> bool| {
        bytes[from..].iter().position(|byte| !holds(*byte)).map_or(bytes.len(), |n| from + n)
    };
    while i < bytes.len() {
        let start = i;
        let kind = match bytes[i] {
            b' ' => {
                i += 1;
                continue;
            }
            b'-' if bytes.get(i + 1) == Some(&b'-') => break,
            quote @ (b'\'' | b'"') => {
                i += 1;
                while bytes[i] != quote {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
                i += 1;
                Kind::Text
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                i = run(i, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
                Kind::Word
            }
            b'0'..=b'9' => {
                i = run(i, |byte| byte.is_ascii_alphanumeric() || byte == b'.');
                let integer = bytes[start..i].iter().all(u8::is_ascii_digit);
                if integer { Kind::Integer } else { Kind::Fraction }
            }
            _ => {
                let signs = ["...", "..", "<=", ">=", "==", "~="];
                let long = signs.iter().find(|sign| line[i..].starts_with(**sign));
                assert!(!line[i..].starts_with("[["), "a long bracket: {line}");
                i += long.map_or(1, |sign| sign.len());
                Kind::Sign
            }
        };
        tokens.push(Token { kind, range: start..i });
    }
    tokens
}

/// Without where a value lives: `local a1` and `L.a1` are written by the same Rust.
fn essential(line: &str) -> Vec<Token> {
    let tokens = lex(line);
    let word = |i: usize| tokens.get(i).map_or("", |token: &Token| &line[token.range.clone()]);
    let kept = |i: &usize| {
        let place = word(*i) == "L" && word(i + 1) == ".";
        let dot = *i > 0 && word(i - 1) == "L" && word(*i) == ".";
        !place && !dot && word(*i) != "local"
    };
    (0..tokens.len()).filter(kept).map(|i| tokens[i].clone()).collect()
}

/// The shape of a composed line: without the numbers and the texts of its limits.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut end = None;
    for token in essential(line) {
        if end.is_some_and(|end| end != token.range.start) {
            shape.push(' ');
        }
        end = Some(token.range.end);
        let text = &line[token.range];
        match token.kind {
            Kind::Integer => shape.push('N'),
            // A limit's letters, its tag, its name, and how its state is packed.
            Kind::Text if text.len() == 3 || text.contains(|c: char| "0123456789~".contains(c)) => {
                shape.push_str("'S'");
            }
            Kind::Text => shape.push_str(text),
            Kind::Word => {
                let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
                shape.push_str(name);
                if name.len() < text.len() {
                    shape.push('#');
                }
            }
            Kind::Fraction | Kind::Sign => shape.push_str(text),
        }
    }
    shape
}

/// True when a minus after this subtracts.
fn ends_a_value(line: &str, token: Option<&Token>) -> bool {
    let Some(token) = token else { return false };
    let text = &line[token.range.clone()];
    match token.kind {
        Kind::Integer | Kind::Fraction | Kind::Text => true,
        Kind::Sign => matches!(text, ")" | "]" | "}" | "..."),
        Kind::Word => {
            let opens = ["and", "or", "not", "return", "in", "if", "elseif", "while", "until"];
            !opens.contains(&text)
        }
    }
}

/// The possible changes of one token of a line.
fn changes(line: &str, tokens: &[Token], index: usize) -> Vec<Change> {
    let token = &tokens[index];
    let write = |text| vec![Change::Write(text)];
    match (token.kind, &line[token.range.clone()]) {
        (Kind::Integer, _) => vec![Change::Move(1), Change::Move(-1)],
        (Kind::Word, "and") => write("or"),
        (Kind::Word, "or") => write("and"),
        (Kind::Sign, "<") => write("<="),
        (Kind::Sign, "<=") => write("<"),
        (Kind::Sign, ">") => write(">="),
        (Kind::Sign, ">=") => write(">"),
        (Kind::Sign, "==") => write("~="),
        (Kind::Sign, "~=") => write("=="),
        (Kind::Sign, "+") => write("-"),
        (Kind::Sign, "-") if ends_a_value(line, index.checked_sub(1).map(|i| &tokens[i])) => {
            write("+")
        }
        (Kind::Sign, "*") => write("/"),
        (Kind::Sign, "/" | "%") => write("*"),
        _ => Vec::new(),
    }
}

impl Change {
    fn applied_to(self, original: &str) -> String {
        match self {
            Self::Write(text) => text.to_owned(),
            Self::Move(by) => match original.parse::<i64>().unwrap() + by {
                moved @ 0.. => moved.to_string(),
                moved => format!("({moved})"),
            },
        }
    }
}

/// All changes of a line; some tokens are left alone.
fn of_line<'l>(
    place: (&'l str, usize),
    line: &'l str,
    text: &'l str,
    left_alone: impl Fn(&Token) -> bool + 'l,
) -> Vec<Mutant> {
    let tokens = essential(line);
    let mut mutants = Vec::new();
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| !left_alone(token)) {
        let original = &line[token.range.clone()];
        for change in changes(line, &tokens, index) {
            mutants.push(Mutant {
                file: place.0.to_owned(),
                line: place.1,
                column: token.range.start + 1,
                original: original.to_owned(),
                replacement: change.applied_to(original),
                text: text.to_owned(),
                token: index,
                change,
            });
        }
    }
    mutants
}

fn of_file(file: &str, text: &str) -> Vec<Mutant> {
    let lines = text.lines().zip(1..);
    lines.flat_map(|(line, number)| of_line((file, number), line, line, |_| false)).collect()
}

/// Every Lua file under the folders, with its path from the root.
fn files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        vec!["crates/tollgate/src/strategy".into(), "crates/tollgate-redis/src/compose".into()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "lua") {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                found.push((path.to_str().unwrap().replace('\\', "/"), text));
            }
        }
    }
    found.sort();
    found
}

/// The text of `parts` that a file holds.
fn part<'p>(parts: &'p mut Parts, path: &str, text: &str) -> &'p mut String {
    if parts.mul_div == text {
        return &mut parts.mul_div;
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    let driver = parts.driver.iter_mut().filter(|(known, _)| *known == name);
    let steps = parts.steps.iter_mut().filter(|(step, _)| step.text == text);
    let mut each = driver.map(|(_, text)| text).chain(steps.map(|(_, text)| text));
    let Some(found) = each.next() else { panic!("{path} is in no script, or was changed") };
    assert_eq!(found, text, "{path} was changed since this was built");
    found
}

/// Limits that together make Rust write every kind of line.
const SETS: [&[&str]; 10] = [
    &["x: 7/m via uniform"],
    &["x: 7/m burst 3 via gcra"],
    &["x: 7/m burst 3 refill interval via token_bucket"],
    &["x: 7/m via fixed_window"],
    &["x: 7/m via sliding_log"],
    &["x: 6/m precision 20s rounding interpolate via sliding_window"],
    &["a: 7/m via gcra, b: 5/m via sliding_log, c: 6/m precision 20s via sliding_window"],
    &["a: 7/m via gcra, b: 5/m via gcra"],
    &["a: 7/m via sliding_log, b: 5/m via sliding_log"],
    &["x: 7/m via gcra", "x: 5/m via sliding_log"],
];

/// Scripts that together have every kind of line.
fn scripts(parts: &Parts) -> Vec<String> {
    let mut texts = Vec::new();
    for clock in [Clock::Server, Clock::Given] {
        texts.push(compose::refund(clock, parts).text().to_owned());
        texts.push(compose::adjust(clock, parts).text().to_owned());
        texts.push(compose::reset(clock, parts).text().to_owned());
        for answer in [ReplyFormat::Verbose, ReplyFormat::Boolean, ReplyFormat::Remembered] {
            for mode in [Mode::Whole, Mode::Partial, Mode::Peek, Mode::PeekPartial] {
                if answer == ReplyFormat::Remembered && mode.is_peek() {
                    continue;
                }
                let mut check = Check::new(mode);
                (check.clock, check.reply) = (clock, answer);
                for subjects in SETS {
                    let sets: Vec<LimitSet> = subjects.iter().map(|s| s.parse().unwrap()).collect();
                    let sets: Vec<&LimitSet> = sets.iter().collect();
                    texts.push(check.compose(&sets, parts).unwrap().text().to_owned());
                    texts.push(check.compose_batch(&sets, parts).unwrap().text().to_owned());
                }
            }
        }
    }
    texts
}

/// Where the numbers of a limit begin in a composed line: they are not constants.
fn numbers_from(line: &str) -> usize {
    let starts = ["_view(", "_judge(", "_charge(", "_repair(", "numbers = {", ".numbers, {"];
    starts.iter().filter_map(|start| line.find(start)).min().unwrap_or(line.len())
}

fn of_composed() -> Vec<Mutant> {
    let parts = Parts::default();
    let mut known: HashSet<String> = HashSet::new();
    for (_, text) in files() {
        known.extend(text.replace('$', "").lines().map(shape));
    }
    // The replacement for a name in a file's line.
    known.insert(shape("if #KEYS ~= 1 or #ARGV ~= 1 then"));
    known.insert(shape("if count % 1 ~= 0 or #ARGV ~= 1 * count then"));
    known.insert(shape("local count = #KEYS / 1"));
    let (mut mutants, mut number) = (Vec::new(), 0);
    for script in scripts(&parts) {
        for line in script.lines().skip(1).map(str::trim) {
            let shape = shape(line);
            if known.insert(shape.clone()) {
                number += 1;
                let end = numbers_from(line);
                let is_number =
                    move |token: &Token| token.kind == Kind::Integer && token.range.start >= end;
                mutants.extend(of_line((COMPOSED, number), line, &shape, is_number));
            }
        }
    }
    mutants
}

/// Every mutant, always in the same order.
pub(crate) fn all() -> Vec<Mutant> {
    let files = files();
    let mut mutants: Vec<Mutant> =
        files.iter().flat_map(|(path, text)| of_file(path, text)).collect();
    mutants.extend(of_composed());
    mutants
}

impl Mutant {
    fn change_line(&self, line: &str) -> String {
        let range = essential(line)[self.token].range.clone();
        let mut changed = line.to_owned();
        changed.replace_range(range.clone(), &self.change.applied_to(&line[range]));
        changed
    }

    /// The texts with this change.
    pub(crate) fn texts(&self) -> Texts {
        let mut texts = Texts::default();
        if self.file == COMPOSED {
            let mutant = self.clone();
            texts.edit = Some(Rc::new(move |script| mutant.edit(script)));
            return texts;
        }
        let files = files();
        let (path, text) = files.iter().find(|(path, _)| *path == self.file).unwrap();
        let part = part(&mut texts.parts, path, text);
        let mut lines: Vec<String> = part.lines().map(str::to_owned).collect();
        lines[self.line - 1] = self.change_line(&lines[self.line - 1]);
        *part = lines.join("\n") + "\n";
        texts
    }

    /// Changes each line of this shape in a script.
    fn edit(&self, script: &str) -> String {
        let first: &str = self.text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap();
        let mut changed = String::with_capacity(script.len() + 8);
        for line in script.lines() {
            let bare = line.trim_start().trim_start_matches("local ").trim_start_matches("L.");
            if bare.starts_with(first) && shape(line) == self.text {
                changed.push_str(&self.change_line(line));
            } else {
                changed.push_str(line);
            }
            changed.push('\n');
        }
        changed
    }
}

/// The tokens that the finder takes and leaves; called by a test, since an example has none.
pub(crate) fn assert_found() {
    let found = |line: &str| -> Vec<String> {
        let mutants = of_file("a.lua", line);
        mutants
            .iter()
            .map(|m| format!("{}: {} -> {}", m.column, m.original, m.replacement))
            .collect()
    };
    assert_eq!(found("if a <= 10 then -- 1 < 2"), ["6: <= -> <", "9: 10 -> 11", "9: 10 -> 9"]);
    assert_eq!(found("f('a + 1', -b, c - d, 0.5, ...)"), ["18: - -> +"]);
    assert_eq!(
        found("x1 = #k % 0 and y"),
        ["9: % -> *", "11: 0 -> 1", "11: 0 -> (-1)", "13: and -> or"]
    );
    assert_eq!(shape("  L.a1, L.b12 = f('x', 3, 'DEL') .. y"), "a#, b# = f('S', N, 'DEL') .. y");
    assert_eq!(shape("local a1 = 5 -- five"), "a# = N");
}
