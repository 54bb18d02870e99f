//! The rows as a table in markdown, and as JSON.

use core::fmt::Write as _;

use serde_json::{Value, json};

use super::{Row, Way};

/// The tables of a document: one for each way.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for (way, name, heads) in [
        (Way::Alone, "strategy", ["N, D up to", "limits", "operations", "states"]),
        (Way::BesideHolds, "limits beside open holds", ["N, D up to", "operations", "states", ""]),
        (Way::Store, "limits in a store, unmerged", ["N, D up to", "histories", "", ""]),
    ] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.way == way).collect();
        if rows.is_empty() {
            continue;
        }
        let heads = heads.iter().filter(|head| !head.is_empty());
        let heads: Vec<&str> = heads.copied().chain(["depth", "different", "time"]).collect();
        let gap = if text.is_empty() { "" } else { "\n" };
        let rule = " ---: |".repeat(heads.len());
        let _ = writeln!(text, "{gap}| {name} | {} |\n| --- |{rule}", heads.join(" | "));
        for row in rows {
            let _ = writeln!(text, "{}", line(row));
        }
    }
    text
}

fn line(row: &Row) -> String {
    let states = match row.way {
        Way::Store => String::new(),
        Way::Alone | Way::BesideHolds => format!(" {} |", grouped(row.size.states)),
    };
    // Where nothing new is left before, every history of any length is tried.
    let depth = if row.size.ended { "any".to_owned() } else { row.size.depth.to_string() };
    let different = if row.different.is_some() { "**yes**" } else { "0" };
    let name = row.name.trim_start_matches("x: ");
    let limits = if row.way == Way::Alone { format!(" {} |", row.limits) } else { String::new() };
    let [units, period_us] = row.most;
    format!(
        "| `{name}` | {units}, {period_us} us |{limits} {} |{states} {depth} | {different} \
         | {} s |",
        grouped(row.size.steps),
        row.took.as_secs().max(1),
    )
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One object for each row.
#[must_use]
pub fn as_json(rows: &[Row]) -> Value {
    let each = rows.iter().map(|row| {
        json!({
            "way": match row.way {
                Way::Alone => "alone",
                Way::BesideHolds => "held",
                Way::Store => "store",
            },
            "name": row.name,
            "most_units": row.most[0],
            "longest_us": row.most[1],
            "limits": row.limits,
            "steps": row.size.steps,
            "states": row.size.states,
            "depth": row.size.depth,
            "ended": row.size.ended,
            "different": row.different,
            "seconds": row.took.as_secs(),
        })
    });
    Value::Array(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Size;
    use core::time::Duration;

    #[test]
    fn a_row_that_differs_is_marked() {
        let size = Size { steps: 1_234_567, states: 89, depth: 6, ended: false };
        let mut row = Row {
            way: Way::Alone,
            name: "gcra",
            most: [4, 12],
            limits: 7,
            size,
            different: None,
            took: Duration::from_secs(3),
        };
        assert_eq!(line(&row), "| `gcra` | 4, 12 us | 7 | 1,234,567 | 89 | 6 | 0 | 3 s |");
        row.different = Some("check 1".to_owned());
        row.size.ended = true;
        assert_eq!(line(&row), "| `gcra` | 4, 12 us | 7 | 1,234,567 | 89 | any | **yes** | 3 s |");
        assert_eq!(as_json(&[row])[0]["different"], "check 1");
    }
}
