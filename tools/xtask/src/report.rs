//! The output of a task's steps: a heading, the time of each, and which of them failed.

use std::time::{Duration, Instant};

use anyhow::Result;

/// The steps of one task, in order. Every step runs: one failure often hides another.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    failed: Vec<&'static str>,
    times: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Runs a step under a heading; both go to standard error, so that a step's own output is
    /// all that is on standard output.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<bool>) {
        eprintln!("== {name}");
        let started = Instant::now();
        let outcome = run();
        let verdict = match outcome {
            Ok(true) => "ok",
            Ok(false) => "FAILED",
            Err(error) => {
                eprintln!("error: {error:#}");
                "FAILED"
            }
        };
        if verdict != "ok" {
            self.failed.push(name);
        }
        let time = started.elapsed();
        eprintln!("== {name}: {verdict} in {}", seconds(time));
        self.times.push((name, time));
    }

    /// The time of each step, in one line: the longest one deserves attention.
    pub(crate) fn times(&self) -> String {
        let total = self.times.iter().map(|(_, time)| *time).sum();
        let mut line = format!("took {}", seconds(total));
        for (index, (name, time)) in self.times.iter().enumerate() {
            let before = if index == 0 { ": " } else { ", " };
            line.push_str(&format!("{before}{name} {}", seconds(*time)));
        }
        line
    }

    /// The names of the steps that failed.
    pub(crate) fn failed(&self) -> &[&'static str] {
        &self.failed
    }
}

/// A time for people.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{}.{} s", time.as_secs(), time.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_does_not_stop_the_next() {
        let mut steps = Steps::default();
        let mut reached = false;
        steps.step("first", || Ok(false));
        steps.step("second", || anyhow::bail!("no"));
        steps.step("third", || {
            reached = true;
            Ok(true)
        });
        assert!(reached);
        assert_eq!(steps.failed(), ["first", "second"]);
        assert_eq!(steps.times(), "took 0.0 s: first 0.0 s, second 0.0 s, third 0.0 s");
    }

    #[test]
    fn times_read_well() {
        assert_eq!(seconds(Duration::from_millis(61_250)), "61.2 s");
    }
}
