//! A Redis at a clock that the test drives: for handwritten patterns, and for scripts of ours.

use std::collections::HashMap;

use tollgate::engine::Mode;
use tollgate::{LimitSet, Subject};
use tollgate_redis::Keys;
use tollgate_redis::compose::{Check, Clock, Parts};
use tollgate_testbed::{Client, RedisServer};

/// The beginning of time here: a full hour.
pub(super) const START_US: u64 = 1_699_999_200_000_000;

/// A real Redis, and when the keys of patterns expire by the driven clock.
pub(super) struct Driven {
    client: Client,
    expire_at_us: HashMap<String, u64>,
    /// The SHA1 of each text that was loaded.
    loaded: HashMap<String, String>,
    /// The SHA1 of each script of ours and its keys, by its question.
    composed: HashMap<String, (String, Vec<String>)>,
}

/// The answer of a check of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    pub(super) is_admitted: bool,
    /// The longest wait of its limits; -1 for never.
    pub(super) wait_us: i64,
}

impl Driven {
    pub(super) fn new(server: &RedisServer) -> Self {
        let (expire_at_us, loaded, composed) = <_>::default();
        Self { client: server.client().unwrap(), expire_at_us, loaded, composed }
    }

    /// Whether a pattern admits at this time.
    pub(super) fn pattern(
        &mut self,
        pattern: &str,
        at_us: u64,
        keys: &[&str],
        args: &[&str],
    ) -> bool {
        let text = format!(
            "local function pattern(KEYS, ARGV, TIME)\n{pattern}end\n{}",
            include_str!("driven.lua")
        );
        let sha = self.load(text);
        let left = |key: &&str| match self.expire_at_us.get(*key) {
            None => "-1".to_owned(),
            Some(at) => at.saturating_sub(at_us).div_ceil(1_000).to_string(),
        };
        let mut words = vec!["EVALSHA".to_owned(), sha, keys.len().to_string()];
        words.extend(keys.iter().map(|key| (*key).to_owned()));
        words.push(at_us.to_string());
        words.extend(keys.iter().map(left));
        words.extend(args.iter().map(|arg| (*arg).to_owned()));
        let answer = self.numbers(&words);
        for (key, left_ms) in keys.iter().zip(&answer[1..]) {
            match u64::try_from(*left_ms) {
                Ok(ms) => self.expire_at_us.insert((*key).to_owned(), at_us + ms * 1_000),
                Err(_) => self.expire_at_us.remove(*key),
            };
        }
        answer[0] == 1
    }

    /// Asks the limits of subjects with a script of ours at this time.
    pub(super) fn tollgate(
        &mut self,
        subjects: &[(&str, &LimitSet)],
        cost: u64,
        at_us: u64,
    ) -> Answer {
        let question = format!("{subjects:?}");
        let (sha, keys) = match self.composed.get(&question) {
            Some(known) => known.clone(),
            None => {
                let composed = self.compose(subjects);
                self.composed.insert(question, composed.clone());
                composed
            }
        };
        let mut words = vec!["EVALSHA".to_owned(), sha, keys.len().to_string()];
        words.extend(keys);
        words.extend([cost.to_string(), "0".to_owned(), at_us.to_string()]);
        let answer = self.numbers(&words);
        let limits = subjects.iter().map(|(_, set)| set.limits().len()).sum();
        let waits = answer[3..].chunks(3).take(limits).map(|limit| limit[1]);
        let wait_us =
            waits.fold(0, |most, wait| if most < 0 || wait < 0 { -1 } else { most.max(wait) });
        Answer { is_admitted: answer[1] > 0, wait_us }
    }

    /// Loads the script for these subjects: its SHA1, and its keys.
    fn compose(&mut self, subjects: &[(&str, &LimitSet)]) -> (String, Vec<String>) {
        let mut check = Check::new(Mode::Whole);
        check.clock = Clock::Given;
        let sets: Vec<&LimitSet> = subjects.iter().map(|(_, set)| *set).collect();
        let script = check.compose(&sets, &Parts::default()).unwrap();
        let mut keys = Vec::new();
        for (subject, set) in subjects {
            let subject = Subject::literal(subject).unwrap();
            keys.extend(Keys::for_check(&Keys::new().state(&subject, set), set));
        }
        (self.load(script.text().to_owned()), keys)
    }

    /// The SHA1 of a script, which the server then has.
    fn load(&mut self, text: String) -> String {
        if let Some(sha) = self.loaded.get(&text) {
            return sha.clone();
        }
        let load = [&b"SCRIPT"[..], b"LOAD", text.as_bytes()];
        let sha = self.client.command(&load).unwrap().text().unwrap();
        self.loaded.insert(text, sha.clone());
        sha
    }

    /// The reply to a command.
    pub(super) fn reply(&mut self, words: &[&str]) -> Option<i64> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.client.command(&words).unwrap().int()
    }

    fn numbers(&mut self, words: &[String]) -> Vec<i64> {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let reply = self.client.command(&words).unwrap();
        let numbers: Option<Vec<i64>> =
            reply.items().iter().map(tollgate_testbed::Reply::int).collect();
        numbers.filter(|numbers| !numbers.is_empty()).unwrap_or_else(|| panic!("{reply:?}"))
    }
}
