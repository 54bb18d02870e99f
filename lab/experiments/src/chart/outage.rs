//! Outages of the store, behind the marks of charts over time.

use super::Chart;
use super::axis::Across;
use super::look::Ink;
use super::panel::{Key, Mark, Shape};
use crate::experiment::results::{CaseResult, Results};

/// The chart with a band in the panel of each case while the store was away, and a key for it.
pub(super) fn shaded(mut chart: Chart, results: &Results) -> Chart {
    let Across::Time { end_us, .. } = chart.across else { return chart };
    let mut is_shaded = false;
    for panel in &mut chart.panels {
        let case = results.cases.iter().find(|case| case.name == panel.name);
        let bands = case.into_iter().flat_map(|case| bands(case, end_us));
        let before = panel.marks.len();
        panel.marks.splice(0..0, bands);
        is_shaded |= panel.marks.len() > before;
    }
    if is_shaded {
        let text = "the store is away for some nodes or all".into();
        chart.keys.push(Key { shape: Shape::Area, ink: Ink::Band, text });
    }
    chart
}

fn bands(case: &CaseResult, end_us: u64) -> impl Iterator<Item = Mark> {
    let away = case.nodes.iter().flat_map(|nodes| &nodes.away);
    away.filter(move |it| it.from_us < end_us)
        .map(move |it| Mark::Band { from_us: it.from_us, until_us: it.until_us.min(end_us) })
}
