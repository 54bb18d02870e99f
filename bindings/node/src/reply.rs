//! The answer of a limiter, and its parts as JavaScript sees them.

use napi::Either;
use napi::bindgen_prelude::Null;
use napi_derive::napi;
use tollgate::{ChargedLimit, wire};

use crate::amounts::Amount;
use crate::handles::Handled as _;
use crate::numbers::{self, Numbers, number};
use crate::ruling::PolicyRuling;

/// An answer, before there is an object of JavaScript for it.
pub(crate) type BindingAnswer = tollgate_binding::BindingAnswer<Numbers>;

/// An answer as JavaScript reads it. The numbers of a decision are in the shared array.
#[napi(object, object_from_js = false)]
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// A yes or no.
    pub flag: Option<bool>,
    /// The effect on each limit.
    pub limits: Option<Vec<Charged>>,
    /// Whether it had been done before.
    pub already: Option<bool>,
    /// By how many units each limit's `remaining` rose.
    pub given: Option<Vec<f64>>,
    /// The units that can still be refunded.
    pub left: Option<f64>,
    /// The units that were charged for a hold.
    pub actual: Option<f64>,
    /// In place of that, the amount that was charged of each unit.
    pub amounts: Option<Vec<Amount>>,
    /// The number of a hold.
    pub hold: Option<u32>,
    /// The fencing number of the hold.
    pub fence: Option<f64>,
    /// When the hold ends, in microseconds since 1970.
    pub end_us: Option<f64>,
    /// The ruling of policies on a request.
    pub ruling: Option<PolicyRuling>,
}

/// The object for an answer, on a thread of JavaScript.
pub(crate) fn reply(answer: BindingAnswer) -> Reply {
    let none = Reply::default();
    match answer {
        BindingAnswer::Decision(numbers) => {
            numbers::show(&numbers);
            none
        }
        BindingAnswer::Charged(subject, limits, charged) => {
            let each = ChargedLimit::each([(&subject, &limits)], &charged);
            Reply { limits: Some(each.map(Charged::new).collect()), ..none }
        }
        BindingAnswer::Refund(tollgate::Refund { already, given, left, .. }) => Reply {
            already: Some(already),
            given: Some(given.into_iter().map(number).collect()),
            // All of it is given back, so nothing is left of any unit.
            left: Some(number(left.amounts().first())),
            ..none
        },
        BindingAnswer::Holding(numbers, hold) => {
            numbers::show(&numbers);
            let Some(hold) = hold else { return none };
            let (fence, end_us) = (number(hold.fence), number(hold.end.as_micros()));
            let hold = Some(hold.put());
            Reply { hold, fence: Some(fence), end_us: Some(end_us), ..none }
        }
        BindingAnswer::Settled(hold, settled) => Reply {
            already: Some(settled.already),
            actual: settled.actual.plain().map(number),
            amounts: settled.actual.plain().is_none().then(|| {
                let each = settled.actual.amounts();
                let each = each.iter().map(|(unit, amount)| Amount {
                    unit: unit.name().to_owned(),
                    amount: number(amount),
                });
                each.collect()
            }),
            limits: Some(hold.charged(&settled).map(Charged::new).collect()),
            ..none
        },
        BindingAnswer::Flag(flag) => Reply { flag: Some(flag), ..none },
        BindingAnswer::Ruling(ruling) => Reply { ruling: Some((*ruling).into()), ..none },
    }
}

/// The effect of a charge without a check on one limit.
#[napi(object, object_from_js = false)]
#[derive(Clone, Debug)]
pub(crate) struct Charged {
    /// The subject, in its written form.
    pub subject: String,
    /// The policy of the limit; null without one.
    pub policy: Either<String, Null>,
    /// The limit's identity, which names its count.
    pub identity: String,
    /// The limit in its full form.
    pub limit: String,
    /// Whether a check would have admitted the cost.
    pub fits: bool,
    /// The units that were not charged, since they exceed the limit's debt.
    pub cut: f64,
    /// The largest cost that would be admitted now.
    pub remaining: f64,
    /// The seconds until the same cost is admitted: 0 for now, null for never.
    pub retry_after: Either<f64, Null>,
    /// The seconds until the limit is fresh.
    pub reset_after: f64,
}

impl Charged {
    fn new(charged: ChargedLimit<'_>) -> Self {
        let charged = wire::Charged::from(charged);
        Self {
            subject: charged.subject.to_owned(),
            policy: or_null(charged.policy.map(str::to_owned)),
            identity: charged.identity.to_owned(),
            limit: charged.limit.to_owned(),
            fits: charged.fits,
            cut: number(charged.cut),
            remaining: number(charged.remaining),
            retry_after: or_null(charged.retry_after.map(|wait| wait.0.as_secs_f64())),
            reset_after: charged.reset_after.0.as_secs_f64(),
        }
    }
}

/// The known value; null for nothing, or never.
pub(crate) fn or_null<T>(known: Option<T>) -> Either<T, Null> {
    known.map_or(Either::B(Null), Either::A)
}
