//! The measures of a case, in the order in which reports show them.

use crate::experiment::results::{
    BackendResult, CaseResult, Latency, LiveResult, NodesResult, QueueResult, Results,
};
use crate::figure::{share, span};

/// A column of the table.
pub(super) struct Measure {
    /// Its name in the JSON.
    pub(super) id: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// Its meaning, in a sentence.
    pub(super) means: &'static str,
    pub(super) value: fn(&CaseResult) -> Value,
}

/// A number, and how it is shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Value {
    Count(Option<u64>),
    Wait(Option<u64>),
    Share(Option<f64>),
    /// An index from 0 to 1, which is not a share of anything.
    Index(Option<f64>),
    Times(Option<f64>),
    Bytes(Option<f64>),
    AllBytes(Option<u64>),
    /// Microseconds with fractions.
    Micros(Option<f64>),
    /// A mean number.
    Mean(Option<f64>),
    /// A number per second.
    Rate(Option<f64>),
}

impl Value {
    /// The readable form; `-` without a value.
    pub(super) fn shown(self) -> String {
        let text = match self {
            Self::Count(count) => count.map(|count| count.to_string()),
            Self::Wait(us) => us.map(span),
            Self::Share(part) => finite(part).map(share),
            Self::Index(index) => finite(index).map(|index| format!("{index:.3}")),
            Self::Times(times) => finite(times).map(|times| format!("{times:.1}x")),
            Self::Bytes(bytes) => finite(bytes).map(|bytes| format!("{bytes:.0} B")),
            Self::AllBytes(bytes) => bytes.map(|bytes| format!("{bytes} B")),
            Self::Micros(us) => finite(us).map(|us| format!("{us:.1} us")),
            Self::Mean(mean) => finite(mean).map(|mean| format!("{mean:.2}")),
            Self::Rate(rate) => finite(rate).map(|rate| format!("{rate:.1}/s")),
        };
        text.unwrap_or_else(|| "-".into())
    }

    /// The form in the JSON.
    pub(super) fn exact(self) -> String {
        let text = match self {
            Self::Count(count) | Self::Wait(count) | Self::AllBytes(count) => {
                serde_json::to_string(&count)
            }
            Self::Share(real)
            | Self::Index(real)
            | Self::Times(real)
            | Self::Bytes(real)
            | Self::Micros(real)
            | Self::Mean(real)
            | Self::Rate(real) => serde_json::to_string(&real),
        };
        // Formatting a number cannot fail.
        text.unwrap_or_default()
    }

    pub(super) fn is_none(self) -> bool {
        self.exact() == "null"
    }
}

/// Infinity and NaN are `null`, as in the JSON.
fn finite(real: Option<f64>) -> Option<f64> {
    real.filter(|real| real.is_finite())
}

