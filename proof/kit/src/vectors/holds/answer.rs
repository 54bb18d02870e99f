//! The answers of time lines with holds, as text and back.

use std::fmt;

use super::super::{parse_duration, parse_number};
use crate::oracle::Fields;

/// The answer to a line.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineAnswer {
    /// The result.
    pub said: Said,
    /// The numbers of each limit, in order; none where nothing was judged or charged.
    pub limits: Vec<LimitAnswer>,
}

/// The first word of an answer.
#[allow(clippy::exhaustive_enums, reason = "a runner must handle every one")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It is admitted.
    Yes,
    /// It is admitted, or renewed: the hold ends by itself at this time, in microseconds.
    Until(u64),
    /// The open hold of this name is answered again, which ends by itself at this time.
    Again(u64),
    /// The open hold of this name was asked for otherwise.
    Differs,
    /// The open hold of this name was answered too often.
    TooOften,
    /// The name is over.
    Over,
    /// So much is granted.
    Granted(u64),
    /// It is denied for now.
    No {
        /// Whether open holds are in the way: the wait is an upper bound.
        held: bool,
    },
    /// It is above a limit.
    Never,
    /// It is done, and was asked for this many units.
    Charged(u64),
    /// It was settled before, for this many units.
    Already(u64),
    /// Slots are free again.
    Released,
    /// No hold has the name: one that comes is refused.
    Early,
    /// The count is forgotten.
    Reset,
    /// The hold is unknown, or not open.
    NotOpen,
}

/// The numbers of one limit.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitAnswer {
    /// Its fields.
    pub fields: Fields,
    /// Whether `reset_after` may be longer than it says.
    pub at_least: bool,
    /// Of a charge: whether it fitted, and the units that were cut.
    pub charged: Option<(bool, u64)>,
}

impl LineAnswer {
    pub(super) const fn only(said: Said) -> Self {
        Self { said, limits: Vec::new() }
    }

    /// Whether it can be the answer under this many limits.
    pub(in crate::vectors) const fn fits(&self, limits: usize) -> bool {
        match self.said {
            Said::Yes
            | Said::Again(_)
            | Said::Granted(_)
            | Said::No { .. }
            | Said::Never
            | Said::Charged(_) => self.limits.len() == limits,
            Said::Until(_) => self.limits.is_empty() || self.limits.len() == limits,
            Said::Already(_)
            | Said::Released
            | Said::Early
            | Said::Differs
            | Said::TooOften
            | Said::Over
            | Said::Reset
            | Said::NotOpen => self.limits.is_empty(),
        }
    }

    /// Whether an implementation that answers `seen` answers as this says.
    #[must_use]
    pub fn allows(&self, seen: &Self) -> bool {
        let same = |(one, seen): (&LimitAnswer, &LimitAnswer)| {
            let (least, reset) = (one.fields.reset_after_us, seen.fields.reset_after_us);
            let fields = Fields { reset_after_us: least, ..seen.fields };
            let resets = if one.at_least { reset >= least } else { reset == least };
            resets && fields == one.fields && seen.charged == one.charged
        };
        self.said == seen.said
            && self.limits.len() == seen.limits.len()
            && self.limits.iter().zip(&seen.limits).all(same)
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let each = self.limits.iter().map(ToString::to_string);
        std::iter::once(self.said.to_string()).chain(each).collect()
    }

    pub(in crate::vectors) fn parse(said: &str, limits: &[&str]) -> Result<Self, String> {
        let said = parse_said(said)?;
        let mut parsed = Vec::new();
        for limit in limits {
            let answer = parse_limit_answer(limit)?;
            let charged = answer.charged.filter(|_| matches!(said, Said::Charged(_)));
            if charged.is_none() && answer.charged != Some((true, 0)) {
                return Err(format!("{limit:?}: only what is charged owes or is cut"));
            }
            parsed.push(LimitAnswer { charged, ..answer });
        }
        Ok(Self { said, limits: parsed })
    }
}

