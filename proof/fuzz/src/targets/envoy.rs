//! Rules of envoyproxy/ratelimit, and limits of limitador: a mistake has a place and a remedy, a
//! rule that was read can be asked, and an import is a policy file.

use std::collections::HashSet;

use tollgate_envoy::Config;
use tollgate_envoy::import::{Imported, limitador, rules as import};
use tollgate_policy::{Format, Level, Policies, Problems};

use super::text;

/// The most entries of a descriptor that is asked for.
const ENTRIES: usize = 4;

/// A file, read as rules and as limits of limitador.
pub(crate) fn rules(data: &[u8]) {
    let text = text(data);
    match Config::read([("rules.yaml", text)]) {
        Ok(config) => {
            config.warnings().iter().for_each(placed);
            asked(&config, text);
            imported(&import(&config, "rules.yaml"));
        }
        Err(broken) => {
            assert!(!broken.is_empty() && broken.iter().all(Problems::has_errors));
            broken.iter().for_each(placed);
        }
    }
    match limitador("limits.yaml", text) {
        Ok(found) => imported(&found),
        Err(problems) => {
            assert!(problems.has_errors());
            placed(&problems);
        }
    }
}

/// Each problem has a text, a place and a remedy.
fn placed(problems: &Problems) {
    for problem in problems.iter() {
        assert!(!problem.what().is_empty() && !problem.remedy().is_empty());
        assert!(problems.place(problem).is_some(), "no place: {}", problem.what());
    }
    assert!(!problems.to_string().is_empty());
}

/// Descriptors of the file's words match its rules; each rule has a different number.
fn asked(config: &Config, text: &str) {
    let numbers: HashSet<_> = config.rules().map(|(_, rule)| rule.number()).collect();
    assert_eq!(numbers.len(), config.rules().count());
    assert!(numbers.iter().all(|number| *number < numbers.len()));
    let words: Vec<&str> = text.split([' ', '\n', ',', '{', '}']).collect();
    let pairs: Vec<(&str, &str)> = words.windows(2).map(|pair| (pair[0], pair[1])).collect();
    for name in config.domains() {
        let domain = config.domain(name).expect("a domain of the file");
        for entries in pairs.chunks(ENTRIES) {
            for count in 1..=entries.len() {
                let entries = || entries[..count].iter().copied();
                let Some(found) = domain.find(entries()) else { continue };
                assert!(numbers.contains(&found.rule().number()));
                assert!(found.subject(name, entries()).is_ok());
            }
        }
    }
}

/// The import is a policy file, unless it is empty.
fn imported(found: &Imported) {
    if found.policies.contains("[[policies]]") {
        let read = Policies::parse(&found.policies, Format::Toml);
        let wrong = |problems: &Problems| problems.iter().any(|it| it.level() == Level::Error);
        assert!(!read.as_ref().is_err_and(wrong), "{read:?}: {}", found.policies);
    }
}
