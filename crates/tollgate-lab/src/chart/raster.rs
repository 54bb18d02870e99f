//! Who got through when.

use std::collections::BTreeSet;

use super::Chart;
use super::axis::Across;
use super::columns::{COLUMNS, Timeline};
use super::label::name;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Run, Scale, Shape};
use crate::experiment::results::{CaseResult, Raster, Results};
use crate::figure::plural;
use crate::text::printable;

/// The most rows of a panel: with more there is no room for their names.
pub(super) const ROWS: usize = 12;

/// Every attempt of up to 12 clients, those denied most often first: a row for each client, and
/// admitted attempts above denied ones.
#[must_use]
pub fn raster(results: &Results) -> Chart {
    let end_us = Timeline::new(results, COLUMNS).end_us;
    let latest = |case: &CaseResult| case.raster.attempts.iter().map(|(_, at, _)| *at).max();
    let end_us = results.cases.iter().filter_map(latest).fold(end_us, u64::max);
    let panels = results.cases.iter().map(|case| panel(case, end_us)).collect();
    let key = |shape, ink, text: &str| Key { shape, ink, text: text.into() };
    let [admitted, denied] = results.words();
    Chart {
        title: "Who got through, and when".into(),
        says: says(results),
        across: Across::time(end_us, results),
        scale: Scale::Rows { unit: "client".into() },
        keys: vec![key(Shape::High, Ink::Admitted, admitted), key(Shape::Low, Ink::Denied, denied)],
        panels,
        below: None,
        is_low: false,
    }
}

fn panel(case: &CaseResult, end_us: u64) -> Panel {
    let raster = &case.raster;
    let clients = raster.clients.len();
    let shown = clients.min(ROWS);
    let note = if raster.cut || clients > ROWS {
        format!("{shown} of its clients")
    } else {
        plural(u64::try_from(shown).unwrap_or(u64::MAX), "client")
    };
    let moments =
        |ink, shape, admitted| Mark::Moments { ink, shape, runs: runs(raster, admitted, end_us) };
    Panel {
        name: case.name.clone(),
        note,
        rows: raster.clients.iter().take(ROWS).map(|it| printable(it.as_bytes(), 60)).collect(),
        marks: vec![
            moments(Ink::Admitted, Shape::High, true),
            moments(Ink::Denied, Shape::Low, false),
        ],
    }
}

/// Attempts as columns that touch are joined: a million of them are no more than the columns.
fn runs(raster: &Raster, admitted: bool, end_us: u64) -> Vec<Run> {
    let column_us = end_us.div_ceil(u64::try_from(COLUMNS).unwrap_or(u64::MAX)).max(1);
    let mut cells = BTreeSet::new();
    for &(row, at_us, was_admitted) in &raster.attempts {
        let row = usize::try_from(row).unwrap_or(usize::MAX);
        if was_admitted == admitted && row < ROWS {
            cells.insert((row, at_us / column_us));
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for (row, column) in cells {
        let from_us = column * column_us;
        let to_us = from_us.saturating_add(column_us);
        match runs.last_mut() {
            Some(run) if run.row == row && run.to_us == from_us => run.to_us = to_us,
            _ => runs.push(Run { row, from_us, to_us }),
        }
    }
    runs
}

/// Which case left the most requests undone, of all clients; and which of them are shown.
fn says(results: &Results) -> String {
    let Some(worst) = results.cases.iter().max_by_key(|case| case.never_served) else {
        return "No case was finished.".into();
    };
    if results.cases.iter().all(|case| case.requests == 0) {
        return "Nobody asked.".into();
    }
    let shown = if results.cases.iter().any(|case| case.raster.cut) {
        " A row is a client, those denied most often first."
    } else {
        ""
    };
    if worst.never_served == 0 {
        return format!("Every request got through in the end, in every case.{shown}");
    }
    format!(
        "With {}, {} of {} never got through.{shown}",
        name(&worst.name),
        worst.never_served,
        plural(worst.requests, "request"),
    )
}
