//! What a queue is: a state and what each operation makes of it. No clock and no I/O; every place
//! where queues lie does the same.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::body::Body;
use crate::error::Error;
use crate::job::{Dead, DoneJob, Held, Job, JobId, Once, OutJob, Taken, TakenJob, WaitingJob};
use crate::settings::{Offering, Settings, Working, micros};

/// The rate at which jobs leave is that of the last one to two of these.
const DRAIN_US: u64 = 10_000_000;

/// How many jobs beyond those that are wanted one `take` looks at, where the first ones are too old
/// or have had enough: so that it takes bounded time.
pub(crate) const LOOK: usize = 256;

/// What became of an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Offered {
    /// It waits.
    Accepted {
        /// Its id.
        id: JobId,
        /// How many the bound counts now.
        depth: u64,
    },
    /// A job with its id of [`Job::once`] was accepted before.
    Known {
        /// That job's id.
        id: JobId,
    },
    /// As many wait as may; nothing was added.
    Full {
        /// How many.
        depth: u64,
        /// After how long one will have left, at the rate of the last seconds; none when none did.
        retry_after: Option<Duration>,
    },
    /// As many of this job's client are counted as may be ([`Offering::per_client`]); nothing was
    /// added. The queue itself has room for others. Nobody knows when one of this client's leaves.
    ClientFull {
        /// How many of the client's.
        of_client: u64,
    },
}

impl Offered {
    /// Whether nothing was added because of a bound, the queue's or the client's.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::ClientFull { .. })
    }
}

/// What becomes of a job that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Afterwards {
    /// It comes back.
    Again,
    /// It has had enough deliveries, and is dead.
    Dead,
    /// Somebody else has it, or it is gone: what was said of this delivery changes nothing.
    Lost,
}

/// What there is and what there was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that were never delivered.
    pub waiting: u64,
    /// Jobs that were delivered and are not done: in hand, or to come back.
    pub in_flight: u64,
    /// Dead jobs that are kept.
    pub dead: u64,
    /// How long the oldest of the waiting ones has waited.
    pub oldest: Option<Duration>,
    /// Offers that were accepted, ever.
    pub accepted: u64,
    /// Offers that were refused because the queue was full, or had as many of their client as may
    /// be.
    pub refused: u64,
    /// Offers that were known.
    pub known: u64,
    /// Jobs that were delivered, each once.
    pub delivered: u64,
    /// Deliveries after the first of the same job.
    pub redelivered: u64,
    /// Jobs that were done.
    pub done: u64,
    /// Jobs that were too old when their turn came.
    pub too_old: u64,
    /// Jobs that became dead.
    pub died: u64,
    /// Whether it is paused, so that nothing is taken.
    pub paused: bool,
}

/// A queue.
#[derive(Clone, Debug, Default)]
pub struct Model {
    offering: Option<Offering>,
    working: Option<Working>,
    last: JobId,
    waiting: VecDeque<Waiting>,
    out: BTreeMap<JobId, Out>,
    /// When each that is out comes back.
    due: BTreeSet<(u64, JobId)>,
    /// How many of each client wait, and how many are out; nothing of one that has none.
    clients: HashMap<Arc<str>, OfClient>,
    dead: VecDeque<Dead>,
    /// Those that were done and are kept, the oldest first.
    done: VecDeque<DoneJob>,
    /// Ids of jobs that said one, until when they are remembered; in the order in which they are
    /// forgotten.
    known: HashMap<String, (JobId, u64)>,
    forget: VecDeque<(u64, String)>,
    drain: Drain,
    /// With whether it is paused.
    totals: Stats,
}

#[derive(Clone, Debug)]
struct Waiting {
    id: JobId,
    client: Option<Arc<str>>,
    once: Option<Once>,
    /// Too old from then on.
    until_us: u64,
    body: Body,
}

/// How many jobs of a client there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct OfClient {
    waiting: u64,
    out: u64,
}

/// A job that was delivered and is not done.
#[derive(Clone, Debug)]
struct Out {
    job: Waiting,
    deliveries: u32,
    /// When it comes back.
    due_us: u64,
    /// False when nobody has it in hand.
    is_held: bool,
    why: Option<String>,
}

/// How many a rate lets through, and after how long one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Granted {
    pub(crate) jobs: usize,
    pub(crate) next: Option<Duration>,
}

