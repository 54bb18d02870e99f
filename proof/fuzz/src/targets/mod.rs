//! The targets, each a function of the bytes that somebody sent.

pub(crate) mod envoy;
pub(crate) mod identity;
pub(crate) mod notation;
pub(crate) mod policy;
pub(crate) mod question;
pub(crate) mod receipt;
pub(crate) mod redis;
pub(crate) mod reply;
pub(crate) mod resp;
pub(crate) mod snapshot;

/// One line of an access log: an event has a client and a time that a store takes.
pub(crate) fn log_line(line: &[u8]) {
    tollgate_logs::fuzz_line(line);
}

/// The bytes as text; other bytes belong to another target.
fn text(data: &[u8]) -> &str {
    core::str::from_utf8(data).unwrap_or_default()
}
