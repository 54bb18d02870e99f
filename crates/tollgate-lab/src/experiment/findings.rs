//! What results say, in sentences: computed from the numbers, never written by hand.

use super::results::{CaseResult, Results};

/// A sentence for each thing to see.
pub(super) fn of(results: &Results) -> Vec<String> {
    let mut findings = Vec::new();
    // Of a case that was cut nothing is known.
    let cases = match results.cases.split_last() {
        Some((_, finished)) if !results.complete => finished,
        _ => &results.cases,
    };
    if let Some(capacity) = &results.capacity {
        let peak = |case: &&CaseResult| case.peak.unwrap_or(0);
        let (over, within): (Vec<&CaseResult>, Vec<&CaseResult>) =
            cases.iter().partition(|case| peak(case) > capacity.units);
        let window = span(capacity.window_us);
        for case in over {
            let times = peak(&case) as f64 / capacity.units as f64;
            findings.push(format!(
                "{} let {} through within {window}, {times:.2} times the {} that the resource \
                 stands.",
                case.name,
                peak(&case),
                capacity.units
            ));
        }
        if !within.is_empty() {
            let most = within.iter().map(peak).max().unwrap_or(0);
            findings.push(format!(
                "Never more than {} within {window} ({most} at most): {}.",
                capacity.units,
                names(&within)
            ));
        }
    }
    let limits = cases.iter().flat_map(|case| case.limits.iter().map(move |it| (case, it)));
    let broken: Vec<String> = limits
        .filter(|(_, limit)| !limit.holds)
        .map(|(case, limit)| {
            format!(
                "{}: {} let {} through where it promises {}: this is a fault.",
                case.name, limit.limit, limit.peak, limit.promise
            )
        })
        .collect();
    findings.extend(broken);
    let unfair: Vec<&CaseResult> =
        cases.iter().filter(|case| case.fairness.is_some_and(|it| it < 0.7)).collect();
    if !unfair.is_empty() && results.groups.iter().map(|group| group.clients).sum::<u64>() > 1 {
        findings.push(format!(
            "Some clients got far less than their fair share under {} (fairness below 0.7).",
            names(&unfair)
        ));
    }
    findings
}

fn names(cases: &[&CaseResult]) -> String {
    cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A duration in the largest unit that it has a whole number of.
fn span(us: u64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let unit = UNITS.into_iter().find(|(unit, _)| us >= *unit && us.is_multiple_of(*unit));
    unit.map_or_else(|| "0 s".to_owned(), |(unit, name)| format!("{} {name}", us / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_in_the_largest_unit_that_fits() {
        for (us, text) in [
            (0, "0 s"),
            (1, "1 us"),
            (10_000_000, "10 s"),
            (90_000_000, "90 s"),
            (3_600_000_000, "1 h"),
        ] {
            assert_eq!(span(us), text);
        }
    }
}
