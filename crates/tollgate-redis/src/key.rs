//! The names of keys, version 1. `docs/keys.md` is the specification.

use core::fmt;

use tollgate::strategy::Shape;
use tollgate::{Counted, Limit, LimitSet, Subject};

use crate::compose::{has_state, in_state_order};

/// The beginning of every key, after the prefix of its environment.
pub const PREFIX: &str = "tg1";

/// The most bytes of a prefix.
const MAX_PREFIX_BYTES: usize = 64;

/// The prefix of all keys of an environment, so that several environments may use one server. Two
/// prefixes share nothing. The default is not a prefix.
///
/// ```
/// use tollgate_redis::{KeyPrefix, Keys};
/// let limits = "10/s via gcra".parse()?;
/// let subject = tollgate::Subject::literal("user:42")?;
/// let keys = Keys::new().within(&KeyPrefix::new("staging").unwrap());
/// assert_eq!(keys.state(&subject, &limits), "staging:tg1:{user:42}:gcra/1s");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyPrefix(Option<Box<str>>);

impl KeyPrefix {
    /// A prefix of 1 to 64 letters, digits, `.`, `_` and `-`. It does not begin as keys without a
    /// prefix do: with `tg` and a digit, or `tgq` and a digit. The text form ends with a colon:
    /// `staging:`.
    ///
    /// # Errors
    /// The correction, for another text. The text itself is not shown, since it may be part of a
    /// URL with a password.
    pub fn new(prefix: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=MAX_PREFIX_BYTES).contains(&prefix.len()) || !prefix.bytes().all(is_plain) {
            return Err(format!(
                "`prefix` takes 1 to {MAX_PREFIX_BYTES} letters (a-z, A-Z), digits, `.`, `_` and \
                 `-`, as in `prefix=staging`"
            ));
        }
        let version = prefix.strip_prefix("tg").map(|rest| rest.strip_prefix('q').unwrap_or(rest));
        if version.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
            return Err("`prefix` does not begin with `tg1`, `tgq1` or another digit there: keys \
                        without a prefix begin so; write another one, e.g. `prefix=staging`"
                .to_owned());
        }
        Ok(Self(Some(prefix.into())))
    }

    /// The prefix, without the colon; none by default.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// `staging:`, or nothing: the beginning of all keys.
impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().map_or(Ok(()), |name| write!(f, "{name}:"))
    }
}

/// Names the keys of counts.
///
/// ```
/// use tollgate_redis::Keys;
/// let limits = "10/s via gcra".parse()?;
/// let subject = tollgate::Subject::literal("user:42")?;
/// assert_eq!(Keys::new().state(&subject, &limits), "tg1:{user:42}:gcra/1s");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keys {
    prefix: String,
    is_for_run: bool,
    shard: Option<String>,
}

impl Default for Keys {
    fn default() -> Self {
        Self::new()
    }
}

impl Keys {
    /// The keys of version 1.
    #[must_use]
    pub fn new() -> Self {
        Self { prefix: PREFIX.to_owned(), is_for_run: false, shard: None }
    }

    /// Separate keys for a run, which no other count shares.
    #[must_use]
    pub fn for_run(run: &str) -> Self {
        Self { prefix: format!("{PREFIX}-{}", escape(run)), is_for_run: true, shard: None }
    }

    /// The same keys in an environment.
    #[must_use]
    pub fn within(self, environment: &KeyPrefix) -> Self {
        Self { prefix: format!("{environment}{}", self.prefix), ..self }
    }

    /// Whether the keys belong to a run ([`Keys::for_run`]).
    pub(crate) fn is_for_run(&self) -> bool {
        self.is_for_run
    }

    /// Uses the value of `shard` as hash tag wherever an ask names no shard itself
    /// ([`tollgate::Ask::shard`]). All subjects of one ask are then stored in one slot of a
    /// cluster.
    #[must_use]
    pub fn sharded(self, shard: &str) -> Self {
        Self { shard: Some(escape(shard)), ..self }
    }

    /// True when all counts that name no shard lie in one slot ([`Keys::sharded`]).
    pub(crate) fn is_sharded(&self) -> bool {
        self.shard.is_some()
    }

    /// The prefix of all these keys.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of the notices ([`tollgate::operation::Operations::notices`]).
    #[must_use]
    pub fn notices(&self) -> String {
        format!("{}:notices", self.prefix)
    }

    /// The key of a subject's state under a set of limits.
    #[must_use]
    pub fn state(&self, subject: &Subject, limits: &LimitSet) -> String {
        self.for_count(Counted::new(subject, limits))
    }

    /// The key of a count's state: as [`Keys::state`], in the shard of the count.
    ///
    /// ```
    /// use tollgate::{Counted, Subject};
    /// use tollgate_redis::Keys;
    /// let limits = "10/s via gcra".parse()?;
    /// let subject = Subject::parse("tenant:12,user:7")?;
    /// let counted = Counted::new(&subject, &limits).in_shard(Some("12"));
    /// assert_eq!(Keys::new().for_count(counted), "tg1:{12}{tenant:12,user:7}:gcra/1s");
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    #[must_use]
    pub fn for_count(&self, counted: Counted<'_>) -> String {
        let mut key = String::new();
        self.write(&mut key, counted);
        key
    }

