//! Judges servers beside each other: those of a cluster, or under sentinels.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::commands::OF_CLUSTERS;
use super::connection::{Line, Unopened};
use super::facts::{Facts, gather_for};
use super::finding::{Finding, Level, few};
use super::server::{EVERYWHERE, Topic, acl_line, clock, latency, scripts};
use crate::key::KeyPrefix;
use crate::options::{Address, Endpoint, Options};

/// Clocks that are further apart than this would be noticed at a failover.
const MAX_APART: Duration = Duration::from_millis(100);

/// A failover that takes longer than this is a long time without an answer.
const LONG_FAILOVER: Duration = Duration::from_secs(15);

/// A server, and its observations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node {
    /// Its address, as it is announced.
    pub(super) name: String,
    /// Why it cannot be reached, or the facts.
    pub(super) seen: Result<Box<Facts>, String>,
}

impl Node {
    /// The facts, where the server was reached and admits the user.
    pub(super) fn facts(&self) -> Option<&Facts> {
        self.seen.as_deref().ok().filter(|facts| facts.login_refused.is_none())
    }
}

/// Looks at the servers that are announced at these addresses.
pub(super) async fn visit(
    options: &Options,
    announced: &[Endpoint],
    tls: bool,
    more_commands: &'static [(&'static str, &'static str)],
) -> Vec<Node> {
    let open = |endpoint: &Endpoint| {
        let Endpoint { host, port } = options.reachable(endpoint.clone());
        Line::open(options, Address::Tcp { host, port, tls })
    };
    let opened = join_all(announced.iter().map(open)).await;
    let mut nodes = Vec::with_capacity(announced.len());
    // One after the other, or the servers would make one another's round trips longer.
    for (endpoint, line) in announced.iter().zip(opened) {
        let seen = match line {
            Ok(mut line) => {
                gather_for(&mut line, &options.prefix, more_commands).await.map_err(|lost| lost.0)
            }
            Err(Unopened::Refused(why)) => Ok(Facts::refused(why)),
            Err(Unopened::Unreachable(why)) => Err(why),
        };
        nodes.push(Node { name: endpoint.to_string(), seen: seen.map(Box::new) });
    }
    nodes
}

/// The judgements of each server, wherever it is. Findings that are the same are one, about several
/// nodes.
pub(super) fn each(nodes: &[Node]) -> Vec<Finding> {
    let seen: Vec<(&str, &Facts)> = seen(nodes).collect();
    let mut findings = logins(nodes);
    findings.extend(settings_refused(&seen));
    for topic in EVERYWHERE {
        let at = findings.len();
        merge(&mut findings, &seen, topic);
        if findings.get(at).is_some_and(|finding| finding.id == "version") {
            findings.extend(mixed(&seen));
        }
    }
    merge(&mut findings, &seen, |facts| scripts(facts).filter(is_bad));
    merge(&mut findings, &seen, clock);
    findings.extend(clocks(&seen));
    merge(&mut findings, &seen, |facts| latency(facts).filter(is_bad));
    findings.extend(slowest(&seen));
    findings
}

fn is_bad(finding: &Finding) -> bool {
    finding.level > Level::Ok
}

/// The nodes whose facts are known, by their names.
fn seen(nodes: &[Node]) -> impl Iterator<Item = (&str, &Facts)> {
    nodes.iter().filter_map(|node| Some((node.name.as_str(), node.facts()?)))
}

fn merge(findings: &mut Vec<Finding>, seen: &[(&str, &Facts)], topic: Topic) {
    let begin = findings.len();
    for (name, facts) in seen {
        let Some(found) = topic(facts) else { continue };
        let same = findings.iter_mut().skip(begin).find(|other| {
            (other.level, &other.what, &other.remedy) == (found.level, &found.what, &found.remedy)
        });
        match same {
            Some(same) => same.nodes.push((*name).to_owned()),
            None => findings.push(found.about(*name)),
        }
    }
}

fn logins(nodes: &[Node]) -> Vec<Finding> {
    let refused = |node: &Node| {
        let why = node.seen.as_ref().ok()?.login_refused.as_ref()?;
        Some((node.name.clone(), why.clone()))
    };
    let mut findings: Vec<Finding> = Vec::new();
    for (name, why) in nodes.iter().filter_map(refused) {
        let what = format!("it lets this user do nothing: {why}");
        match findings.iter_mut().find(|other| other.what == what) {
            Some(same) => same.nodes.push(name),
            None => findings.push(login(what).about(name)),
        }
    }
    findings
}

