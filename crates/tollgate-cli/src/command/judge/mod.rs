//! `judge`: asks any limiter, and finds which promises it keeps.

mod clock;
mod grpc;
mod http;
mod network;
mod page;
mod place;
mod program;
mod reading;
mod recorded;
mod report;
mod resp;
mod target;
mod text;
mod words;

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use tollgate::{LimitSet, Period};
use tollgate_proof::judge::{Abilities, Driver, Options, Strictness, judge as ask_and_judge};

use crate::args::{Judge, PromiseArg};
use crate::file::{beside, persist};
use crate::show::{self, Output};
use grpc::Grpc;
use network::Network;
use program::Program;
use reading::{GRPC, HTTP, Reading, Usual};
use recorded::recorded;
use report::Report;
use resp::{Resp, Server};
use target::Target;
use words::{has, words};

/// The exit code of a limiter that broke a promise.
const BROKEN: u8 = 1;

pub(crate) fn judge(args: &Judge, out: &mut Output) -> Result<u8> {
    // Fail before the load if the report cannot be written, not a minute later.
    if let Some(path) = &args.report {
        beside(path)?;
    }
    let (mut options, limit) = options(args)?;
    let mut opened = open(args)?;
    options.wait_unit_us = match &args.wait_step {
        Some(text) => Some(micros(text, "--wait-step")?),
        None => opened.is_coarse.then_some(1_000_000),
    };
    let progress = show::progress(None);
    let mut said = |name: &str| {
        show::step(&format!("asking: {name}"));
        progress.set_message(format!("asking: {name}"));
        progress.tick();
    };
    let judgement = ask_and_judge(&mut *opened.driver, &options, &mut said);
    progress.finish_and_clear();
    let judgement = judgement.with_context(|| format!("{} cannot be asked", opened.name))?;
    if !judgement.is_decided() {
        bail!(
            "{}: no answer was a decision that could be judged: does the question fit, and do \
             --allowed and the other places of the reply?",
            opened.name
        );
    }
    let report = Report::new(&opened.name, &limit, &options, opened.driver.abilities(), &judgement);
    match args.json {
        true => out.json(&report)?,
        false => text::print(&report, out)?,
    }
    if let Some(path) = &args.report {
        persist(beside(path)?, page::page(&report).as_bytes(), path)?;
        if !args.json {
            out.line(format!("\nwritten to {}", path.display()))?;
        }
    }
    Ok(if report.is_kept() { 0 } else { BROKEN })
}

fn micros(text: &str, option: &str) -> Result<u64> {
    let period: Period = text.parse().with_context(|| option.to_owned())?;
    Ok(period.as_micros())
}

/// The options, and the limits as one text.
fn options(args: &Judge) -> Result<(Options, String)> {
    let text = args.limits.join(", ");
    let limits: LimitSet = text.parse().context("--limit")?;
    if limits.limits().iter().any(|limit| limit.quota().period.as_micros() == 0) {
        bail!("--limit `{text}`: slots that are held have no window: judge a limit of a time");
    }
    let is_defined = text.split(',').all(|one| one.contains(" via "));
    let mut options = Options::new(limits);
    options.held = match args.promise {
        Some(PromiseArg::Definition) => Strictness::Definition,
        Some(PromiseArg::Bound) => Strictness::Bound,
        None if is_defined => Strictness::Definition,
        None => Strictness::Bound,
    };
    if options.held == Strictness::Definition && !is_defined {
        bail!(
            "--promise definition: the limit names no strategy: write which one it is to be held \
             to, as in `{text} via gcra`"
        );
    }
    options.precision_us = micros(&args.precision, "--precision")?;
    options.within_us = micros(&args.within, "--within")?;
    options.may_lose = args.may_lose;
    options.clients = args.clients.into();
    options.seed = args.seed;
    // Counts of an earlier judgement must not count in this one.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    options.run = format!("{:x}", now.as_micros());
    options.recorded = recorded(args)?;
    Ok((options, text))
}

