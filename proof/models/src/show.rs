//! The results, as a table for people and as a part of a page.

use core::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use crate::exhaust::{Found, Kept};

/// How wide a table is, in columns.
const COLUMNS: u16 = 80;

/// A number with a comma before each three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn seconds(seconds: f64) -> String {
    if seconds < 9.95 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

const fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

/// A promise, its bound and its witness in one line; with what is wrong of it.
fn kept(kept: &Kept) -> String {
    let Kept { promise, bound, witness, holds, is_reached, .. } = kept;
    let broken = if *holds { "" } else { " BROKEN" };
    let missed = if *is_reached { "" } else { " NOT REACHED" };
    format!("{promise}{broken}: {bound}; {witness}{missed}")
}

/// A line for the terminal about one world.
#[must_use]
pub fn line(found: &Found) -> String {
    let Found { model, world, states, .. } = found;
    let verdict = if found.is_good() { "as stated" } else { "NOT as stated" };
    let (states, took) = (grouped(*states), seconds(found.seconds));
    format!("{model}: {world}: {states} states, {took}: {verdict}")
}

/// All worlds, one in a row, and below it what is promised of each model.
#[must_use]
pub fn table(all: &[Found]) -> String {
    let line = LineStyle::none().fill('─').junction('─');
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(line))
        .set_header(["model", "world", "depth", "states", "empty", "time"])
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(COLUMNS);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for found in all {
        table.add_row([
            found.model.to_owned(),
            found.world.replace('`', ""),
            found.depth.to_string(),
            grouped(found.states),
            yes(found.is_exhausted).to_owned(),
            seconds(found.seconds),
        ]);
    }
    let mut text = format!("{table}\n");
    for found in all {
        let _ = write!(text, "\n{}, {}\n", found.model, found.world.replace('`', ""));
        if !found.is_one_count {
            text.push_str("  A SEARCH IN ANOTHER ORDER FINDS OTHER STATES\n");
        }
        for promise in &found.promises {
            let _ = writeln!(text, "  {}", kept(promise));
            let ways = [("broken by", &promise.broken_by)];
            for (what, way) in ways.iter().filter(|(_, way)| !way.is_empty()) {
                let _ = writeln!(text, "    {what}: {}", way.join(", "));
            }
        }
    }
    text
}

/// The tables of the page: the worlds, and what each model promises.
#[must_use]
pub fn markdown(all: &[Found]) -> String {
    let mut text = "| model | world | depth | states | frontier empty | time |\n\
                    | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for found in all {
        let Found { model, world, depth, .. } = found;
        let (states, empty) = (grouped(found.states), yes(found.is_exhausted));
        let took = seconds(found.seconds);
        let _ = writeln!(text, "| {model} | {world} | {depth} | {states} | {empty} | {took} |");
    }
    text.push_str("\n| model | promise | bound | reached by | holds |\n");
    text.push_str("| --- | --- | --- | --- | --- |\n");
    let mut shown: Vec<(&str, &str)> = Vec::new();
    for found in all {
        for Kept { promise, bound, witness, .. } in &found.promises {
            // The worlds of a model have the same promises: the bounds of the first are shown.
            if shown.contains(&(found.model, promise)) {
                continue;
            }
            shown.push((found.model, promise));
            let model = found.model;
            let worlds = all.iter().filter(|other| other.model == model);
            let mut each =
                worlds.flat_map(|other| &other.promises).filter(|kept| kept.promise == *promise);
            let holds = yes(each.all(|kept| kept.holds && kept.is_reached));
            let _ = writeln!(text, "| {model} | {promise} | {bound} | {witness} | {holds} |");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }
}
