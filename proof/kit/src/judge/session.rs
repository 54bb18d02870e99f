//! A judgement under way: it asks, keeps the clock of the record, and records each phase.

use tollgate::LimitSet;

use crate::Random;
use crate::history::{Call, CallOutcome, Fault, FaultKind, History, RecordedCount};

use super::ask::{Abilities, Ask, Disturbance, Driver, DriverError, Flood, Reply};
use super::options::Options;

/// 2025-06-15: where a clock that can be set begins. From here on a double of seconds does not hold
/// microseconds.
const START_US: u64 = 1_750_000_000_000_000;

/// The record of one kind of traffic.
#[derive(Debug, Default)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) history: History,
    pub(super) asked: u64,
    /// Whether each question was asked when the one before was answered.
    pub(super) is_sequential: bool,
}

/// A judgement under way.
pub(super) struct Session<'d> {
    pub(super) driver: &'d mut dyn Driver,
    pub(super) options: &'d Options,
    pub(super) able: Abilities,
    pub(super) random: Random,
    pub(super) done: Vec<Phase>,
    pub(super) open: Vec<String>,
    pub(super) flood: Option<(u64, u64)>,
    phase: Phase,
    next_id: u64,
    subjects: u64,
    /// Of a clock that is set: real time, and how far the limiter's clock is ahead of it.
    pub(super) real_us: u64,
    offset_us: i64,
    /// The limits that changed last.
    changed: Option<(String, LimitSet)>,
}

impl<'d> Session<'d> {
    pub(super) fn new(driver: &'d mut dyn Driver, options: &'d Options) -> Self {
        let able = driver.abilities();
        Self {
            driver,
            options,
            able,
            random: Random::new(options.seed),
            done: Vec::new(),
            open: Vec::new(),
            flood: None,
            phase: Phase::default(),
            next_id: 0,
            subjects: 0,
            real_us: START_US,
            offset_us: 0,
            changed: None,
        }
    }

    /// Begins a kind of traffic. That before is done.
    pub(super) fn begin(&mut self, name: &'static str, is_sequential: bool) {
        self.end();
        self.phase = Phase { name, is_sequential, ..Phase::default() };
    }

    /// Ends the last kind of traffic.
    pub(super) fn end(&mut self) {
        let phase = std::mem::take(&mut self.phase);
        if phase.asked > 0 {
            self.done.push(phase);
        }
    }

    /// A subject that nobody has asked about.
    pub(super) fn fresh(&mut self) -> String {
        self.subjects += 1;
        format!("judge-{}-{}", self.options.run, self.subjects)
    }

    /// A question of the first client, with a cost of 1.
    pub(super) fn question(&mut self, subject: &str) -> Ask {
        self.next_id += 1;
        Ask {
            id: self.next_id,
            client: 0,
            subject: subject.to_owned(),
            cost: 1,
            request: None,
            now_us: None,
            limits: None,
            peek: false,
            lose: false,
        }
    }

    /// The time of the limiter's clock, where it is set.
    pub(super) fn set_us(&self) -> u64 {
        self.real_us.saturating_add_signed(self.offset_us)
    }

    /// Begins at an instant of a cycle of time, where the clock is set; else now. Returns when that
    /// is. All are in microseconds.
    pub(super) fn begin_at(&mut self, instant_us: u64, cycle_us: u64) -> u64 {
        if self.able.clock {
            self.real_us += 2 * self.options.longest_us();
            let set_us = self.set_us();
            let next_us = set_us.next_multiple_of(cycle_us) + instant_us;
            self.real_us += next_us - set_us;
        }
        self.time_us()
    }

    /// Lets time pass until an instant of the record's clock.
    pub(super) fn wait_until(&mut self, until_us: u64) {
        if self.able.clock {
            self.real_us = self.real_us.max(until_us);
        } else {
            self.driver.sleep_until(until_us);
        }
    }

    /// Sets the limiter's clock back or forward beside real time.
    pub(super) fn step_clock(&mut self, by_us: i64) {
        self.offset_us += by_us;
        let at_us = self.real_us;
        self.fault(FaultKind::ClockStep, at_us, at_us, 0);
        self.real_us += 10;
    }

