//! The chart of a race: how many clients got through, and how many more than may.

use super::Chart;
use super::axis::Across;
use super::look::Ink;
use super::panel::{Key, Mark, Panel, Run, Scale, Shape};
use crate::experiment::RaceResults;
use crate::figure::plural;

/// How many clients got through in both forms, one row each.
#[must_use]
pub fn race(results: &RaceResults) -> Chart {
    let RaceResults { limit, clients, check_then_increment, atomic, .. } = *results;
    let rows = [("check, then increment", check_then_increment), ("one atomic check", atomic)];
    let run = |row: usize, from_us: u64, to_us: u64| Run { row, from_us, to_us };
    let marks = |ink, of: &dyn Fn(u64) -> (u64, u64)| Mark::Moments {
        ink,
        shape: Shape::Area,
        runs: (0..)
            .zip(rows)
            .map(|(row, (_, through))| (row, of(through)))
            .filter(|(_, (from, to))| to > from)
            .map(|(row, (from, to))| run(row, from, to))
            .collect(),
    };
    let key = |ink, text: &str| Key { shape: Shape::Area, ink, text: text.into() };
    Chart {
        title: "Who got through".into(),
        says: says(results),
        across: Across::numbers("clients that got through", clients),
        scale: Scale::Rows { unit: "form".into() },
        keys: vec![key(Ink::Admitted, "as many as may"), key(Ink::Over, "too many")],
        panels: vec![Panel {
            name: format!("{limit} may pass"),
            note: format!("{} asked", plural(clients, "client")),
            rows: rows.iter().map(|(name, through)| format!("{name} ({through})")).collect(),
            marks: vec![
                marks(Ink::Admitted, &|through| (1, through.min(limit).max(1))),
                marks(Ink::Over, &|through| (limit.min(through).max(1), through)),
            ],
        }],
        below: None,
        is_low: false,
    }
}

fn says(results: &RaceResults) -> String {
    let RaceResults { limit, clients, check_then_increment, overshoot, atomic, .. } = *results;
    format!(
        "Of {}, {limit} may pass. {check_then_increment} passed by looking first and counting \
         then, {overshoot} too many; {atomic} by one atomic check.",
        plural(clients, "client")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Race;

    #[test]
    fn what_is_beyond_the_limit_has_another_ink() {
        let results = Race::new(5, 50, 1).run().unwrap();
        assert!(results.overshoot > 5, "{results:?}");
        let chart = race(&results);
        let [Mark::Moments { runs: within, .. }, Mark::Moments { runs: over, .. }] =
            &chart.panels[0].marks[..]
        else {
            panic!("{:?}", chart.panels)
        };
        let through = results.check_then_increment;
        assert_eq!(within.iter().map(|run| run.to_us).collect::<Vec<_>>(), [5, 5]);
        let over: Vec<_> = over.iter().map(|run| (run.row, run.from_us, run.to_us)).collect();
        assert_eq!(over, [(0, 5, through)]);
        let says = format!("{through} passed by looking first and counting then, {} ", through - 5);
        assert!(chart.says().contains(&says), "{}", chart.says());
    }
}
