//! The busiest clients, and every client as one row of CSV.

use std::fmt::Write as _;

use serde::Serialize;

use super::scan::{Sample, Scan};
use super::table::leasts;
use crate::describe::Description;
use crate::read::Traffic;
use crate::text::csv_cell;

/// A busy client, with the statuses, agents and paths of its requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BusyClient {
    /// Its name in printable form.
    pub client: String,
    /// All of its requests.
    pub requests: u64,
    /// Their units.
    pub units: u64,
    /// Its statuses, agents and paths, where the log was read with descriptions.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub description: Option<Description>,
}

impl BusyClient {
    /// The most clients that are described.
    pub const MOST: usize = 5;
}

/// The behaviour of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientRow {
    /// Its name in printable form.
    pub client: String,
    /// Its requests.
    pub requests: u64,
    /// Their units.
    pub units: u64,
    /// Its first request, in microseconds since the Unix epoch.
    pub first_us: u64,
    /// Its last request.
    pub last_us: u64,
    /// For each window what it asked for in the busiest one.
    pub busiest: Vec<u64>,
    /// For each window the share of clients, in parts per million and rounded down, whose busiest
    /// window is at most as busy as that of this client.
    pub rank_ppm: Vec<u64>,
    /// For each window and strategy its least number of units, in the order of the strategies;
    /// `None` if every number denies it.
    pub least: Vec<Vec<Option<u64>>>,
}

/// The clients with the most units, the busiest first; of equal ones the first of the log.
pub(super) fn busiest(traffic: &Traffic, scan: &Scan) -> Vec<BusyClient> {
    let ids = traffic.clients.ids().filter(|id| traffic.clients.is_sampled(*id));
    let mut all: Vec<_> = ids.zip(&scan.profiles).collect();
    all.sort_by_key(|(_, profile)| std::cmp::Reverse((profile.units, profile.requests)));
    let busy = all.into_iter().take(BusyClient::MOST).map(|(id, profile)| BusyClient {
        client: traffic.clients.printable(id).unwrap_or_default(),
        requests: profile.requests,
        units: profile.units,
        description: traffic.descriptions.as_ref().map(|all| all.of(id)),
    });
    busy.collect()
}

pub(super) fn rows(traffic: &Traffic, sample: &Sample, scan: &Scan) -> Vec<ClientRow> {
    let sorted = scan.windows.iter().map(|window| {
        let mut all: Vec<u64> = window.busy.iter().map(super::scan::Busy::busiest).collect();
        all.sort_unstable();
        all
    });
    let sorted: Vec<Vec<u64>> = sorted.collect();
    let ids = traffic.clients.ids().filter(|id| traffic.clients.is_sampled(*id));
    debug_assert_eq!(sample.len(), scan.profiles.len());
    let rows = ids.zip(scan.profiles.iter()).enumerate().map(|(place, (id, profile))| {
        let busy = || scan.windows.iter().filter_map(move |window| window.busy.get(place));
        let rank = |(all, busiest): (&Vec<u64>, u64)| {
            let below = all.partition_point(|other| *other <= busiest);
            (below as u64) * 1_000_000 / (all.len().max(1) as u64)
        };
        ClientRow {
            client: traffic.clients.printable(id).unwrap_or_default(),
            requests: profile.requests,
            units: profile.units,
            first_us: profile.first_us,
            last_us: profile.last_us,
            busiest: busy().map(super::scan::Busy::busiest).collect(),
            rank_ppm: sorted.iter().zip(busy().map(super::scan::Busy::busiest)).map(rank).collect(),
            least: scan
                .windows
                .iter()
                .zip(busy())
                .map(|(window, busy)| leasts(busy, profile, window.period_us))
                .collect(),
        }
    });
    rows.collect()
}

impl ClientRow {
    /// The first line of the CSV, for these windows.
    #[must_use]
    pub fn header(windows: &[&str]) -> String {
        let mut line = "client,requests,units,first_us,last_us".to_owned();
        // Writing to a string cannot fail.
        for window in windows {
            let _ = write!(line, ",busiest_{window},rank_ppm_{window}");
            for strategy in tollgate::Strategy::RATES {
                let _ = write!(line, ",{}_{window}", strategy.name());
            }
        }
        line
    }

    /// The client as a line of CSV (RFC 4180). A strategy that always denies it has an empty cell.
    #[must_use]
    pub fn csv(&self) -> String {
        let Self { requests, units, first_us, last_us, .. } = self;
        let mut line = csv_cell(&self.client);
        let _ = write!(line, ",{requests},{units},{first_us},{last_us}");
        for ((busiest, rank), least) in self.busiest.iter().zip(&self.rank_ppm).zip(&self.least) {
            let _ = write!(line, ",{busiest},{rank}");
            for least in least {
                line.push(',');
                if let Some(least) = least {
                    let _ = write!(line, "{least}");
                }
            }
        }
        line
    }
}
