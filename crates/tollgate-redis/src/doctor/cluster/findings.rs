//! Judges a cluster by the observations.

use std::time::Duration;

use super::view::{Cluster, Member, SeedAnswer};
use crate::doctor::facts::Facts;
use crate::doctor::finding::Finding;
use crate::doctor::nodes::{Node, by_setting, each, failover, listed, refused_at, timeout};
use crate::options::Options;
use crate::slots::SLOTS;

/// With fewer primaries the others are not a majority when one fails.
const PRIMARIES: usize = 3;

/// The most ranges of slots that a line names.
const MAX_RANGES: usize = 5;

/// The loss in a failover of a cluster.
const LOST: &str = "a primary that is cut off from the others goes on for up to \
                    cluster-node-timeout, and what it admits then is forgotten";

/// The findings about the whole, then those about each node.
pub(super) fn diagnose(cluster: &Cluster, options: &Options) -> Vec<Finding> {
    let nodes: Vec<Node> = cluster.members.iter().map(|(_, node)| node.clone()).collect();
    let mut findings = seeds(cluster, options);
    if !cluster.seeds.iter().any(|seed| matches!(seed.said, SeedAnswer::View(_))) {
        return findings;
    }
    findings.extend(members(cluster));
    findings.extend(announced(cluster));
    findings.extend(reach(cluster));
    findings.push(slots(cluster));
    findings.extend(other_owners(cluster));
    findings.extend(replicas(cluster));
    findings.extend(coverage(&nodes));
    findings.extend(timeouts(&nodes));
    findings.extend(failover(&nodes, LOST));
    findings.extend(each(&nodes));
    findings
}

/// The addresses of the URL. The problem of an address that is a node is reported for the node.
fn seeds(cluster: &Cluster, options: &Options) -> Vec<Finding> {
    let is_member = |name: &str| {
        let mut members = cluster.members.iter();
        members.any(|(member, _)| options.reachable(member.endpoint.clone()).to_string() == name)
    };
    let ids = cluster.view.ids();
    let mut findings = Vec::new();
    let mut same: usize = 0;
    for seed in &cluster.seeds {
        let name = seed.name.as_str();
        let found = match &seed.said {
            SeedAnswer::View(view) if view.ids().is_disjoint(&ids) && view.slots.covered() == 0 => {
                let what = "the URL names it, and it knows none of the cluster's nodes";
                Finding::warning("seeds", what).remedy("name nodes of the cluster")
            }
            SeedAnswer::View(view) if view.ids().is_disjoint(&ids) => {
                let what = "it is a node of another cluster than the first of the URL, so a count \
                            would be kept twice";
                Finding::failure("seeds", what).remedy("name nodes of one cluster")
            }
            SeedAnswer::View(_) => {
                same = same.saturating_add(1);
                continue;
            }
            SeedAnswer::NotACluster => Finding::failure("seeds", "it is not a node of a cluster")
                .remedy(format!(
                    "for one server write redis://{name}; a node has cluster-enabled yes"
                )),
            _ if is_member(name) => continue,
            SeedAnswer::Refused(why) => refused_at(name, why, &options.prefix),
            SeedAnswer::Unreachable(why) => {
                let what = format!("the URL names it, and it cannot be reached: {why}");
                Finding::warning("seeds", what).remedy("name nodes that are always there")
            }
        };
        findings.push(if found.nodes.is_empty() { found.about(name) } else { found });
    }
    if findings.is_empty() && same > 0 {
        let what = match same {
            1 => "an address of the URL leads to the cluster".to_owned(),
            same => format!("{same} addresses of the URL lead to the same cluster"),
        };
        findings.push(Finding::ok("seeds", what));
    }
    findings
}