/// A limiter that can be asked.
struct Opened {
    driver: Box<dyn Driver>,
    /// Its name in reports.
    name: String,
    /// Whether its waits are whole seconds.
    is_coarse: bool,
}

fn open(args: &Judge) -> Result<Opened> {
    if let Some(text) = &args.command {
        let program = Program::start(&words(text, "--command")?)?;
        return Ok(Opened { driver: Box::new(program), name: text.clone(), is_coarse: false });
    }
    if let Some(url) = &args.http {
        let http = http::Http::new(args, url)?;
        http.target.may_load(args.i_may_load.as_deref())?;
        let is_coarse = args.retry_after.is_none();
        let templates = http.templates();
        let driver = network(args, http, &templates, Reading::new(args, HTTP)?)?;
        return Ok(Opened { driver, name: url.clone(), is_coarse });
    }
    let Some(ask) = &args.ask else {
        bail!(
            "--ask is missing: the question, as in `CL.THROTTLE {{subject}} 9 10 1` for --resp, or \
             `shop user={{subject}}` for --grpc"
        );
    };
    match (&args.grpc, args.resp.as_ref().or(args.redis.as_ref())) {
        (Some(address), _) => over_grpc(args, address, ask),
        (None, Some(server)) => over_redis(args, server, ask),
        (None, None) => bail!("name a driver: --command, --http, --grpc, --resp or --redis"),
    }
}

fn over_grpc(args: &Judge, address: &str, ask: &str) -> Result<Opened> {
    let target = Target::parse(address, None).context("--grpc")?;
    target.may_load(args.i_may_load.as_deref())?;
    let grpc = Grpc::new(target, &words(ask, "--ask")?)?;
    let templates = grpc.templates();
    let driver = network(args, grpc, &templates, Reading::new(args, GRPC)?)?;
    let name = format!("{address} {ask}");
    Ok(Opened { driver, name, is_coarse: args.retry_after.is_none() })
}

fn over_redis(args: &Judge, server: &str, ask: &str) -> Result<Opened> {
    let option = if args.resp.is_some() { "--resp" } else { "--redis" };
    let server = Server::new(server, args.i_may_load.as_deref()).context(option)?;
    let mut words = words(ask, "--ask")?;
    if let Some(path) = &args.script {
        let script = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let digest = server.load(script).context("--script")?;
        words = [vec!["EVALSHA".to_owned(), digest], words].concat();
    }
    let usual = words.first().and_then(|word| Usual::of(word));
    let Some(usual) = usual.or(args.allowed.is_some().then(Usual::default)) else {
        bail!(
            "--allowed is missing: where the reply of `{ask}` says that it is allowed, as in \
             `item:0=1`"
        );
    };
    let is_coarse = args.retry_after.is_none() && usual.is_coarse();
    let name = format!("{} {ask}", server.name);
    let templates = words.clone();
    let driver = network(args, Resp { server, words }, &templates, Reading::new(args, usual)?)?;
    Ok(Opened { driver, name, is_coarse })
}

/// A driver over connections, with the abilities that its templates give it.
fn network<P: network::Protocol>(
    args: &Judge,
    protocol: P,
    templates: &[String],
    reading: Reading,
) -> Result<Box<dyn Driver>> {
    if !has(templates, "subject") {
        bail!("the question has no `{{subject}}`: each kind of traffic asks about others");
    }
    let costs = has(templates, "cost");
    let able = Abilities {
        costs,
        // gRPC has no word for them: its 0 is a 1.
        odd_costs: costs && args.grpc.is_none() && !args.positive_costs,
        requests: has(templates, "id"),
        restart: args.restart.is_some(),
        lose: true,
        ..Abilities::default()
    };
    Ok(Box::new(Network::open(protocol, reading, able, args.restart.clone())?))
}
