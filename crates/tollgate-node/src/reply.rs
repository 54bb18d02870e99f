//! What a limiter answered, and its parts as JavaScript sees them.

use napi_derive::napi;
use tollgate::Hold;

use crate::handles::Handled as _;
use crate::numbers::{self, Numbers, number, seconds};

/// An answer, before there is an object of JavaScript for it.
#[derive(Debug)]
pub(crate) enum Answer {
    Decision(Numbers),
    Charged(Vec<tollgate::Charged>),
    Refund(tollgate::Refund),
    Holding(Numbers, Option<Box<Hold>>),
    Settled(tollgate::Settled),
    Flag(bool),
}

/// An answer as JavaScript reads it. The numbers of a decision are in the shared array.
#[napi(object, object_from_js = false)]
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// A yes or no.
    pub flag: Option<bool>,
    /// What was done to each limit.
    pub charged: Option<Vec<Charged>>,
    /// Whether it had been done before.
    pub already: Option<bool>,
    /// By how many units each limit's `remaining` rose.
    pub given: Option<Vec<f64>>,
    /// The units that can still be refunded.
    pub left: Option<f64>,
    /// The units that were charged for a hold.
    pub actual: Option<f64>,
    /// The number of a hold.
    pub hold: Option<u32>,
    /// The fencing number of the hold.
    pub fence: Option<f64>,
    /// When the hold ends, in microseconds since 1970.
    pub end_us: Option<f64>,
}

impl Answer {
    /// The object for it, on a thread of JavaScript.
    pub(crate) fn into_reply(self) -> Reply {
        let none = Reply::default();
        match self {
            Self::Decision(numbers) => {
                numbers::show(&numbers);
                none
            }
            Self::Charged(charged) => Reply { charged: Some(charged_of(&charged)), ..none },
            Self::Refund(tollgate::Refund { already, given, left, .. }) => Reply {
                already: Some(already),
                given: Some(given.into_iter().map(number).collect()),
                left: Some(number(left)),
                ..none
            },
            Self::Holding(numbers, hold) => {
                numbers::show(&numbers);
                let Some(hold) = hold else { return none };
                let (fence, end_us) = (number(hold.fence), number(hold.end.as_micros()));
                let hold = Some(hold.put());
                Reply { hold, fence: Some(fence), end_us: Some(end_us), ..none }
            }
            Self::Settled(tollgate::Settled { already, actual, charged, .. }) => Reply {
                already: Some(already),
                actual: Some(number(actual)),
                charged: Some(charged_of(&charged)),
                ..none
            },
            Self::Flag(flag) => Reply { flag: Some(flag), ..none },
        }
    }
}

/// What a charge without a check did to one limit.
#[napi(object, object_from_js = false)]
#[derive(Clone, Debug)]
pub(crate) struct Charged {
    /// Whether a check would have admitted the cost.
    pub fits: bool,
    /// The units that were not charged, since the limit cannot owe them.
    pub cut: f64,
    /// The largest cost that would be admitted now.
    pub remaining: f64,
    /// The seconds until the same cost is admitted: 0 for now, null for never.
    pub retry_after: napi::Either<f64, napi::bindgen_prelude::Null>,
    /// The seconds until the limit is fresh.
    pub reset_after: f64,
}

fn charged_of(charged: &[tollgate::Charged]) -> Vec<Charged> {
    let each = charged.iter().map(|it| Charged {
        fits: it.fits,
        cut: number(it.cut),
        remaining: number(it.remaining),
        retry_after: or_null(it.retry_after_us),
        reset_after: seconds(it.reset_after_us),
    });
    each.collect()
}

/// A wait in seconds; null for never.
pub(crate) fn or_null(us: Option<u64>) -> napi::Either<f64, napi::bindgen_prelude::Null> {
    match us {
        Some(us) => napi::Either::A(seconds(us)),
        None => napi::Either::B(napi::bindgen_prelude::Null),
    }
}
