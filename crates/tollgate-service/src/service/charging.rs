//! Charges without a check: of work that is done, and whose cost became known afterwards.

use tollgate::{Ask, Charged, Cost};

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
    /// ([`tollgate::Limiter::charge`]). A cost of the caller is what was used: it takes the place
    /// of that of the policies, whole. Where no policy applies, nothing is charged.
    ///
    /// # Errors
    /// As [`Service::answer`]; also a question for a receipt or with an idempotency key, and a
    /// store that could not answer.
    pub(crate) async fn charge(&self, question: Question<'_>) -> Result<Charge, Refusal> {
        question.without_kind()?;
        question.without_waiting()?;
        question.without_response()?;
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
                let prepared = self.prepared(policy.as_deref(), &fields, None)?;
                let Some(ask) = prepared.question() else {
                    let answer = self.gate.ask(prepared.peek()).await;
                    let why = match (answer.missing(), answer.error()) {
                        (Some(field), _) => Some(format!("`{field}` is missing")),
                        (None, error) => error.map(ToString::to_string),
                    };
                    if let Some(why) = why {
                        let detail = format!("{why}, so that nothing was charged");
                        return Err(Refusal::invalid(detail).at("fields"));
                    }
                    let (counts, charged) = (Parts::new(), Vec::new());
                    return Ok(Charge { cost: cost.unwrap_or(Cost::from(0)), counts, charged });
                };
                let ask = cost.into_iter().fold(ask, Ask::cost);
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
