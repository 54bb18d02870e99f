//! Rules on the text of a file: first lines, widths, lengths, blanks, leftovers, sleeps, paths.

use crate::source::{Kind, Source, Token, is_test_path};
use crate::tidy::{Finding, has_word};
use crate::tree::File;

/// The widest line of a Rust file, in characters.
const COLUMNS: usize = 100;

/// The most lines of a Rust file, not counting its tests.
const LINES: usize = 500;

/// A literal at least this long may push a line over [`COLUMNS`]: breaking it would hide it from
/// a search.
const LONG_LITERAL: usize = 40;

/// Allows a sleep in a test, when a reason follows.
const SLEEP_OK: &str = "// tidy: sleep-ok";

/// Allows something that looks like a path of one machine.
const PATH_OK: &str = "tidy: path-ok ";

/// The folders of our crates.
const FLOORS: [&str; 5] = ["bindings/", "crates/", "lab/", "proof/", "tools/"];

/// Folders that only some machines have, and the folder beside the project: in pieces, so that
/// this file does not find itself.
const FOREIGN_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("../sha", "red")];

/// Kinds of text file in which a blank at the end of a line is an oversight.
const SOURCES: [&str; 10] =
    [".rs", ".lua", ".toml", ".md", ".sh", ".yml", ".yaml", ".ci/run", ".go", ".java"];

/// Kinds of source of our modules in other languages, which have the same bounds.
const MODULES: [&str; 2] = [".go", ".java"];

/// The columns of a tab, with which Go indents.
const TAB: usize = 4;

/// All rules of this file.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = foreign_paths(file);
    findings.extend(blanks(file));
    if !file.path.ends_with(".rs") {
        findings.extend(module(file));
        return findings;
    }
    findings.extend(first_line(file));
    match Source::lex(&file.path, &file.text) {
        Ok(source) => {
            findings.extend(width(file, &source));
            findings.extend(length(file, &source));
            findings.extend(leftovers(file, &source));
            findings.extend(sleeps(file, &source));
        }
        Err(error) => findings.push(Finding::at(&file.path, 1, error.to_string())),
    }
    findings
}

fn first_line(file: &File) -> Option<Finding> {
    let ours = FLOORS.iter().any(|floor| file.path.starts_with(floor));
    let said = file.text.starts_with("//! ");
    (ours && !said).then(|| {
        Finding::at(&file.path, 1, "the first line must be a `//!` that says what the file is for")
    })
}

fn foreign_paths(file: &File) -> Vec<Finding> {
    // Logs that are bundled as examples quote what their clients asked for.
    if file.path.starts_with("examples/data/") {
        return Vec::new();
    }
    let foreign = |line: &str| {
        FOREIGN_PATHS.into_iter().find(|path| {
            line.match_indices(path).any(|(at, _)| {
                let before = line.get(..at).and_then(|text| text.chars().next_back());
                !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*'))
            })
        })
    };
    let lines = file.text.lines().zip(1..).filter(|(line, _)| !line.contains(PATH_OK));
    lines
        .filter_map(|(line, number)| {
            foreign(line).map(|path| {
                let message = format!("`{path}` is a path of one machine; say it relatively");
                Finding::at(&file.path, number, message)
            })
        })
        .collect()
}

fn blanks(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !SOURCES.iter().any(|end| file.path.ends_with(end)) {
        return findings;
    }
    for (line, number) in file.text.lines().zip(1..) {
        if line.ends_with([' ', '\t']) {
            findings.push(Finding::at(&file.path, number, "blanks at the end of the line"));
        }
        if file.path.ends_with(".rs") && line.contains('\t') {
            findings.push(Finding::at(&file.path, number, "a tab; in a string write `\\t`"));
        }
    }
    findings
}

fn width(file: &File, source: &Source<'_>) -> Vec<Finding> {
    let literals = source
        .lines_of(|token| token.kind == Kind::Text && source.written(token).len() >= LONG_LITERAL);
    let too_wide = |(line, number): &(&str, usize)| {
        line.chars().count() > COLUMNS && !line.contains("://") && !literals.contains(number)
    };
    let wide = file.text.lines().zip(1..).filter(too_wide);
    wide.map(|(line, number)| {
        let message = format!("{} columns; at most {COLUMNS}", line.chars().count());
        Finding::at(&file.path, number, message)
    })
    .collect()
}

