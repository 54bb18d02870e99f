//! Runs as a table for people, and as a part of a page.

use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use crate::bare::BareFound;
use crate::fault::{Cost, Fault};
use crate::run::Found;
use crate::world::Topology;

/// How wide a table is, in columns.
const COLUMNS: u16 = 120;

/// Seconds with one decimal; nothing for a time too short to see.
fn seconds(us: u64) -> String {
    if us < 50_000 {
        return "0".to_owned();
    }
    format!("{:.1} s", Duration::from_micros(us).as_secs_f64())
}

fn names(faults: &[Fault]) -> String {
    let names: Vec<String> = faults.iter().map(|fault| fault.name()).collect();
    names.join(", ")
}

/// The findings of one run, on one line.
#[must_use]
pub fn line(found: &Found) -> String {
    let amiss = found.amiss();
    let verdict = if amiss.is_empty() { "as stated".to_owned() } else { amiss.join("; ") };
    let Found { topology, calls, lost, may_lose, doubled, .. } = found;
    format!(
        "{} on {topology}, {}: {calls} calls, {} errors, lost {lost} of at most {may_lose}, \
         doubled {doubled}, back after {}: {verdict}",
        names(&found.faults),
        found.server,
        found.not_charged + found.ambiguous,
        seconds(found.recovery_us),
    ) + &found.bare.map_or_else(String::new, |bare| beside(found, bare))
}

/// How a bare client fared beside.
fn beside(found: &Found, bare: BareFound) -> String {
    format!(
        "; longest gap {}; redis-rs beside: {} errors of {} calls, lost {}, doubled {}, longest \
         gap {}",
        seconds(found.gap_us),
        bare.errors,
        bare.answered + bare.errors,
        bare.lost,
        bare.doubled,
        seconds(bare.gap_us),
    )
}

/// All runs, one in a row.
#[must_use]
pub fn table(all: &[Found]) -> String {
    let line = LineStyle::none().fill('─').junction('─');
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(line)).set_header([
        "fault",
        "on",
        "calls",
        "errors",
        "lost",
        "at most",
        "doubled",
        "longest gap",
        "back after",
        "decided",
        "",
    ]);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(COLUMNS);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for found in all {
        let (checked, places) = found.exact;
        table.add_row([
            names(&found.faults),
            found.topology.to_string(),
            found.calls.to_string(),
            (found.not_charged + found.ambiguous).to_string(),
            found.lost.to_string(),
            found.may_lose.to_string(),
            found.doubled.to_string(),
            seconds(found.gap_us),
            seconds(found.recovery_us),
            format!("{} %", checked * 100 / places.max(1)),
            if found.amiss().is_empty() { String::new() } else { "AMISS".to_owned() },
        ]);
    }
    format!("{table}\n")
}

/// A run that a page shows: of one fault on one topology, by several servers.
struct Row<'a> {
    fault: Fault,
    topology: Topology,
    by: Vec<Option<&'a Found>>,
}

/// The table of a page, in Markdown: the losses and the times, by each kind of server.
#[must_use]
pub fn markdown(all: &[Found]) -> String {
    let mut servers: Vec<&str> = Vec::new();
    for found in all {
        if !servers.contains(&found.server.as_str()) {
            servers.push(&found.server);
        }
    }
    let mut text = "| fault | on | most lost |".to_owned();
    for server in &servers {
        text += &format!(" {server}: lost | gap | back after |");
    }
    text += "\n| --- | --- | --- |";
    text += &" --- | --- | --- |".repeat(servers.len());
    text.push('\n');
    for Row { fault, topology, by } in rows(all, &servers) {
        let bound = fault.cost(topology).bound();
        text += &format!("| {} | {topology} | {bound} |", fault.what());
        for found in by {
            text += &match found {
                Some(found) => cells(found, fault.cost(topology)),
                None => " – | – | – |".to_owned(),
            };
        }
        text.push('\n');
    }
    let sum = |of: fn(&Found) -> u64| all.iter().map(of).sum::<u64>();
    let calls: usize = all.iter().map(|found| found.calls).sum();
    let amiss: Vec<String> = all
        .iter()
        .flat_map(|found| {
            found.amiss().into_iter().map(|why| format!("{}: {why}", names(&found.faults)))
        })
        .collect();
    text += &format!(
        "\n{} runs, {calls} calls. Charges doubled: {}. Bounds and promises broken: {}.\n",
        all.len(),
        sum(|found| found.doubled),
        if amiss.is_empty() { "none".to_owned() } else { amiss.join("; ") },
    );
    text
}

fn cells(found: &Found, cost: Cost) -> String {
    let lost = match (cost, found.lost) {
        (_, 0) => "0".to_owned(),
        (_, lost) => format!("{lost} of {}", found.charged),
    };
    format!(" {lost} | {} | {} |", seconds(found.gap_us), seconds(found.recovery_us))
}

fn rows<'a>(all: &'a [Found], servers: &[&str]) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for &fault in Fault::all() {
        for &topology in fault.topologies() {
            let of = |server: &&str| {
                all.iter().find(|found| {
                    found.faults == [fault] && found.topology == topology && found.server == *server
                })
            };
            let by: Vec<Option<&Found>> = servers.iter().map(of).collect();
            if by.iter().any(Option::is_some) {
                rows.push(Row { fault, topology, by });
            }
        }
    }
    rows
}
