//! `top`: the figures of a running service in a terminal, again and again.

use core::time::Duration;
use std::io::IsTerminal as _;
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::Value;
use tollgate_server::Operation;

use super::admin::{Payload, ask, list, text_of};
use crate::args::Top;
use crate::input::{shown, wait};
use crate::show::{self, Output};
use crate::stop::Stop;

/// The shortest pause: the service computes a new answer each second.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// How long a signal may go unnoticed.
const GLANCE: Duration = Duration::from_millis(50);

/// The most limits that are shown; the rest is summed.
const MAX_LIMITS: usize = 20;

/// The most subjects in each list.
const MAX_SUBJECTS: usize = 5;

/// Moves to the first column of the first line, and erases all that is below.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

pub(crate) fn top(args: &Top, out: &mut Output) -> Result<u8> {
    let every = wait(&args.every)?;
    if every < MIN_PAUSE {
        bail!("--every: the figures change once a second: 1s or more");
    }
    if args.json {
        out.json(&ask(&args.service, Operation::Overview, Payload::Nothing)?)?;
        return Ok(0);
    }
    if args.once {
        out.text(&text(&ask(&args.service, Operation::Overview, Payload::Nothing)?))?;
        return Ok(0);
    }
    let stop = Stop::listen()?;
    let is_terminal = std::io::stdout().is_terminal();
    let mut was_answered = false;
    while out.is_open() {
        let began = Instant::now();
        let shown = match ask(&args.service, Operation::Overview, Payload::Nothing) {
            Ok(answer) => {
                was_answered = true;
                text(&answer)
            }
            // A service that restarts comes back; one that never answered is a mistake.
            Err(error) if was_answered => format!("{error:#}\n"),
            Err(error) => return Err(error),
        };
        match is_terminal {
            true => out.text(&format!("{CLEAR}{shown}"))?,
            false => out.text(&format!("{shown}\n"))?,
        }
        while began.elapsed() < every {
            if stop.is_asked() {
                return Ok(0);
            }
            thread::sleep(GLANCE.min(every.saturating_sub(began.elapsed())));
        }
    }
    Ok(0)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(figures: &Value) -> String {
    let limits = list(&figures["limits"]);
    let (shadows, limits): (Vec<_>, Vec<_>) = limits.iter().partition(|one| one["shadow"] == true);
    let mut text = head(figures);
    if limits.is_empty() {
        text.push_str("\nno requests in the last hour\n");
    } else {
        text.push_str(&format!("\n{}\n", limit_table(figures, &limits)));
    }
    if !shadows.is_empty() {
        text.push_str(&format!("\n{}\n", shadow_table(&shadows)));
    }
    for (by, verb) in [("asked", "asked most"), ("denied", "denied most")] {
        text.push_str(&subjects(&figures[by], verb));
    }
    let queues = list(&figures["queues"]);
    if !queues.is_empty() {
        text.push_str(&format!("\n{}\n", queue_table(queues)));
    }
    text
}

/// The service, its store, and the durations.
fn head(figures: &Value) -> String {
    let up = number(&figures["at_s"]).saturating_sub(number(&figures["started_s"]));
    let mut text = format!(
        "tollgate {}, up {}; {} policies, revision {}\n",
        text_of(&figures["version"]),
        show::duration(Duration::from_secs(up)),
        number(&figures["policies"]),
        text_of(&figures["revision"])
    );
    let store = &figures["store"];
    let took = show::duration(Duration::from_micros(number(&store["took_us"])));
    text.push_str(&match store["error"].as_str() {
        None => format!("store {} counts, answered in {took}", text_of(&store["kind"])),
        Some(error) => {
            format!("store {} does NOT count: {}", text_of(&store["kind"]), shown(error))
        }
    });
    for by in list(&figures["durations"]["by"]) {
        let within = |value: &Value| match value.as_u64() {
            Some(us) => show::duration(Duration::from_micros(us)),
            None => "more".to_owned(),
        };
        text.push_str(&format!(
            "; {} {}: half within {}, 99 % within {}",
            number(&by["answers"]),
            text_of(&by["authority"]),
            within(&by["p50_us"]),
            within(&by["p99_us"])
        ));
    }
    text.push('\n');
    text
}

fn name_of(one: &Value) -> String {
    let limit = text_of(&one["limit"]);
    one["policy"].as_str().map_or(limit.clone(), |policy| format!("{}: {limit}", shown(policy)))
}

/// Events in this many seconds, as events a second with a decimal.
fn rate(events: u64, seconds: u64) -> String {
    let tenths = events.saturating_mul(10) / seconds.max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn limit_table(figures: &Value, limits: &[&Value]) -> show::Table {
    let header = ["policy and limit", "admitted/s", "denied/s", "admitted/h", "denied/h"];
    let mut table = show::table(header);
    let seconds = number(&figures["now_seconds"]);
    let row = |name: String, of: &dyn Fn(&str) -> u64| {
        let [admitted, denied] = ["admitted_now", "denied_now"].map(|key| rate(of(key), seconds));
        let [all_admitted, all_denied] = ["admitted", "denied"].map(|key| of(key).to_string());
        [name, admitted, denied, all_admitted, all_denied]
    };
    let (listed, rest) = limits.split_at(limits.len().min(MAX_LIMITS));
    for one in listed {
        table.add_row(row(name_of(one), &|key| number(&one[key])));
    }
    if !rest.is_empty() {
        let sum = |key: &str| rest.iter().map(|one| number(&one[key])).sum();
        table.add_row(row(format!("{} more", rest.len()), &sum));
    }
    table
}

fn shadow_table(shadows: &[&Value]) -> show::Table {
    let mut table = show::table(["in shadow", "would admit/h", "would deny/h"]);
    for one in shadows.iter().take(MAX_LIMITS) {
        let [admitted, denied] = ["admitted", "denied"].map(|key| number(&one[key]).to_string());
        table.add_row([name_of(one), admitted, denied]);
    }
    table
}

/// The first subjects of a list, as far as there are any.
fn subjects(top: &Value, verb: &str) -> String {
    let subjects = list(&top["subjects"]);
    if subjects.is_empty() {
        return String::new();
    }
    let mut table = show::table([verb, "policy", "times"]);
    for one in subjects.iter().take(MAX_SUBJECTS) {
        let error = number(&one["error"]);
        let least = number(&one["count"]).saturating_sub(error);
        let about = if error > 0 { "at least " } else { "" };
        table.add_row([
            text_of(&one["subject"]),
            one["policy"].as_str().map_or_else(|| "-".to_owned(), shown),
            format!("{about}{least}"),
        ]);
    }
    format!("\n{table}\n")
}

fn queue_table(queues: &[Value]) -> show::Table {
    let mut table = show::table(["queue", "waiting", "in flight", "dead", "refused"]);
    for one in queues {
        let jobs = |key: &str| one[key].as_u64().map_or("?".to_owned(), |jobs| jobs.to_string());
        table.add_row([
            text_of(&one["queue"]),
            jobs("waiting"),
            jobs("in_flight"),
            jobs("dead"),
            number(&one["offers"]["refused"]).to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_beyond_the_most_are_one_row_and_names_are_harmless() {
        let limit = |policy: String| {
            json!({ "policy": policy, "limit": "sliding_log/1h", "shadow": false,
                "admitted_now": 25, "denied_now": 1, "admitted": 100, "denied": 7 })
        };
        let mut limits: Vec<_> =
            (0..MAX_LIMITS + 3).map(|number| limit(format!("p{number:02}"))).collect();
        limits[0]["policy"] = json!("\u{1b}[2Jevil");
        let figures = json!({ "now_seconds": 10, "limits": limits, "store": { "error": "away" } });
        let text = text(&figures);
        let lines: Vec<String> =
            text.lines().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(lines.contains(&"p19: sliding_log/1h 2.5 0.1 100 7".to_owned()), "{text}");
        assert!(lines.contains(&"3 more 7.5 0.3 300 21".to_owned()), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("does NOT count: away"), "{text}");
    }
}
