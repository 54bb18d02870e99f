//! Rules for the strategies: pure steps in either language, and whole folders.

use crate::source::{Source, lua_without_comments};
use crate::tidy::{Finding, has_word};
use crate::tree::File;

/// The folder of all strategies; `mutate` works on it too.
pub(crate) const FOLDER: &str = "crates/tollgate/src/strategy/";

/// Words that a pure step does not need: clocks, floats, I/O, randomness, tables in no order.
const IMPURE: [&str; 15] = [
    "Instant",
    "SystemTime",
    "f32",
    "f64",
    "redis.",
    "math.random",
    "pairs(",
    "rand::",
    "std::time",
    "print!",
    "println",
    "eprint!",
    "eprintln",
    "dbg!",
    "unsafe",
];

/// Finds what makes a step impure. Comments may name it, tests may use it.
pub(super) fn purity(file: &File) -> Vec<Finding> {
    if !file.path.starts_with(FOLDER) {
        return Vec::new();
    }
    let code = if file.path.ends_with(".rs") {
        match Source::lex(&file.path, &file.text) {
            Ok(source) => source.only(|token| !token.test),
            // The rules on text have already said so.
            Err(_) => return Vec::new(),
        }
    } else if file.path.ends_with(".lua") {
        lua_without_comments(&file.text)
    } else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (line, number) in code.lines().zip(1..) {
        for word in IMPURE.into_iter().filter(|word| has_word(line, word)) {
            let message = format!("`{word}` in a strategy: a step is pure, integers in and out");
            findings.push(Finding::at(&file.path, number, message));
        }
    }
    findings.extend(float_literals(file));
    findings
}

fn float_literals(file: &File) -> Vec<Finding> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let Ok(source) = Source::lex(&file.path, &file.text) else { return Vec::new() };
    let floats = source
        .tokens()
        .iter()
        .filter(|token| !token.test && token.kind == crate::source::Kind::Float);
    floats
        .map(|token| {
            let (line, _) = source.place(token.range.start);
            Finding::at(&file.path, line, "a float literal in a strategy: integers only")
        })
        .collect()
}

/// Finds strategies that lack a part: `mod.rs`, the page, the line in the registry.
pub(super) fn layout(files: &[File]) -> Vec<Finding> {
    let has = |path: &str| files.iter().any(|file| file.path == path);
    let mut names: Vec<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix(FOLDER)?.split_once('/'))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.dedup();

    let registry_path = format!("{FOLDER}registry.rs");
    let registry = files.iter().find(|file| file.path == registry_path);
    let registered = registry
        .and_then(|file| Some(Source::lex(&file.path, &file.text).ok()?.only(|token| !token.test)))
        .unwrap_or_default();

    let mut findings = Vec::new();
    for name in names {
        let folder = format!("{FOLDER}{name}");
        for part in ["mod.rs".to_owned(), format!("{name}.md")] {
            let path = format!("{folder}/{part}");
            if !has(&path) {
                findings.push(Finding::at(&path, 1, "is missing: every strategy has one"));
            }
        }
        if !has_word(&registered, name) {
            let message = format!("the strategy `{name}` is not in the registry");
            findings.push(Finding::at(&registry_path, 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: format!("{FOLDER}{path}"), text: text.to_owned() }
    }

    fn impure(path: &str, text: &str) -> usize {
        purity(&file(path, text)).len()
    }

    #[test]
    fn impure_rust_is_found() {
        for line in [
            "use core::x::Instant;",
            "fn now() -> SystemTime { x }",
            "fn f(a: f32) {}",
            "const A: u8 = 1f64;",
            "const A: X = 1.5;",
            "const A: &str = \"redis.call\";",
            "fn f() { rand::random() }",
            "use std::time::Duration;",
            "fn f() { println!() }",
            "fn f() { unsafe { g() } }",
        ] {
            assert!(impure("gcra/mod.rs", line) >= 1, "{line}");
        }
    }

    #[test]
    fn impure_lua_is_found() {
        for line in
            ["redis.call('GET', k)", "local r = math.random(3)", "for k, v in pairs(t) do end"]
        {
            assert_eq!(impure("gcra/gcra.lua", line), 1, "{line}");
        }
        assert_eq!(impure("gcra/gcra.lua", "for i, v in ipairs(t) do end -- not pairs()"), 0);
    }

    #[test]
    fn comments_and_tests_and_other_folders_are_free() {
        assert_eq!(impure("gcra/mod.rs", "//! No f64.\n/// No Instant.\nfn f() {} // unsafe\n"), 0);
        assert_eq!(impure("gcra/mod.rs", "#[cfg(test)]\nmod tests { use std::time::Instant; }"), 0);
        let other = File { path: "crates/tollgate/src/a.rs".into(), text: "use Instant;".into() };
        assert_eq!(purity(&other).len(), 0);
    }

    #[test]
    fn a_strategy_has_all_its_parts() {
        let parts = [
            file("mod.rs", "//! All.\npub mod gcra;"),
            file("registry.rs", "//! One line each.\nconst ALL: [&str; 1] = [\"gcra\"];"),
            file("gcra/mod.rs", "//! A step."),
            file("gcra/gcra.md", "# gcra"),
        ];
        assert_eq!(layout(&parts), []);
        assert_eq!(layout(&[]), []);
        for (left_out, expected) in [
            (1, "registry.rs:1: the strategy `gcra` is not in the registry"),
            (2, "gcra/mod.rs:1: is missing"),
            (3, "gcra/gcra.md:1: is missing"),
        ] {
            let mut fewer = parts.to_vec();
            fewer.remove(left_out);
            let found: Vec<String> = layout(&fewer).iter().map(Finding::to_string).collect();
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn a_comment_in_the_registry_registers_nothing() {
        let parts = [
            file("registry.rs", "//! gcra\n// gcra\nconst ALL: [&str; 1] = [\"gcra_2\"];"),
            file("gcra/mod.rs", "//! A step."),
            file("gcra/gcra.md", "# gcra"),
        ];
        assert_eq!(layout(&parts).len(), 1);
    }
}
