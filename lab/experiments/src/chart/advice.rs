//! The chart of an advice: limits against the clients that they ever deny.

use super::Chart;
use super::axis::Across;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape};
use tollgate_logs::advise::{Advice, AdvisedLimit, WindowAdvice};

/// The most columns of a curve: a longer one has several numbers of units in each.
const COLUMNS: u64 = 100_000;

/// How many clients each number of units would ever deny, one panel per window, under the
/// recommended strategy.
#[must_use]
pub fn trade(advice: &Advice) -> Chart {
    let recommended = &advice.recommended;
    let rows: Vec<(&WindowAdvice, &AdvisedLimit)> = advice
        .windows
        .iter()
        .filter_map(|window| {
            let row = window.limits.iter().find(|row| row.strategy == recommended.strategy)?;
            Some((window, row)).filter(|_| !row.curve.is_empty())
        })
        .collect();
    let most = rows.iter().filter_map(|(_, row)| row.curve.last()).map(|(units, _)| *units).max();
    let column = most.unwrap_or(1).div_ceil(COLUMNS).max(1);
    let key = |ink, text: &str| Key { shape: Shape::Area, ink, text: text.into() };
    Chart {
        title: "Units of the limit against clients ever denied".into(),
        says: format!(
            "{} denies {} of {} clients at least once.",
            recommended.limit,
            recommended.clients_denied + recommended.outliers_denied,
            advice.clients
        ),
        across: Across::numbers("units of the limit", most.unwrap_or(1)),
        scale: Scale::Count { unit: "clients ever denied".into(), top: advice.clients },
        keys: vec![
            key(Ink::Denied, "more than the share that may be denied"),
            key(Ink::Admitted, "as much as may be denied, and outliers"),
        ],
        panels: rows.iter().map(|(window, row)| panel(window, row, advice, column)).collect(),
        below: None,
        is_low: true,
    }
}

fn panel(window: &WindowAdvice, row: &AdvisedLimit, advice: &Advice, column: u64) -> Panel {
    let last = row.curve.last().map_or(1, |(units, _)| *units);
    let mut points = row.curve.iter().peekable();
    let mut denied = advice.clients;
    let mut values = Vec::new();
    for units in (0..=last).step_by(usize::try_from(column).unwrap_or(usize::MAX)) {
        while let Some((_, now)) = points.next_if(|(at, _)| *at <= units) {
            denied = *now;
        }
        values.push(denied);
    }
    let fits = row.limit.as_ref().map_or(u64::MAX, |_| row.units);
    let too_few = values.iter().zip((0_u64..).step_by(usize::try_from(column).unwrap_or(1)));
    let too_few = too_few.map(|(denied, units)| if units < fits { *denied } else { 0 }).collect();
    let series = |values| Series { column_us: column, values };
    Panel {
        name: format!("Any {}", window.window),
        note: row.limit.clone().unwrap_or_else(|| "no limit fits".into()),
        rows: Vec::new(),
        marks: vec![
            Mark::Area { ink: Ink::Admitted, series: series(values) },
            Mark::Area { ink: Ink::Denied, series: series(too_few) },
        ],
    }
}
