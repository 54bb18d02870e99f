//! Findings in sentences: computed from the results, never written by hand.

use tollgate::LimitSet;

use super::results::{CaseResult, QueueResult, Results};
use super::{Experiment, backend, nodes};
use crate::figure;

impl Results {
    /// Adds the findings to the results, after the last case has run.
    pub fn conclude(&mut self, experiment: &Experiment) {
        self.findings = experiment.notes.clone();
        let findings = findings(self);
        self.findings.extend(findings);
    }
}

/// One sentence for each finding.
fn findings(results: &Results) -> Vec<String> {
    let mut findings = Vec::new();
    // An incomplete case gives no findings.
    let cases = match results.cases.split_last() {
        Some((_, finished)) if !results.complete => finished,
        _ => &results.cases,
    };
    if let Some(capacity) = &results.capacity {
        let peak = |case: &&CaseResult| case.peak.unwrap_or(0);
        let (over, within): (Vec<&CaseResult>, Vec<&CaseResult>) =
            cases.iter().partition(|case| peak(case) > capacity.units);
        let window = figure::length(capacity.window_us);
        for case in over {
            let times = peak(&case) as f64 / capacity.units as f64;
            findings.push(format!(
                "{} let {} through within {window}, {times:.2} times the {} that the resource can \
                 handle.",
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
    if results.capacity.is_none() {
        findings.extend(denial_findings(cases));
    }
    let limits = cases.iter().flat_map(|case| case.limits.iter().map(move |it| (case, it)));
    // If the clock was set back, window counts are uncertain.
    let is_sure = |case: &CaseResult| case.live.as_ref().is_none_or(|live| live.clock_steps == 0);
    let broken: Vec<String> = limits
        .filter(|(case, limit)| !limit.holds && is_sure(case))
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
    findings.extend(queue_findings(cases));
    findings.extend(backend::findings::findings(cases));
    findings.extend(nodes::findings::findings(cases));
    findings.extend(live_findings(results, cases));
    findings
}

/// Without a capacity: which case denied most, and which admitted more than the number of its
/// limit.
fn denial_findings(cases: &[CaseResult]) -> Vec<String> {
    let limited: Vec<&CaseResult> =
        cases.iter().filter(|case| !case.limits.is_empty() && case.attempts > 0).collect();
    let share = |case: &CaseResult| case.denied as f64 / case.attempts as f64;
    let told = |case: &CaseResult| {
        format!("{} of {} attempts, {}", case.denied, case.attempts, figure::share(share(case)))
    };
    let by_share = |one: &&&CaseResult, other: &&&CaseResult| share(one).total_cmp(&share(other));
    let (Some(least), Some(most)) =
        (limited.iter().min_by(by_share), limited.iter().max_by(by_share))
    else {
        return Vec::new();
    };
    let like = |wanted: &CaseResult| {
        let is_like = |case: &&CaseResult| share(case).total_cmp(&share(wanted)).is_eq();
        names(&limited.iter().copied().filter(is_like).collect::<Vec<_>>())
    };
    let mut findings = vec![if share(least).total_cmp(&share(most)).is_eq() {
        format!("{} denied {}.", like(most), told(most))
    } else {
        let (of_most, of_least) = (told(most), told(least));
        format!("Most denied: {} ({of_most}); fewest: {} ({of_least}).", like(most), like(least))
    }];
    for case in limited {
        for limit in &case.limits {
            let Ok(set) = limit.limit.parse::<LimitSet>() else { continue };
            let [one] = set.limits() else { continue };
            let quota = one.quota();
            if limit.peak > quota.units {
                let whom =
                    if limit.per == "client" { "one client have" } else { "all clients have" };
                let window = figure::length(quota.period.as_micros());
                let times = limit.peak as f64 / quota.units as f64;
                findings.push(format!(
                    "{} let {whom} {} within {window}, {times:.2} times the {} of its limit.",
                    case.name, limit.peak, quota.units
                ));
            }
        }
    }
    findings
}

/// The results of queues, and the effect of more workers.
fn queue_findings(cases: &[CaseResult]) -> Vec<String> {
    let mut findings = Vec::new();
    let queues: Vec<_> =
        cases.iter().filter_map(|case| Some((&case.name, case.queue.as_ref()?))).collect();
    for (name, queue) in &queues {
        let (Some(accepted), Some(refused), Some(done)) =
            (queue.accepted_per_s, queue.refused_per_s, queue.done_per_s)
        else {
            continue;
        };
        let workers = figure::plural(u64::from(queue.workers), "worker");
        let does = if queue.workers == 1 { "does" } else { "do" };
        let most = f64::from(queue.workers) * 1e6 / queue.work_us as f64;
        let rate = queue.rate.as_ref().map(|rate| format!(", and no more than {rate}"));
        findings.push(format!(
            "{name}: {:.1} a second are offered; {workers} of {} a job {does} {most:.1} a second \
             at most{}: {accepted:.1} a second are accepted, {refused:.1} refused, and {done:.1} \
             done.",
            accepted + refused,
            figure::length(queue.work_us),
            rate.unwrap_or_default()
        ));
        let Some(waited) = &queue.waited_us else { continue };
        findings.push(if queue.depth_max == 0 {
            format!("{name}: no job waits.")
        } else {
            format!(
                "{name}: at most {} of {} {}, {:.1} on average; half of the jobs wait no longer \
                 than {}, 99 of 100 no longer than {}.",
                queue.depth_max,
                queue.bound,
                if queue.counts == "all" { "wait or are in flight" } else { "wait" },
                queue.depth_mean.unwrap_or(0.0),
                figure::span(waited.p50),
                figure::span(waited.p99)
            )
        });
    }
    // Queues that differ in nothing else.
    let alike = |one: &QueueResult, other: &QueueResult| {
        let of = |it: &QueueResult| (it.bound, it.counts.clone(), it.work_us, it.rate.clone());
        of(one) == of(other)
    };
    for two in queues.windows(2) {
        let [(_, few), (name, many)] = two else { continue };
        if let (true, Some(before @ 0.1..), Some(after)) = (
            alike(few, many) && few.workers < many.workers,
            few.accepted_per_s,
            many.accepted_per_s,
        ) {
            findings.push(format!(
                "{name}: {:.2} times the workers, {:.2} times as many accepted.",
                f64::from(many.workers) / f64::from(few.workers),
                after / before
            ));
        }
    }
    findings
}

/// A check should take at most this share of the protected operation: a rule of thumb.
const OPERATION_SHARE: f64 = 0.2;

/// The durations of decisions, for a run in real time.
fn live_findings(results: &Results, cases: &[CaseResult]) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(live) = &results.live else { return findings };
    let latencies = cases.iter().filter_map(|case| {
        let latency = case.live.as_ref()?.latency_us.as_ref()?;
        Some((case, latency))
    });
    let slowest = latencies.clone().max_by(|one, other| one.1.mean.total_cmp(&other.1.mean));
    if let Some((case, latency)) = slowest {
        // The cast saturates, as intended; and it is rounded up.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let (mean, least) =
            (libm::ceil(latency.mean) as u64, libm::ceil(latency.mean / OPERATION_SHARE) as u64);
        let took =
            format!("An answer took {} on average at most ({})", figure::span(mean), case.name);
        findings.push(match live.operation_us {
            None => format!(
                "{took}: no more than {:.0} % of an operation of {} and longer.",
                OPERATION_SHARE * 100.0,
                figure::span(least)
            ),
            Some(operation) => {
                let share = latency.mean / operation as f64;
                let verdict = if share <= OPERATION_SHARE { "within" } else { "more than" };
                format!(
                    "{took}: {:.1} % of an operation of {}, {verdict} the {:.0} % that are a rule \
                     of thumb.",
                    share * 100.0,
                    figure::length(operation),
                    OPERATION_SHARE * 100.0
                )
            }
        });
    }
    // Attempts were sent so late that most of a latency is due to this machine, not the store.
    let is_late = |case: &&CaseResult| {
        let live = case.live.as_ref();
        let late = live.and_then(|live| live.late_us.as_ref()).map_or(0, |late| late.p50);
        let latency = live.and_then(|live| live.latency_us.as_ref()).map_or(0, |it| it.p50);
        late > 1_000 && late * 2 > latency
    };
    let late: Vec<&CaseResult> = cases.iter().filter(is_late).collect();
    if !late.is_empty() {
        findings.push(format!(
            "This machine could not ask so fast under {}: attempts were sent late, and latencies \
             are mostly that.",
            names(&late)
        ));
    }
    let seen = || cases.iter().filter_map(|case| case.live.as_ref().map(|live| (case, live)));
    for (case, live) in seen().filter(|(_, live)| live.missed_edges > 0) {
        findings.push(format!(
            "{}: {} attempts came on the wrong side of an edge: the way to the store takes longer \
             than they were sent before it. Give the workload a `before`, e.g. before = \"20ms\".",
            case.name, live.missed_edges
        ));
    }
    for (case, live) in seen().filter(|(_, live)| live.clock_steps > 0) {
        findings.push(format!(
            "{}: the store's clock went back ({} times), so its peaks are not sure.",
            case.name, live.clock_steps
        ));
    }
    for (case, live) in seen().filter(|(_, live)| live.failed > 0) {
        findings.push(format!(
            "{}: {} of {} attempts got no answer: {}",
            case.name,
            live.failed,
            case.attempts,
            live.failure.as_deref().unwrap_or("")
        ));
    }
    findings
}

fn names(cases: &[&CaseResult]) -> String {
    cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ")
}