/// The bounds of a source of a module: as of Rust, but for its tests, which it does not mark.
fn module(file: &File) -> Vec<Finding> {
    let ours = FLOORS.iter().any(|floor| file.path.starts_with(floor));
    if !ours || !MODULES.iter().any(|end| file.path.ends_with(end)) {
        return Vec::new();
    }
    let columns = |line: &str| line.chars().map(|c| if c == '\t' { TAB } else { 1 }).sum::<usize>();
    let lines = file.text.lines().zip(1..).map(|(line, number)| (columns(line), number));
    let wide = lines.filter(|(columns, _)| *columns > COLUMNS).map(|(columns, number)| {
        Finding::at(&file.path, number, format!("{columns} columns; at most {COLUMNS}"))
    });
    let mut findings: Vec<Finding> = wide.collect();
    let count = file.text.lines().count();
    if count > LINES {
        let message = format!("{count} lines; split a file above {LINES}");
        findings.push(Finding::at(&file.path, 1, message));
    }
    if !file.text.starts_with("// ") {
        let message = "the first line must be a `//` that says what the file is for";
        findings.push(Finding::at(&file.path, 1, message));
    }
    findings
}

fn length(file: &File, source: &Source<'_>) -> Option<Finding> {
    if is_test_path(&file.path) {
        return None;
    }
    let (tests, code) = (source.lines_of(|token| token.test), source.lines_of(|token| !token.test));
    let mut in_test = false;
    // A comment or an empty line belongs to the code above it.
    let counts = |number: &usize| {
        in_test = (in_test || tests.contains(number)) && !code.contains(number);
        !in_test
    };
    let lines = (1..=file.text.lines().count()).filter(counts).count();
    (lines > LINES).then(|| {
        let message = format!("{lines} lines without tests; split a file above {LINES}");
        Finding::at(&file.path, 1, message)
    })
}

fn leftovers(file: &File, source: &Source<'_>) -> Vec<Finding> {
    let calls = source.tokens().windows(2).filter_map(|pair| {
        let [name, sign] = pair else { return None };
        let macros = ["todo", "unimplemented", "dbg"];
        let is_call = name.kind == Kind::Word && source.written(sign) == "!";
        (is_call && macros.contains(&source.written(name))).then_some(name)
    });
    calls
        .map(|name| {
            let (line, _) = source.place(name.range.start);
            let message = format!("`{}!` is unfinished work", source.written(name));
            Finding::at(&file.path, line, message)
        })
        .collect()
}

