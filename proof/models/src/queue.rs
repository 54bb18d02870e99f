//! A bounded queue with producers that offer again, and workers that die: the model that the stores
//! of `tollgate-queue` follow, which memory runs as it is.

use core::time::Duration;

use stateright::{Model, Property};
use tollgate_queue::{
    ConsumerSettings, Counts, DeliveryTag, Grant, Job, JobId, Model as Queue, NackOutcome,
    OfferOutcome, ProducerSettings,
};

use crate::exhaust::{Promise, World};

/// The time between two ticks, in microseconds.
const TICK_US: u64 = 1_000_000;

/// The time of the first tick.
const START_US: u64 = 1_000_000_000;

/// How many ticks a delivery may take before the job is delivered again.
const VISIBLE: u8 = 2;

/// How often a job is delivered at most.
const DELIVERIES: u32 = 2;

/// A world of producers and workers.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    producers: ProducerSettings,
    consumers: ConsumerSettings,
    bound: u64,
    counts: Counts,
    jobs: usize,
    workers: usize,
    ticks: u8,
    /// How often a producer offers a job again, or a worker fails.
    faults: u8,
}

/// The queue, told apart by what it shows: its maps have no order. Which jobs were accepted, and
/// when, is in the state beside it.
#[derive(Clone, Debug)]
pub(crate) struct Shown(Queue);

impl Shown {
    fn print(&self) -> String {
        let all = usize::MAX;
        let Self(queue) = self;
        let (waiting, out) = (queue.waiting(0, all), queue.in_flight(0, all));
        format!("{waiting:?} {out:?} {:?} {:?}", queue.dead_letters(all), queue.stats(START_US))
    }
}

impl core::hash::Hash for Shown {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.print().hash(hasher);
    }
}

impl PartialEq for Shown {
    fn eq(&self, other: &Self) -> bool {
        self.print() == other.print()
    }
}

/// A job, as the world knows it.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq)]
pub(crate) struct Known {
    /// Its id in the queue, and when it was accepted.
    accepted: Option<(JobId, u8)>,
    is_offered: bool,
    deliveries: u32,
    was_delivered: bool,
    is_acknowledged: bool,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    tick: u8,
    faults: u8,
    queue: Shown,
    jobs: Vec<Known>,
    /// The delivery that each worker has.
    workers: Vec<Option<DeliveryTag>>,
    seen: Seen,
}

/// Events of which each happened at least once, or not.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq)]
pub(crate) struct Seen {
    is_refused: bool,
    is_duplicate: bool,
    /// A job was delivered before one that was accepted earlier, or a job was accepted twice.
    is_out_of_order: bool,
    is_accepted_twice: bool,
    /// A job that its first worker had lost was acknowledged.
    is_saved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    /// A producer offers a job, for the first time or after a lost answer.
    Offer(usize),
    /// A worker takes a job. It keeps no job that it had: it had died, and has started again.
    Take(usize),
    /// A worker has done its job.
    Acknowledge(usize),
    /// A worker reports that its job failed.
    Fail(usize),
    /// A worker gives back a job that it has not started.
    Release(usize),
}

impl Queues {
    pub(crate) fn new(
        (bound, counts): (u64, Counts),
        (jobs, workers): (usize, usize),
        (ticks, faults): (u8, u8),
    ) -> Self {
        let window = Duration::from_secs(600);
        let producers = ProducerSettings::new(bound).counts(counts).dedup_window(window);
        let visible = Duration::from_micros(u64::from(VISIBLE) * TICK_US);
        let consumers = ConsumerSettings::new().visibility(visible).deliveries(DELIVERIES);
        Self { producers, consumers, bound, counts, jobs, workers, ticks, faults }
    }

    fn now_us(state: &State) -> u64 {
        START_US + u64::from(state.tick) * TICK_US
    }

    fn offer(&self, state: &mut State, number: usize) {
        let job = Job::new().field("number", number.to_string()).dedup_id(number.to_string());
        let now_us = Self::now_us(state);
        let Ok(offered) = state.queue.0.offer(now_us, "q", &self.producers, &job) else { return };
        let known = &mut state.jobs[number];
        match offered {
            OfferOutcome::Accepted { id, .. } => {
                state.seen.is_accepted_twice |= known.accepted.is_some();
                known.accepted = Some((id, state.tick));
            }
            OfferOutcome::Duplicate { id } => {
                state.seen.is_duplicate |= known.accepted.is_some_and(|(known, _)| known == id);
            }
            _ => state.seen.is_refused = true,
        }
    }

    fn take(&self, state: &mut State, worker: usize) -> Option<()> {
        let now_us = Self::now_us(state);
        let grant = |there| Ok(Grant { jobs: there, next: None });
        let taken = state.queue.0.take(now_us, "q", &self.consumers, 1, grant).ok()?;
        let delivery = taken.jobs.first()?;
        let of = |known: &Known| known.accepted.is_some_and(|(id, _)| id == delivery.id);
        let place = state.jobs.iter().position(of)?;
        let is_earlier = |known: &Known| known.accepted.is_some_and(|(id, _)| id < delivery.id);
        let mut before = state.jobs.iter().filter(|known| is_earlier(known));
        let is_first = !state.jobs[place].was_delivered;
        state.seen.is_out_of_order |= is_first && before.any(|known| !known.was_delivered);
        state.jobs[place].deliveries += 1;
        state.jobs[place].was_delivered = true;
        state.workers[worker] = Some(delivery.tag());
        Some(())
    }

