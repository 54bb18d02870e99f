//! `lab race`: check-then-increment compared with one atomic call.

use anyhow::Result;
use serde::Serialize;
use tollgate_experiments::experiment::{Race, RaceResults};
use tollgate_redis::Options;
use tollgate_redis::race::Races;

use crate::args::LabRace;
use crate::redis_decider::{redis, run_name};
use crate::show::{self, Output};
use crate::store::runtime;

/// One race.
#[derive(Debug, Serialize)]
struct RaceJson {
    /// `simulated`, or `redis`.
    on: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(flatten)]
    results: RaceResults,
}

pub(super) fn race(args: &LabRace, out: &mut Output) -> Result<u8> {
    let options = args.store.as_deref().map_or(Ok(None), |url| redis(url, "a race"))?;
    let seed = args.seed.unwrap_or(1);
    let race = Race::new(args.limit, args.clients, seed);
    let json = match options.zip(args.store.as_deref()) {
        None => RaceJson { on: "simulated", seed: Some(seed), results: race.run()? },
        Some((options, url)) => {
            RaceJson { on: "redis", seed: None, results: on_redis(&race, options, url)? }
        }
    };
    if args.json {
        out.json(&json)?;
        return Ok(0);
    }
    let RaceResults { limit, clients, check_then_increment, overshoot, atomic, .. } = json.results;
    let mut table = show::table(["", "asked", "got through", "too many"]);
    let too_many = atomic.saturating_sub(limit);
    table.add_row([
        "check, then increment".to_owned(),
        clients.to_string(),
        check_then_increment.to_string(),
        overshoot.to_string(),
    ]);
    table.add_row([
        "one atomic check".to_owned(),
        clients.to_string(),
        atomic.to_string(),
        too_many.to_string(),
    ]);
    let how = match json.seed {
        Some(seed) => format!("simulated: within 5 ms, 1 ms from the server, seed {seed}"),
        None => "on Redis: real clients, each over a connection of its own".to_owned(),
    };
    out.line(table.to_string())?;
    out.line(format!("\n{limit} may pass in 10 s; {how}"))?;
    out.line(
        "A client gets through if it reads the counter before others have added to it: in the time \
         between, all clients see room.",
    )?;
    Ok(0)
}

/// Runs both forms on a real server, under keys that are removed afterwards.
fn on_redis(race: &Race, options: Options, url: &str) -> Result<RaceResults> {
    let clients = usize::try_from(race.clients)?;
    let mut races = Races::open(url, &run_name("race"))?;
    let naive = races.check_then_increment(race.limit, clients)?;
    let limits = race.limits()?;
    let atomic = runtime()?.block_on(races.one_question(options, limits, clients))?;
    Ok(RaceResults::new(race, naive, atomic))
}