impl fmt::Display for LineAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cells().join(" | "))
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => f.write_str("yes"),
            Self::Until(end_us) => write!(f, "until {}", Span(*end_us)),
            Self::Again(end_us) => write!(f, "again until {}", Span(*end_us)),
            Self::Differs => f.write_str("differs"),
            Self::TooOften => f.write_str("too often"),
            Self::Over => f.write_str("over"),
            Self::Early => f.write_str("early"),
            Self::Granted(units) => write!(f, "granted {}", Number(*units)),
            Self::No { held: false } => f.write_str("no"),
            Self::No { held: true } => f.write_str("no, held"),
            Self::Never => f.write_str("never"),
            Self::Charged(units) => write!(f, "charged {}", Number(*units)),
            Self::Already(units) => write!(f, "already {}", Number(*units)),
            Self::Released => f.write_str("released"),
            Self::Reset => f.write_str("reset"),
            Self::NotOpen => f.write_str("not open"),
        }
    }
}

fn parse_said(text: &str) -> Result<Said, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(match *words.as_slice() {
        ["yes"] => Said::Yes,
        ["until", end] => Said::Until(parse_duration(end)?),
        ["again", "until", end] => Said::Again(parse_duration(end)?),
        ["differs"] => Said::Differs,
        ["too", "often"] => Said::TooOften,
        ["over"] => Said::Over,
        ["early"] => Said::Early,
        ["granted", units] => Said::Granted(parse_number(units)?),
        ["no"] => Said::No { held: false },
        ["no,", "held"] => Said::No { held: true },
        ["never"] => Said::Never,
        ["charged", units] => Said::Charged(parse_number(units)?),
        ["already", units] => Said::Already(parse_number(units)?),
        ["released"] => Said::Released,
        ["reset"] => Said::Reset,
        ["not", "open"] => Said::NotOpen,
        _ => return Err(format!("{text:?} is not an answer: see vectors/README.md")),
    })
}

impl fmt::Display for LimitAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fields { remaining, retry_after_us, reset_after_us } = self.fields;
        write!(f, "{} ", Number(remaining))?;
        match retry_after_us {
            Some(wait_us) => write!(f, "{}", Span(wait_us))?,
            None => f.write_str("-")?,
        }
        write!(f, " {}{}", Span(reset_after_us), if self.at_least { "+" } else { "" })?;
        match self.charged {
            Some((false, 0)) => f.write_str(" owes"),
            Some((fits, cut)) if !fits || cut > 0 => write!(f, " cuts {}", Number(cut)),
            _ => Ok(()),
        }
    }
}

fn parse_limit_answer(text: &str) -> Result<LimitAnswer, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [remaining, retry, reset, rest @ ..] = words.as_slice() else {
        return Err(format!("{text:?}: write remaining, retry and reset"));
    };
    let (reset, at_least) = match reset.strip_suffix('+') {
        Some(reset) => (reset, true),
        None => (*reset, false),
    };
    let charged = match *rest {
        [] => Some((true, 0)),
        ["owes"] => Some((false, 0)),
        ["cuts", units] => Some((false, parse_number(units)?)),
        _ => return Err(format!("{text:?}: after the numbers write owes, or cuts 2")),
    };
    let retry_after_us = if *retry == "-" { None } else { Some(parse_duration(retry)?) };
    let (remaining, reset_after_us) = (parse_number(remaining)?, parse_duration(reset)?);
    let fields = Fields { remaining, retry_after_us, reset_after_us };
    Ok(LimitAnswer { fields, at_least, charged })
}

/// A time in the largest unit that divides it.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without minutes: holds last seconds, and their ends are compared with other times.
        const UNITS: [(u64, &str); 4] =
            [(86_400_000_000, "d"), (3_600_000_000, "h"), (1_000_000, "s"), (1_000, "ms")];
        let unit = UNITS.iter().find(|(us, _)| self.0 > 0 && self.0.is_multiple_of(*us));
        match unit {
            Some((us, unit)) => write!(f, "{}{unit}", Number(self.0 / us)),
            None => write!(f, "{}", Number(self.0)),
        }
    }
}

/// A number whose thousands are separated by `_`.
struct Number(u64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                f.write_str("_")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}
