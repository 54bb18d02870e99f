//! Judges sentinels and the servers under them by the observations.

use std::time::Duration;

use super::view::{AddressAnswer, Monitored, Watch, Watched};
use crate::doctor::finding::{Finding, few};
use crate::doctor::nodes::{Node, each, failover, timeout};

/// With fewer sentinels no majority is left when one machine is lost.
const SENTINELS: usize = 3;

/// The loss in a failover by sentinels.
const LOST: &str = "a primary that was replaced goes on until it hears of it, and what it admits \
                    then is forgotten";

/// The findings about the sentinels, then those about each server.
pub(super) fn diagnose(watch: &Watch) -> Vec<Finding> {
    let mut findings = sentinels(watch);
    let known: Vec<(&str, &Monitored)> = watch
        .sentinels
        .iter()
        .filter_map(|(name, answer)| Some((name.as_str(), answer.monitored()?)))
        .collect();
    let Some(latest) = latest(&known) else { return findings };
    findings.push(quorum(watch, &known, latest));
    findings.extend(disagreement(&known, latest));
    findings.extend(primary(watch));
    findings.extend(replicas(watch));
    findings.push(timeouts(watch, &known, latest));
    let nodes: Vec<Node> = watch.servers.iter().map(|(_, node)| node.clone()).collect();
    findings.extend(failover(&nodes, LOST));
    findings.extend(each(&nodes));
    findings
}

/// The answer of the sentinel that knows the latest failover.
fn latest<'w>(known: &[(&'w str, &'w Monitored)]) -> Option<&'w Monitored> {
    known.iter().rev().map(|(_, monitored)| *monitored).max_by_key(|monitored| monitored.epoch)
}

/// The answer of each address of the URL.
fn sentinels(watch: &Watch) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for (name, answer) in &watch.sentinels {
        let found = match answer {
            AddressAnswer::Knows(_) => continue,
            AddressAnswer::Unreachable(why) => {
                let what = format!("this sentinel cannot be reached: {why}");
                Finding::warning("sentinels", what).remedy("start it, or open the way to it")
            }
            AddressAnswer::Refused(why) => {
                let what = format!("this sentinel lets us do nothing: {why}");
                Finding::failure("login", what).remedy(
                    "the login of the sentinels is ?sentinel_password=PASSWORD, and \
                     sentinel_user=USER where they have users",
                )
            }
            AddressAnswer::NotASentinel => Finding::failure("sentinels", "it is not a sentinel")
                .remedy(format!("for one server write redis://{name}")),
            AddressAnswer::UnknownName(names) => {
                let (what, remedy) = unknown(&watch.name, names);
                Finding::failure("name", what).remedy(remedy)
            }
        };
        let same =
            |other: &&mut Finding| (&other.what, &other.remedy) == (&found.what, &found.remedy);
        match findings.iter_mut().find(same) {
            Some(known) => known.nodes.push(name.clone()),
            None => findings.push(found.about(name)),
        }
    }
    if findings.is_empty() {
        let what = match watch.sentinels.len() {
            1 => "the sentinel of the URL answers".to_owned(),
            count => format!("all {count} sentinels of the URL answer"),
        };
        findings.push(Finding::ok("sentinels", what));
    }
    findings
}

fn unknown(name: &str, names: &[String]) -> (String, String) {
    let what = format!("they watch no primary named `{name}`");
    match few(names, "`, `") {
        Some(known) => (format!("{what}; they watch `{known}`"), "write that after `/`".to_owned()),
        None => (what, format!("SENTINEL MONITOR {name} HOST PORT QUORUM, on each")),
    }
}

/// Whether there can be a failover.
fn quorum(watch: &Watch, known: &[(&str, &Monitored)], latest: &Monitored) -> Finding {
    let (needed, all) = (latest.needed(), latest.sentinels);
    let remedy = format!("start sentinels until {needed} of them see one another");
    if let Some((name, why)) =
        known.iter().find_map(|(name, m)| Some((name, m.no_quorum.as_ref()?)))
    {
        let what = format!("no failover is possible, it says: {why}");
        return Finding::failure("quorum", what).remedy(remedy).about(*name);
    }
    // Sentinels that the URL does not name may well be up.
    if known.len() < needed && watch.sentinels.len() >= all {
        let what = format!(
            "{} of {all} sentinels answer, and a failover needs {needed}: none is possible",
            known.len()
        );
        return Finding::failure("quorum", what).remedy(remedy);
    }
    let what = format!("a failover needs {needed} of {all} sentinels (quorum {})", latest.quorum);
    match all < SENTINELS {
        true => Finding::warning("quorum", format!("{what}: none may be away"))
            .remedy("have 3 sentinels on 3 machines"),
        false => Finding::ok("quorum", what),
    }
}

