//! A limiter's answer, before there is an object of another language for it, and its way to the
//! loop that waits.

use std::sync::{Arc, Mutex};

use tollgate::{Charged, Decision, Error, Hold, LimitSet, Refund, Settled, Subject};

use crate::lock::lock;
use crate::ruling::Ruling;

/// An answer. `D` is the language's form of a decision.
#[derive(Debug)]
pub enum BindingAnswer<D> {
    /// The decision of a check or a peek.
    Decision(D),
    /// The effect of a charge without a check on the limits of a subject.
    Charged(Subject, LimitSet, Vec<Charged>),
    /// The effect of a refund.
    Refund(Refund),
    /// The decision on a hold and, where it was admitted, the hold.
    Holding(D, Option<Box<Hold>>),
    /// The effect of settling a hold.
    Settled(Box<Hold>, Settled),
    /// A yes or no.
    Flag(bool),
    /// The ruling of policies on a request.
    Ruling(Box<Ruling>),
}

/// A decision as JSON, with the fields that every front writes.
#[must_use]
pub fn json(decision: &Decision<'_>) -> String {
    // Serialization cannot fail: all keys are strings, and no number is outside of JSON.
    serde_json::to_string(decision).unwrap_or_default()
}

/// An answer, and the number of who waits for it.
type Arrived<D> = (u32, Result<BindingAnswer<D>, Error>);

/// The answers that came and were not taken yet.
#[derive(Debug)]
pub struct Answers<D>(Arc<Mutex<Vec<Arrived<D>>>>);

impl<D> Default for Answers<D> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<D> Answers<D> {
    /// A sender for the answer that `number` waits for.
    pub fn sender(&self, number: u32) -> Sender<D> {
        Sender { number, answers: Self(Arc::clone(&self.0)) }
    }

    /// Takes those that came.
    pub fn take(&self) -> Vec<Arrived<D>> {
        core::mem::take(&mut *lock(&self.0))
    }

    /// Whether none came.
    pub fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

/// The means of a running question to hand its answer over.
#[derive(Debug)]
pub struct Sender<D> {
    number: u32,
    answers: Answers<D>,
}

impl<D> Sender<D> {
    /// Hands the answer over, for the next time that the loop looks. One that ended meanwhile never
    /// does.
    pub fn send(self, answer: Result<BindingAnswer<D>, Error>) {
        lock(&self.answers.0).push((self.number, answer));
    }
}
