//! A Lua script and its SHA1 name in Redis.

use std::collections::BTreeSet;

/// A script with its SHA1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    text: String,
    sha: String,
}

impl Script {
    /// The Lua functions `may`, whether some commands may be called, and `refusal`, an error that
    /// names what may not be, or nothing. For [`Script::with_rights`].
    pub const RIGHTS: &str = include_str!("compose/rights.lua");

    /// The Lua function `failure`: what `pcall` caught, as the error of a reply, with its kind. For
    /// scripts that answer several questions.
    pub const FAILURE: &str = include_str!("compose/failure.lua");

    /// A script with this text.
    #[must_use]
    pub fn new(text: String) -> Self {
        use sha1::Digest as _;
        let sha = sha1::Sha1::digest(text.as_bytes());
        Self { sha: sha.iter().map(|byte| format!("{byte:02x}")).collect(), text }
    }

    /// The script as a Lua function for use in another script: `local function NAME(KEYS, ARGV)`,
    /// which returns what the script would.
    #[must_use]
    pub fn function(&self, name: &str) -> String {
        let text = self.text.strip_prefix("#!lua\n").unwrap_or(&self.text);
        format!("local function {name}(KEYS, ARGV)\n{text}\nend\n")
    }

    /// The argument of EVAL.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The commands that it calls, as an ACL names them: `get`, `xinfo|stream`. Sorted, each once.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        commands(&self.text).into_iter().collect()
    }

    /// A script that can say what it may not call: `$RIGHTS` in its text, which contains
    /// [`Script::RIGHTS`], becomes the commands that the text calls, but for those that it can do
    /// without, and `$MAY` the question whether all of them may be called.
    #[must_use]
    pub fn with_rights(text: &str) -> Self {
        let names = needed(text);
        let each: Vec<String> = names.iter().map(|name| may(name)).collect();
        Self::new(text.replace("$RIGHTS", &names.join(" ")).replace("$MAY", &each.join(" and ")))
    }

    /// The commands that it calls and cannot do without, as [`Script::commands`].
    pub(crate) fn needed(&self) -> Vec<String> {
        needed(&self.text)
    }

    /// The argument of EVALSHA: 40 hexadecimal digits.
    #[must_use]
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

/// The commands that have subcommands, each with its own right.
const CONTAINERS: [&str; 2] = ["XGROUP", "XINFO"];

/// The commands that scripts try, and do without where the user lacks the right.
const OPTIONAL: [&str; 1] = ["publish"];

/// The commands that a Lua text calls, as an ACL names them, sorted: every `('NAME'` with a name in
/// capitals, with its subcommand where it has one.
pub(crate) fn commands(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, rest) in text.match_indices("('").map(|(at, mark)| text.split_at(at + mark.len())) {
        let Some((name, after)) = rest.split_once('\'').filter(|(name, _)| is_command(name)) else {
            continue;
        };
        let second = after.strip_prefix(", '").and_then(|rest| rest.split_once('\''));
        let name = match second.filter(|_| CONTAINERS.contains(&name)) {
            Some((second, _)) => format!("{name}|{second}"),
            None => name.to_owned(),
        };
        found.insert(name.to_ascii_lowercase());
    }
    found
}

fn needed(text: &str) -> Vec<String> {
    commands(text).into_iter().filter(|name| !OPTIONAL.contains(&name.as_str())).collect()
}

/// The question to Redis whether a command may be called, in Lua.
fn may(name: &str) -> String {
    let (name, sub) = name.split_once('|').unwrap_or((name, ""));
    let sub = if sub.is_empty() { "key".to_owned() } else { format!("'{sub}'") };
    format!("may('{name}', {sub}, key)")
}

fn is_command(name: &str) -> bool {
    name.len() > 2 && name.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::Script;

    #[test]
    fn the_commands_of_a_script_are_what_it_calls() {
        let text = "local a = redis.call('GET', KEYS[1])
            if string.find(a, 'NOGROUP') then redis.pcall('XINFO', 'STREAM', a) end
            return call('ZADD', a, call('TIME'))";
        let script = Script::new(text.to_owned());
        assert_eq!(script.commands(), ["get", "time", "xinfo|stream", "zadd"]);
    }

    #[test]
    fn the_sha_is_the_one_redis_computes() {
        // redis-cli SCRIPT LOAD "return 1"
        let script = Script::new("return 1".to_owned());
        assert_eq!(script.sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