/// Sentinels that name another primary.
fn disagreement(known: &[(&str, &Monitored)], latest: &Monitored) -> Vec<Finding> {
    let others = known.iter().filter(|(_, m)| m.primary.endpoint != latest.primary.endpoint);
    let judged = others.map(|(name, monitored)| {
        let (theirs, ours) = (&monitored.primary.endpoint, &latest.primary.endpoint);
        let found = match monitored.epoch == latest.epoch {
            true => Finding::failure(
                "agreement",
                format!("it names {theirs} as the primary, and others {ours}: two are in use"),
            )
            .remedy("the sentinels of the URL shall watch the same servers: SENTINEL MASTERS"),
            false => Finding::warning(
                "agreement",
                format!("it still names {theirs} as the primary, and others {ours}"),
            )
            .remedy("look again soon: it has not heard of the last failover"),
        };
        found.about(*name)
    });
    let mut findings: Vec<Finding> = judged.collect();
    if findings.is_empty() && known.len() > 1 {
        let what = format!("all {} that answer name the same primary", known.len());
        findings.push(Finding::ok("agreement", what));
    }
    findings
}

/// Whether the server that is named is a primary.
fn primary(watch: &Watch) -> Option<Finding> {
    let (watched, node) = watch.servers.first()?;
    let name = node.name.as_str();
    let found = match &node.seen {
        Err(why) => {
            let what = format!("it is named as the primary, and cannot be reached: {why}");
            Finding::failure("primary", what).remedy(format!(
                "if it runs, have it announce another address (SENTINEL MONITOR, \
                 replica-announce-ip), or say where it is with ?reach={name}>HOST:PORT"
            ))
        }
        Ok(facts) => match facts.info("role")? {
            "master" if watched.is_down => {
                let what = "it is named as the primary and answers, but a sentinel finds it down";
                Finding::warning("primary", what)
                    .remedy("look whether the sentinels can reach it where it is announced")
            }
            "master" => Finding::ok("primary", "it is named as the primary, and says that it is"),
            role => {
                let what = format!("it is named as the primary, and its role is {role}");
                Finding::failure("primary", what)
                    .remedy("look again soon: a failover may be under way")
            }
        },
    };
    Some(found.about(name))
}

/// The replicas that could take over.
fn replicas(watch: &Watch) -> Vec<Finding> {
    let replicas = || watch.servers.iter().skip(1);
    let mut findings = Vec::new();
    let fit = |(watched, node): &&(Watched, Node)| {
        watched.is_eligible && !watched.is_down && node.seen.is_ok()
    };
    let count = replicas().filter(fit).count();
    findings.push(match count {
        0 => {
            let what = "no replica that is up can take over: when the primary fails, every check \
                        gets an error";
            Finding::warning("replicas", what).remedy("start a server with replicaof HOST PORT")
        }
        count => Finding::ok("replicas", format!("replicas that can take over: {count}")),
    });
    for (watched, node) in replicas() {
        let name = node.name.as_str();
        let (what, remedy) = match &node.seen {
            Err(why) => (
                format!(
                    "this replica cannot be reached from here ({why}): were it the primary, \
                         every check would get an error"
                ),
                format!(
                    "start it, or say where it is: replica-announce-ip on it, or \
                         ?reach={name}>HOST:PORT"
                ),
            ),
            Ok(_) if watched.is_down => (
                "this replica answers, but the sentinels find it down".to_owned(),
                "look whether they can reach it where it is announced".to_owned(),
            ),
            Ok(facts) if facts.info("master_link_status") == Some("down") => (
                "its link to its primary is down, so it falls behind".to_owned(),
                "look at its log: most often masterauth, or a primary that is away".to_owned(),
            ),
            Ok(_) => continue,
        };
        findings.push(Finding::warning("replicas", what).remedy(remedy).about(name));
    }
    findings
}

fn timeouts(watch: &Watch, known: &[(&str, &Monitored)], latest: &Monitored) -> Finding {
    const NAME: &str = "down-after-milliseconds";
    let mut values: Vec<u64> = known.iter().map(|(_, monitored)| monitored.down_after_ms).collect();
    values.sort_unstable();
    values.dedup();
    if values.len() > 1 {
        let values: Vec<String> = values.iter().map(u64::to_string).collect();
        let what = format!("{NAME} differs between the sentinels: {}", values.join(", "));
        return Finding::warning("timeout", what).remedy("SENTINEL SET it to the same on each");
    }
    let remedy = format!("SENTINEL SET {} {NAME} 5000, on each sentinel", watch.name);
    timeout(NAME, Duration::from_millis(latest.down_after_ms), &remedy)
}
