//! Examines a cluster: asks the nodes of the URL for all nodes, and looks at each.

mod findings;
#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests;
mod view;

use futures_util::future::join_all;

use self::view::{Cluster, Listed, Seed, SeedAnswer, View};
use super::commands::OF_CLUSTERS;
use super::connection::{ConnectError, Line, Unopened};
use super::facts::{Commands as _, ConnectionLost};
use super::nodes::visit;
use super::report::Report;
use super::slots::Slots;
use crate::command_reply::CommandReply;
use crate::options::{Address, Endpoint, Options, list};

pub(super) async fn examine(
    options: &Options,
    seeds: &[Endpoint],
    tls: bool,
) -> Result<Report, ConnectError> {
    let address = list(seeds);
    let said = join_all(seeds.iter().map(|seed| ask(options, seed, tls))).await;
    let reasons = said.iter().map(|said| match said {
        SeedAnswer::Unreachable(why) => Some(why.as_str()),
        _ => None,
    });
    if let Some(reasons) = reasons.collect::<Option<Vec<_>>>() {
        let why = reasons.first().copied().unwrap_or("there is no address").to_owned();
        return Err(ConnectError::Unreachable { address, why });
    }
    let (asked, view) = best(seeds, &said);
    let members = view.members(&asked);
    let announced: Vec<Endpoint> = members.iter().map(|member| member.endpoint.clone()).collect();
    let nodes = visit(options, &announced, tls, OF_CLUSTERS).await;
    let names = |(seed, said): (&Endpoint, SeedAnswer)| Seed { name: seed.to_string(), said };
    let cluster = Cluster {
        seeds: seeds.iter().zip(said).map(names).collect(),
        view,
        members: members.into_iter().zip(nodes).collect(),
    };
    let nodes = cluster.members.iter().map(|(member, _)| member.name()).collect();
    Ok(Report { address, nodes, findings: findings::diagnose(&cluster, options) })
}

/// The view that knows the owners of most slots, the first of several, and the host that gave it.
fn best(seeds: &[Endpoint], said: &[SeedAnswer]) -> (String, View) {
    let views = seeds.iter().zip(said).filter_map(|(seed, said)| match said {
        SeedAnswer::View(view) => Some((seed, view)),
        _ => None,
    });
    let best = views.rev().max_by_key(|(_, view)| view.slots.covered());
    best.map_or_else(Default::default, |(seed, view)| (seed.host.clone(), view.clone()))
}

async fn ask(options: &Options, seed: &Endpoint, tls: bool) -> SeedAnswer {
    let Endpoint { host, port } = seed.clone();
    match Line::open(options, Address::Tcp { host, port, tls }).await {
        Ok(mut line) => {
            read_seed(&mut line).await.unwrap_or_else(|lost| SeedAnswer::Unreachable(lost.0))
        }
        Err(Unopened::Refused(why)) => SeedAnswer::Refused(why),
        Err(Unopened::Unreachable(why)) => SeedAnswer::Unreachable(why),
    }
}

async fn read_seed(line: &mut Line) -> Result<SeedAnswer, ConnectionLost> {
    let slots = match line.command(&["CLUSTER", "SLOTS"]).await? {
        CommandReply::Error(why) if why.starts_with("ERR") => return Ok(SeedAnswer::NotACluster),
        CommandReply::Error(why) => return Ok(SeedAnswer::Refused(why)),
        reply => Slots::read(&reply),
    };
    let Some(slots) = slots else {
        return Ok(SeedAnswer::Unreachable("what it says of its slots cannot be read".to_owned()));
    };
    let listed = line.command(&["CLUSTER", "NODES"]).await?.text();
    Ok(SeedAnswer::View(View { slots, listed: listed.map(|text| Listed::read(&text)) }))
}