    /// Appends [`Keys::for_count`] to a reused text.
    pub(crate) fn write(&self, key: &mut String, counted: Counted<'_>) {
        let (subject, identity) = (counted.subject.as_str(), counted.limits.identity());
        key.reserve(self.prefix.len() + subject.len() + identity.len() + 64);
        key.push_str(&self.prefix);
        key.push(':');
        match (counted.shard, &self.shard) {
            (Some(shard), _) => {
                key.push('{');
                write_escaped(key, shard);
                key.push('}');
            }
            (None, Some(shard)) => {
                key.push('{');
                key.push_str(shard);
                key.push('}');
            }
            (None, None) => {}
        }
        key.push('{');
        write_escaped(key, subject);
        key.push_str("}:");
        key.push_str(identity);
    }

    /// The keys of the logs beside `state`, one for each limit in the order of their identities. In
    /// a set of one limit the log uses the key of the state.
    #[must_use]
    pub fn logs(state: &str, limits: &LimitSet) -> Vec<String> {
        let limits = in_state_order(limits);
        let single = limits.len() == 1;
        limits.iter().map(|(_, limit)| format!("{state}{}", log_suffix(limit, single))).collect()
    }

    /// The keys of a check of this set, in the order in which its script takes them.
    #[must_use]
    pub fn for_check(state: &str, limits: &LimitSet) -> Vec<String> {
        check_suffixes(limits).iter().map(|suffix| format!("{state}{suffix}")).collect()
    }

    /// The key that marks a charge as refunded.
    #[must_use]
    pub fn mark(state: &str, number: u64) -> String {
        format!("{state}!{number}")
    }

    /// The key with the time of the count's last reset.
    #[must_use]
    pub fn reset(state: &str) -> String {
        format!("{state}!reset")
    }

    /// The key of the request ids that a count remembers; the older half has a `-` after it.
    #[must_use]
    pub fn requests(state: &str) -> String {
        format!("{state}?")
    }
}

/// The suffix of a log's key after that of the state.
fn log_suffix(limit: &Limit, single: bool) -> String {
    if single { String::new() } else { format!("~{}", limit.identity()) }
}

/// The keys of the logs that a count may have beside its key, which names its limits.
pub(crate) fn logs_beside(state: &[u8]) -> Vec<Vec<u8>> {
    let Some(end) = state.iter().rposition(|byte| b"}>".contains(byte)) else { return Vec::new() };
    let set = state.get(end + 1..).unwrap_or_default();
    let set = set.strip_prefix(b":").unwrap_or(set);
    let identities: Vec<&[u8]> = set.split(|byte| *byte == b',').collect();
    match &identities[..] {
        // A log of a set of one limit lies at the key itself.
        [_] => Vec::new(),
        each => each.iter().map(|identity| [state, b"~", identity].concat()).collect(),
    }
}

/// The suffixes of a check's keys after that of the state, starting with the state if there is one.
pub(crate) fn check_suffixes(limits: &LimitSet) -> Vec<String> {
    let single = limits.limits().len() == 1;
    let state = has_state(limits).then(String::new);
    let each = in_state_order(limits).into_iter().map(|(_, limit)| limit);
    let logs = each.filter(|limit| limit.shape() == Shape::Log);
    state.into_iter().chain(logs.map(|limit| log_suffix(limit, single))).collect()
}

/// Escapes text for a key: braces, blanks and everything but printable ASCII become `%XX`. In a
/// subject's written form only braces need this, and each percent sign in it starts its own escape.
fn escape(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    write_escaped(&mut key, text);
    key
}

fn write_escaped(key: &mut String, text: &str) {
    use std::fmt::Write as _;
    let is_plain = |byte: u8| !matches!(byte, b'{' | b'}' | 0..=b' ' | 0x7f..);
    if text.bytes().all(is_plain) {
        key.push_str(text);
        return;
    }
    for byte in text.bytes() {
        if is_plain(byte) {
            key.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(key, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // tests may
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_count_says_where_its_logs_may_lie() {
        let sets = ["5/10s", "5/10s, 30/m", "a: 5/10s, b.c-d_e: 9/h via gcra, 3 at once hold 30s"];
        let subjects = ["user:42", "user:a}:b{c", "user:x>y%2Cz", "tenant:12,user:7"];
        for (set, subject) in sets.iter().flat_map(|set| subjects.map(|it| (set, it))) {
            let (set, subject) = (set.parse::<LimitSet>().unwrap(), Subject::literal(subject));
            for limits in [set.clone(), set.clone().in_policy("api").unwrap()] {
                for keys in [Keys::new(), Keys::new().sharded("a}>b")] {
                    let state = keys.state(subject.as_ref().unwrap(), &limits);
                    let found = logs_beside(state.as_bytes());
                    let logs = Keys::logs(&state, &limits);
                    let beside = logs.into_iter().filter(|log| *log != state);
                    let wanted: Vec<_> = beside.map(String::into_bytes).collect();
                    assert_eq!(found, wanted, "{state}");
                }
            }
        }
        assert!(logs_beside(Keys::new().notices().as_bytes()).is_empty());
    }
}
