//! The chart of the keys and bytes that a store keeps for each case.

use super::Chart;
use super::axis::Across;
use super::label::name;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Run, Scale, Shape};
use super::raster::ROWS;
use crate::experiment::results::{CaseResult, Results};
use crate::figure::plural;
use tollgate_logs::text::printable;

/// A case with its keys and bytes.
type Kept<'r> = (&'r CaseResult, u64, u64);

/// The keys and bytes that the store kept at most, one row per case, on one axis. `None` if all
/// cases keep as many keys, or the store reports none.
#[must_use]
pub fn kept(results: &Results) -> Option<Chart> {
    let kept = results.cases.iter().filter_map(|case| Some((case, case.keys?, case.bytes?)));
    let kept: Vec<Kept<'_>> = kept.collect();
    let most = kept.iter().map(|(.., bytes)| *bytes).max()?;
    if kept.iter().all(|(_, keys, _)| kept.first().is_some_and(|first| first.1 == *keys)) {
        return None;
    }
    Some(Chart {
        title: "What the store keeps".into(),
        says: says(results, &kept),
        across: Across::numbers("bytes", most),
        scale: Scale::Rows { unit: "case".into() },
        keys: vec![Key { shape: Shape::Area, ink: Ink::Admitted, text: "at most".into() }],
        // As many rows per panel as have room for their names.
        panels: kept.chunks(ROWS).map(panel).collect(),
        below: None,
        is_low: false,
    })
}

fn panel(kept: &[Kept<'_>]) -> Panel {
    let run = |(row, (.., bytes)): (usize, &Kept<'_>)| Run { row, from_us: 1, to_us: *bytes };
    let row = |(case, keys, _): &Kept<'_>| {
        format!("{} ({})", printable(case.name.as_bytes(), usize::MAX), plural(*keys, "key"))
    };
    Panel {
        name: "Bytes in the store".into(),
        note: "a key for each subject".into(),
        rows: kept.iter().map(row).collect(),
        marks: vec![Mark::Moments {
            ink: Ink::Admitted,
            shape: Shape::Area,
            runs: kept.iter().enumerate().map(run).collect(),
        }],
    }
}

/// The cases with the most and the fewest keys, and the most jobs of the first queue.
fn says(results: &Results, kept: &[Kept<'_>]) -> String {
    let ends = kept.iter().max_by_key(|it| it.1).zip(kept.iter().min_by_key(|it| it.1));
    let Some(((most, many, large), (fewest, few, small))) = ends else { return String::new() };
    let queue = results.cases.iter().find_map(|case| Some((case, case.queue.as_ref()?)));
    let queue = queue.map(|(case, queue)| {
        format!(" {} holds at most {}.", name(&case.name), plural(queue.depth_max, "job"))
    });
    format!(
        "With {}, {} took {large} bytes; with {}, {} took {small}.{}",
        name(&most.name),
        plural(*many, "key"),
        name(&fewest.name),
        plural(*few, "key"),
        queue.unwrap_or_default()
    )
}