/// The finding of a server that refuses the login of the URL.
fn login(what: String) -> Finding {
    Finding::failure("login", what).remedy(
        "the user and the password of the URL are for every node, and a node's users and \
         passwords are not copied to the others: set them on each",
    )
}

/// The finding of a node of the URL that does not answer about its cluster.
pub(super) fn refused_at(name: &str, why: &str, prefix: &KeyPrefix) -> Finding {
    if why.starts_with("NOPERM") {
        let what = format!("this user may not ask for the nodes of the cluster: {why}");
        let prefix = prefix.clone();
        let user = Facts { prefix, more_commands: OF_CLUSTERS, ..Facts::default() };
        return Finding::failure("rights", what).remedy(acl_line(&user)).about(name);
    }
    login(format!("it lets this user do nothing: {why}")).about(name)
}

fn settings_refused(seen: &[(&str, &Facts)]) -> Option<Finding> {
    let refused = seen.iter().filter(|(_, facts)| facts.settings.is_empty());
    let nodes: Vec<String> = refused.map(|(name, _)| (*name).to_owned()).collect();
    let what = "CONFIG GET is refused, so timeouts and min-replicas-to-write cannot be seen";
    let finding = Finding::warning("settings", what)
        .remedy("examine it once as a user with +config|get; checks do not need it");
    (!nodes.is_empty()).then_some(Finding { nodes, ..finding })
}

fn mixed(seen: &[(&str, &Facts)]) -> Option<Finding> {
    let of = |facts: &Facts| format!("{} {}", facts.server_name(), facts.version_text());
    let mut versions: Vec<String> = seen
        .iter()
        .filter(|(_, facts)| !facts.version_text().is_empty())
        .map(|(_, facts)| of(facts))
        .collect();
    versions.sort();
    versions.dedup();
    (versions.len() > 1).then(|| {
        let what = format!("the versions differ: {}", versions.join(", "));
        Finding::warning("version", what)
            .remedy("finish the upgrade: a replica may not understand a newer primary")
    })
}

/// The clocks beside each other. Two may be closer than they look by as much as both readings may
/// be wrong.
fn clocks(seen: &[(&str, &Facts)]) -> Option<Finding> {
    let readings: Vec<(&str, i64, i64)> = seen
        .iter()
        .filter_map(|(name, facts)| {
            let error_us = i64::try_from(facts.clock_error_us).ok()?;
            Some((*name, facts.clock_apart_us?, error_us))
        })
        .collect();
    let latest = readings.iter().max_by_key(|(_, apart, error)| apart.saturating_sub(*error))?;
    let earliest = readings.iter().min_by_key(|(_, apart, error)| apart.saturating_add(*error))?;
    let apart_us =
        latest.1.saturating_sub(latest.2).saturating_sub(earliest.1.saturating_add(earliest.2));
    let apart = Duration::from_micros(u64::try_from(apart_us).unwrap_or(0));
    if readings.len() < 2 {
        return None;
    }
    if apart <= MAX_APART {
        let what =
            format!("no two clocks are seen to be more than {} ms apart", MAX_APART.as_millis());
        return Some(Finding::ok("clocks", what));
    }
    let what = format!(
        "the clock of {} is {} ms ahead of that of {}: after a failover from one to the other, \
         waits are that much longer or shorter",
        latest.0,
        apart.as_millis(),
        earliest.0
    );
    let finding = Finding::warning("clocks", what).remedy("run NTP on all their machines");
    Some(finding.about(latest.0).about(earliest.0))
}

/// The slowest node of those that are fast enough.
fn slowest(seen: &[(&str, &Facts)]) -> Option<Finding> {
    let fast = seen.iter().filter(|(_, facts)| latency(facts).is_some_and(|f| !is_bad(&f)));
    let (name, facts) = fast.max_by_key(|(_, facts)| facts.ping)?;
    let what = format!("a round trip takes {} us, the most of all nodes", facts.ping?.as_micros());
    Some(Finding::ok("latency", what).about(*name))
}

/// The nodes by their value of a setting.
pub(super) fn by_setting<'n>(nodes: &'n [Node], name: &str) -> BTreeMap<&'n str, Vec<String>> {
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (node, facts) in seen(nodes) {
        if let Some(value) = facts.setting(name) {
            values.entry(value).or_default().push(node.to_owned());
        }
    }
    values
}

