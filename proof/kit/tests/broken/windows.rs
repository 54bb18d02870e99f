//! Windows: races, edges, times to live, and writes that a copy of a store does not know.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::sim::{Ask, At, Limiter, Reply, Said};
use tollgate_proof::Random;

/// The mistakes of a window of the epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    Nothing,
    /// Reads the count, and writes it in a second round trip.
    ReadThenWrite,
    /// `>=` in place of `>`: the last unit is never admitted.
    AtLeast,
    /// Counts first, and compares then.
    CountThenCompare,
    /// The last instant of a window belongs to the next one, and the first to the last one.
    Edge,
    /// Reads from a replica that is three writes behind.
    Replica,
    /// Forgets the oldest subject when there are more than four.
    Eviction,
    /// After a failover half of the clients stay at the old primary.
    StalePrimary,
    /// Joins the two parts of a subject by a colon.
    JoinedKey,
}

/// `n` units in each window of `d` microseconds since the epoch.
pub(crate) struct Fixed {
    n: u64,
    d: u64,
    mistake: Mistake,
    /// By key: the window and its count.
    held: HashMap<String, (u64, u64)>,
    order: VecDeque<String>,
    /// The counts of the replica, or of the old primary.
    other: HashMap<String, (u64, u64)>,
    behind: VecDeque<(String, (u64, u64))>,
    read: HashMap<usize, u64>,
    /// The call at which the state is lost.
    fails_at: u64,
    failed: bool,
    keys: &'static [&'static str],
}

impl Fixed {
    pub(crate) fn new(n: u64, d: u64, mistake: Mistake) -> Self {
        Self {
            n,
            d,
            mistake,
            held: HashMap::new(),
            order: VecDeque::new(),
            other: HashMap::new(),
            behind: VecDeque::new(),
            read: HashMap::new(),
            fails_at: u64::MAX,
            failed: false,
            keys: &[],
        }
    }

    /// Keys of the subjects, by position.
    pub(crate) fn keyed(self, keys: &'static [&'static str]) -> Self {
        Self { keys, ..self }
    }

    /// Loses its state at a call.
    pub(crate) fn failing_at(self, fails_at: u64) -> Self {
        Self { fails_at, ..self }
    }

    fn window(&self, now_us: u64) -> u64 {
        match self.mistake {
            Mistake::Edge => (now_us - 1) / self.d,
            _ => now_us / self.d,
        }
    }

    fn count(&self, key: &str, now_us: u64) -> u64 {
        let held = if self.mistake == Mistake::Replica { &self.other } else { &self.held };
        held.get(key).filter(|held| held.0 == self.window(now_us)).map_or(0, |held| held.1)
    }

    fn write(&mut self, key: &str, now_us: u64, count: u64) {
        let held = (self.window(now_us), count);
        if self.held.insert(key.to_owned(), held).is_none() {
            self.order.push_back(key.to_owned());
        }
        if self.mistake == Mistake::Eviction && self.held.len() > 4 {
            let oldest = self.order.pop_front().unwrap();
            self.held.remove(&oldest);
        }
        self.behind.push_back((key.to_owned(), held));
        if self.behind.len() > 3 {
            let (key, held) = self.behind.pop_front().unwrap();
            self.other.insert(key, held);
        }
    }

    fn answer(&self, count: u64, now_us: u64, cost: u64) -> Said {
        let allowed = match self.mistake {
            Mistake::AtLeast => count + cost < self.n,
            _ => count + cost <= self.n,
        };
        let left = self.n.saturating_sub(count);
        let remaining = if allowed { left - cost } else { left };
        let end_us = (self.window(now_us) + 1) * self.d;
        Said { allowed, remaining, wait_us: (cost <= self.n).then(|| end_us - now_us) }
    }

    fn key(&self, ask: &Ask) -> String {
        match (self.keys.get(ask.subject), self.mistake) {
            (Some(key), Mistake::JoinedKey) => key.replace('|', ":"),
            (Some(key), _) => (*key).to_owned(),
            (None, _) => ask.subject.to_string(),
        }
    }

    fn decide(&mut self, key: &str, now_us: u64, cost: u64) -> Said {
        let count = self.count(key, now_us);
        let said = self.answer(count, now_us, cost);
        if said.allowed || self.mistake == Mistake::CountThenCompare {
            self.write(key, now_us, count + cost);
        }
        said
    }
}

