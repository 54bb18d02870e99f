//! `grpc`: Envoy's rate limit service beside limitador, beside a bare service, and behind Envoy.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::descriptor::rate_limit_descriptor::Entry;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::rate_limit_response::Code;
use tollgate_envoy::proto::service::rate_limit_service_client::RateLimitServiceClient;
use tollgate_testbed::free_port;
use tonic::transport::Channel;

use crate::args::BenchTurns;
use crate::processor::with_cpu;
use crate::service::{Bar, Door, Program, RowJson, Side, Tollgate, Turns};
use crate::show::{self, note};

mod bare;
mod envoy;
mod h2load;

pub(crate) use bare::serve as serve_bare;
use h2load::{Calls, H2load};

/// The peer: limitador-server, with its counters in memory.
const PEER: &str = "TOLLGATE_PEER_LIMITADOR";

/// The maximum number of calls of h2load in flight, and over how many connections.
const AT_ONCE: u32 = 50;
const CONNECTIONS: [u32; 2] = [1, AT_ONCE];

/// The service over the peer, at least.
const OVER_PEER: Bar = Bar::AtLeast(1.0);

/// The time of the processors over that of a bare service, at most.
const OVER_BARE: Bar = Bar::CpuAtMost(1.15);

/// A limit that admits all, and one that admits a single request, for all sides the same.
const RULES: &str = "\
domain: bench
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 4000000000 }
  - key: once
    rate_limit: { unit: day, requests_per_unit: 1 }
";
const PEER_RULES: &str = "\
- namespace: bench
  max_value: 4000000000
  seconds: 1
  conditions: []
  variables: ['descriptors[0].user']
- namespace: probe
  max_value: 1
  seconds: 86400
  conditions: []
  variables: ['descriptors[0].once']
";

#[derive(Debug, Serialize)]
struct GrpcJson {
    seconds: u32,
    runs: u32,
    groups: Vec<GroupJson>,
    /// Envoy alone, with its own limit, and with that of the service.
    envoy: Vec<RowJson>,
}

/// Sides that were measured in turns.
#[derive(Debug, Serialize)]
struct GroupJson {
    connections: u32,
    threads: u16,
    rows: Vec<RowJson>,
}

pub(crate) fn grpc(args: &BenchTurns) -> Result<u8> {
    show::warn_of_debug();
    show::figures(args.json, &measure(args)?, text)?;
    Ok(0)
}

fn measure(args: &BenchTurns) -> Result<GrpcJson> {
    let tollgate = Tollgate::find(args.program.as_deref())?;
    let dir = tempfile::tempdir().context("no temporary directory")?;
    let rules = dir.path().join("rules.yaml");
    std::fs::write(&rules, RULES)?;
    let rules = rules.display().to_string();
    let loader = H2load::new(dir.path(), &request("bench", "user"))?;
    let turns = Turns::new(args.runs);
    let mut groups = Vec::new();
    for threads in [1, 2] {
        let count = threads.to_string();
        let more = ["--envoy-config", &rules, "--threads", &count];
        let (ours, address) = tollgate.serve_also(Door::Grpc, &more)?;
        denies_the_second(&address, "bench").context("tollgate")?;
        let mut servers = vec![("tollgate", ours.id(), address, None)];
        let peer = limitador(dir.path(), &count)?;
        if let Some(peer) = &peer {
            servers.push(("limitador", peer.id(), peer.address.clone(), Some(OVER_PEER)));
        }
        let bare = bare(&count)?;
        servers.push(("bare tonic", bare.id(), bare.address.clone(), Some(OVER_BARE)));
        for connections in CONNECTIONS {
            let at_once = AT_ONCE / connections;
            let calls = Calls { connections, at_once, seconds: args.seconds };
            let sides = servers.iter().map(|(what, process, address, _)| Side {
                what: (*what).to_owned(),
                load: Box::new(move |_| {
                    let run = with_cpu(*process, || loader.rate(address, calls))?;
                    loader.waits(address, calls, run)
                }),
                runs: Vec::new(),
            });
            let bars: Vec<Option<Bar>> = servers.iter().skip(1).map(|server| server.3).collect();
            let rows = turns.take_first_over_others(sides.collect(), &bars)?;
            groups.push(GroupJson { connections, threads, rows });
        }
    }
    let envoy = envoy::before_a_page(&tollgate, &turns, args.seconds, &rules, dir.path())?;
    turns.end();
    Ok(GrpcJson { seconds: args.seconds, runs: args.runs, groups, envoy })
}

/// A question about one descriptor.
fn request(domain: &str, key: &str) -> RateLimitRequest {
    let entry = Entry { key: key.to_owned(), value: "alice".to_owned() };
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: vec![RateLimitDescriptor { entries: vec![entry], ..Default::default() }],
        hits_addend: 1,
    }
}

/// The peer, when it is named.
fn limitador(dir: &Path, threads: &str) -> Result<Option<Program>> {
    let Some(program) = std::env::var_os(PEER) else {
        note(&format!("SKIPPED: {PEER} names no limitador-server"));
        return Ok(None);
    };
    let rules = dir.join("limits.yaml");
    std::fs::write(&rules, PEER_RULES)?;
    let rules = rules.display().to_string();
    let (port, http) = (free_port().port(), free_port().port().to_string());
    let grpc = port.to_string();
    let listen = ["--rls-ip", "127.0.0.1", "--rls-port", &grpc];
    let listen = [&listen[..], &["--http-ip", "127.0.0.1", "--http-port", &http]].concat();
    let args = [&listen[..], &[&rules, "memory"]].concat();
    let peer = Program::start_with(program, &args, &[("TOKIO_WORKER_THREADS", threads)], port)?;
    denies_the_second(&peer.address, "probe").context("limitador")?;
    Ok(Some(peer))
}

/// A bare service, in a separate process.
fn bare(threads: &str) -> Result<Program> {
    let port = free_port().port();
    let args = ["bare-grpc", &port.to_string(), threads];
    Program::start(std::env::current_exe()?.into(), &args, port)
}

/// That a service counts: a limit of one a day denies the second request.
fn denies_the_second(address: &str, domain: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
        let mut client = RateLimitServiceClient::new(channel);
        for expected in [Code::Ok, Code::OverLimit] {
            let answer = client.should_rate_limit(request(domain, "once")).await?;
            let code = answer.get_ref().overall_code();
            if code != expected {
                bail!("it answers {code:?} in place of {expected:?}");
            }
        }
        Ok(())
    })
}

fn text(json: &GrpcJson) -> String {
    let mut rows = show::table(RowJson::header(["connections", "threads"]));
    let envoy = json.envoy.iter().map(|row| (1, 1, row));
    let groups = json
        .groups
        .iter()
        .flat_map(|group| group.rows.iter().map(|row| (group.connections, group.threads, row)));
    for (connections, threads, row) in groups.chain(envoy) {
        rows.add_row(row.cells([connections.to_string(), threads.to_string()]));
    }
    let GrpcJson { seconds, runs, .. } = json;
    format!(
        "{rows}\n\n{AT_ONCE} concurrent calls, one descriptor, one subject; behind Envoy one \
         request \
         at once; medians of {runs} runs of {seconds} s, in turns; CPU: of the server for a call; \
         ratio: of tollgate over the row in the same turn, and the middle half of those\n"
    )
}
