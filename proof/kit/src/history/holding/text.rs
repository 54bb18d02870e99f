//! The text form of calls about holds.

use std::fmt;

use super::super::text::{Pairs, Quoted, Reader, optional, write_outcome, write_parts};
use super::record::{HoldCall, HoldStep, Place, Renewing, Settling};
use crate::oracle::Kind;

impl fmt::Display for HoldCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, client, invoked_us, returned_us, hold, step } = self;
        write!(f, "hold id={id} client={} invoked={invoked_us}", Quoted(client))?;
        optional(f, "returned", *returned_us)?;
        write!(f, " hold={}", Quoted(hold))?;
        match step {
            HoldStep::Place(place) => {
                let word = match place.kind {
                    Kind::Acquire => "acquire",
                    Kind::Reserve => "reserve",
                    Kind::Charging => "reserve_charging",
                };
                write!(f, " step={word}")?;
                write_parts(f, &place.parts)?;
                write!(f, " cost={} ttl={}", place.cost, place.ttl_us)?;
                optional(f, "now", place.decided_us)?;
                write_outcome(f, place.outcome)?;
                optional(f, "fence", place.fence)
            }
            HoldStep::Settle { actual, answer } => {
                write!(f, " step=settle actual={actual}")?;
                match answer {
                    Settling::Done { remaining } => {
                        f.write_str(" outcome=done")?;
                        optional(f, "remaining", *remaining)
                    }
                    Settling::Already(before) => write!(f, " outcome=already before={before}"),
                    Settling::NotOpen => f.write_str(" outcome=not_open"),
                    Settling::Unknown => f.write_str(" outcome=unknown"),
                }
            }
            HoldStep::Renew { ttl_us, answer } => {
                write!(f, " step=renew ttl={ttl_us}")?;
                match answer {
                    Renewing::Until(end_us) => write!(f, " outcome=until end={end_us}"),
                    Renewing::NotOpen => f.write_str(" outcome=not_open"),
                    Renewing::Unknown => f.write_str(" outcome=unknown"),
                }
            }
        }
    }
}

/// Reads the pairs of a line `hold`.
pub(in super::super) fn read(reader: &mut Reader, pairs: &mut Pairs) -> Result<HoldCall, String> {
    let word = pairs.text("step")?;
    let mut place = |kind, pairs: &mut Pairs| {
        let place = Place {
            kind,
            outcome: Reader::outcome(pairs)?,
            parts: reader.parts(pairs)?,
            cost: pairs.number("cost")?,
            ttl_us: pairs.number("ttl")?,
            decided_us: pairs.optional("now")?,
            fence: pairs.optional("fence")?,
        };
        match place.cost {
            0 => Err("cost=0 holds nothing".to_owned()),
            _ => Ok(HoldStep::Place(place)),
        }
    };
    let step = match word.as_str() {
        "acquire" => place(Kind::Acquire, pairs)?,
        "reserve" => place(Kind::Reserve, pairs)?,
        "reserve_charging" => place(Kind::Charging, pairs)?,
        "settle" => {
            let answer = match pairs.text("outcome")?.as_str() {
                "done" => Settling::Done { remaining: pairs.optional("remaining")? },
                "already" => Settling::Already(pairs.number("before")?),
                "not_open" => Settling::NotOpen,
                "unknown" => Settling::Unknown,
                other => return Err(format!("outcome={other} is not known")),
            };
            HoldStep::Settle { actual: pairs.number("actual")?, answer }
        }
        "renew" => {
            let answer = match pairs.text("outcome")?.as_str() {
                "until" => Renewing::Until(pairs.number("end")?),
                "not_open" => Renewing::NotOpen,
                "unknown" => Renewing::Unknown,
                other => return Err(format!("outcome={other} is not known")),
            };
            HoldStep::Renew { ttl_us: pairs.number("ttl")?, answer }
        }
        other => return Err(format!("step={other} is not known")),
    };
    let call = HoldCall {
        id: pairs.number("id")?,
        client: pairs.text("client")?,
        invoked_us: pairs.number("invoked")?,
        returned_us: pairs.optional("returned")?,
        hold: pairs.text("hold")?,
        step,
    };
    match call.returned_us {
        Some(returned_us) if returned_us < call.invoked_us => {
            Err("it ends before it begins".to_owned())
        }
        None if call.step.is_answered() => Err("an answer has no `returned=`".to_owned()),
        _ => Ok(call),
    }
}
