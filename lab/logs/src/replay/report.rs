//! The result of a replay, for people and as JSON.

use std::cmp::Reverse;
use std::time::Duration;

use serde::Serialize;

use super::plan::{Plan, Refused};
use crate::event::{ClientId, Clients};
use crate::read::Traffic;

/// How many of the most denied clients a report lists.
pub const TOP_DENIED: usize = 10;

/// The effect that limits would have had on the traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Lines of the log that are events; in every case it equals `admitted` + `denied`.
    pub events: u64,
    /// Events with an earlier timestamp than the event before them in the file.
    pub out_of_order: u64,
    /// Lines that are not events.
    pub unparsed: u64,
    /// The earliest and the latest timestamp of the log, in microseconds since the Unix epoch.
    pub first_last_us: Option<(u64, u64)>,
    /// Whether every timestamp of the log is a whole second: see [`crate::Summary::whole_seconds`].
    pub whole_seconds: bool,
    /// Distinct clients of the log.
    pub clients: u64,
    /// One report for each case of the plan, in its order.
    pub cases: Vec<CaseReport>,
    /// The strategies that the plan could not run.
    pub refused: Vec<Refused>,
}

/// The effect that the limits of one case would have had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseReport {
    /// The name of the strategy; for limits with several strategies, each once, joined by `,`.
    pub strategy: String,
    /// The full text of the limits, joined by `, `.
    pub limit: String,
    /// Events that every limit admitted.
    pub admitted: u64,
    /// Events that some limit denied.
    pub denied: u64,
    /// For each limit of the set, in declared order, the peak over its own duration.
    pub peaks: Vec<LimitPeak>,
    /// Clients that were denied at least once.
    pub clients_denied: u64,
    /// The most denied clients, at most [`TOP_DENIED`], with the number of their denials. The most
    /// denied is first; ties are in the byte order of their names. Names are in printable form, see
    /// [`Clients::printable`].
    pub top_denied: Vec<(String, u64)>,
    /// The duration of the decisions, without reading, sorting and counting the events.
    pub elapsed: Duration,
}

/// The most admitted cost of one client in any window of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitPeak {
    /// The full text of the limit.
    pub limit: String,
    /// The most cost that one client was admitted in any `(t - D, t]`, with the limit's own `D`.
    pub peak: u64,
}

impl Report {
    pub(super) fn new(traffic: &Traffic, plan: &Plan, cases: Vec<CaseReport>) -> Self {
        let summary = &traffic.summary;
        Self {
            events: summary.events,
            out_of_order: summary.out_of_order,
            unparsed: summary.unparsed,
            first_last_us: summary.first_last_us,
            whole_seconds: summary.whole_seconds,
            clients: traffic.clients.len() as u64,
            cases,
            refused: plan.refused.clone(),
        }
    }

    /// The report as the object of `replay --json`, for any serializer.
    ///
    /// # Examples
    /// ```
    /// use std::path::Path;
    /// use tollgate_logs::{Lines, Reading};
    /// use tollgate_logs::replay::{Plan, StrategyChoice, replay};
    ///
    /// let log: &[u8] = b"{\"ip\":\"::1\",\"ts\":1000}\n{\"ip\":\"::1\",\"ts\":1001}\n";
    /// let lines = Lines::from_reader(log, Path::new("-"), None)?;
    /// let traffic = Reading::default().read_lines(lines, |_| ())?;
    /// let plan = Plan::new(&["1/10s"], StrategyChoice::AsWritten)?;
    /// let report = replay(&traffic, &plan, |_| ())?;
    /// assert_eq!(
    ///     serde_json::to_string(&report.to_json())?,
    ///     "{\"events\":2,\"out_of_order\":0,\"unparsed\":0,\"strategies\":[{\"strategy\":\
    ///      \"sliding_log\",\"limit\":\"1/10s via sliding_log\",\"admitted\":1,\"denied\":1,\
    ///      \"peak_in_window\":1,\"clients_denied\":1,\"top_denied\":[[\"::1\",1]]}]}"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> ReportJson<'_> {
        ReportJson {
            events: self.events,
            out_of_order: self.out_of_order,
            unparsed: self.unparsed,
            strategies: self.cases.iter().map(CaseJson::new).collect(),
        }
    }
}

impl CaseReport {
    /// The peak of the first declared limit, over its own duration.
    #[must_use]
    pub fn peak_in_window(&self) -> u64 {
        self.peaks.first().map_or(0, |first| first.peak)
    }

    /// Decisions per second of [`Self::elapsed`], rounded down.
    #[must_use]
    pub fn decisions_per_second(&self) -> u64 {
        let events = u128::from(self.admitted + self.denied);
        let per_second = events * 1_000_000_000 / self.elapsed.as_nanos().max(1);
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }
}

/// [`Report`] in the format of `replay --json`. Its names are stable, since scripts rely on them.
#[derive(Debug, Clone, Serialize)]
pub struct ReportJson<'a> {
    events: u64,
    out_of_order: u64,
    unparsed: u64,
    strategies: Vec<CaseJson<'a>>,
}

#[derive(Debug, Clone, Serialize)]
struct CaseJson<'a> {
    strategy: &'a str,
    limit: &'a str,
    admitted: u64,
    denied: u64,
    peak_in_window: u64,
    clients_denied: u64,
    top_denied: &'a [(String, u64)],
}

impl<'a> CaseJson<'a> {
    fn new(case: &'a CaseReport) -> Self {
        Self {
            strategy: &case.strategy,
            limit: &case.limit,
            admitted: case.admitted,
            denied: case.denied,
            peak_in_window: case.peak_in_window(),
            clients_denied: case.clients_denied,
            top_denied: &case.top_denied,
        }
    }
}

/// The [`TOP_DENIED`] clients with the most denials, from counts by client index.
pub(crate) fn top_denied(clients: &Clients, denied: &[u64]) -> Vec<(String, u64)> {
    let counted = denied.iter().zip(0..).filter(|(count, _)| **count > 0);
    let mut ranked: Vec<_> = counted
        .map(|(&count, index)| {
            let id = ClientId::new(index);
            (Reverse(count), clients.name(id).unwrap_or_default(), id)
        })
        .collect();
    if ranked.len() > TOP_DENIED {
        ranked.select_nth_unstable(TOP_DENIED - 1);
        ranked.truncate(TOP_DENIED);
    }
    ranked.sort_unstable();
    ranked
        .into_iter()
        .map(|(Reverse(count), _, id)| (clients.printable(id).unwrap_or_default(), count))
        .collect()
}
