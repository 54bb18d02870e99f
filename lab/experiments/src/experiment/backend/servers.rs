//! The model of a backend: one queue in front of servers.

use std::collections::{BTreeMap, VecDeque};

use tollgate::Hold;

use super::case::Backend;

/// A request at the backend.
#[derive(Debug)]
pub(super) struct Job {
    /// When it came, in microseconds from the start.
    pub(super) came_us: u64,
    /// The hold on its slots, under limits that have some.
    pub(super) hold: Option<Box<Hold>>,
}

/// The bytes of a request that waits.
pub(in crate::experiment) const JOB_BYTES: u64 = size_of::<Job>() as u64;

/// The servers of a backend, and the queue in front of them. A request takes as long as the phase
/// says in which a server begins it.
pub(super) struct Servers<'e> {
    setting: &'e Backend,
    /// The jobs in progress, by when they end and, at one moment, by when they began.
    busy: BTreeMap<(u64, u64), Job>,
    begun: u64,
    waiting: VecDeque<Job>,
}

impl<'e> Servers<'e> {
    pub(super) fn new(setting: &'e Backend) -> Self {
        Self { setting, busy: BTreeMap::new(), begun: 0, waiting: VecDeque::new() }
    }

    /// A request comes, and waits if no server is free.
    pub(super) fn come(&mut self, job: Job) {
        let is_free = self.busy.len() < self.setting.servers as usize;
        if is_free { self.begin(job.came_us, job) } else { self.waiting.push_back(job) }
    }

    /// When the next request is done; `None` if no server works.
    pub(super) fn next(&self) -> Option<u64> {
        self.busy.first_key_value().map(|((done_us, _), _)| *done_us)
    }

    /// A request that is done by now. Its server begins the one that waits longest.
    pub(super) fn done(&mut self, now_us: u64) -> Option<Job> {
        let first = self.busy.first_entry().filter(|first| first.key().0 <= now_us)?;
        let job = first.remove();
        if let Some(next) = self.waiting.pop_front() {
            self.begin(now_us, next);
        }
        Some(job)
    }

    fn begin(&mut self, now_us: u64, job: Job) {
        let done_us = now_us.saturating_add(self.setting.work_at(now_us));
        self.busy.insert((done_us, self.begun), job);
        self.begun += 1;
    }

    /// How many wait for a server.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// How many wait or are worked on.
    pub(super) fn in_flight(&self) -> u64 {
        self.busy.len() as u64 + self.waiting()
    }

    /// All jobs that wait or are in progress.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.busy.values().chain(&self.waiting)
    }
}