static ALL: [Measure; 55] = [
    Measure {
        id: "requests",
        title: "requests",
        means: "The work that clients asked for.",
        value: |case| Value::Count(Some(case.requests)),
    },
    Measure {
        id: "attempts",
        title: "attempts",
        means: "How often they asked for it: requests and retries.",
        value: |case| Value::Count(Some(case.attempts)),
    },
    Measure {
        id: "retries",
        title: "retries",
        means: "Attempts after a denial of the same request.",
        value: |case| Value::Count(Some(case.retries)),
    },
    Measure {
        id: "admitted",
        title: "admitted",
        means: "Attempts that were let through.",
        value: |case| Value::Count(Some(case.admitted)),
    },
    Measure {
        id: "denied",
        title: "denied",
        means: "Attempts that were not.",
        value: |case| Value::Count(Some(case.denied)),
    },
    Measure {
        id: "never_served",
        title: "never served",
        means: "Requests that were never let through.",
        value: |case| Value::Count(Some(case.never_served)),
    },
    Measure {
        id: "peak",
        title: "peak",
        means: "The most admitted in any window of the capacity, all clients together.",
        value: |case| Value::Count(case.peak),
    },
    Measure {
        id: "used_share",
        title: "used share",
        means: "Of the capacity, the part that was used in windows where more was asked for.",
        value: |case| Value::Share(case.used_share),
    },
    Measure {
        id: "fairness",
        title: "fairness",
        means: "Jain's index of what each client got over its max-min fair share: 1 is fair.",
        value: |case| Value::Index(case.fairness),
    },
    Measure {
        id: "longest_wait_us",
        title: "longest wait",
        means: "From a request's first attempt to the one that was let through, rounded up.",
        value: |case| Value::Wait(case.longest_wait_us),
    },
    Measure {
        id: "told_wait_us.p50",
        title: "told to wait p50",
        means: "The waits of denials: half are at most this.",
        value: |case| Value::Wait(case.told_wait_us.as_ref().map(|it| it.p50)),
    },
    Measure {
        id: "told_wait_us.p99",
        title: "told to wait p99",
        means: "The waits of denials: 99 of 100 are at most this.",
        value: |case| Value::Wait(case.told_wait_us.as_ref().map(|it| it.p99)),
    },
    Measure {
        id: "told_wait_us.max",
        title: "told to wait at most",
        means: "The waits of denials: the longest.",
        value: |case| Value::Wait(case.told_wait_us.as_ref().map(|it| it.max)),
    },
    Measure {
        id: "burstiness",
        title: "burstiness",
        means: "The most admitted in a bucket over the mean, from the first admitted to the last.",
        value: |case| Value::Times(case.burstiness),
    },
    Measure {
        id: "bytes_per_subject",
        title: "bytes per subject",
        means: "The maximum memory of the store for a key of this case.",
        value: |case| Value::Bytes(case.bytes_per_subject),
    },
    Measure {
        id: "keys",
        title: "keys",
        means: "How many keys the store held for this case, at most: one for each subject.",
        value: |case| Value::Count(case.keys),
    },
    Measure {
        id: "bytes",
        title: "bytes in all",
        means: "The maximum memory of the store for all keys of this case together.",
        value: |case| Value::AllBytes(case.bytes),
    },
    Measure {
        id: "queue.done",
        title: "done",
        means: "Jobs that the workers of a queue had done at the end.",
        value: |case| Value::Count(queue(case, |queue| Some(queue.done))),
    },
    Measure {
        id: "queue.accepted_per_s",
        title: "accepted a second",
        means: "Offers that a queue accepted, in the second half of the time.",
        value: |case| Value::Rate(queue(case, |queue| queue.accepted_per_s)),
    },
    Measure {
        id: "queue.refused_per_s",
        title: "refused a second",
        means: "Offers that a queue refused since it was full, in the second half of the time.",
        value: |case| Value::Rate(queue(case, |queue| queue.refused_per_s)),
    },
    Measure {
        id: "queue.done_per_s",
        title: "done a second",
        means: "Jobs that the workers of a queue had done, in the second half of the time.",
        value: |case| Value::Rate(queue(case, |queue| queue.done_per_s)),
    },
    Measure {
        id: "queue.depth_mean",
        title: "mean depth",
        means: "How many jobs the bound of a queue counted, on average over all time.",
        value: |case| Value::Mean(queue(case, |queue| queue.depth_mean)),
    },
    Measure {
        id: "queue.depth_max",
        title: "highest depth",
        means: "The most that the bound of a queue counted for any time.",
        value: |case| Value::Count(queue(case, |queue| Some(queue.depth_max))),
    },
    Measure {
        id: "queue.waited_us.p50",
        title: "in queue p50",
        means: "From when a job was accepted to when a worker took it: half waited no longer.",
        value: |case| Value::Wait(waited(case, |it| it.p50)),
    },
    Measure {
        id: "queue.waited_us.p99",
        title: "in queue p99",
        means: "From when a job was accepted to when a worker took it: 99 of 100 waited no longer.",
        value: |case| Value::Wait(waited(case, |it| it.p99)),
    },
    Measure {
        id: "queue.waited_us.max",
        title: "longest in queue",
        means: "From when a job was accepted to when a worker took it: the longest.",
        value: |case| Value::Wait(waited(case, |it| it.max)),
    },
    Measure {
        id: "backend.done",
        title: "done",
        means: "Requests that the backend had done at the end.",
        value: |case| Value::Count(backend(case, |backend| Some(backend.done))),
    },
    Measure {
        id: "backend.in_flight_mean",
        title: "in flight",
        means: "Requests at the backend, waiting or worked on: the mean over all time.",
        value: |case| Value::Mean(backend(case, |backend| backend.in_flight_mean)),
    },
    Measure {
        id: "backend.in_flight_max",
        title: "most in flight",
        means: "Requests at the backend, waiting or worked on: the most for any time.",
        value: |case| Value::Count(backend(case, |backend| Some(backend.in_flight_max))),
    },
    Measure {
        id: "backend.latency_us.p50",
        title: "done within p50",
        means: "From when a request was admitted until it was done: half took no longer.",
        value: |case| Value::Wait(backend(case, |it| it.latency_us.as_ref().map(|it| it.p50))),
    },
    Measure {
        id: "backend.latency_us.p99",
        title: "done within p99",
        means: "From when a request was admitted until it was done: 99 of 100 took no longer.",
        value: |case| Value::Wait(backend(case, |it| it.latency_us.as_ref().map(|it| it.p99))),
    },
    Measure {
        id: "backend.recovered_us",
        title: "recovered after",
        means: "From the end of the last slow phase until no request waited for a server.",
        value: |case| Value::Wait(backend(case, |backend| backend.recovered_us)),
    },
    Measure {
        id: "backend.overran",
        title: "holds overrun",
        means: "Holds that ended by themselves while the work went on.",
        value: |case| Value::Count(backend(case, |backend| Some(backend.overran))),
    },
    Measure {
        id: "nodes.questions",
        title: "questions",
        means: "Questions that the nodes put to the store.",
        value: |case| Value::Count(nodes(case, |nodes| Some(nodes.questions))),
    },
    Measure {
        id: "nodes.per_question",
        title: "decisions a question",
        means: "Attempts for each question to the store.",
        value: |case| Value::Mean(nodes(case, |nodes| nodes.per_question)),
    },
    Measure {
        id: "nodes.by_lease",
        title: "by leases",
        means: "Attempts that were admitted from units charged before.",
        value: |case| Value::Count(nodes(case, |nodes| Some(nodes.by_lease))),
    },
    Measure {
        id: "nodes.by_deny_cache",
        title: "by deny cache",
        means: "Attempts that were denied by a denial that still applied.",
        value: |case| Value::Count(nodes(case, |nodes| Some(nodes.by_deny_cache))),
    },
    Measure {
        id: "nodes.by_local_share",
        title: "by local shares",
        means: "Attempts that nodes decided without the store, by their shares.",
        value: |case| Value::Count(nodes(case, |nodes| Some(nodes.by_local_share))),
    },
    Measure {
        id: "nodes.by_failure_rule",
        title: "by failure rule",
        means: "Attempts that the failure rule alone decided.",
        value: |case| Value::Count(nodes(case, |nodes| Some(nodes.by_failure_rule))),
    },
    Measure {
        id: "nodes.admitted_alone",
        title: "one count admits",
        means: "The units of the same attempts that one count, asked without delay, would have let \
                through.",
        value: |case| Value::Count(nodes(case, |nodes| nodes.admitted_alone)),
    },
    Measure {
        id: "nodes.beyond",
        title: "beyond the limit",
        means: "The most that a limit let through in a window beyond its promise without leases.",
        value: |case| Value::Count(nodes(case, |nodes| Some(nodes.beyond))),
    },
    Measure {
        id: "nodes.wasted",
        title: "wasted units",
        means: "Units charged ahead that nobody spent, and that could not be given back.",
        value: |case| Value::Count(nodes(case, |nodes| Some(nodes.wasted))),
    },
    Measure {
        id: "nodes.answered_us.p50",
        title: "answered p50",
        means: "From an attempt to its answer: half took no longer.",
        value: |case| Value::Wait(nodes(case, |nodes| nodes.answered_us.as_ref().map(|it| it.p50))),
    },
    Measure {
        id: "nodes.answered_us.p99",
        title: "answered p99",
        means: "From an attempt to its answer: 99 of 100 took no longer.",
        value: |case| Value::Wait(nodes(case, |nodes| nodes.answered_us.as_ref().map(|it| it.p99))),
    },
    Measure {
        id: "live.failed",
        title: "failed",
        means: "Attempts that got no answer: neither admitted nor denied.",
        value: |case| Value::Count(live(case, |live| Some(live.failed))),
    },
    Measure {
        id: "live.latency_us.mean",
        title: "mean latency",
        means: "From when an attempt was due to its answer: the mean.",
        value: |case| Value::Micros(latency(case, |it| it.mean)),
    },
    Measure {
        id: "live.latency_us.p50",
        title: "latency p50",
        means: "From when an attempt was due to its answer: half took no longer.",
        value: |case| Value::Wait(latency(case, |it| it.p50)),
    },
    Measure {
        id: "live.latency_us.p99",
        title: "latency p99",
        means: "From when an attempt was due to its answer: 99 of 100 took no longer.",
        value: |case| Value::Wait(latency(case, |it| it.p99)),
    },
    Measure {
        id: "live.latency_us.p99_9",
        title: "latency p99.9",
        means: "From when an attempt was due to its answer: 999 of 1,000 took no longer.",
        value: |case| Value::Wait(latency(case, |it| it.p99_9)),
    },
    Measure {
        id: "live.latency_us.max",
        title: "longest latency",
        means: "From when an attempt was due to its answer: the longest.",
        value: |case| Value::Wait(latency(case, |it| it.max)),
    },
    Measure {
        id: "live.late_us.p99",
        title: "sent late p99",
        means: "How late 99 of 100 attempts were sent at most: near the latencies, this machine \
                was too slow.",
        value: |case| Value::Wait(live(case, |live| live.late_us.as_ref().map(|late| late.p99))),
    },
    Measure {
        id: "live.operation_share",
        title: "share of operation",
        means: "The mean latency as a share of the operation that is protected: no more than 20% \
                is a good rule.",
        value: |case| Value::Share(live(case, |live| live.operation_share)),
    },
    Measure {
        id: "live.cpu_us",
        title: "server CPU",
        means: "Time of the server's processor for each answer.",
        value: |case| Value::Micros(live(case, |live| live.cpu_us)),
    },
    Measure {
        id: "live.calls",
        title: "calls",
        means: "Calls of scripts that the server got for each answer.",
        value: |case| Value::Mean(live(case, |live| live.calls)),
    },
    Measure {
        id: "live.commands",
        title: "commands",
        means: "Commands that scripts ran for each answer.",
        value: |case| Value::Mean(live(case, |live| live.commands)),
    },
];