fn sleeps(file: &File, source: &Source<'_>) -> Vec<Finding> {
    let in_tests = |token: &Token| token.test && token.kind != Kind::Text;
    let code = source.only(in_tests);
    let lines = code.lines().zip(file.text.lines()).zip(1..);
    let sleeping = lines.filter(|((code, _), _)| {
        let tight: String = code.split_whitespace().collect();
        ["thread::sleep", "time::sleep", "sleep("].iter().any(|word| has_word(&tight, word))
    });
    sleeping
        .filter(|((_, line), _)| {
            line.split_once(SLEEP_OK).is_none_or(|(_, reason)| reason.trim().is_empty())
        })
        .map(|(_, number)| {
            let message = format!(
                "a test that sleeps; use a mock clock, or end the line with `{SLEEP_OK} REASON`"
            );
            Finding::at(&file.path, number, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(Finding::to_string).collect()
    }

    /// The text breaks exactly one rule, and the finding says this.
    fn breaks(path: &str, text: &str, expected: &str) {
        let found = findings(path, text);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?} lacks {expected:?}");
    }

    fn holds(path: &str, text: &str) {
        assert_eq!(findings(path, text), Vec::<String>::new());
    }

    const RS: &str = "crates/a/src/b.rs";

    #[test]
    fn a_file_says_first_what_it_is_for() {
        breaks(RS, "fn a() {}\n", "a/src/b.rs:1: the first line");
        breaks("tools/xtask/src/b.rs", "// A comment.\n", "the first line");
        breaks(RS, "", "the first line");
        holds(RS, "//! A file.\nfn a() {}\n");
        holds("examples/rust/a.rs", "fn a() {}\n");
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for path in FOREIGN_PATHS {
            breaks("a.md", &format!("see\n`{path}x`\n"), "a.md:2: `");
            holds("a.md", &format!("see {path}x (tidy: path-ok an example)\n"));
            holds("examples/data/a.log", &format!("GET {path}x\n"));
        }
        holds("a.md", &format!("https://example.com{}x\n", FOREIGN_PATHS[2]));
    }

    #[test]
    fn blanks_and_tabs_are_found() {
        breaks("a.md", "one\ntwo \n", "a.md:2: blanks");
        breaks("a.toml", "one\t\n", "a.toml:1: blanks");
        breaks(RS, "//! A file.\n\tfn a() {}\n", "b.rs:2: a tab");
        holds("Makefile", "all:\n\ttrue\n");
    }

    #[test]
    fn wide_lines_are_found() {
        let wide = "x".repeat(97);
        breaks(RS, &format!("//! A file.\n// a {wide}\n"), "b.rs:2: 102 columns");
        holds(RS, &format!("//! A file.\n//{}\n", "x".repeat(98)));
        holds(RS, &format!("//! A file.\nconst A: &str = \"{wide}\";\n"));
        holds(RS, &format!("//! A file.\n// https://example.com/{wide}\n"));
    }

    #[test]
    fn long_files_are_found() {
        let code = |lines: usize| format!("//! A file.\n{}", "const A: u8 = 1;\n".repeat(lines));
        breaks(RS, &code(500), "501 lines without tests");
        holds(RS, &code(499));
        let with_tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(500));
        holds(RS, &format!("{}{with_tests}", code(499)));
        holds("crates/a/tests/b.rs", &code(900));
    }

    #[test]
    fn modules_of_other_languages_have_bounds() {
        let go = "bindings/go/a.go";
        breaks(go, "package a\n", "a.go:1: the first line");
        breaks(go, &format!("// A file.\n\t{}\n", "x".repeat(97)), "a.go:2: 101 columns");
        breaks(go, &format!("// A file.\n{}", "x\n".repeat(500)), "501 lines");
        breaks("bindings/java/A.java", "// A file.\nclass A { } \n", "A.java:2: blanks");
        holds(go, &format!("// A file.\n\t{}\n{}", "x".repeat(96), "x\n".repeat(498)));
        holds("examples/go/a.go", "package a\n");
    }

    #[test]
    fn leftovers_are_found() {
        for name in ["todo", "unimplemented", "dbg"] {
            breaks(RS, &format!("//! A file.\nfn a() {{ {name}!() }}\n"), "b.rs:2: `");
        }
        holds(RS, "//! A file.\n// A todo! in a comment.\nconst A: &str = \"todo!()\";\n");
    }

    #[test]
    fn sleeping_tests_are_found() {
        let test = |line: &str| format!("//! A file.\n#[test]\nfn a() {{\n    {line}\n}}\n");
        breaks(RS, &test("std::thread::sleep(d);"), "b.rs:4: a test that sleeps");
        breaks(RS, &test("tokio::time::sleep(d).await;"), "a test that sleeps");
        breaks(RS, &test("sleep(d);"), "a test that sleeps");
        breaks(RS, &test("thread::sleep(d); // tidy: sleep-ok"), "a test that sleeps");
        breaks("crates/a/tests/b.rs", "//! T.\nfn a() { thread::sleep(d) }\n", "sleeps");
        holds(RS, &test("thread::sleep(d); // tidy: sleep-ok the clock under test is real"));
        holds(RS, "//! A file.\nfn a() { thread::sleep(d) }\n");
    }

    #[test]
    fn a_test_only_import_does_not_hide_the_code_below() {
        let code = "const A: u8 = 1;\n".repeat(750);
        let text = format!("//! A file.\n#[cfg(test)]\nuse b::c;\n{code}#[cfg(test)]\nuse b::d;\n");
        breaks(RS, &text, "751 lines without tests");
    }

    #[test]
    fn what_does_not_lex_is_a_finding() {
        breaks(RS, "//! A file.\nfn a( {}\n", "does not lex");
    }
}
