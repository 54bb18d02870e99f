//! `lab race`: check-then-increment compared with one atomic call.

use anyhow::Result;
use serde::Serialize;
use tollgate_experiments::experiment::{Race, RaceResults};
use tollgate_experiments::report;
use tollgate_redis::Options;
use tollgate_redis::race::Races;

use crate::args::LabRace;
use crate::file::{beside, persist};
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
    // Fail before the race if the page cannot be written.
    let page = args.report.as_deref().map(|path| Ok::<_, anyhow::Error>((path, beside(path)?)));
    let page = page.transpose()?;
    let json = match options {
        None => RaceJson { on: "simulated", seed: Some(seed), results: race.run()? },
        Some(options) => RaceJson { on: "redis", seed: None, results: on_redis(&race, options)? },
    };
    let written = page.as_ref().map(|(path, _)| format!("written to {}", path.display()));
    if let Some((path, file)) = page {
        let html = report::race_html(&json.results, json.seed, &json);
        persist(file, html.as_bytes(), path)?;
    }
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
    out.line(table.to_string())?;
    out.line(format!("\n{limit} may pass in 10 s; {}", report::race_in_words(json.seed)))?;
    out.line(
        "A client gets through if it reads the counter before others have added to it: in the time \
         between, all clients see room.",
    )?;
    if let Some(written) = written {
        out.line(written)?;
    }
    Ok(0)
}

/// Runs both forms on a real server, or real servers, under keys that are removed afterwards.
fn on_redis(race: &Race, options: Options) -> Result<RaceResults> {
    let clients = usize::try_from(race.clients)?;
    let limits = race.limits()?;
    runtime()?.block_on(async {
        let mut races = Races::new(options, &run_name("race"));
        let naive = races.check_then_increment(race.limit, clients).await;
        let atomic = match &naive {
            Ok(_) => races.one_question(limits, clients).await,
            // Nobody compares with it.
            Err(_) => Ok(0),
        };
        let cleared = races.clear().await;
        let results = RaceResults::new(race, naive?, atomic?);
        cleared?;
        Ok(results)
    })
}
