//! The surroundings of a limiter that counts correctly: libraries that send again, caches,
//! fallbacks.

use std::collections::HashMap;

use tollgate_proof::history::CallOutcome;

use super::gcra::{Gcra, Mistake as Arithmetic};
use super::sim::{Ask, At, Limiter, Reply};
use tollgate_proof::Random;

/// The mistakes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    Nothing,
    /// A call whose reply was lost is sent once more.
    SendsAgain,
    /// A request id is forgotten immediately: a repeated call is charged again.
    ForgetsRequests,
    /// A denial of any cost denies every cost until its wait is over.
    CachesDenials,
    /// An allowed call lets the next two of its client through, uncharged.
    CachesAllowed,
    /// A store that does not answer is taken for one that allows.
    FailsOpen,
}

/// `5/10s via gcra`, reached by clients over a network that loses replies.
pub(crate) struct Clients {
    mistake: Mistake,
    /// One in this many replies is lost.
    loses: u64,
    /// One in this many calls cannot be sent.
    unreachable: u64,
    random: Random,
    store: Gcra,
    replies: HashMap<u64, Reply>,
    denied_until_us: u64,
    free: HashMap<usize, u64>,
}

impl Clients {
    pub(crate) fn new(mistake: Mistake) -> Self {
        Self {
            mistake,
            loses: 0,
            unreachable: 0,
            random: Random::new(3),
            store: Gcra::new(5, 10_000_000, 5, Arithmetic::Nothing),
            replies: HashMap::new(),
            denied_until_us: 0,
            free: HashMap::new(),
        }
    }

    /// Loses one reply in this many.
    pub(crate) fn losing(self, loses: u64) -> Self {
        Self { loses, ..self }
    }

    /// Cannot send one call in this many.
    pub(crate) fn unreachable(self, unreachable: u64) -> Self {
        Self { unreachable, ..self }
    }

    fn one_in(&mut self, many: u64) -> bool {
        many > 0 && self.random.below(many) == 0
    }

    fn store(&mut self, now_us: u64, ask: &Ask) -> Reply {
        if let Some(reply) = ask.request.and_then(|request| self.replies.get(&request)) {
            return *reply;
        }
        let reply = Reply::new(self.store.check(ask.subject, now_us, ask.cost), now_us);
        if let Some(request) = ask.request
            && self.mistake != Mistake::ForgetsRequests
            && reply.outcome.is_allowed()
        {
            self.replies.insert(request, reply);
        }
        reply
    }
}

impl Limiter for Clients {
    fn step(&mut self, at: At, ask: &Ask, _: usize) -> Option<Reply> {
        let now_us = at.now_us;
        if self.one_in(self.unreachable) {
            return Some(match self.mistake {
                Mistake::FailsOpen => Reply::bare(CallOutcome::Allowed { remaining: None }),
                _ => Reply::REFUSED,
            });
        }
        if self.mistake == Mistake::CachesDenials && now_us < self.denied_until_us {
            let outcome = CallOutcome::Denied { retry_after_us: None, remaining: None };
            return Some(Reply { outcome, now_us: Some(now_us) });
        }
        if self.mistake == Mistake::CachesAllowed
            && let Some(left) = self.free.get_mut(&ask.client).filter(|left| **left > 0)
        {
            *left -= 1;
            let outcome = CallOutcome::Allowed { remaining: None };
            return Some(Reply { outcome, now_us: Some(now_us) });
        }
        let mut reply = self.store(now_us, ask);
        if self.one_in(self.loses) {
            reply = match self.mistake {
                Mistake::SendsAgain => self.store(now_us, ask),
                _ => Reply::LOST,
            };
        }
        match reply.outcome {
            CallOutcome::Denied { retry_after_us: Some(wait_us), .. } => {
                self.denied_until_us = now_us + wait_us;
            }
            CallOutcome::Allowed { .. } => {
                self.free.insert(ask.client, 2);
            }
            _ => {}
        }
        Some(reply)
    }
}
