//! Queues with mistakes, and the history that their workers see.

use std::collections::VecDeque;

use tollgate_proof::history::{History, QueueCall, QueueStep};

use tollgate_proof::Random;

/// The mistakes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    Nothing,
    /// The newest job is delivered first.
    LastIn,
    /// A full queue takes the job, and drops its oldest one.
    Trims,
    /// The length is read in a round trip before the job is added.
    ReadsLength,
    /// An acknowledged job comes back when its time is over.
    ForgetsAcknowledgements,
    /// A job is added although its offer is refused.
    KeepsRefused,
    /// One in ten accepted jobs is lost.
    Loses,
}

/// How many jobs may wait.
pub(crate) const BOUND: u64 = 3;

struct Run {
    mistake: Mistake,
    random: Random,
    now_us: u64,
    waiting: VecDeque<String>,
    in_flight: Vec<String>,
    done: Vec<String>,
    history: History,
}

impl Run {
    fn record(&mut self, job: &str, step: QueueStep) {
        let invoked_us = self.now_us;
        self.now_us += 1 + self.random.below(5);
        self.history.queue.push(QueueCall {
            id: self.history.queue.len() as u64,
            queue: "mail".to_owned(),
            invoked_us,
            returned_us: Some(self.now_us),
            job: job.to_owned(),
            step,
        });
        self.now_us += 1 + self.random.below(50);
    }

    fn offer(&mut self, job: String, length: usize) {
        let full = length as u64 >= BOUND;
        match self.mistake {
            Mistake::Trims if full => {
                self.waiting.pop_front();
            }
            _ if full => {
                self.record(&job, QueueStep::Refused);
                if self.mistake == Mistake::KeepsRefused {
                    self.waiting.push_back(job);
                }
                return;
            }
            _ => {}
        }
        self.record(&job, QueueStep::Accepted { depth: None });
        if !(self.mistake == Mistake::Loses && self.random.below(10) == 0) {
            self.waiting.push_back(job);
        }
    }

    fn take(&mut self) -> bool {
        let job = match self.mistake {
            Mistake::LastIn => self.waiting.pop_back(),
            _ => self.waiting.pop_front(),
        };
        let Some(job) = job else { return false };
        self.record(&job, QueueStep::Delivered);
        self.in_flight.push(job);
        true
    }

    /// One job in flight is finished, or its time is over.
    fn settle(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let pick = usize::try_from(self.random.below(self.in_flight.len() as u64)).unwrap();
        let job = self.in_flight.remove(pick);
        if self.random.below(4) == 0 {
            self.record(&job, QueueStep::Delivered);
            self.in_flight.push(job);
        } else {
            self.record(&job, QueueStep::Acknowledged);
            self.done.push(job);
        }
    }
}

/// Two producers, some workers, and a queue that is empty at the end.
pub(crate) fn run(mistake: Mistake, seed: u64) -> History {
    let mut run = Run {
        mistake,
        random: Random::new(seed),
        now_us: 1_000,
        waiting: VecDeque::new(),
        in_flight: Vec::new(),
        done: Vec::new(),
        history: History::default(),
    };
    for number in 0..60 {
        match run.random.below(4) {
            0 | 1 => {
                let length = run.waiting.len();
                if mistake == Mistake::ReadsLength {
                    // Another producer comes in between.
                    run.offer(format!("job-{number}b"), length);
                }
                run.offer(format!("job-{number}"), length);
            }
            2 => {
                run.take();
            }
            _ => run.settle(),
        }
        if mistake == Mistake::ForgetsAcknowledgements
            && run.random.below(8) == 0
            && let Some(job) = run.done.pop()
        {
            run.record(&job, QueueStep::Delivered);
            run.in_flight.push(job);
        }
    }
    while run.take() {}
    while !run.in_flight.is_empty() {
        run.settle();
    }
    run.record("", QueueStep::Empty);
    run.history
}