/// The measures that tell of clients that try again.
const OF_RETRIES: [&str; 4] = ["attempts", "retries", "never_served", "longest_wait_us"];

/// The titles of `admitted` and `denied` if all cases are queues.
static QUEUE_TITLES: [Measure; 2] = [
    Measure {
        id: "admitted",
        title: "accepted",
        means: "Offers that the queue accepted.",
        value: |case| Value::Count(Some(case.admitted)),
    },
    Measure {
        id: "denied",
        title: "refused",
        means: "Offers that it refused, since it was full.",
        value: |case| Value::Count(Some(case.denied)),
    },
];

fn queue<T>(case: &CaseResult, of: fn(&QueueResult) -> Option<T>) -> Option<T> {
    case.queue.as_ref().and_then(of)
}

fn backend<T>(case: &CaseResult, of: fn(&BackendResult) -> Option<T>) -> Option<T> {
    case.backend.as_ref().and_then(of)
}

fn nodes<T>(case: &CaseResult, of: fn(&NodesResult) -> Option<T>) -> Option<T> {
    case.nodes.as_ref().and_then(of)
}

fn waited<T>(case: &CaseResult, of: fn(&Latency) -> T) -> Option<T> {
    case.queue.as_ref()?.waited_us.as_ref().map(of)
}