impl Granted {
    /// What a rate lets through of `there`, when `ask` says of so many how many it admits and after
    /// how long one more.
    pub(crate) fn of(
        there: usize,
        mut ask: impl FnMut(u64) -> Result<(u64, Option<Duration>), Error>,
    ) -> Result<Self, Error> {
        let all = u64::try_from(there).unwrap_or(u64::MAX);
        let (mut granted, _) = ask(all)?;
        let mut next = None;
        if granted < all {
            // What is left is nothing, so this says when one more may go; unless it goes now.
            let one = ask(1)?;
            granted += one.0;
            next = one.1;
        }
        Ok(Self { jobs: usize::try_from(granted).unwrap_or(there), next })
    }
}

impl Model {
    /// An empty queue that nobody has offered to or worked on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn agree_on_offering(&mut self, name: &str, offering: &Offering) -> Result<(), Error> {
        let made = self.offering.get_or_insert_with(|| offering.clone());
        agree(name, made, offering)
    }

    /// Who takes first says how it is worked on; who says something of a delivery says the same.
    fn agree_on_working(&self, name: &str, working: &Working) -> Result<(), Error> {
        self.working.as_ref().map_or(Ok(()), |made| agree(name, made, working))
    }

    /// How it is offered to and worked on.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings { offering: self.offering.clone(), working: self.working.clone() }
    }

    /// Changes how it is offered to and worked on, where something is said. What is out comes back
    /// when it would have; what waits beyond a lower bound stays.
    pub fn change(&mut self, settings: &Settings) {
        let Settings { offering, working } = settings;
        self.offering = offering.clone().or(self.offering.take());
        self.working = working.clone().or(self.working.take());
        self.keep_done();
    }

    /// Adds a job, unless the queue is full or knows it.
    ///
    /// # Errors
    /// It was made with another [`Offering`].
    pub fn offer(
        &mut self,
        now_us: u64,
        name: &str,
        offering: &Offering,
        job: &Job,
    ) -> Result<Offered, Error> {
        self.agree_on_offering(name, offering)?;
        self.forget(now_us);
        if let Some((id, until_us)) = job.once_id().and_then(|once| self.known.get(once))
            && *until_us > now_us
        {
            self.totals.known += 1;
            return Ok(Offered::Known { id: *id });
        }
        let depth = self.depth(offering);
        if depth >= offering.bound() {
            self.totals.refused += 1;
            return Ok(Offered::Full { depth, retry_after: self.drain.one_more(now_us) });
        }
        if let (Some(client), Some(most)) = (job.client_name(), offering.most_per_client()) {
            let OfClient { waiting, out } = self.clients.get(client).copied().unwrap_or_default();
            let of_client = waiting + if offering.counts_all() { out } else { 0 };
            if of_client >= most {
                self.totals.refused += 1;
                return Ok(Offered::ClientFull { of_client });
            }
        }
        self.last = self.last.next(now_us / 1_000);
        let id = self.last;
        if let Some(once) = job.once_id() {
            let until_us = now_us.saturating_add(offering.remember_us());
            self.known.insert(once.to_owned(), (id, until_us));
            self.forget.push_back((until_us, once.to_owned()));
        }
        let until_us = job.deadline_us().map_or(u64::MAX, |it| now_us.saturating_add(it));
        let (client, body) = (job.client_name().cloned(), job.body().clone());
        self.count(client.as_ref(), |of| of.waiting += 1);
        let once = job.known_as(id, offering.remember_us() > 0);
        self.waiting.push_back(Waiting { id, client, once, until_us, body });
        self.totals.accepted += 1;
        Ok(Offered::Accepted { id, depth: depth + 1 })
    }

    /// Counts what becomes of a job of this client; one that has none is forgotten.
    fn count(&mut self, client: Option<&Arc<str>>, becomes: impl FnOnce(&mut OfClient)) {
        let Some(client) = client else { return };
        let of = self.clients.entry(Arc::clone(client)).or_default();
        becomes(of);
        if *of == OfClient::default() {
            self.clients.remove(client);
        }
    }

    /// Forgets ids whose time has passed: a few at a time.
    fn forget(&mut self, now_us: u64) {
        for _ in 0..LOOK {
            match self.forget.front() {
                Some((until_us, _)) if *until_us <= now_us => {}
                _ => return,
            }
            let Some((until_us, id)) = self.forget.pop_front() else { return };
            // It may have been accepted again since.
            if self.known.get(&id).is_some_and(|(_, until)| *until == until_us) {
                self.known.remove(&id);
            }
        }
    }

    /// What the bound counts.
    fn depth(&self, offering: &Offering) -> u64 {
        let out = if offering.counts_all() { self.out.len() } else { 0 };
        (self.waiting.len() + out) as u64
    }

    /// Takes at most `most` jobs, of which `grant` says how many may be delivered: it is asked for
    /// as many as there are, and not at all for none.
    ///
    /// # Errors
    /// It was made with another [`Working`]; those of `grant`.
    pub(crate) fn take(
        &mut self,
        now_us: u64,
        name: &str,
        working: &Working,
        most: usize,
        grant: impl FnOnce(usize) -> Result<Granted, Error>,
    ) -> Result<Taken, Error> {
        if self.offering.is_none() && self.working.is_none() {
            return Ok(Taken { absent: true, ..Taken::default() });
        }
        self.agree_on_working(name, working)?;
        self.working.get_or_insert_with(|| working.clone());
        if self.totals.paused {
            return Ok(Taken { paused: true, ..Taken::default() });
        }
        let (back, more_back) = self.come_back(now_us, working, most);
        let (fresh, more_fresh) = self.fresh(now_us, most - back.len());
        let there = back.len() + fresh;
        let granted = match there {
            0 => Granted { jobs: 0, next: None },
            there => grant(there)?,
        };
        let due_us = now_us.saturating_add(working.visibility_us());
        let mut jobs = Vec::with_capacity(granted.jobs);
        for id in back.into_iter().take(granted.jobs) {
            self.put_off(id, due_us);
            if let Some(out) = self.out.get_mut(&id) {
                out.deliveries += 1;
                out.is_held = true;
                self.totals.redelivered += 1;
                let delivery = out.deliveries;
                jobs.push(TakenJob { id, delivery, body: out.job.body.clone() });
            }
        }
        while jobs.len() < granted.jobs
            && let Some(job) = self.waiting.pop_front()
        {
            let (id, body) = (job.id, job.body.clone());
            self.count(job.client.as_ref(), |of| {
                of.waiting -= 1;
                of.out += 1;
            });
            let out = Out { job, deliveries: 1, due_us, is_held: true, why: None };
            self.out.insert(id, out);
            self.due.insert((due_us, id));
            self.totals.delivered += 1;
            if !self.counts_all() {
                self.drain.count(now_us);
            }
            jobs.push(TakenJob { id, delivery: 1, body });
        }
        let next = if jobs.len() == most {
            Some(Duration::ZERO)
        } else if granted.jobs < there {
            granted.next
        } else if more_back || more_fresh {
            Some(Duration::ZERO)
        } else {
            let due = self.due.first().map(|(due, _)| due.saturating_sub(now_us));
            due.map(Duration::from_micros)
        };
        Ok(Taken { jobs, next, ..Taken::default() })
    }

    /// Those that are due to come back, in the order in which they are; those that have had enough
    /// or are too old are put away meanwhile.
    /// True with them when there are more that were not looked at.
    fn come_back(&mut self, now_us: u64, working: &Working, most: usize) -> (Vec<JobId>, bool) {
        let due: Vec<JobId> = self
            .due
            .range(..=(now_us, JobId::new(u64::MAX, u64::MAX)))
            .map(|(_, id)| *id)
            .take(most.saturating_add(LOOK))
            .collect();
        let is_cut = due.len() == most.saturating_add(LOOK);
        let mut back = Vec::new();
        for id in due {
            if back.len() == most {
                break;
            }
            let Some(out) = self.out.get(&id) else { continue };
            if out.job.until_us <= now_us {
                self.remove(id, now_us);
                self.totals.too_old += 1;
            } else if working.has_had_enough(out.deliveries) {
                self.bury(id, now_us, working);
            } else {
                back.push(id);
            }
        }
        (back, is_cut)
    }

    /// How many of the first that wait can be delivered, up to `most`; those that are too old are
    /// dropped. True with it when there may be more behind those that were looked at.
    fn fresh(&mut self, now_us: u64, most: usize) -> (usize, bool) {
        let mut kept = 0;
        let mut looked = 0;
        while kept < most
            && looked < most.saturating_add(LOOK)
            && let Some(job) = self.waiting.get(kept)
        {
            looked += 1;
            if job.until_us <= now_us {
                let client = job.client.clone();
                self.count(client.as_ref(), |of| of.waiting -= 1);
                self.waiting.remove(kept);
                self.totals.too_old += 1;
                self.drain.count(now_us);
            } else {
                kept += 1;
            }
        }
        (kept, looked == most.saturating_add(LOOK))
    }

    /// Whether jobs wait that were never delivered.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Removes a job that is out.
    fn remove(&mut self, id: JobId, now_us: u64) -> Option<Out> {
        let out = self.out.remove(&id)?;
        self.due.remove(&(out.due_us, id));
        self.count(out.job.client.as_ref(), |of| of.out -= 1);
        if self.counts_all() {
            self.drain.count(now_us);
        }
        Some(out)
    }

    /// Whether the bound counts jobs that are out, too: then a job has left when it is gone, and
    /// not when it is delivered.
    fn counts_all(&self) -> bool {
        self.offering.as_ref().is_some_and(Offering::counts_all)
    }

    fn bury(&mut self, id: JobId, now_us: u64, working: &Working) {
        let Some(out) = self.remove(id, now_us) else { return };
        self.totals.died += 1;
        let Out { job: Waiting { client, once, body, .. }, deliveries, why, .. } = out;
        self.dead.push_back(Dead { id, deliveries, why, client, once, body });
        while self.dead.len() > working.kept_dead() {
            self.dead.pop_front();
        }
    }

    /// These are done, whoever has them now. How many there were.
    pub fn done(&mut self, now_us: u64, ids: &[JobId]) -> u64 {
        let kept = self.working.as_ref().map_or(0, Working::kept_done);
        let mut removed = 0;
        for id in ids {
            let Some(Out { job, deliveries, .. }) = self.remove(*id, now_us) else { continue };
            removed += 1;
            if kept > 0 {
                self.done.push_back(DoneJob { id: *id, deliveries, body: job.body });
            }
        }
        self.keep_done();
        self.totals.done += removed;
        removed
    }

    /// The oldest of the done go beyond as many as are kept.
    fn keep_done(&mut self) {
        let kept = self.working.as_ref().map_or(0, Working::kept_done);
        self.done.drain(..self.done.len().saturating_sub(kept));
    }

    /// This delivery failed, of `why`: the job comes back after so long, or is dead.
    ///
    /// # Errors
    /// It was made with another [`Working`].
    pub fn again(
        &mut self,
        now_us: u64,
        name: &str,
        working: &Working,
        held: Held,
        after: Duration,
        why: &str,
    ) -> Result<Afterwards, Error> {
        self.agree_on_working(name, working)?;
        let Some(out) = self.held(held) else { return Ok(Afterwards::Lost) };
        out.why = (!why.is_empty()).then(|| why.to_owned());
        if working.has_had_enough(out.deliveries) {
            self.bury(held.id, now_us, working);
            return Ok(Afterwards::Dead);
        }
        out.is_held = false;
        self.put_off(held.id, now_us.saturating_add(micros(after)));
        Ok(Afterwards::Again)
    }

    /// Who holds this has the visibility timeout anew. False: somebody else has it, or it is gone.
    ///
    /// # Errors
    /// It was made with another [`Working`].
    pub fn extend(
        &mut self,
        now_us: u64,
        name: &str,
        working: &Working,
        held: Held,
    ) -> Result<bool, Error> {
        self.agree_on_working(name, working)?;
        let is_held = self.held(held).is_some();
        if is_held {
            self.put_off(held.id, now_us.saturating_add(working.visibility_us()));
        }
        Ok(is_held)
    }

    /// Who holds this has not begun it: it is there for others at once, as if it had not been
    /// delivered this time. False as for [`Model::extend`].
    pub fn release(&mut self, now_us: u64, held: Held) -> bool {
        let Some(out) = self.held(held) else { return false };
        out.deliveries -= 1;
        out.is_held = false;
        self.put_off(held.id, now_us);
        true
    }

    fn held(&mut self, held: Held) -> Option<&mut Out> {
        let out = self.out.get_mut(&held.id)?;
        (out.is_held && out.deliveries == held.delivery).then_some(out)
    }

    fn put_off(&mut self, id: JobId, due_us: u64) {
        if let Some(out) = self.out.get_mut(&id) {
            self.due.remove(&(out.due_us, id));
            out.due_us = due_us;
            self.due.insert((due_us, id));
        }
    }

    /// The jobs that wait, the first first.
    #[must_use]
    pub fn waiting(&self, now_us: u64, most: usize) -> Vec<WaitingJob> {
        let look = |job: &Waiting| {
            let Waiting { id, client, body, .. } = job.clone();
            WaitingJob { id, age: id.age(now_us), client, body }
        };
        self.waiting.iter().take(most).map(look).collect()
    }

    /// The jobs that were delivered and are not done, by when they come back.
    #[must_use]
    pub fn in_hand(&self, now_us: u64, most: usize) -> Vec<OutJob> {
        let look = |(due_us, id): &(u64, JobId)| {
            let Out { job, deliveries, is_held, why, .. } = self.out.get(id)?.clone();
            let back = Duration::from_micros(due_us.saturating_sub(now_us));
            let age = id.age(now_us);
            let (id, Waiting { client, body, .. }) = (*id, job);
            Some(OutJob { id, deliveries, is_held, age, back, why, client, body })
        };
        self.due.iter().take(most).filter_map(look).collect()
    }

    /// The jobs that were done and are kept, the oldest first.
    #[must_use]
    pub fn done_jobs(&self, most: usize) -> Vec<DoneJob> {
        self.done.iter().take(most).cloned().collect()
    }

    /// The dead jobs that are kept, the oldest first.
    #[must_use]
    pub fn dead(&self, most: usize) -> Vec<Dead> {
        self.dead.iter().take(most).cloned().collect()
    }

    /// Removes a dead job, to be offered again or forgotten.
    pub fn take_dead(&mut self, id: JobId) -> Option<Dead> {
        let place = self.dead.iter().position(|dead| dead.id == id)?;
        self.dead.remove(place)
    }

    /// Removes a dead job for good: what it was accepted once under is forgotten with it.
    pub fn forget_dead(&mut self, id: JobId) -> Option<Dead> {
        let dead = self.take_dead(id)?;
        if let Some(Once { of, id }) = &dead.once
            // Another may have been accepted under it since.
            && self.known.get(&**id).is_some_and(|(known, _)| known == of)
        {
            self.known.remove(&**id);
        }
        Some(dead)
    }

    /// Pauses it, or lets it go on: paused, nothing is taken, and nothing becomes dead or too old.
    /// False when nobody has offered to it or worked on it.
    pub fn pause(&mut self, is_paused: bool) -> bool {
        let is_made = self.offering.is_some() || self.working.is_some();
        if is_made {
            self.totals.paused = is_paused;
        }
        is_made
    }

    /// What there is and what there was.
    #[must_use]
    pub fn stats(&self, now_us: u64) -> Stats {
        let oldest = self.waiting.front().map(|job| now_us.saturating_sub(job.id.ms() * 1_000));
        Stats {
            waiting: self.waiting.len() as u64,
            in_flight: self.out.len() as u64,
            dead: self.dead.len() as u64,
            oldest: oldest.map(Duration::from_micros),
            ..self.totals
        }
    }
}

