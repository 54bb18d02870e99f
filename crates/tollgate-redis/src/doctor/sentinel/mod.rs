//! Examines sentinels, and the servers under them.

mod findings;
#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests;
mod view;

use futures_util::future::join_all;

use self::view::{AddressAnswer, Monitored, Watch, Watched, fields, watched};
use super::commands::OF_SENTINELS;
use super::connection::{ConnectError, Line, Unopened};
use super::facts::{Commands as _, ConnectionLost};
use super::nodes::visit;
use super::report::Report;
use crate::command_reply::CommandReply;
use crate::options::{Address, Endpoint, Options, Sentinels};

pub(super) async fn examine(
    options: &Options,
    sentinels: &Sentinels,
) -> Result<Report, ConnectError> {
    let address = options.target.to_string();
    let login = Options {
        user: sentinels.user.clone(),
        password: sentinels.password.clone(),
        database: 0,
        ..options.clone()
    };
    let answers = sentinels.addresses.iter().map(|at| ask(&login, at, sentinels));
    let answers = join_all(answers).await;
    let reasons = answers.iter().map(|answer| match answer {
        AddressAnswer::Unreachable(why) => Some(why.as_str()),
        _ => None,
    });
    if let Some(reasons) = reasons.collect::<Option<Vec<_>>>() {
        let why = reasons.first().copied().unwrap_or("there is no address").to_owned();
        return Err(ConnectError::NoSentinel { address, why });
    }
    let servers = servers(&answers);
    let announced: Vec<Endpoint> = servers.iter().map(|server| server.endpoint.clone()).collect();
    let nodes = visit(options, &announced, sentinels.server_tls, OF_SENTINELS).await;
    let names = sentinels.addresses.iter().map(Endpoint::to_string);
    let watch = Watch {
        name: sentinels.name.clone(),
        sentinels: names.zip(answers).collect(),
        servers: servers.into_iter().zip(nodes).collect(),
    };
    let nodes = watch.servers.iter().map(|(_, node)| node.name.clone()).collect();
    Ok(Report { address, nodes, findings: findings::diagnose(&watch) })
}

/// The primary of the latest failover, then all replicas that a sentinel knows.
fn servers(answers: &[AddressAnswer]) -> Vec<Watched> {
    let known = || answers.iter().filter_map(AddressAnswer::monitored);
    let Some(latest) = known().rev().max_by_key(|monitored| monitored.epoch) else {
        return Vec::new();
    };
    let mut servers = vec![latest.primary.clone()];
    for replica in known().flat_map(|monitored| &monitored.replicas) {
        if servers.iter().all(|server| server.endpoint != replica.endpoint) {
            servers.push(replica.clone());
        }
    }
    servers
}

async fn ask(login: &Options, at: &Endpoint, sentinels: &Sentinels) -> AddressAnswer {
    let Endpoint { host, port } = at.clone();
    match Line::open(login, Address::Tcp { host, port, tls: sentinels.tls }).await {
        Ok(mut line) => answer(&mut line, &sentinels.name)
            .await
            .unwrap_or_else(|lost| AddressAnswer::Unreachable(lost.0)),
        Err(Unopened::Refused(why)) => AddressAnswer::Refused(why),
        Err(Unopened::Unreachable(why)) => AddressAnswer::Unreachable(why),
    }
}

async fn answer(line: &mut Line, name: &str) -> Result<AddressAnswer, ConnectionLost> {
    let primary = match line.command(&["SENTINEL", "MASTER", name]).await? {
        CommandReply::Error(why) if why.to_ascii_lowercase().contains("no such master") => {
            let known = line.command(&["SENTINEL", "MASTERS"]).await?;
            let names = known.items().iter().filter_map(|one| fields(one).remove("name"));
            return Ok(AddressAnswer::UnknownName(names.collect()));
        }
        CommandReply::Error(why) if why.starts_with("ERR") => {
            return Ok(AddressAnswer::NotASentinel);
        }
        CommandReply::Error(why) => return Ok(AddressAnswer::Refused(why)),
        reply => reply,
    };
    let Some(mut monitored) = Monitored::read(&fields(&primary)) else {
        return Ok(AddressAnswer::Unreachable(
            "what it says of the primary cannot be read".to_owned(),
        ));
    };
    let replicas = line.command(&["SENTINEL", "REPLICAS", name]).await?;
    monitored.replicas = replicas.items().iter().filter_map(|one| watched(&fields(one))).collect();
    if let CommandReply::Error(why) = line.command(&["SENTINEL", "CKQUORUM", name]).await? {
        monitored.no_quorum = why.strip_prefix("NOQUORUM ").map(str::to_owned);
    }
    Ok(AddressAnswer::Knows(Box::new(monitored)))
}
