//! The chart of when each client was admitted.

use super::Chart;
use super::axis::Across;
use super::columns::{COLUMNS, Timeline};
use super::label::name;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Run, Scale, Shape};
use crate::experiment::results::{CaseResult, Cell, Raster, Results};
use crate::figure::{plural, span};
use tollgate_logs::text::printable;

/// The most rows of a panel: more would leave no room for their names.
pub(super) const ROWS: usize = 12;

/// When up to 12 clients were admitted and denied, the most denied first. Each client has a row,
/// with admitted attempts above denied ones.
#[must_use]
pub fn raster(results: &Results) -> Chart {
    let end_us = Timeline::new(results, COLUMNS).end_us;
    let latest = |case: &CaseResult| {
        let column = case.raster.cells.iter().map(|cell| cell.column).max()?;
        Some(case.raster.column_us.saturating_mul(u64::from(column)))
    };
    let end_us = results.cases.iter().filter_map(latest).fold(end_us, u64::max);
    let panels = results.cases.iter().map(panel).collect();
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

fn panel(case: &CaseResult) -> Panel {
    let raster = &case.raster;
    let clients = raster.clients.len();
    let shown = clients.min(ROWS);
    let note = if raster.cut || clients > ROWS {
        format!("{shown} of its clients")
    } else {
        plural(u64::try_from(shown).unwrap_or(u64::MAX), "client")
    };
    let moments = |ink, shape, was: fn(&Cell) -> bool| {
        let cells = raster.cells.iter().filter(move |cell| was(cell));
        Mark::Moments { ink, shape, runs: runs(cells, raster.column_us) }
    };
    Panel {
        name: case.name.clone(),
        note,
        rows: raster
            .clients
            .iter()
            .take(ROWS)
            .map(|it| printable(it.as_bytes(), usize::MAX))
            .collect(),
        marks: vec![
            moments(Ink::Admitted, Shape::High, |cell| cell.admitted),
            moments(Ink::Denied, Shape::Low, |cell| cell.denied),
        ],
    }
}

/// Merges adjacent cells.
fn runs<'c>(cells: impl Iterator<Item = &'c Cell>, column_us: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for cell in cells {
        let Some(row) = usize::try_from(cell.row).ok().filter(|row| *row < ROWS) else { continue };
        let from_us = u64::from(cell.column).saturating_mul(column_us);
        let to_us = from_us.saturating_add(u64::from(cell.columns).saturating_mul(column_us));
        match runs.last_mut() {
            Some(run) if run.row == row && run.to_us == from_us => run.to_us = to_us,
            _ => runs.push(Run { row, from_us, to_us }),
        }
    }
    runs
}

/// A sentence on the case that left most requests of all clients unserved, and on the shown
/// clients.
fn says(results: &Results) -> String {
    let Some(worst) = results.cases.iter().max_by_key(|case| case.never_served) else {
        return "No case was finished.".into();
    };
    if results.cases.iter().all(|case| case.requests == 0) {
        return "Nobody asked.".into();
    }
    let shown = format!("{}{}", most(results), shown(results));
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

/// The most that one client got in each case, if there are several clients.
fn most(results: &Results) -> String {
    let clients = results.groups.iter().map(|group| group.clients).fold(0, u64::saturating_add);
    let each = results.cases.iter().filter(|_| clients > 1).filter_map(|case| {
        let most = case.most_admitted.as_ref()?;
        let whom = most.is_alone.then(|| format!(" ({})", name(&most.client)));
        let whom = whom.unwrap_or_default();
        Some(format!("{}{whom} with {}", most.admitted, name(&case.name)))
    });
    let each: Vec<String> = each.collect();
    match &each[..] {
        [] => String::new(),
        each => format!(" The most for one client: {}.", each.join(", ")),
    }
}

/// Which clients have rows if not all have, and whether their columns are less than exact.
fn shown(results: &Results) -> String {
    let rasters = || results.cases.iter().map(|case| &case.raster);
    let mut shown = String::new();
    if rasters().any(|raster| raster.cut) {
        shown += " A row is a client: first up to 8 that were denied most often, then others.";
    }
    let columns = |raster: &Raster| {
        let widest = raster.cells.iter().map(|cell| cell.columns).max().filter(|it| *it > 1)?;
        Some(raster.column_us.saturating_mul(u64::from(widest)))
    };
    if let Some(us) = rasters().filter_map(columns).max() {
        shown += &format!(
            " There were too many clients to keep every moment of each: a mark of up to {} says \
             that there was something in it.",
            span(us)
        );
    }
    shown
}