pub(crate) fn agree<S: PartialEq + core::fmt::Display>(
    name: &str,
    made: &S,
    asked: &S,
) -> Result<(), Error> {
    if made == asked {
        return Ok(());
    }
    Err(Error::Settings {
        queue: name.to_owned(),
        made: made.to_string(),
        asked: asked.to_string(),
    })
}

/// How many left in the window of time at work, and in the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Drain {
    pub(crate) window: u64,
    pub(crate) now: u64,
    pub(crate) before: u64,
}

impl Drain {
    fn turn(&mut self, now_us: u64) {
        let window = now_us / DRAIN_US;
        if window > self.window {
            self.before = if window == self.window + 1 { self.now } else { 0 };
            (self.window, self.now) = (window, 0);
        }
    }

    pub(crate) fn count(&mut self, now_us: u64) {
        self.turn(now_us);
        self.now += 1;
    }

    /// After how long one more will have left, at the rate since the begin of the window before.
    pub(crate) fn one_more(mut self, now_us: u64) -> Option<Duration> {
        self.turn(now_us);
        let left = self.before + self.now;
        let since_us = DRAIN_US + now_us % DRAIN_US;
        (left > 0).then(|| Duration::from_micros(since_us.div_ceil(left)))
    }
}

#[cfg(test)]
mod tests;
