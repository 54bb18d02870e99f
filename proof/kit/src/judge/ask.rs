//! The questions that a judge puts to a limiter, the replies, and the driver that carries both.

use std::fmt;

use crate::history::CallOutcome;

/// One question.
#[allow(clippy::exhaustive_structs, reason = "plain data, which drivers read")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// A number that no other question of the judgement has.
    pub id: u64,
    /// Which client asks, from 0. Each has a connection of its own.
    pub client: usize,
    /// The subject, which has a count of its own.
    pub subject: String,
    /// The cost. Below 1 only where [`Abilities::odd_costs`] allows it.
    pub cost: i64,
    /// The request id: a limiter that knows it from before charges nothing.
    pub request: Option<String>,
    /// The time of the limiter's clock from now on, in microseconds, where it can be set.
    pub now_us: Option<u64>,
    /// The limits that count from now on, where they can be changed; else those from the start.
    pub limits: Option<String>,
    /// Whether it asks what a check would answer, and charges nothing.
    pub peek: bool,
    /// Whether the reply is lost: the driver sends the question and reads nothing.
    pub lose: bool,
}

/// A reply, with the instants of the recorder's clock between which it was decided.
#[allow(clippy::exhaustive_structs, reason = "plain data, which drivers write")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The answer.
    pub outcome: CallOutcome,
    /// The limiter's own time of the decision, in microseconds, if the reply has it.
    pub decided_us: Option<u64>,
    /// When the question was sent, in microseconds of [`Driver::now_us`].
    pub invoked_us: u64,
    /// When the reply was there.
    pub returned_us: u64,
}

/// The abilities of a limiter and its driver, beyond a check of a subject.
#[allow(clippy::exhaustive_structs, reason = "a driver names each")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The clock can be set: each question says which time it is.
    pub clock: bool,
    /// That clock may also be set back, as that of a machine may.
    pub steps: bool,
    /// Questions have a cost. Otherwise each costs 1.
    pub costs: bool,
    /// Costs below 1 can be asked too.
    pub odd_costs: bool,
    /// Questions have request ids.
    pub requests: bool,
    /// Questions may charge nothing.
    pub peeks: bool,
    /// The limits can be changed while they count.
    pub limits: bool,
    /// It can be restarted.
    pub restart: bool,
    /// A replica can take over.
    pub failover: bool,
    /// Replies can be lost on purpose.
    pub lose: bool,
}

/// A disturbance that a driver makes.
#[allow(clippy::exhaustive_enums, reason = "a driver makes each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The limiter ends and starts again.
    Restart,
    /// A replica takes over.
    Failover,
}

impl Disturbance {
    /// The word for it, also in the JSON lines of a program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Failover => "failover",
        }
    }
}

/// Why a limiter could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError(String);

impl DriverError {
    /// With its reason, as a sentence without a stop.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DriverError {}

/// The way to a limiter.
pub trait Driver {
    /// The abilities of the limiter.
    fn abilities(&self) -> Abilities;

    /// Asks all at once, each from its client's connection, and waits for the replies, which are
    /// in the order of the questions.
    ///
    /// # Errors
    /// The limiter cannot be asked, or the reply cannot be read. A question that the limiter
    /// refused is [`CallOutcome::NotCharged`], and no error.
    fn ask(&mut self, asks: &[Ask]) -> Result<Vec<Reply>, DriverError>;

    /// Asks again and again from this many clients, each one question at a time, until an instant
    /// or until so many were asked. The replies are in any order, each with its client.
    ///
    /// # Errors
    /// As for [`Driver::ask`].
    fn flood(&mut self, flood: &Flood) -> Result<Vec<(usize, Reply)>, DriverError> {
        let mut replies = Vec::new();
        while self.now_us() < flood.until_us && replies.len() < flood.most {
            let before = flood.ask.id + replies.len() as u64;
            let ask = |client| Ask { id: before + client as u64, client, ..flood.ask.clone() };
            let asks: Vec<Ask> = (0..flood.clients).map(ask).collect();
            replies.extend(self.ask(&asks)?.into_iter().enumerate());
        }
        Ok(replies)
    }

    /// Makes a disturbance, and returns when it is over.
    ///
    /// # Errors
    /// The limiter cannot do it.
    fn disturb(&mut self, disturbance: Disturbance) -> Result<(), DriverError>;

    /// The recorder's clock, in microseconds since 1970. It never goes back.
    fn now_us(&self) -> u64;

    /// Waits until an instant of that clock.
    fn sleep_until(&mut self, until_us: u64);
}

/// Many questions from many clients.
#[allow(clippy::exhaustive_structs, reason = "plain data, which drivers read")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flood {
    /// The question.
    pub ask: Ask,
    /// How many clients ask.
    pub clients: usize,
    /// Until when, in microseconds of [`Driver::now_us`].
    pub until_us: u64,
    /// How many questions at most.
    pub most: usize,
}