    /// The job of a delivery.
    fn job_of(state: &State, tag: DeliveryTag) -> Option<usize> {
        let is_it = |known: &Known| known.accepted.is_some_and(|(id, _)| id == tag.id);
        state.jobs.iter().position(is_it)
    }

    /// The number of jobs that the bound counts.
    fn depth(&self, state: &State) -> u64 {
        let stats = state.queue.0.stats(Self::now_us(state));
        stats.waiting + if self.counts == Counts::All { stats.in_flight } else { 0 }
    }

    /// Whether every accepted job is somewhere.
    fn are_all_there(state: &State) -> bool {
        let queue = &state.queue.0;
        let (waiting, out) = (queue.waiting(0, usize::MAX), queue.in_flight(0, usize::MAX));
        let dead = queue.dead_letters(usize::MAX);
        state.jobs.iter().all(|known| {
            let Some((id, _)) = known.accepted else { return true };
            let places = [
                waiting.iter().filter(|job| job.id == id).count(),
                out.iter().filter(|job| job.id == id).count(),
                dead.iter().filter(|job| job.id == id).count(),
                usize::from(known.is_acknowledged),
            ];
            places.iter().sum::<usize>() == 1
        })
    }
}

impl Model for Queues {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            tick: 0,
            faults: self.faults,
            queue: Shown(Queue::new()),
            jobs: vec![Known::default(); self.jobs],
            workers: vec![None; self.workers],
            seen: Seen::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.tick < self.ticks {
            actions.push(Action::Tick);
        }
        for (number, known) in state.jobs.iter().enumerate() {
            if !known.is_offered || state.faults > 0 {
                actions.push(Action::Offer(number));
            }
        }
        for (worker, has) in state.workers.iter().enumerate() {
            if has.is_none() || state.faults > 0 {
                actions.push(Action::Take(worker));
            }
            if has.is_some() {
                actions.push(Action::Acknowledge(worker));
                if state.faults > 0 {
                    actions.extend([Action::Fail(worker), Action::Release(worker)]);
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let now_us = Self::now_us(last);
        match action {
            Action::Tick => state.tick += 1,
            Action::Offer(number) => {
                if state.jobs[number].is_offered {
                    state.faults -= 1;
                }
                state.jobs[number].is_offered = true;
                self.offer(&mut state, number);
            }
            Action::Take(worker) => {
                if state.workers[worker].take().is_some() {
                    state.faults -= 1;
                }
                self.take(&mut state, worker);
            }
            Action::Acknowledge(worker) => {
                let tag = state.workers[worker].take()?;
                if state.queue.0.ack(now_us, &[tag.id]) > 0 {
                    let job = Self::job_of(&state, tag)?;
                    state.jobs[job].is_acknowledged = true;
                    state.seen.is_saved |= state.jobs[job].deliveries > 1;
                }
            }
            Action::Fail(worker) => {
                state.faults -= 1;
                let tag = state.workers[worker].take()?;
                let failed =
                    state.queue.0.nack(now_us, "q", &self.consumers, tag, Duration::ZERO, "");
                debug_assert!(matches!(
                    failed,
                    Ok(NackOutcome::Requeued | NackOutcome::DeadLettered | NackOutcome::Lost)
                ));
            }
            Action::Release(worker) => {
                state.faults -= 1;
                let tag = state.workers[worker].take()?;
                if state.queue.0.release(now_us, tag) {
                    let job = Self::job_of(&state, tag)?;
                    state.jobs[job].deliveries -= 1;
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("bound", |world: &Self, state: &State| {
                world.depth(state) <= world.bound
            }),
            Property::sometimes("the queue is full, and refuses", |world: &Self, state: &State| {
                world.depth(state) == world.bound && state.seen.is_refused
            }),
            Property::always("order", |_, state: &State| !state.seen.is_out_of_order),
            Property::sometimes("all are delivered, one of them twice", |_, state: &State| {
                let delivered = state.jobs.iter().map(|known| known.deliveries);
                delivered.clone().all(|times| times > 0) && delivered.max() == Some(DELIVERIES)
            }),
            Property::always("accepted", |_, state: &State| Self::are_all_there(state)),
            Property::sometimes("the job of a dead worker is done", |_, state: &State| {
                state.seen.is_saved
            }),
            Property::always("offered again", |_, state: &State| !state.seen.is_accepted_twice),
            Property::sometimes("a second offer gets the first id", |_, state: &State| {
                state.seen.is_duplicate
            }),
            Property::always("deliveries", |_, state: &State| {
                state.jobs.iter().all(|known| known.deliveries <= DELIVERIES)
            }),
            Property::sometimes("a job is dead", |_, state: &State| {
                !state.queue.0.dead_letters(1).is_empty()
            }),
        ]
    }
}

impl World for Queues {
    fn size(&self) -> String {
        let Self { bound, counts, jobs, workers, ticks, faults, .. } = self;
        format!(
            "bound {bound} ({counts:?}), {jobs} jobs, {workers} workers, {ticks} ticks, {faults} \
             faults"
        )
    }

    fn promises(&self) -> Vec<Promise> {
        let (bound, most) = (format!("{} jobs", self.bound), format!("{DELIVERIES} of each job"));
        let there = "each is in one place until it is acknowledged";
        vec![
            Promise::new("bound", bound, "the queue is full, and refuses"),
            Promise::new("order", "as accepted", "all are delivered, one of them twice"),
            Promise::new("accepted", there, "the job of a dead worker is done"),
            Promise::new("offered again", "accepted once", "a second offer gets the first id"),
            Promise::new("deliveries", most, "a job is dead"),
        ]
    }
}
