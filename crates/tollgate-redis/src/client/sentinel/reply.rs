//! The replies of sentinels.

use redis::Value;

use crate::options::Endpoint;

pub(super) fn is_unknown_name(details: &str) -> bool {
    details.to_ascii_lowercase().contains("no such master")
}

/// Reads the fields of `SENTINEL MASTER`, and an address: where the primary is, and its epoch.
pub(super) fn named(fields: &[Value], address: Value) -> Option<(Endpoint, u64)> {
    let epoch = field(fields, "config-epoch")?.parse().ok()?;
    let Value::Array(address) = address else { return None };
    let [host, port] = &address[..] else { return None };
    Some((endpoint(text(host)?, &text(port)?)?, epoch))
}

/// The addresses in a reply to `SENTINEL SENTINELS`, which some users may not ask.
pub(super) fn announced(others: Value) -> Vec<Endpoint> {
    let Value::Array(others) = others else { return Vec::new() };
    let read = |other: &Value| {
        let Value::Array(fields) = other else { return None };
        let host = field(fields, "ip")?;
        // One that has not heard of its address yet.
        let is_address = !matches!(&*host, "" | "?" | "0.0.0.0" | "::");
        endpoint(host, &field(fields, "port")?).filter(|_| is_address)
    };
    others.iter().filter_map(read).collect()
}

/// A field of a list of names, each with its value after it.
pub(super) fn field(fields: &[Value], name: &str) -> Option<String> {
    let mut pairs = fields.chunks_exact(2).filter_map(|pair| match pair {
        [known, value] => Some((text(known)?, value)),
        _ => None,
    });
    text(pairs.find(|(known, _)| known == name)?.1)
}

pub(super) fn endpoint(host: String, port: &str) -> Option<Endpoint> {
    let port = port.parse().ok().filter(|port| *port > 0)?;
    Some(Endpoint::new(host, port))
}

pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    }
}
