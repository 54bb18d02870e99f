//! `queue stats`: prints the numbers of a queue, once or repeatedly.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;
use tokio::time::MissedTickBehavior;
use tollgate_queue::{Settings, Stats};

use super::open::open;
use crate::args::QueueStats;
use crate::input;
use crate::show::{Output, duration};

/// The column names are repeated after this many lines.
const LINES: u32 = 20;

#[derive(Serialize)]
struct StatsJson<'s> {
    #[serde(flatten)]
    stats: &'s Stats,
    /// The rates per second since the previous line.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<Rates>,
}

#[derive(Serialize)]
struct Rates {
    accepted: f64,
    refused: f64,
    delivered: f64,
    done: f64,
}

impl Rates {
    fn between(before: &Stats, now: &Stats, time: Duration) -> Self {
        let a_second = |of: fn(&Stats) -> u64| {
            // A recreated queue starts its totals from zero.
            of(now).saturating_sub(of(before)) as f64 / time.as_secs_f64()
        };
        Self {
            accepted: a_second(|it| it.accepted),
            refused: a_second(|it| it.refused),
            delivered: a_second(|it| it.delivered + it.redelivered),
            done: a_second(|it| it.done),
        }
    }
}

pub(super) async fn stats(args: &QueueStats, out: &mut Output) -> Result<u8> {
    let every = args.watch.as_deref().map(input::wait).transpose()?;
    if every.is_some_and(|every| every < Duration::from_millis(100)) {
        bail!("the shortest time of `--watch` is 100ms: use `--watch 1s`");
    }
    let queue = open(&args.which).await?;
    let settings = queue.settings().await?;
    if settings == Settings::default() {
        bail!("there is no queue `{}` there: it has had no producer and no worker", queue.name());
    }
    let Some(every) = every else {
        let stats = queue.stats().await?;
        if args.which.json {
            out.json(&StatsJson { stats: &stats, per_second: None })?;
        } else {
            out.text(&format!("{}{}", self::settings(&settings), lines(&stats)))?;
        }
        return Ok(0);
    };
    let mut ticks = tokio::time::interval(every);
    // After a suspension the next reading is a full interval later, since a rate over no time is
    // undefined.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut line) = (None, 0_u32);
    while out.is_open() {
        ticks.tick().await;
        let (stats, now) = (queue.stats().await?, Instant::now());
        let rates = before.map(|(before, at)| Rates::between(&before, &stats, now - at));
        before = Some((stats, now));
        if args.which.json {
            out.json(&StatsJson { stats: &stats, per_second: rates })?;
            continue;
        }
        if line.is_multiple_of(LINES) {
            out.line(
                " waiting    oldest  in flight      dead  accepted/s   refused/s delivered/s      \
                 done/s",
            )?;
        }
        line += 1;
        out.line(row(&stats, rates.as_ref()))?;
    }
    Ok(0)
}

fn row(stats: &Stats, rates: Option<&Rates>) -> String {
    let Stats { waiting, in_flight, dead, .. } = stats;
    let oldest = stats.oldest.map_or("-".to_owned(), |it| duration(rounded(it)));
    let rate = |of: fn(&Rates) -> f64| rates.map_or("-".to_owned(), |it| format!("{:.1}", of(it)));
    format!(
        "{waiting:8} {oldest:>9} {in_flight:10} {dead:9} {:>11} {:>11} {:>11} {:>11}",
        rate(|it| it.accepted),
        rate(|it| it.refused),
        rate(|it| it.delivered),
        rate(|it| it.done),
    )
}

/// Rounded for display.
pub(super) fn rounded(time: Duration) -> Duration {
    let ms = time.as_millis();
    let of = if ms < 10_000 { 100 } else { 1_000 };
    Duration::from_millis(u64::try_from(ms / of * of).unwrap_or(u64::MAX))
}

/// The settings of a queue, in words.
pub(super) fn settings(settings: &Settings) -> String {
    let mut text = String::new();
    if let Some(offering) = &settings.producer {
        text += &format!("  offered    {offering}\n");
    }
    if let Some(working) = &settings.consumer {
        text += &format!("  worked on  {working}\n");
    }
    text
}

fn lines(stats: &Stats) -> String {
    let Stats { waiting, in_flight, dead, .. } = stats;
    let paused = if stats.paused { "  paused     until `tollgate queue resume`\n" } else { "" };
    let oldest = stats
        .oldest
        .map_or(String::new(), |it| format!(", the oldest for {}", duration(rounded(it))));
    let Stats {
        accepted, refused, duplicates, delivered, redelivered, done, expired, died, ..
    } = stats;
    format!(
        "{paused}\
         \x20 waiting    {waiting}{oldest}\n\
         \x20 in flight  {in_flight}\n\
         \x20 dead       {dead} kept, of {died} that died\n\
         \x20 offers     {accepted} accepted, {refused} refused, {duplicates} known\n\
         \x20 jobs       {delivered} delivered, {redelivered} times again; {done} done, {expired} too \
         old\n"
    )
}
