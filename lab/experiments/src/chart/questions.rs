//! The chart of questions to the store, for cases with nodes.

use super::Chart;
use super::axis::Across;
use super::label::name;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Run, Scale, Shape};
use super::raster::ROWS;
use crate::experiment::results::{CaseResult, NodesResult, Results};
use tollgate_logs::text::printable;

/// A case with its nodes, and its decisions for each question.
type Asked<'r> = (&'r CaseResult, &'r NodesResult, f64);

/// The decisions for each question to the store, one row per case with nodes, on one axis. `None`
/// without such a case.
#[must_use]
pub fn questions(results: &Results) -> Option<Chart> {
    let asked: Vec<Asked<'_>> = results.cases.iter().filter_map(with_questions).collect();
    let most = asked.iter().map(|(.., each)| *each).max_by(f64::total_cmp)?;
    Some(Chart {
        title: "Decisions for each question to the store".into(),
        says: says(&asked),
        across: Across::numbers("decisions for each question", whole(most)),
        scale: Scale::Rows { unit: "case".into() },
        keys: vec![Key {
            shape: Shape::Dot,
            ink: Ink::Admitted,
            text: "decided for each question".into(),
        }],
        // As many rows per panel as have room for their names.
        panels: asked.chunks(ROWS).map(panel).collect(),
        below: None,
        is_low: false,
    })
}

fn with_questions(case: &CaseResult) -> Option<Asked<'_>> {
    let nodes = case.nodes.as_ref()?;
    Some((case, nodes, nodes.per_question?))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a ratio of counts
fn whole(ratio: f64) -> u64 {
    ratio.round() as u64
}

fn panel(asked: &[Asked<'_>]) -> Panel {
    let run = |(row, (.., each)): (usize, &Asked<'_>)| {
        let each = whole(*each);
        Run { row, from_us: each, to_us: each }
    };
    let row = |(case, _, each): &Asked<'_>| {
        format!("{} ({each:.1})", printable(case.name.as_bytes(), usize::MAX))
    };
    Panel {
        name: "Questions".into(),
        note: "more is better".into(),
        rows: asked.iter().map(row).collect(),
        marks: vec![Mark::Moments {
            ink: Ink::Admitted,
            shape: Shape::Dot,
            runs: asked.iter().enumerate().map(run).collect(),
        }],
    }
}

fn says(asked: &[Asked<'_>]) -> String {
    let by = |one: &&Asked<'_>, other: &&Asked<'_>| one.2.total_cmp(&other.2);
    let ends = asked.iter().min_by(by).zip(asked.iter().max_by(by));
    let Some(((fewest, _, few), (most, _, many))) = ends else { return String::new() };
    if fewest.name == most.name {
        return format!("{few:.1} decisions for each question.");
    }
    format!(
        "{few:.1} decisions for each question with {}, and {many:.1} with {}.",
        name(&fewest.name),
        name(&most.name)
    )
}
