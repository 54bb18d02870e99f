//! Charges without a check: of work that is done, and whose cost became known afterwards.

use tollgate::{Charged, Cost};

use super::{By, Parts, Question, Refusal, Service, ask};

/// The effect of a charge.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(crate) cost: Cost,
    /// The charged counts: each subject with its limits.
    pub(crate) counts: Parts,
    /// The effect on each of these limits.
    pub(crate) charged: Vec<Charged>,
}

impl Service {
    /// Charges what a check of this question would charge, whatever remains
    /// ([`tollgate::Limiter::charge`]). Where no policy applies, nothing is charged.
    ///
    /// # Errors
    /// As [`Service::answer`]; also a question for a receipt or with an idempotency key, and a
    /// store that could not answer.
    pub(crate) async fn charge(&self, question: Question<'_>) -> Result<Charge, Refusal> {
        question.without_kind()?;
        question.without_waiting()?;
        let Question { by, cost, idempotency_key, receipt, .. } = question;
        if receipt {
            let detail = "a charge without a check has no receipt: leave it out. An administrator's \
                          adjustment gives units back";
            return Err(Refusal::invalid(detail).at("receipt"));
        }
        if idempotency_key.is_some() {
            let detail = "charges without a check are not remembered by request: leave it out";
            return Err(Refusal::invalid(detail).at("idempotency_key"));
        }
        match by {
            By::Policies { policy, fields } => {
                let given = cost.clone();
                let prepared = self.prepared(policy.as_deref(), &fields, cost)?;
                let Some(ask) = prepared.question() else {
                    let (counts, charged) = (Parts::new(), Vec::new());
                    return Ok(Charge { cost: given.unwrap_or(Cost::from(0)), counts, charged });
                };
                let cost = ask.amounts().into();
                let counts = prepared.counts();
                let counts = counts.map(|(subject, limits)| (subject.clone(), limits.clone()));
                let counts = counts.collect();
                Ok(Charge { cost, counts, charged: self.gate.admin().charge(ask).await? })
            }
            By::Limits { parts: counts, shard, .. } => {
                self.takes(&counts)?;
                let cost = cost.unwrap_or(Cost::from(1));
                let ask = ask(&counts, shard.as_deref())?.cost(cost.clone());
                let charged = self.gate.admin().charge(ask).await?;
                Ok(Charge { cost, counts, charged })
            }
        }
    }
}
