//! Which node of a cluster owns which slot, as a node says it.

use std::collections::BTreeSet;
use std::iter::once;

use crate::command_reply::CommandReply;
use crate::options::Endpoint;
use crate::slots::{SLOTS, SlotRange};

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
    pub(super) ids: BTreeSet<String>,
}

impl View {
    /// Reads a reply. `asked` is the host of the node that sent it: a node that does not know its
    /// own address leaves it out. `None` for a reply of another form, or with a primary that cannot
    /// be reached by the protocol of the question.
    pub(super) fn read(reply: &CommandReply, asked: &str) -> Option<Self> {
        let mut view = Self {
            primaries: Vec::new(),
            owners: vec![NOBODY; usize::from(SLOTS)].into(),
            ids: BTreeSet::new(),
        };
        for range in SlotRange::read_all(reply)? {
            let primary = Some(range.primary.endpoint(asked)).filter(|primary| primary.port > 0);
            let place = view.place(primary?)?;
            view.owners.get_mut(range.slots())?.fill(place);
            view.ids.extend(once(range.primary).chain(range.replicas).map(|node| node.id));
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

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;

    fn text(text: &str) -> CommandReply {
        CommandReply::Text(text.to_owned())
    }

    fn node(host: CommandReply, port: i64, id: &str) -> CommandReply {
        CommandReply::List(vec![
            host,
            CommandReply::Int(port),
            text(id),
            CommandReply::List(Vec::new()),
        ])
    }

    fn range(first: i64, last: i64, nodes: Vec<CommandReply>) -> CommandReply {
        let mut range = vec![CommandReply::Int(first), CommandReply::Int(last)];
        range.extend(nodes);
        CommandReply::List(range)
    }

    #[test]
    fn ranges_and_replicas_are_read() {
        let (a, b) = (node(text("10.0.0.1"), 1, "a"), node(text("10.0.0.2"), 2, "b"));
        let reply = CommandReply::List(vec![
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
        for host in [CommandReply::Nil, text(""), text("?")] {
            let reply = CommandReply::List(vec![range(0, 16_383, vec![node(host, 7, "a")])]);
            let view = View::read(&reply, "asked").unwrap();
            assert_eq!(view.primaries, [Endpoint::new("asked", 7)]);
        }
    }

    #[test]
    fn other_replies_are_refused() {
        let one = || vec![node(text("h"), 7, "a")];
        for reply in [
            CommandReply::Nil,
            CommandReply::List(vec![CommandReply::Int(1)]),
            CommandReply::List(vec![range(0, 16_384, one())]),
            CommandReply::List(vec![range(-1, 5, one())]),
            CommandReply::List(vec![range(9, 5, one())]),
            CommandReply::List(vec![range(0, 5, Vec::new())]),
            CommandReply::List(vec![range(0, 5, vec![node(text("h"), 0, "a")])]),
            CommandReply::List(vec![range(0, 5, vec![node(CommandReply::Int(3), 7, "a")])]),
        ] {
            assert_eq!(View::read(&reply, "asked"), None, "{reply:?}");
        }
        assert_eq!(View::read(&CommandReply::List(Vec::new()), "asked").unwrap().covered(), 0);
    }
}
