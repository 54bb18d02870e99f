//! Estimates the size of an experiment before it runs.

use super::{Case, Experiment, backend, measure, run};
use crate::figure::span;
use tollgate_logs::decide::Per;

/// The approximate size of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Size {
    /// The approximate number of requests of all cases.
    pub requests: u64,
    /// The attempts of all cases, if every attempt is denied. Clients that back off are assumed to
    /// wait half of the longest pause.
    pub attempts: u64,
    /// The bytes of the requests that may wait for a retry at one time.
    pub waiting_bytes: u64,
    /// The bytes of the requests that may be in flight at a backend at one time.
    pub backend_bytes: u64,
    /// The bytes of the units that could be admitted in the last window of each limit and of the
    /// capacity. It is stored to find the peak of any window.
    pub window_bytes: u64,
}

impl core::fmt::Display for Size {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { requests, attempts, .. } = *self;
        write!(f, "about {requests} requests")?;
        if attempts > requests {
            write!(f, ", up to {attempts} attempts with their retries")?;
        }
        // At a million attempts a second, their number is the duration in microseconds.
        write!(f, ", {} at a million attempts a second", span(attempts))?;
        for (bytes, of) in [
            (self.waiting_bytes, "requests that wait to be tried again"),
            (self.backend_bytes, "requests in flight at the backend"),
            (self.window_bytes, "what was admitted in the last windows"),
        ] {
            if bytes > 0 {
                let gib = bytes as f64 / f64::from(1 << 30);
                write!(f, ", up to {gib:.1} GiB of {of}")?;
            }
        }
        Ok(())
    }
}

impl Experiment {
    /// Estimates the size. A simulation takes memory for requests that wait for a retry and for the
    /// units of the last windows, and time for each attempt.
    ///
    /// # Examples
    /// ```
    /// use tollgate_experiments::experiment::zoo;
    /// assert_eq!(zoo(400, 300, 1)?.size().requests, 3_600);
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    #[must_use]
    pub fn size(&self) -> Size {
        self.cases.iter().map(|case| self.size_of(case)).fold(Size::default(), |sum, case| Size {
            requests: sum.requests.saturating_add(case.requests),
            attempts: sum.attempts.saturating_add(case.attempts),
            // Cases run one after the other.
            waiting_bytes: sum.waiting_bytes.max(case.waiting_bytes),
            backend_bytes: sum.backend_bytes.max(case.backend_bytes),
            window_bytes: sum.window_bytes.max(case.window_bytes),
        })
    }

    /// The size of one case.
    pub(super) fn size_of(&self, case: &Case) -> Size {
        let workloads = || case.workloads.iter().filter_map(|place| self.workloads.get(*place));
        let sum = |each: &dyn Fn(&super::Workload) -> u64| {
            workloads().map(each).fold(0, u64::saturating_add)
        };
        let requests = sum(&|workload| workload.requests());
        let retries = sum(&|workload| {
            let left_us = self.duration_us.saturating_sub(workload.from_us);
            workload.requests().saturating_mul(workload.retry.most(left_us, requests))
        });
        let waiting = sum(&|workload| match workload.retry.is_never() {
            true => 0,
            false => workload.requests(),
        });
        let at_backend = if self.backend.is_some() { requests } else { 0 };
        let limits = case.parts.iter().flat_map(|part| {
            let subjects = match part.per {
                Per::Resource => 1,
                Per::Client => sum(&super::Workload::all_clients),
            };
            part.limits.limits().iter().map(move |limit| {
                let promise = case.promise(part, limit);
                (limit.quota().period.as_micros(), promise.saturating_mul(subjects))
            })
        });
        let capacity = self.capacity.iter().map(|capacity| (capacity.window_us, u64::MAX));
        let held = limits.chain(capacity).map(|(window_us, most)| {
            sum(&|workload| workload.requests_within(window_us)).min(most)
        });
        Size {
            requests,
            attempts: requests.saturating_add(retries),
            waiting_bytes: waiting.saturating_mul(run::WAITING_BYTES),
            backend_bytes: at_backend.saturating_mul(backend::JOB_BYTES),
            window_bytes: held.fold(0, u64::saturating_add).saturating_mul(measure::ADMITTED_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Size {
        Experiment::parse("x", &format!("version = 1\n{text}")).unwrap().size()
    }

    fn attempts(retry: &str) -> u64 {
        size(&format!(
            "duration = \"1h\"\n\
             workload = [{{ arrivals = \"steady\", rate = \"1/s\", from = \"30m\", {retry} }}]\n\
             case = [{{ limits = [{{ per = \"client\", limit = \"5/s via gcra\" }}] }}]\n"
        ))
        .attempts
    }

    /// No client retries after the end, whatever its maximum.
    #[test]
    fn attempts_are_bounded_by_the_time_that_there_is() {
        assert_eq!(attempts("retry = \"never\""), 1_800);
        let at_once = |pause: &str, times: u64| {
            attempts(&format!("retry = \"at_once\", pause = \"{pause}\", times = {times}"))
        };
        assert_eq!(at_once("100ms", 10), 1_800 * 11);
        assert_eq!(at_once("100ms", 4_000_000_000), 1_800 * 18_000);
        assert_eq!(at_once("1us", 4_000_000_000), 1_800 * 1_800_000_000);
        // Each retry can be displaced by one other request, so clients that obey are not denied
        // more often than that.
        assert_eq!(attempts("retry = \"obey\", times = 3"), 1_800 * 4);
        assert_eq!(attempts("retry = \"obey\", times = 4000000000"), 1_800 * 1_801);
        // 0.5 s, 1 s and so on up to 512 s, which makes half an hour of waits in total.
        let back_off = |times: u64| {
            attempts(&format!("retry = \"back_off\", pause = \"1s\", times = {times}"))
        };
        assert_eq!(back_off(3), 1_800 * 4);
        assert_eq!(back_off(4_000_000_000), 1_800 * (1 + 10 + 2));
    }

    #[test]
    fn all_requests_may_be_in_flight_at_a_backend() {
        let bytes = |backend: &str| {
            size(&format!(
                "duration = \"10s\"\n{backend}\n\
                 workload = [{{ arrivals = \"steady\", rate = \"30/s\" }}]\n\
                 case = [{{ limits = [{{ per = \"client\", limit = \"5/s via gcra\" }}] }}]\n"
            ))
            .backend_bytes
        };
        assert_eq!(bytes(""), 0);
        assert_eq!(bytes("backend = { servers = 1, work = \"1s\" }"), 300 * backend::JOB_BYTES);
    }

    #[test]
    fn what_was_admitted_in_the_last_windows_takes_memory() {
        let bytes = |capacity: &str, limit: &str| {
            size(&format!(
                "duration = \"30d\"\n{capacity}\n\
                 workload = [{{ arrivals = \"steady\", rate = \"30/s\", clients = 7 }}]\n\
                 case = [{{ limits = [{{ per = \"client\", limit = \"{limit}\" }}] }}]\n"
            ))
            .window_bytes
        };
        let all = 30 * 86_400 * 30;
        // The units that a limit admits of each client; the requests in the period; and all of
        // them.
        assert_eq!(bytes("", "5/1d via sliding_log"), 7 * 5 * 16);
        assert_eq!(bytes("", "9000000/10s via fixed_window"), 10 * 30 * 16);
        assert_eq!(bytes("", "90000000/365d via fixed_window"), all * 16);
        let capacity = "capacity = \"9/30d\"";
        assert_eq!(bytes(capacity, "90000000/365d via fixed_window"), 2 * all * 16);
    }
}