impl Limiter for Fixed {
    fn step(&mut self, at: At, ask: &Ask, step: usize) -> Option<Reply> {
        let (now_us, key) = (at.now_us, self.key(ask));
        let cost = u64::try_from(ask.cost).unwrap();
        if ask.call >= self.fails_at && !self.failed {
            self.failed = true;
            self.other = std::mem::take(&mut self.held);
            if self.mistake == Mistake::StalePrimary {
                self.other.clear();
            }
        }
        if self.mistake == Mistake::StalePrimary && self.failed && ask.client == 0 {
            std::mem::swap(&mut self.held, &mut self.other);
            let said = self.decide(&key, now_us, cost);
            std::mem::swap(&mut self.held, &mut self.other);
            return Some(Reply::new(said, now_us));
        }
        match (self.mistake, step) {
            (Mistake::ReadThenWrite, 0) => {
                self.read.insert(ask.client, self.count(&key, now_us));
                None
            }
            (Mistake::ReadThenWrite, _) => {
                let count = self.read[&ask.client];
                let said = self.answer(count, now_us, cost);
                if said.allowed {
                    self.write(&key, now_us, count + cost);
                }
                Some(Reply::new(said, now_us))
            }
            _ => Some(Reply::new(self.decide(&key, now_us, cost), now_us)),
        }
    }
}

/// The mistakes of a window that the first hit opens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Right,
    /// The time to live is in whole seconds, rounded down.
    Short,
    /// One in four processes dies before it sets the time to live.
    Lost,
}

/// `n` units in a window of `d` microseconds that opens with a charge; one subject.
pub(crate) struct FirstHit {
    n: u64,
    d: u64,
    expiry: Expiry,
    random: Random,
    start_us: u64,
    end_us: u64,
    count: u64,
}

impl FirstHit {
    pub(crate) fn new(n: u64, d: u64, expiry: Expiry) -> Self {
        Self { n, d, expiry, random: Random::new(1), start_us: 0, end_us: 0, count: 0 }
    }
}

impl Limiter for FirstHit {
    fn step(&mut self, at: At, ask: &Ask, _: usize) -> Option<Reply> {
        let (now_us, cost) = (at.now_us, u64::try_from(ask.cost).unwrap());
        if now_us >= self.end_us {
            self.count = 0;
        }
        let allowed = self.count + cost <= self.n;
        if allowed {
            if self.count == 0 {
                self.start_us = now_us;
                self.end_us = match self.expiry {
                    Expiry::Short => now_us + self.d / 1_000_000 * 1_000_000,
                    Expiry::Lost if self.random.below(4) == 0 => u64::MAX,
                    _ => now_us + self.d,
                };
            }
            self.count += cost;
        }
        let wait_us = (cost <= self.n).then(|| (self.start_us + self.d).saturating_sub(now_us));
        let said = Said { allowed, remaining: self.n - self.count, wait_us };
        Some(Reply::new(said, now_us))
    }
}

/// The mistakes of a log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogMistake {
    Nothing,
    /// An event that is exactly one window old still counts.
    Edge,
    /// The entries of a sorted set are named by their time: two of one time are one.
    SameMember,
}

/// At most `n` units in any window of `d` microseconds; costs of 1, one subject.
pub(crate) struct Log {
    n: u64,
    d: u64,
    mistake: LogMistake,
    entries: VecDeque<u64>,
    members: BTreeSet<u64>,
}

impl Log {
    pub(crate) fn new(n: u64, d: u64, mistake: LogMistake) -> Self {
        Self { n, d, mistake, entries: VecDeque::new(), members: BTreeSet::new() }
    }
}

impl Limiter for Log {
    fn step(&mut self, at: At, _: &Ask, _: usize) -> Option<Reply> {
        // Milliseconds, so that two calls often have one time.
        let now_us = at.now_us / 1_000 * 1_000;
        let kept_from = now_us - self.d + u64::from(self.mistake != LogMistake::Edge);
        while self.entries.front().is_some_and(|&oldest| oldest < kept_from) {
            let oldest = self.entries.pop_front().unwrap();
            self.members.remove(&oldest);
        }
        let count = self.entries.len() as u64;
        let allowed = count < self.n;
        let known = !self.members.insert(now_us);
        if allowed && !(known && self.mistake == LogMistake::SameMember) {
            self.entries.push_back(now_us);
        }
        let oldest = self.entries.front().copied().unwrap_or(now_us);
        let wait_us = Some(oldest + self.d - now_us);
        let remaining = self.n - count - u64::from(allowed);
        Some(Reply::new(Said { allowed, remaining, wait_us }, now_us))
    }
}
