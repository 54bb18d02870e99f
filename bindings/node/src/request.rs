//! The question for a limiter, as JavaScript writes it.

use core::time::Duration;

use napi_derive::napi;
use tollgate::{Cost, Hold, ParseError, Patience, Reserve};
use tollgate_binding::{HoldRef, Limiter, Operation, argument};

use crate::amounts::{Amount, asked, cost_of};
use crate::decision;
use crate::error::{self, Raised, Result};
use crate::handles::Handled as _;
use crate::limits::parts;
use crate::numbers::whole;

/// A question as JavaScript writes it. Fields that a question does not need are empty or 0.
#[napi(object, object_to_js = false)]
#[derive(Debug)]
pub(crate) struct Request {
    /// Which question it is.
    pub ask: String,
    /// The subjects.
    pub subjects: Vec<String>,
    /// For each of them the number of its limits; 0 for the limiter's own.
    pub limits: Vec<u32>,
    /// Units or slots.
    pub units: f64,
    /// In place of the units, an amount of each.
    pub amounts: Option<Vec<Amount>>,
    /// Whether as much is charged as remains, or, of a reservation, whether its end charges.
    pub flag: bool,
    /// A time in seconds; 0 for none.
    pub ttl: f64,
    /// The number of a hold; 0 for none.
    pub hold: u32,
    /// The caller's id for a hold.
    pub id: Option<String>,
    /// The kind of cost that a peek judges.
    pub kind: Option<String>,
    /// How the caller waits.
    pub waiting: Option<String>,
    /// A receipt as text.
    pub receipt: Option<String>,
    /// The number of the limiter that made a decision.
    pub maker: u32,
    /// The numbers of the decision.
    pub numbers: Vec<f64>,
}

/// The question that a request is.
pub(crate) fn read(request: Request) -> Result<Operation> {
    let Request {
        ask,
        subjects,
        limits,
        units,
        amounts,
        flag,
        ttl,
        hold,
        id,
        kind,
        waiting,
        receipt,
        maker,
        numbers,
    } = request;
    let parts = parts(subjects, &limits)?;
    let units = whole(units);
    let cost = match amounts.as_deref() {
        None => Cost::from(units),
        Some(amounts) if ask == "commit" => cost_of(amounts, |all| Cost::used(all))?,
        Some(amounts) => cost_of(amounts, |all| Cost::new(all))?,
    };
    let subject = || parts.first().map(|part| part.subject.clone()).unwrap_or_default();
    let name = id.as_deref().map(argument::id).transpose().map_err(error::raised)?;
    let placed = |hold| Hold::find(hold).map(|it| Box::new(it.as_ref().clone()));
    let settled = || match name {
        Some(name) => Ok(HoldRef::Named(subject(), name)),
        None => placed(hold).map(HoldRef::Placed),
    };
    let patience = || match waiting.as_deref() {
        Some(waiting) => argument::waiting(waiting).map_err(error::raised),
        None => Ok(Patience::None),
    };
    let ttl = (ttl > 0.0).then(|| Duration::try_from_secs_f64(ttl).unwrap_or(Duration::MAX));
    Ok(match ask.as_str() {
        "check" => Operation::Check { parts, cost, partial: flag, patience: patience()? },
        "peek" => {
            let kind = kind.as_deref().map(argument::kind_of_peek).transpose();
            let kind = kind.map_err(error::raised)?.flatten();
            Operation::Peek { parts, cost, partial: flag, kind }
        }
        "charge" => Operation::Charge { subject: subject(), cost },
        "reset" => Operation::Reset { subject: subject() },
        "refund" => Operation::Refund(Box::new(match receipt {
            Some(text) => text.parse().map_err(|it| damaged("receipt", &it))?,
            None => {
                let maker = Limiter::find(maker)?;
                let mut receipt = None;
                let cost = asked(amounts.as_deref())?;
                decision::with(&maker, (&parts, cost), &numbers, |it| receipt = it.receipt())?;
                let none = "decision charged nothing, so there is nothing to refund";
                receipt.ok_or_else(|| error::argument(none))?
            }
        })),
        "reserve" => {
            let reserve = Reserve::from(ttl.unwrap_or_default());
            let reserve = if flag { reserve.charging() } else { reserve };
            Operation::Reserve { subject: subject(), cost, reserve, name }
        }
        "acquire" => {
            Operation::Acquire { subject: subject(), slots: units, name, patience: patience()? }
        }
        "commit" => Operation::Commit(settled()?, cost),
        "release" => Operation::Release(settled()?),
        "giveBack" => Operation::GiveBack(placed(hold)?),
        "renew" => Operation::Renew(settled()?, ttl),
        other => return Err(error::other(format!("there is no question `{other}`"))),
    })
}

/// The error for a text that is not what it should be. No message repeats it.
pub(crate) fn damaged(name: &str, error: &ParseError) -> Raised {
    error::argument(format!("{name}: {}: {}", error.what(), error.remedy()))
}
