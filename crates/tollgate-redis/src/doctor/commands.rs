//! The commands that a user needs permission for.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use tollgate::engine::Mode;
use tollgate::{LimitSet, Strategy};

use crate::compose::{Check, Clock, HoldScripts, Parts, ReplyFormat};
use crate::compose::{adjust, charge, inspect, refund, reset, swap};
use crate::key::{KeyPrefix, PREFIX};
use crate::notices::Scripts;
use crate::script::Script;

/// The pattern of every key that is written in an environment, for a server's ACL.
#[must_use]
pub fn key_pattern(prefix: &KeyPrefix) -> String {
    format!("{prefix}{PREFIX}:*")
}

/// A command that a user needs permission for: its name in an ACL, and an example call for the
/// server's permission check, in which `KEY` is a placeholder.
pub(super) type Command = (&'static str, &'static str);

/// The commands that a connection needs beside its scripts. Other clients that may call the same
/// scripts begin with `hello` and `client`.
const OF_CONNECTIONS: [Command; 11] = [
    ("evalsha", "evalsha 0 1 KEY"),
    ("eval", "eval 0 1 KEY"),
    ("script|load", "script load 0"),
    ("ping", "ping"),
    ("hello", "hello"),
    ("client|setinfo", "client setinfo lib-name 0"),
    ("client|setname", "client setname 0"),
    ("select", "select 0"),
    ("auth", "auth 0"),
    ("info", "info"),
    ("time", "time"),
];

/// The commands that a user of a cluster needs besides, as in [`commands`].
pub(super) const OF_CLUSTERS: &[Command] =
    &[("cluster|slots", "cluster slots"), ("cluster|info", "cluster info"), ("asking", "asking")];

/// The commands that a user of servers under sentinels needs besides, as in [`commands`].
pub(super) const OF_SENTINELS: &[Command] = &[("role", "role")];

/// The commands that a user needs permission for: those of a connection, and those that a script
/// calls. Both the remedy and the check use this one list.
pub(super) fn commands() -> &'static [Command] {
    static ALL: LazyLock<Vec<Command>> = LazyLock::new(|| {
        let mut all = OF_CONNECTIONS.to_vec();
        for name in called(&scripts()) {
            if all.iter().all(|(known, _)| *known != name) {
                // Made once, and needed as long as the program runs.
                let call: &'static str = format!("{name} KEY").leak();
                all.push((&call[..name.len()], call));
            }
        }
        all
    });
    &ALL
}

/// The commands that some scripts call.
fn called(scripts: &[Script]) -> BTreeSet<String> {
    scripts.iter().flat_map(Script::commands).collect()
}

/// Scripts that call whatever any script of a store calls.
fn scripts() -> Vec<Script> {
    let (parts, clock) = (Parts::default(), Clock::Server);
    let mut scripts = vec![
        refund(clock, &parts),
        adjust(clock, &parts),
        charge(clock, &parts),
        reset(clock, &parts),
        inspect(clock, &parts),
        swap(&parts),
    ];
    let holds = HoldScripts::all(clock, &parts);
    scripts.extend([holds.among, holds.settle, holds.renew]);
    let Scripts { read, post, withdraw } = Scripts::new(clock, &parts);
    scripts.extend([read, post, withdraw]);
    // Some strategies are of no rate.
    let rates = Strategy::ALL.iter().map(|strategy| format!("{strategy}: 5/m via {strategy}"));
    let mut texts: Vec<String> = rates.filter(|text| text.parse::<LimitSet>().is_ok()).collect();
    texts.push(texts.join(", "));
    let check = Check { reply: ReplyFormat::Remembered, ..Check::new(Mode::Whole) };
    for set in texts.iter().filter_map(|text| text.parse::<LimitSet>().ok()) {
        scripts.extend(check.compose(&[&set], &parts));
    }
    scripts
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{commands, scripts};
    use crate::script;

    /// The texts of all scripts: the files, and what Rust writes between them.
    fn texts() -> Vec<String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut texts: Vec<String> =
            scripts().iter().map(|script| script.text().to_owned()).collect();
        for folder in ["compose", "compose/check", "notices"] {
            for file in fs::read_dir(source.join(folder)).unwrap() {
                let path = file.unwrap().path();
                if path.is_file() {
                    texts.push(fs::read_to_string(path).unwrap());
                }
            }
        }
        texts
    }

    #[test]
    fn what_any_script_calls_is_listed() {
        let listed: Vec<&str> = commands().iter().map(|(name, _)| *name).collect();
        let (mut calls, texts) = (0, texts());
        for text in &texts {
            for call in ["redis.call(", "redis.pcall("] {
                for (at, _) in text.match_indices(call) {
                    let rest = &text[at + call.len()..];
                    assert!(rest.starts_with('\''), "a command that is not text: {rest:.40}");
                    calls += 1;
                }
            }
            for name in script::commands(text) {
                assert!(listed.contains(&name.as_str()), "{name}");
            }
        }
        assert!(calls > 200, "{calls} calls in {} texts", texts.len());
    }
}
