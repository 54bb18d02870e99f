//! How a reply is read: where it says that it is allowed, what remains, and how long to wait.

use anyhow::Result;
use tollgate_proof::history::CallOutcome;

use super::place::{Allowed, Place, Raw, micros};
use crate::args::{Judge, TimeUnit};

/// The status of a denial over HTTP.
const TOO_MANY: u16 = 429;

/// A reply that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) outcome: CallOutcome,
    pub(super) decided_us: Option<u64>,
}

impl Answer {
    /// The limiter refused the question: nothing was charged.
    pub(super) const REFUSED: Self = Self { outcome: CallOutcome::NotCharged, decided_us: None };
}

/// The places of a reply.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// None for HTTP by its status: below 400 is allowed, and 429 is a denial.
    allowed: Option<Allowed>,
    remaining: Vec<Place>,
    retry_after: Vec<Place>,
    decided: Option<Place>,
    unit: TimeUnit,
}

/// The places that a protocol or a command has by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    pub(super) allowed: Option<&'static str>,
    pub(super) remaining: &'static [&'static str],
    pub(super) retry_after: &'static [&'static str],
    pub(super) decided: Option<&'static str>,
}

/// The headers of the drafts and of the field.
pub(super) const HTTP: Usual = Usual {
    allowed: None,
    remaining: &["header:ratelimit-remaining", "header:x-ratelimit-remaining"],
    retry_after: &["header:retry-after"],
    decided: None,
};

/// The reply of Envoy's rate limit service.
pub(super) const GRPC: Usual = Usual {
    allowed: Some("json:/overall_code=OK"),
    remaining: &["json:/limit_remaining"],
    retry_after: &["json:/duration_until_reset"],
    decided: None,
};

/// The reply of `CL.THROTTLE`, of redis-cell.
const CELL: Usual = Usual {
    allowed: Some("item:0=0"),
    remaining: &["item:2"],
    retry_after: &["item:3"],
    decided: None,
};

/// The reply of `TOLLGATE.CHECK`.
const CHECK: Usual = Usual {
    allowed: Some("field:allowed=1"),
    remaining: &["field:remaining"],
    retry_after: &["field:retry_after.seconds"],
    decided: Some("field:at_us"),
};

impl Usual {
    /// Of a command of the Redis protocol, by its first word.
    pub(super) fn of(command: &str) -> Option<Self> {
        match command.to_ascii_uppercase().as_str() {
            "CL.THROTTLE" | "RL.THROTTLE" => Some(CELL),
            "TOLLGATE.CHECK" => Some(CHECK),
            _ => None,
        }
    }

    /// Whether its waits are whole seconds.
    pub(super) fn is_coarse(self) -> bool {
        self.decided.is_none()
    }
}

impl Reading {
    pub(super) fn new(args: &Judge, usual: Usual) -> Result<Self> {
        let places = |given: &Option<String>, option: &str, usual: &[&str]| match given {
            Some(text) => Ok(vec![Place::parse(text, option)?]),
            None => usual.iter().map(|text| Place::parse(text, option)).collect(),
        };
        let allowed = args.allowed.as_deref().or(usual.allowed);
        let decided = args.decided_at.as_deref().or(usual.decided);
        Ok(Self {
            allowed: allowed.map(Allowed::parse).transpose()?,
            remaining: places(&args.remaining, "--remaining", usual.remaining)?,
            retry_after: places(&args.retry_after, "--retry-after", usual.retry_after)?,
            decided: decided.map(|text| Place::parse(text, "--decided-at")).transpose()?,
            unit: args.wait_in,
        })
    }

    /// Reads a reply. One that is neither allowed nor denied is a refusal.
    pub(super) fn read(&self, raw: &Raw) -> Answer {
        let first = |places: &[Place]| places.iter().find_map(|place| place.text(raw));
        let number = |text: String| text.trim().parse::<u64>().ok();
        let allowed = match &self.allowed {
            Some(Allowed { place, value }) => place.text(raw).map(|found| found == *value),
            None => match raw.status {
                200..400 => Some(true),
                TOO_MANY => Some(false),
                // A request that is wrong is neither.
                _ => None,
            },
        };
        // After a failure of the server nobody knows about the charge.
        let failed = raw.status >= 500;
        let remaining = first(&self.remaining).and_then(number);
        let wait = first(&self.retry_after).and_then(|text| micros(&text, self.unit));
        let outcome = match allowed {
            _ if failed => CallOutcome::Unknown,
            None => CallOutcome::NotCharged,
            Some(true) => CallOutcome::Allowed { remaining },
            Some(false) => CallOutcome::Denied { retry_after_us: wait, remaining },
        };
        let decided = self.decided.as_ref().and_then(|place| place.text(raw));
        Answer { outcome, decided_us: decided.and_then(number) }
    }
}
