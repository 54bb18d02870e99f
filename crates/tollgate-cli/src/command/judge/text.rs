//! A judgement as text.

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use tollgate_proof::judge::Area;

use super::report::Report;
use crate::show::{Output, duration, table, texts};

/// The most lines of a history that are printed; `--json` has all.
const LINES: usize = 12;

pub(super) fn print(report: &Report, out: &mut Output) -> Result<()> {
    let (bold, colour) = (Style::new().bold(), colour(report.verdict).bold());
    let verdict = report.verdict.to_uppercase();
    out.line(format!("{bold}{}{bold:#}: {colour}{verdict}{colour:#}\n", report.headline()))?;
    let mut verdicts = texts(["promise", "verdict", "answers checked", "shown by"]);
    for row in &report.verdicts {
        let shown = row.traffic.map_or_else(String::new, str::to_owned);
        verdicts.add_row([row.promise.into(), row.verdict.into(), row.checked.to_string(), shown]);
    }
    out.text(&format!("{verdicts}\n\n"))?;
    out.text(&format!("{}\n\n", most(report)))?;
    out.text(&format!("{}\n", traffic(report)))?;
    if let Some(flood) = &report.flood {
        out.line(format!(
            "\n{} clients at once asked {} times in {}: {} times a second",
            flood.clients,
            flood.asked,
            duration(std::time::Duration::from_micros(flood.took_us / 1_000 * 1_000)),
            flood.per_second()
        ))?;
    }
    for row in report.verdicts.iter().filter(|row| row.verdict == "broken") {
        let red = self::colour("broken");
        out.line(format!("\n{red}{}{red:#}: {}", row.promise, row.reason))?;
        for line in row.history.iter().take(LINES) {
            out.exact(&format!("    {line}\n"))?;
        }
        let more = row.history.len().saturating_sub(LINES);
        if more > 0 {
            out.line(format!("    and {more} more: `--json` has them"))?;
        }
    }
    out.line("\nNot decided:")?;
    for row in report.verdicts.iter().filter(|row| row.verdict == "not decided") {
        out.line(format!("- {}: {}", row.promise, row.reason))?;
    }
    for line in &report.not_decided {
        out.line(format!("- {line}"))?;
    }
    Ok(())
}

fn colour(verdict: &str) -> Style {
    match verdict {
        "kept" => AnsiColor::Green.on_default(),
        "broken" => AnsiColor::Red.on_default(),
        _ => AnsiColor::Yellow.on_default(),
    }
}

/// The most that was admitted beside each limit.
fn most(report: &Report) -> String {
    let mut most = texts(["limit", "most in one period", "of", "seen in"]);
    for row in &report.most_admitted {
        most.add_row([
            row.limit.clone(),
            row.admitted.to_string(),
            row.units.to_string(),
            row.traffic.to_owned(),
        ]);
    }
    most.to_string()
}

/// Each kind of traffic.
fn traffic(report: &Report) -> String {
    let mut traffic = table(["traffic", "asked", "allowed", "denied", "no decision", "broken"]);
    for row in &report.traffic {
        let broken = match &row.broken[..] {
            [] => "-".to_owned(),
            // The bound is the worst, and comes first.
            [one] => (*one).to_owned(),
            [first, rest @ ..] => format!("{first} +{}", rest.len()),
        };
        traffic.add_row([
            row.name.to_owned(),
            row.asked.to_string(),
            row.allowed.to_string(),
            row.denied.to_string(),
            row.no_decision.to_string(),
            broken,
        ]);
    }
    debug_assert!(report.verdicts.len() == Area::ALL.len(), "each area has a row");
    traffic.to_string()
}