/// How many nodes there are, and their view of each other.
fn members(cluster: &Cluster) -> Vec<Finding> {
    let members = || cluster.members.iter().map(|(member, _)| member);
    let primaries = members().filter(|member| member.slots > 0).count();
    let replicas = members().filter(|member| member.primary.is_some()).count();
    let others = cluster.members.len().saturating_sub(primaries).saturating_sub(replicas);
    let mut what = format!("primaries: {primaries}, replicas: {replicas}");
    if others > 0 {
        what.push_str(&format!(", primaries without slots: {others}"));
    }
    let mut findings = vec![if primaries < PRIMARIES && primaries > 0 {
        let what = format!("{what}: none is replaced when it fails, since most must agree to it");
        Finding::warning("nodes", what).remedy("have 3 primaries or more")
    } else {
        Finding::ok("nodes", what)
    }];
    if cluster.view.listed.is_none() {
        let what = "CLUSTER NODES is refused, so nodes that failed or have no slots cannot be seen";
        let remedy = "examine it once as a user with +cluster|nodes; checks do not need it";
        findings.push(Finding::warning("nodes", what).remedy(remedy));
    }
    let failed = |(member, node): &&(Member, Node)| member.is_failed && node.seen.is_ok();
    let failed: Vec<String> =
        cluster.members.iter().filter(failed).map(|(member, _)| member.name()).collect();
    if !failed.is_empty() {
        let what = "it answers, but the other nodes take it for failed";
        let remedy = "look whether the bus port (the port + 10000) is open between the nodes";
        let finding = Finding::warning("nodes", what).remedy(remedy);
        findings.push(Finding { nodes: failed, ..finding });
    }
    findings
}

/// Addresses that lead nowhere, or not to one node.
fn announced(cluster: &Cluster) -> Vec<Finding> {
    let remedy = "CONFIG SET cluster-announce-ip ADDRESS on it, and the same in its file";
    let judged = cluster.members.iter().filter_map(|(member, _)| {
        let found = match member.host.as_str() {
            _ if member.endpoint.port == 0 => {
                Finding::failure("announced", "the other nodes know no address of it")
            }
            "0.0.0.0" | "::" => Finding::failure(
                "announced",
                "it is announced as any address, which leads a client to its own machine",
            ),
            "" => Finding::warning(
                "announced",
                "it does not know its own address, so clients take the one they asked at",
            ),
            _ => return None,
        };
        Some(found.remedy(remedy).about(member.name()))
    });
    judged.collect()
}

/// Nodes that cannot be reached, and addresses at which another node answers.
fn reach(cluster: &Cluster) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (member, node) in &cluster.members {
        let name = member.name();
        let remedy = format!(
            "if it runs, have it announce another address (cluster-announce-ip), or say where it \
             is with ?reach={name}>HOST:PORT"
        );
        let found = match &node.seen {
            Err(why) if member.slots > 0 => Finding::failure(
                "reach",
                format!("it owns slots and cannot be reached ({why}): their subjects get errors"),
            ),
            Err(why) => Finding::warning(
                "reach",
                format!("it cannot be reached ({why}), so it could not take over"),
            ),
            Ok(facts) => match (&facts.id, facts.info.is_empty() || facts.is_cluster_node()) {
                (Some(id), _) if *id != member.id => {
                    Finding::failure("reach", format!("another node answers there: {id}"))
                }
                (_, false) => Finding::failure(
                    "reach",
                    "a server answers there that is not a node of a cluster",
                ),
                _ => continue,
            },
        };
        findings.push(found.remedy(remedy).about(name));
    }
    if findings.is_empty() && !cluster.members.is_empty() {
        findings.push(Finding::ok("reach", "each node is reached where it is announced"));
    }
    findings
}

fn slots(cluster: &Cluster) -> Finding {
    let uncovered = cluster.view.slots.uncovered();
    let failed = || {
        let members = cluster.members.iter().map(|(member, _)| member);
        members.filter(|member| member.is_failed && member.slots > 0)
    };
    let failed_slots: usize = failed().map(|member| member.slots).sum();
    if uncovered.is_empty() && failed_slots == 0 {
        return Finding::ok("slots", format!("all {SLOTS} slots have a primary"));
    }
    let (named, others) = uncovered.split_at(uncovered.len().min(MAX_RANGES));
    let more = match others.len() {
        0 => String::new(),
        others => format!(" and {others} more ranges"),
    };
    let seen = || cluster.members.iter().filter_map(|(_, node)| node.facts());
    let refuses = |facts: &Facts| facts.setting("cluster-require-full-coverage") == Some("yes");
    let cost = match seen().any(refuses) {
        true => "every check is refused (cluster-require-full-coverage yes)",
        false => "subjects whose slot is among them get errors",
    };
    if uncovered.is_empty() {
        let what = format!("{failed_slots} slots have a primary that failed: {cost}");
        let finding = Finding::failure("slots", what);
        let finding = finding.remedy("start it again, or let a replica take over");
        return Finding { nodes: failed().map(Member::name).collect(), ..finding };
    }
    let missing = usize::from(SLOTS).saturating_sub(cluster.view.slots.covered());
    let what = format!("{missing} slots have no primary ({}{more}): {cost}", named.join(", "));
    let at = cluster.members.first().map_or("HOST:PORT".to_owned(), |(member, _)| member.name());
    Finding::failure("slots", what).remedy(format!("redis-cli --cluster fix {at}"))
}

