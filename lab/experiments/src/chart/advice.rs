//! The chart of an advice: limits against the share of the clients that they ever deny.

use super::Chart;
use super::axis::Across;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Scale, Series, Shape, WHOLE};
use crate::figure::{parts, plural};
use tollgate_logs::advise::{Advice, Curve, CurvePoint};

/// The most columns of a curve: a longer one has several numbers of units in each.
const COLUMNS: u64 = 100_000;

/// Which share of the clients each number of units would ever deny, and where the limit is: one
/// panel for the recommended rate, or one per window under the recommended strategy.
#[must_use]
pub fn trade(advice: &Advice) -> Chart {
    let recommended = &advice.recommended;
    let curves = advice.curves();
    let most = curves.iter().filter_map(|it| it.points.last()).map(|it| it.units).max();
    let most = most.unwrap_or(1).max(recommended.units);
    let units = if advice.rates.is_empty() { "units of the limit" } else { "burst of the limit" };
    let column = most.div_ceil(COLUMNS).max(1);
    let key = |shape, ink, text: &str| Key { shape, ink, text: text.into() };
    let denied = recommended.clients_denied + recommended.outliers_denied;
    Chart {
        title: "Units of the limit against clients ever denied".into(),
        says: format!(
            "{} denies {denied} of {} clients at least once ({}).",
            recommended.limit,
            advice.clients,
            parts(denied, advice.clients)
        ),
        across: Across::numbers(units, most),
        scale: Scale::Shares {
            unit: "share of the clients that are ever denied, on a logarithmic scale".into(),
            least: WHOLE / advice.clients.clamp(1, WHOLE),
        },
        keys: vec![
            key(Shape::Line, Ink::Denied, "more than may be denied"),
            key(Shape::Line, Ink::Admitted, "as much as may be denied, and outliers"),
            key(Shape::Line, Ink::Muted, "outliers alone"),
            key(Shape::Dot, Ink::Text, "the limit"),
        ],
        panels: curves.iter().map(|curve| panel(curve, advice, column)).collect(),
        below: None,
        is_low: false,
    }
}

fn panel(curve: &Curve<'_>, advice: &Advice, column: u64) -> Panel {
    let last = curve.points.last().map_or(1, |it| it.units).max(curve.units);
    let share = |denied: u64| {
        let share = u128::from(denied) * u128::from(WHOLE) / u128::from(advice.clients.max(1));
        // One client is some share, however many there are.
        u64::try_from(share).unwrap_or(WHOLE).max(denied.min(1))
    };
    let mut points = curve.points.iter().peekable();
    let mut now = CurvePoint::default();
    (now.clients, now.outliers) = (advice.clients, advice.recommended.outliers_count);
    let step = usize::try_from(column).unwrap_or(usize::MAX);
    let (mut too_few, mut enough, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    let fits = curve.limit.map_or(u64::MAX, |_| curve.units);
    for units in (0..=last).step_by(step) {
        while let Some(next) = points.next_if(|it| it.units <= units) {
            now = *next;
        }
        let value = share(now.clients);
        apart.push(share(now.outliers));
        let is_enough = units >= fits;
        too_few.push(if is_enough { 0 } else { value });
        enough.push(if is_enough { value } else { 0 });
    }
    let here = curve.points.iter().rev().find(|it| it.units <= curve.units);
    let here = here.map_or(advice.clients, |it| it.clients);
    let series = |values| Series { column_us: column, values };
    let mut marks = vec![
        Mark::Line { ink: Ink::Muted, series: series(apart) },
        Mark::Line { ink: Ink::Denied, series: series(too_few) },
        Mark::Line { ink: Ink::Admitted, series: series(enough) },
    ];
    if let Some(limit) = curve.limit {
        marks.push(Mark::Point { at: curve.units, value: share(here), text: limit.into() });
    }
    Panel {
        name: if advice.rates.is_empty() { format!("Any {}", curve.of) } else { curve.of.into() },
        note: match curve.limit {
            Some(_) => {
                format!("{} ever denied, {}", plural(here, "client"), parts(here, advice.clients))
            }
            None => "no limit fits".into(),
        },
        rows: Vec::new(),
        marks,
    }
}
