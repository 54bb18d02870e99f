//! The scripts and the engine side by side.

use tollgate::{LimitSet, Subject};
use tollgate_redis::Keys;
use tollgate_redis::compose::Clock;

use super::scripts::{Scripts, Texts};
use super::seen::Seen;
use crate::lua::fake::{Fake, Reply, Stored};
use crate::lua::model::Model;

/// The scripts and the engine side by side.
pub(crate) struct Pair {
    pub(crate) fake: Fake,
    pub(crate) scripts: Scripts,
    pub(crate) model: Model,
    pub(crate) seen: Seen,
    pub(super) keys: Keys,
    pub(crate) nonce: u64,
    /// The answer to the last check.
    pub(super) answer: Option<Reply>,
    /// A trace of events, when somebody wants it.
    pub(crate) trace: Option<Vec<String>>,
}

/// The difference, reported once.
pub(crate) type Difference = String;

impl Pair {
    /// By the server's clock.
    pub(crate) fn new(texts: Texts) -> Self {
        Self::by(Clock::Server, texts)
    }

    /// By either clock.
    pub(crate) fn by(clock: Clock, texts: Texts) -> Self {
        Self {
            fake: Fake::new(),
            scripts: Scripts::new(texts, clock),
            model: Model::default(),
            seen: Seen::default(),
            keys: Keys::new(),
            nonce: 0,
            answer: None,
            trace: None,
        }
    }

    pub(super) fn record(&mut self, what: impl Fn() -> String) {
        if let Some(trace) = &mut self.trace {
            let mut keys: Vec<String> = Vec::new();
            for (key, held) in self.fake.keys() {
                let shown = match held {
                    Stored::Text(bytes) => show(&bytes),
                    Stored::List(rows) => {
                        rows.iter().map(|row| show(row)).collect::<Vec<_>>().join(" ")
                    }
                    Stored::Sorted(members) => format!("{members:?}"),
                    Stored::Hash(fields) => format!("{fields:?}"),
                };
                keys.push(format!("{} = {shown}", String::from_utf8_lossy(&key)));
            }
            trace.push(format!("{}\n    redis {keys:?}\n    rust {:?}", what(), self.model.counts));
        }
    }

    /// Sets the server's clock, or adds the time to the arguments and makes the clock useless.
    pub(super) fn clock<A: From<String>>(&self, now_us: u64, args: &mut Vec<A>) {
        match self.scripts.clock {
            Clock::Given => {
                args.push(now_us.to_string().into());
                self.fake.at(1);
            }
            _ => self.fake.at(now_us),
        }
    }

    /// How long what counts so long lies: a second longer, in whole milliseconds.
    pub(super) fn lifetime(&self, reset_us: u64) -> u64 {
        match self.scripts.clock {
            Clock::Given => 3_600_000,
            _ => reset_us.div_ceil(1000) + 1000,
        }
    }

    pub(super) fn keys_of(&self, subject: &str, limits: &LimitSet) -> (String, Vec<String>) {
        let subject = Subject::literal(subject).unwrap();
        let state = self.keys.state(&subject, limits);
        let logs = Keys::logs(&state, limits);
        (state, logs)
    }

    pub(super) fn compare(
        &self,
        answer: &Reply,
        expected: &[i64],
        what: impl Fn() -> String,
    ) -> Result<(), Difference> {
        match answer {
            Reply::List(list)
                if list.len() == expected.len() + 1
                    && list[0] == Reply::Text(self.nonce.to_string().into_bytes())
                    && list[1..].iter().zip(expected).all(|(a, b)| *a == Reply::Int(*b)) =>
            {
                Ok(())
            }
            other => Err(format!("{}:\n  lua  {other:?}\n  rust {expected:?}", what())),
        }
    }

    /// Has the fake drop what has expired, and the model what it may forget.
    pub(crate) fn forget(&mut self, now_us: u64) -> Result<(), Difference> {
        // By a given clock everything lies for an hour, which never passes.
        if self.scripts.clock != Clock::Server {
            return Ok(());
        }
        self.fake.at(now_us);
        let gone = self.fake.forget();
        if !gone.is_empty() {
            self.seen.saw("something expired");
        }
        let keys = &self.keys;
        self.model.forget(&gone, now_us, |subject, limits| {
            let state = keys.state(&Subject::literal(subject).unwrap(), limits);
            let logs = Keys::logs(&state, limits);
            (state, logs)
        })?;
        self.record(|| format!("{gone:?} expired at {now_us}"));
        Ok(())
    }
}

/// A state for people: its text, and its integers.
fn show(bytes: &[u8]) -> String {
    let at = bytes.iter().position(|byte| *byte == b'|').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(&bytes[..at]);
    let mut rest = &bytes[at..];
    let mut numbers = Vec::new();
    let mut width = if rest.len() == 6 { 6 } else { 7 };
    while rest.len() >= width {
        numbers.push(rest[..width].iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte)));
        rest = &rest[width..];
        width = 6;
    }
    format!("{text}{numbers:?}")
}
