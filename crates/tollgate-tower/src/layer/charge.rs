//! Charges by the response: refunds and extra charges.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use http::{Extensions, HeaderMap, Response, StatusCode};
use tollgate::{Cost, Store};
use tollgate_policy::{Answer, Gate};

/// The parts of a response that decide about its charge.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ResponseHead<'r> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'r HeaderMap,
    /// The values that the service attached.
    pub extensions: &'r Extensions,
}

impl fmt::Debug for ResponseHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResponseHead({})", self.status)
    }
}

/// The numbers of refunds and extra charges after responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Charges {
    /// The charges that were refunded.
    pub refunded: u64,
    /// The refunds that failed, because the store failed.
    pub not_refunded: u64,
    /// The requests with an extra charge, each of as much as remained.
    pub charged_more: u64,
    /// The extra charges that failed, because the store failed or the cost was above 2^40.
    pub not_charged: u64,
}

type Judge<T> = Arc<dyn Fn(&ResponseHead<'_>) -> T + Send + Sync>;

/// The rules for charges by the response, and their counters.
#[derive(Default)]
pub(super) struct Charging {
    pub(super) refund_when: Option<Judge<bool>>,
    pub(super) extra_cost: Option<Judge<Cost>>,
    refunded: AtomicU64,
    not_refunded: AtomicU64,
    charged_more: AtomicU64,
    not_charged: AtomicU64,
}

/// The action after a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Then {
    Nothing,
    Refund,
    Charge(Cost),
}

impl Charging {
    /// True when no action can follow a response.
    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.refund_when.is_none() && self.extra_cost.is_none()
    }

    /// The action for a response, or for the service's error.
    #[inline]
    pub(super) fn judge<B, E>(&self, result: &Result<Response<B>, E>) -> Then {
        if self.is_none() {
            return Then::Nothing;
        }
        let Ok(response) = result else {
            return if self.refund_when.is_some() { Then::Refund } else { Then::Nothing };
        };
        let head = ResponseHead {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
        };
        if self.refund_when.as_ref().is_some_and(|refund| refund(&head)) {
            return Then::Refund;
        }
        match self.extra_cost.as_ref().map(|cost| cost(&head)) {
            Some(units) if !units.amounts().is_zero() => Then::Charge(units),
            _ => Then::Nothing,
        }
    }

    /// Performs the action. The answer to an extra charge replaces the first decision.
    pub(super) async fn carry_out<S: Store>(
        &self,
        then: Then,
        gate: &Gate<S>,
        answer: &Answer<'_>,
    ) -> Option<tollgate::Decision<'static>> {
        match then {
            Then::Nothing => None,
            Then::Refund => {
                match gate.refund(answer).await {
                    Ok(Some(_)) => self.refunded.fetch_add(1, Ordering::Relaxed),
                    Ok(None) => 0,
                    Err(_) => self.not_refunded.fetch_add(1, Ordering::Relaxed),
                };
                None
            }
            Then::Charge(units) => match gate.charge_extra(answer, units).await {
                Ok(decision) => {
                    if decision.is_some() {
                        self.charged_more.fetch_add(1, Ordering::Relaxed);
                    }
                    decision
                }
                Err(_) => {
                    self.not_charged.fetch_add(1, Ordering::Relaxed);
                    None
                }
            },
        }
    }

    pub(super) fn charges(&self) -> Charges {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Charges {
            refunded: of(&self.refunded),
            not_refunded: of(&self.not_refunded),
            charged_more: of(&self.charged_more),
            not_charged: of(&self.not_charged),
        }
    }
}
