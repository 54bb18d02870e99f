//! Words that stay away: names of types that do not describe the type.

use crate::source::{Kind, Source};
use crate::tidy::Finding;
use crate::tree::File;

/// Names of types that are riddles.
const RIDDLES: [&str; 12] = [
    "About", "Alike", "Aside", "Ends", "Got", "Held", "Looked", "Of", "Over", "Together", "What",
    "Which",
];

/// The words that define a type.
const DEFINE: [&str; 4] = ["enum", "struct", "trait", "type"];

/// Finds types that are called by a riddle. A variant may be: the name of its enum says the rest.
pub(super) fn check(file: &File) -> Vec<Finding> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    // The rules on text say what does not lex.
    let Ok(source) = Source::lex(&file.path, &file.text) else { return Vec::new() };
    let words: Vec<_> = source.tokens().iter().filter(|token| token.kind == Kind::Word).collect();
    let defined = words.windows(2).filter_map(|pair| {
        let [define, name] = pair else { return None };
        let is_definition = DEFINE.contains(&source.written(define));
        (is_definition && RIDDLES.contains(&source.written(name))).then_some(*name)
    });
    defined
        .map(|name| {
            let (line, _) = source.place(name.range.start);
            let message = format!("`{}` does not describe the type: name it", source.written(name));
            Finding::at(&file.path, line, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let file = File { path: "crates/a/src/b.rs".into(), text: text.into() };
        check(&file).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn types_that_are_riddles_are_found() {
        for text in ["struct Of;", "enum What<'a> { A(&'a u8) }", "pub(crate) type Held = u8;"] {
            let found = findings(&format!("//! A file.\n{text}\n"));
            assert!(found.len() == 1 && found[0].contains("b.rs:2: `"), "{text}: {found:?}");
        }
    }

    #[test]
    fn variants_and_longer_names_are_not() {
        assert_eq!(findings("enum Turn { Held(u8) }\nstruct HeldReply;\n// struct Of\n"), [""; 0]);
    }
}
