//! Which node of a cluster owns which slot, as a node says it.

use std::collections::BTreeSet;

use redis::Value;

use crate::client::key_slot::SLOTS;
use crate::options::Endpoint;

/// No node owns the slot.
pub(super) const NOBODY: u16 = u16::MAX;

/// The reply to `CLUSTER SLOTS`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct View {
    /// The primaries, as they are announced.
    pub(super) primaries: Vec<Endpoint>,
    /// The place in `primaries` of each slot's owner, or [`NOBODY`].
    pub(super) owners: Box<[u16]>,
    /// The identities of all nodes, replicas included.
    pub(super) ids: BTreeSet<Vec<u8>>,
}

impl View {
    /// Reads a reply. `asked` is the host of the node that sent it: a node that does not know its
    /// own address leaves it out. `None` for a reply of another form.
    pub(super) fn read(reply: &Value, asked: &str) -> Option<Self> {
        let Value::Array(ranges) = reply else { return None };
        let mut view = Self {
            primaries: Vec::new(),
            owners: vec![NOBODY; usize::from(SLOTS)].into(),
            ids: BTreeSet::new(),
        };
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), nodes @ ..] = &range[..] else { return None };
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            let mut primary = None;
            for node in nodes {
                let (endpoint, id) = read_node(node, asked)?;
                view.ids.insert(id);
                primary.get_or_insert(endpoint);
            }
            let place = view.place(primary?)?;
            view.owners.get_mut(first..=last)?.fill(place);
        }
        Some(view)
    }

    /// The number of slots that have an owner.
    pub(super) fn covered(&self) -> usize {
        self.owners.iter().filter(|owner| **owner != NOBODY).count()
    }

    fn place(&mut self, primary: Endpoint) -> Option<u16> {
        let known = self.primaries.iter().position(|other| *other == primary);
        let place = known.unwrap_or(self.primaries.len());
        if known.is_none() {
            self.primaries.push(primary);
        }
        u16::try_from(place).ok().filter(|place| *place != NOBODY)
    }
}

/// Reads `[HOST, PORT, ID, ...]`.
fn read_node(node: &Value, asked: &str) -> Option<(Endpoint, Vec<u8>)> {
    let Value::Array(node) = node else { return None };
    let [host, Value::Int(port), rest @ ..] = &node[..] else { return None };
    let host = match host {
        // The node does not know its address or name: it is where it was asked.
        Value::Nil => asked.to_owned(),
        Value::BulkString(host) if host.is_empty() || host == b"?" => asked.to_owned(),
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        _ => return None,
    };
    let port = u16::try_from(*port).ok().filter(|port| *port > 0)?;
    let id = match rest.first() {
        Some(Value::BulkString(id)) => id.clone(),
        // Redis before 4 has none.
        _ => format!("{host}:{port}").into_bytes(),
    };
    Some((Endpoint::new(host, port), id))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn node(host: Value, port: i64, id: &str) -> Value {
        Value::Array(vec![host, Value::Int(port), text(id), Value::Array(Vec::new())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let mut range = vec![Value::Int(first), Value::Int(last)];
        range.extend(nodes);
        Value::Array(range)
    }

    #[test]
    fn ranges_and_replicas_are_read() {
        let (a, b) = (node(text("10.0.0.1"), 1, "a"), node(text("10.0.0.2"), 2, "b"));
        let reply = Value::Array(vec![
            range(0, 99, vec![a.clone(), node(text("10.0.0.3"), 3, "c")]),
            range(100, 199, vec![b]),
            range(300, 16_383, vec![a]),
        ]);
        let view = View::read(&reply, "asked").unwrap();
        let expected = [Endpoint::new("10.0.0.1", 1), Endpoint::new("10.0.0.2", 2)];
        assert_eq!(view.primaries, expected);
        let at = |slot: usize| view.owners[slot];
        assert_eq!([at(0), at(99), at(100), at(199), at(200), at(300)], [0, 0, 1, 1, NOBODY, 0]);
        assert_eq!(view.covered(), 16_284);
        assert_eq!(view.ids.len(), 3);
    }

    #[test]
    fn a_node_without_an_address_is_where_it_was_asked() {
        for host in [Value::Nil, text(""), text("?")] {
            let reply = Value::Array(vec![range(0, 16_383, vec![node(host, 7, "a")])]);
            let view = View::read(&reply, "asked").unwrap();
            assert_eq!(view.primaries, [Endpoint::new("asked", 7)]);
        }
    }

    #[test]
    fn other_replies_are_refused() {
        let one = || vec![node(text("h"), 7, "a")];
        for reply in [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(0, 16_384, one())]),
            Value::Array(vec![range(-1, 5, one())]),
            Value::Array(vec![range(9, 5, one())]),
            Value::Array(vec![range(0, 5, Vec::new())]),
            Value::Array(vec![range(0, 5, vec![node(text("h"), 0, "a")])]),
            Value::Array(vec![range(0, 5, vec![node(Value::Int(3), 7, "a")])]),
        ] {
            assert_eq!(View::read(&reply, "asked"), None, "{reply:?}");
        }
        assert_eq!(View::read(&Value::Array(Vec::new()), "asked").unwrap().covered(), 0);
    }
}
