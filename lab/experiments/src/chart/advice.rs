//! The chart of an advice: limits against the clients that they ever deny.

use super::Chart;
use super::axis::Across;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape};
use tollgate_logs::advise::{Advice, Curve};

/// The most columns of a curve: a longer one has several numbers of units in each.
const COLUMNS: u64 = 100_000;

/// How many clients each number of units would ever deny: one panel for the recommended rate, or
/// one per window under the recommended strategy.
#[must_use]
pub fn trade(advice: &Advice) -> Chart {
    let recommended = &advice.recommended;
    let curves = advice.curves();
    let most = curves.iter().filter_map(|it| it.points.last()).map(|(units, _)| *units).max();
    let units = if advice.rates.is_empty() { "units of the limit" } else { "burst of the limit" };
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
        across: Across::numbers(units, most.unwrap_or(1)),
        scale: Scale::Count { unit: "clients ever denied".into(), top: advice.clients },
        keys: vec![
            key(Ink::Denied, "more than the share that may be denied"),
            key(Ink::Admitted, "as much as may be denied, and outliers"),
        ],
        panels: curves.iter().map(|curve| panel(curve, advice, column)).collect(),
        below: None,
        is_low: true,
    }
}

fn panel(curve: &Curve<'_>, advice: &Advice, column: u64) -> Panel {
    let last = curve.points.last().map_or(1, |(units, _)| *units);
    let mut points = curve.points.iter().peekable();
    let mut denied = advice.clients;
    let mut values = Vec::new();
    for units in (0..=last).step_by(usize::try_from(column).unwrap_or(usize::MAX)) {
        while let Some((_, now)) = points.next_if(|(at, _)| *at <= units) {
            denied = *now;
        }
        values.push(denied);
    }
    let fits = curve.limit.map_or(u64::MAX, |_| curve.units);
    let too_few = values.iter().zip((0_u64..).step_by(usize::try_from(column).unwrap_or(1)));
    let too_few = too_few.map(|(denied, units)| if units < fits { *denied } else { 0 }).collect();
    let series = |values| Series { column_us: column, values };
    Panel {
        name: if advice.rates.is_empty() { format!("Any {}", curve.of) } else { curve.of.into() },
        note: curve.limit.unwrap_or("no limit fits").into(),
        rows: Vec::new(),
        marks: vec![
            Mark::Area { ink: Ink::Admitted, series: series(values) },
            Mark::Area { ink: Ink::Denied, series: series(too_few) },
        ],
    }
}
