//! The commands that a user needs permission for.

use crate::key::{KeyPrefix, PREFIX};

/// The pattern of every key that is written in an environment, for a server's ACL.
#[must_use]
pub fn key_pattern(prefix: &KeyPrefix) -> String {
    format!("{prefix}{PREFIX}:*")
}

/// The commands that a user needs permission for: each as an ACL names it, and an example call for
/// the server's permission check, in which `KEY` is a placeholder. Both the remedy and the check
/// use this one list. Other clients that may call the same scripts begin with `hello` and `client`.
pub const COMMANDS: [(&str, &str); 28] = [
    ("evalsha", "evalsha 0 1 KEY"),
    ("eval", "eval 0 1 KEY"),
    ("script|load", "script load 0"),
    ("time", "time"),
    ("get", "get KEY"),
    ("set", "set KEY 0"),
    ("del", "del KEY"),
    ("exists", "exists KEY"),
    ("type", "type KEY"),
    ("pttl", "pttl KEY"),
    ("pexpire", "pexpire KEY 1"),
    ("lrange", "lrange KEY 0 0"),
    ("lindex", "lindex KEY 0"),
    ("llen", "llen KEY"),
    ("lset", "lset KEY 0 0"),
    ("ltrim", "ltrim KEY 0 0"),
    ("rpush", "rpush KEY 0"),
    ("hget", "hget KEY 0"),
    ("hgetall", "hgetall KEY"),
    ("hset", "hset KEY 0 0"),
    ("hdel", "hdel KEY 0"),
    ("ping", "ping"),
    ("hello", "hello"),
    ("client|setinfo", "client setinfo lib-name 0"),
    ("client|setname", "client setname 0"),
    ("select", "select 0"),
    ("auth", "auth 0"),
    ("info", "info"),
];

/// What a user of a cluster needs besides, as [`COMMANDS`].
pub(super) const OF_CLUSTERS: &[(&str, &str)] =
    &[("cluster|slots", "cluster slots"), ("asking", "asking")];

/// What a user of servers under sentinels needs besides, as [`COMMANDS`].
pub(super) const OF_SENTINELS: &[(&str, &str)] = &[("role", "role")];