fn live<T>(case: &CaseResult, of: fn(&LiveResult) -> Option<T>) -> Option<T> {
    case.live.as_ref().and_then(of)
}

fn latency<T>(case: &CaseResult, of: fn(&Latency) -> T) -> Option<T> {
    case.live.as_ref()?.latency_us.as_ref().map(of)
}

/// The measures that at least one case has.
pub(super) fn applicable(results: &Results) -> Vec<&'static Measure> {
    let has_some =
        |measure: &&Measure| results.cases.iter().any(|case| !(measure.value)(case).is_none());
    // Clients of a log do not try again as the lab's do: these are the numbers of others, or 0.
    let is_replay = results.start_us.is_some() && results.cases.iter().all(|it| it.retries == 0);
    let tells = |measure: &&Measure| !(is_replay && OF_RETRIES.contains(&measure.id));
    let [admitted, _] = results.words();
    let is_all_queues = QUEUE_TITLES.iter().any(|measure| measure.title == admitted);
    let named = |measure: &'static Measure| {
        let other = QUEUE_TITLES.iter().find(|other| is_all_queues && other.id == measure.id);
        other.unwrap_or(measure)
    };
    ALL.iter().filter(has_some).filter(tells).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_for_people_and_kept_exact() {
        for (value, shown, exact) in [
            (Value::Count(Some(1_234_567)), "1234567", "1234567"),
            (Value::Count(None), "-", "null"),
            (Value::Wait(Some(1_234_567)), "1.3 s", "1234567"),
            (Value::Share(Some(0.973_421_7)), "97.3%", "0.9734217"),
            (Value::Share(Some(f64::NAN)), "-", "null"),
            (Value::Index(Some(0.812_3)), "0.812", "0.8123"),
            (Value::Times(Some(3.25)), "3.2x", "3.25"),
            (Value::Bytes(Some(48.0)), "48 B", "48.0"),
            (Value::AllBytes(Some(217_368)), "217368 B", "217368"),
            (Value::Micros(Some(10.94)), "10.9 us", "10.94"),
            (Value::Mean(Some(1.0)), "1.00", "1.0"),
            (Value::Rate(Some(9.966_7)), "10.0/s", "9.9667"),
        ] {
            assert_eq!((value.shown().as_str(), value.exact().as_str()), (shown, exact));
        }
    }
}