/// The values of a setting that should be the same everywhere, with the nodes that have them.
pub(super) fn listed(values: &BTreeMap<&str, Vec<String>>) -> String {
    let text = |(value, nodes): (&&str, &Vec<String>)| {
        format!("{value} on {}", few(nodes, ", ").unwrap_or_default())
    };
    values.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// How long a primary that is gone is waited for. `name` is the setting, and `remedy` sets it.
pub(super) fn timeout(name: &str, timeout: Duration, remedy: &str) -> Finding {
    let millis = timeout.as_millis();
    let what = format!(
        "{name} is {millis} ms: when a primary fails, its subjects get errors for about that long"
    );
    match timeout > LONG_FAILOVER {
        true => Finding::warning("timeout", what).remedy(remedy),
        false => Finding::ok("timeout", what),
    }
}

/// The loss in a failover. `lost` says what happens without `min-replicas-to-write`.
///
/// A primary without a replica is not judged: it would only refuse to write.
pub(super) fn failover(nodes: &[Node], lost: &str) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let is_primary = |facts: &Facts| facts.info("role") == Some("master");
    let is_alone = |facts: &Facts| is_primary(facts) && facts.number("connected_slaves") == Some(0);
    let count = |facts: &Facts, name: &str| facts.setting(name)?.parse::<u64>().ok();
    for (name, facts) in seen(nodes) {
        let at_least = count(facts, "min-replicas-to-write");
        let Some((at_least, lag)) = at_least.zip(count(facts, "min-replicas-max-lag")) else {
            continue;
        };
        let is_on = at_least > 0 && lag > 0;
        let found = match facts.number("min_slaves_good_slaves") {
            Some(good) if is_on && good < at_least && is_primary(facts) => Finding::failure(
                "failover",
                format!(
                    "it refuses to write (NOREPLICAS): min-replicas-to-write is {at_least}, and \
                     {good} of its replicas keep up"
                ),
            )
            .remedy("start its replicas, or give it more of them"),
            _ if is_on => Finding::ok(
                "failover",
                format!(
                    "a primary refuses to write unless a replica has kept up in the last {lag} s, \
                     so a failover loses about that much at most"
                ),
            ),
            _ if is_alone(facts) => continue,
            _ => Finding::warning("failover", format!("min-replicas-to-write is 0: {lost}"))
                .remedy(
                    "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 2, and the same in \
                     its file; a primary whose replicas are all away then refuses, so have two",
                ),
        };
        match findings.iter_mut().find(|other| other.what == found.what) {
            Some(same) => same.nodes.push(name.to_owned()),
            None => findings.push(found.about(name)),
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, info: &[(&str, &str)], apart_us: i64, error_us: u64) -> Node {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let facts = Facts {
            info: info.iter().map(owned).collect(),
            clock_apart_us: Some(apart_us),
            clock_error_us: error_us,
            ..Facts::default()
        };
        Node { name: name.to_owned(), seen: Ok(Box::new(facts)) }
    }

    fn found(nodes: &[Node], id: &str) -> Vec<Finding> {
        each(nodes).into_iter().filter(|finding| finding.id == id).collect()
    }

    #[test]
    fn clocks_are_apart_only_if_round_trips_do_not_explain_it() {
        let apart = |of_b: i64, error_us: u64| {
            let all = [node("a", &[], 0, 0), node("b", &[], of_b, error_us)];
            found(&all, "clocks").remove(0)
        };
        for (of_b, error_us) in [(0, 0), (100_000, 0), (-100_000, 0), (350_000, 250_000)] {
            assert_eq!(apart(of_b, error_us).level, Level::Ok, "{of_b} {error_us}");
        }
        let ahead = apart(350_000, 100_000);
        assert_eq!((ahead.level, ahead.nodes), (Level::Warning, vec!["b".into(), "a".into()]));
        assert!(ahead.what.starts_with("the clock of b is 250 ms ahead of that of a:"));
        let behind = apart(-200_000, 0);
        assert!(behind.what.starts_with("the clock of a is 200 ms ahead of that of b:"));
        assert!(found(&[node("a", &[], 5_000_000, 0)], "clocks").is_empty());
    }

    #[test]
    fn what_is_the_same_is_said_once_and_versions_that_differ_are_named() {
        let seven = [("redis_version", "7.0.15")];
        let all = [node("a", &seven, 0, 0), node("b", &[("redis_version", "7.2.4")], 0, 0)];
        let versions = found(&all, "version");
        let levels: Vec<_> = versions.iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [Level::Ok, Level::Ok, Level::Warning]);
        assert_eq!(versions[2].what, "the versions differ: Redis 7.0.15, Redis 7.2.4");
        let same = [node("a", &seven, 0, 0), node("b", &seven, 0, 0)];
        let versions = found(&same, "version");
        assert_eq!(versions.len(), 1);
        assert_eq!(versions[0].nodes, ["a", "b"]);
    }
}