/// Nodes that see other owners of slots.
fn other_owners(cluster: &Cluster) -> Vec<Finding> {
    let views = cluster.members.iter().filter_map(|(member, node)| {
        let differing = node.facts()?.slots.as_ref()?.differing(&cluster.view.slots);
        (differing > 0).then(|| {
            let what = format!(
                "it sees other owners of {differing} slots than the node that was asked first: a \
                 move or a failover is under way, or they disagree"
            );
            let remedy =
                format!("look again soon; then redis-cli --cluster check {}", member.name());
            Finding::warning("slots", what).remedy(remedy).about(member.name())
        })
    });
    views.collect()
}

/// The replicas that could take over the slots of each primary.
fn replicas(cluster: &Cluster) -> Vec<Finding> {
    let mut findings = Vec::new();
    let follows = |primary: &Member, other: &(Member, Node)| {
        other.0.primary.as_deref() == Some(primary.id.as_str())
            && !other.0.is_failed
            && other.1.seen.is_ok()
    };
    let owners = || cluster.members.iter().map(|(member, _)| member).filter(|m| m.slots > 0);
    let mut fewest = usize::MAX;
    let mut alone = Vec::new();
    for primary in owners() {
        let count = cluster.members.iter().filter(|other| follows(primary, other)).count();
        fewest = fewest.min(count);
        if count == 0 {
            alone.push(primary.name());
        }
    }
    if !alone.is_empty() {
        let what = "no replica of it is up and reached: when it fails, its slots have no node, and if \
                    an empty one replaces it, its subjects start fresh";
        let remedy = "redis-cli --cluster add-node NEW EXISTING --cluster-slave, for each";
        let finding = Finding::warning("replicas", what).remedy(remedy);
        findings.push(Finding { nodes: alone, ..finding });
    } else if fewest < usize::MAX {
        let what = match fewest {
            1 => "each primary has a replica".to_owned(),
            fewest => format!("each primary has {fewest} replicas or more"),
        };
        findings.push(Finding::ok("replicas", what));
    }
    let has_lost_its_primary = |(_, node): &&(Member, Node)| {
        node.facts().is_some_and(|facts| facts.info("master_link_status") == Some("down"))
    };
    let cut: Vec<String> =
        cluster.members.iter().filter(has_lost_its_primary).map(|(m, _)| m.name()).collect();
    if !cut.is_empty() {
        let what = "its link to its primary is down, so it falls behind";
        let remedy = "look at its log: most often masterauth, or a primary that is away";
        let finding = Finding::warning("replicas", what).remedy(remedy);
        findings.push(Finding { nodes: cut, ..finding });
    }
    findings
}

fn coverage(nodes: &[Node]) -> Option<Finding> {
    const NAME: &str = "cluster-require-full-coverage";
    let values = by_setting(nodes, NAME);
    if values.len() > 1 {
        let what = format!("{NAME} differs: {}", listed(&values));
        return Some(Finding::warning("coverage", what).remedy("set it to the same on every node"));
    }
    Some(match *values.keys().next()? {
        "no" => {
            let what = format!("{NAME} is no: when slots have no node, the others go on");
            Finding::ok("coverage", what)
        }
        value => {
            let what =
                format!("{NAME} is {value}: when any slot has no node, every check is refused");
            let remedy = format!("CONFIG SET {NAME} no, where the others shall go on");
            Finding::ok("coverage", what).remedy(remedy)
        }
    })
}

fn timeouts(nodes: &[Node]) -> Option<Finding> {
    const NAME: &str = "cluster-node-timeout";
    let values = by_setting(nodes, NAME);
    if values.len() > 1 {
        let what = format!("{NAME} differs: {}", listed(&values));
        return Some(Finding::warning("timeout", what).remedy("set it to the same on every node"));
    }
    let millis = values.keys().next()?.parse().ok()?;
    Some(timeout(NAME, Duration::from_millis(millis), "CONFIG SET cluster-node-timeout 5000"))
}
