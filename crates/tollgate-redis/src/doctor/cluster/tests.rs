//! Faults that a cluster would have to be broken for: replies, and the judgement of them.

use super::view::Member;
use super::*;
use crate::doctor::facts::Facts;
use crate::doctor::finding::{Finding, Level};
use crate::doctor::nodes::Node;
use crate::slots::SLOTS;

fn text(text: &str) -> CommandReply {
    CommandReply::Text(text.to_owned())
}

fn node(host: CommandReply, port: i64, id: &str) -> CommandReply {
    CommandReply::List(vec![host, CommandReply::Int(port), text(id), CommandReply::List(vec![])])
}

fn range(first: i64, last: i64, nodes: &[CommandReply]) -> CommandReply {
    let slots = [CommandReply::Int(first), CommandReply::Int(last)];
    CommandReply::List([&slots, nodes].concat())
}

/// The slots of a, whose replica is c, then those of b.
fn slots(border: i64) -> Slots {
    let (a, c) = (node(text("10.0.0.1"), 1, "a"), node(text("10.0.0.3"), 3, "c"));
    let b = node(text("10.0.0.2"), 2, "b");
    let ranges = vec![range(0, border - 1, &[a, c]), range(border, 16_383, &[b])];
    Slots::read(&CommandReply::List(ranges)).unwrap()
}

/// The lines of `CLUSTER NODES` of the same, and of d, which has no slots.
const NODES: &str = "\
a 10.0.0.1:1@17001,host-a myself,master - 0 0 1 connected 0-99\n\
b 10.0.0.2:2@17002 master,fail - 0 0 2 disconnected 100-16383\n\
c 10.0.0.3:3@17003,,shard-id=1 slave a 0 0 1 connected\n\
d ::1:4@17004 slave,fail? b 0 0 2 connected\n\
e :0@0 master,noaddr - 0 0 3 disconnected\n\
f 10.0.0.6:6@17006 handshake - 0 0 0 connected\n\
?\n";

fn cluster(facts_of: impl Fn(&str) -> Result<Facts, String>) -> Cluster {
    let view = View { slots: slots(100), listed: Some(Listed::read(NODES)) };
    let with = |member: Member| {
        let seen = facts_of(&member.id).map(Box::new);
        let node = Node { name: member.name(), seen };
        (member, node)
    };
    let members = view.members("asked").into_iter().map(with).collect();
    let seeds = vec![Seed { name: "10.0.0.1:1".to_owned(), said: SeedAnswer::View(view.clone()) }];
    Cluster { seeds, view, members }
}

fn findings(cluster: &Cluster, id: &str) -> Vec<Finding> {
    let all = findings::diagnose(cluster, &Options::cluster([("10.0.0.1", 1)]));
    all.into_iter().filter(|finding| finding.id == id).collect()
}

#[test]
fn slots_without_an_owner_are_ranges() {
    let owner = || [node(text("h"), 7, "a")];
    let ranges = vec![range(0, 4, &owner()), range(6, 99, &owner()), range(300, 16_382, &owner())];
    let slots = Slots::read(&CommandReply::List(ranges)).unwrap();
    assert_eq!(slots.uncovered(), ["5", "100-299", "16383"]);
    assert_eq!(slots.covered(), usize::from(SLOTS) - 202);
    assert_eq!(Slots::default().uncovered(), ["0-16383"]);
    assert_eq!(Slots::read(&CommandReply::List(vec![])), Some(Slots::default()));
    assert_eq!(self::slots(100).differing(&self::slots(103)), 3);
}

#[test]
fn other_replies_are_refused() {
    let one = [node(text("h"), 7, "a")];
    for range in [
        CommandReply::Int(1),
        range(0, 16_384, &one),
        range(-1, 5, &one),
        range(9, 5, &one),
        range(0, 5, &[]),
        range(0, 5, &[node(CommandReply::Int(3), 7, "a")]),
        range(0, 5, &[node(text("h"), 70_000, "a")]),
    ] {
        assert_eq!(Slots::read(&CommandReply::List(vec![range.clone()])), None, "{range:?}");
    }
    assert_eq!(Slots::read(&CommandReply::Nil), None);
}

#[test]
fn a_node_without_an_address_is_where_it_was_asked() {
    for host in [CommandReply::Nil, text(""), text("?")] {
        let ranges = vec![range(0, 16_383, &[node(host, 7, "a")])];
        let slots = Slots::read(&CommandReply::List(ranges)).unwrap();
        let members = View { slots, listed: None }.members("asked");
        assert_eq!((members[0].name(), &*members[0].host), ("asked:7".to_owned(), ""));
    }
}

#[test]
fn the_nodes_of_both_replies_are_the_members() {
    let cluster = cluster(|_| Err("away".to_owned()));
    let seen: Vec<_> = cluster
        .members
        .iter()
        .map(|(m, _)| (m.name(), m.primary.clone().unwrap_or_default(), m.slots, m.is_failed))
        .collect();
    let expected = [
        ("10.0.0.1:1", "", 100, false),
        ("10.0.0.2:2", "", usize::from(SLOTS) - 100, true),
        ("10.0.0.3:3", "a", 0, false),
        // `fail?` is the opinion of one node; `fail` is that of most.
        ("[::1]:4", "b", 0, false),
        ("asked:0", "", 0, false),
    ];
    let expected =
        expected.map(|(name, of, slots, is)| (name.to_owned(), of.to_owned(), slots, is));
    assert_eq!(seen, expected);
    let what = "primaries: 2, replicas: 2, primaries without slots: 1: none is replaced";
    assert!(findings(&cluster, "nodes")[0].what.starts_with(what));
    let [announced] = &findings(&cluster, "announced")[..] else { panic!("one has no address") };
    assert_eq!((announced.level, &announced.nodes[..]), (Level::Failure, &["asked:0".into()][..]));
}

#[test]
fn views_that_differ_and_nodes_that_only_the_others_miss_are_named() {
    let cluster = cluster(|id| {
        let border = if id == "c" { 103 } else { 100 };
        let mut facts =
            Facts { slots: Some(slots(border)), id: Some(id.into()), ..Facts::default() };
        facts.info.insert("cluster_enabled".into(), "1".into());
        Ok(facts)
    });
    let found = findings(&cluster, "slots").remove(1);
    assert_eq!((found.level, &found.nodes[..]), (Level::Warning, &["10.0.0.3:3".into()][..]));
    assert!(found.what.starts_with("it sees other owners of 3 slots"), "{found:?}");
    let failed = findings(&cluster, "nodes").remove(1);
    assert!(failed.what.contains("take it for failed"), "{failed:?}");
    assert_eq!(failed.nodes, ["10.0.0.2:2"]);
    assert_eq!(findings(&cluster, "reach")[0].level, Level::Ok);
    // Both primaries have a replica that answers.
    assert_eq!(findings(&cluster, "replicas")[0].what, "each primary has a replica");
}
