//! A Lua script and its SHA1 name in Redis.

/// A script with its SHA1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    text: String,
    sha: String,
}

impl Script {
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

    /// The argument of EVALSHA: 40 hexadecimal digits.
    #[must_use]
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

#[cfg(test)]
mod tests {
    use super::Script;

    #[test]
    fn the_sha_is_the_one_redis_computes() {
        // redis-cli SCRIPT LOAD "return 1"
        let script = Script::new("return 1".to_owned());
        assert_eq!(script.sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