    /// Records a fault.
    fn fault(&mut self, kind: FaultKind, began_us: u64, ended_us: u64, lost_states: u32) {
        let target = "limiter".to_owned();
        let fault = Fault { kind, began_us, ended_us, target, lost_states };
        self.phase.history.faults.push(fault);
    }

    /// Makes a disturbance.
    pub(super) fn disturb(&mut self, disturbance: Disturbance) -> Result<(), DriverError> {
        let began_us = self.time_us();
        self.driver.disturb(disturbance)?;
        self.real_us += 1;
        let (kind, ended_us) = match disturbance {
            Disturbance::Restart => (FaultKind::Restart, self.time_us()),
            Disturbance::Failover => (FaultKind::Failover, self.time_us()),
        };
        self.fault(kind, began_us, ended_us, self.options.may_lose);
        self.real_us += 10;
        Ok(())
    }

    /// The clock of the record.
    fn time_us(&self) -> u64 {
        if self.able.clock { self.real_us } else { self.driver.now_us() }
    }

    /// Asks all at once, and records the replies.
    pub(super) fn round(&mut self, mut asks: Vec<Ask>) -> Result<Vec<Reply>, DriverError> {
        if !self.able.clock {
            let replies = self.driver.ask(&asks)?;
            for (ask, reply) in asks.iter().zip(&replies) {
                self.record(ask, reply);
            }
            return Ok(replies);
        }
        let now_us = self.set_us();
        asks.iter_mut().for_each(|ask| ask.now_us = Some(now_us));
        let mut replies = self.driver.ask(&asks)?;
        for (ask, reply) in asks.iter().zip(&mut replies) {
            (reply.invoked_us, reply.returned_us) = (self.real_us, self.real_us + 1);
            // A limiter whose clock was set decided then, unless it shows another time.
            let decided_us = reply.decided_us.unwrap_or(now_us);
            reply.decided_us = reply.outcome.is_decision().then_some(decided_us);
            self.record(ask, reply);
        }
        self.real_us += 2;
        Ok(replies)
    }

    /// Asks one question.
    pub(super) fn one(&mut self, ask: Ask) -> Result<Reply, DriverError> {
        let replies = self.round(vec![ask])?;
        replies.first().copied().ok_or_else(|| DriverError::new("no reply came"))
    }

    /// Asks again and again from many clients, and records how often.
    pub(super) fn flood(&mut self, flood: &Flood) -> Result<(), DriverError> {
        let began_us = self.driver.now_us();
        let replies = self.driver.flood(flood)?;
        let took_us = self.driver.now_us().saturating_sub(began_us);
        self.flood = Some((u64::try_from(replies.len()).unwrap_or(u64::MAX), took_us));
        for (client, reply) in &replies {
            self.next_id += 1;
            let ask = Ask { id: self.next_id, client: *client, ..flood.ask.clone() };
            self.record(&ask, reply);
        }
        Ok(())
    }

    /// A cost below 1 and a peek charge nothing: the history has no call for them.
    fn record(&mut self, ask: &Ask, reply: &Reply) {
        self.phase.asked += 1;
        let Ok(cost @ 1..) = u64::try_from(ask.cost) else { return };
        if ask.peek {
            return;
        }
        let limits = match (&ask.limits, &self.changed) {
            (Some(text), Some((known, limits))) if text == known => limits.clone(),
            (Some(text), _) => match text.parse::<LimitSet>() {
                Ok(limits) => {
                    self.changed = Some((text.clone(), limits.clone()));
                    limits
                }
                Err(_) => return,
            },
            (None, _) => self.options.limits.clone(),
        };
        let capacity = limits.limits().iter().map(tollgate::Limit::capacity).min();
        let outcome = match reply.outcome {
            // Most protocols have no word for *never*: a denial without a wait may mean it.
            CallOutcome::Denied { retry_after_us: None, .. } if Some(cost) > capacity => {
                CallOutcome::Never
            }
            other => other,
        };
        let returned = outcome != CallOutcome::Unknown || self.able.clock;
        self.phase.history.calls.push(Call {
            id: ask.id,
            client: format!("c{}", ask.client),
            invoked_us: reply.invoked_us,
            returned_us: returned.then_some(reply.returned_us),
            parts: vec![RecordedCount { subject: ask.subject.clone(), limits }],
            cost,
            request: ask.request.clone(),
            decided_us: reply.decided_us,
            outcome,
        });
    }
}
