//! `/v1/admin/credit`: units that a subject is given once.

use tollgate::HoldTerms;
use tollgate::wire::{Answer, HoldAnswer};

use super::admin::{Admin, Audit, CountJson};
use super::answer::json;
use super::cost::CostJson;
use super::holds::name_of;
use super::problem::Problem;
use super::question::read_one;
use super::text::Text;
use crate::http::Reply;
use crate::operations::Operation;
use crate::service::{Refusal, ask};

impl Admin {
    /// Gives units to a subject once.
    pub(super) async fn credit(&self, body: &[u8], of: &mut Audit) -> Result<Reply, Problem> {
        let mut count: CountJson<'_> = read_one(body)?;
        if count.by.is_some() {
            return Err(Problem::bad("only an adjustment has a `by`").at("by"));
        }
        let Some(CostJson(units)) = count.units.take() else {
            let detail = "`units` is missing, e.g. 5 for requests, or {\"tokens\": 10000}";
            return Err(Problem::bad(detail).at("units"));
        };
        let Some(Text(lasts)) = count.lasts.take() else {
            let detail = "`for` is missing, e.g. \"30d\": a credit has an end";
            return Err(Problem::bad(detail).at("for"));
        };
        let lasts = HoldTerms::read_ttl(&lasts)
            .map_err(|error| Problem::bad(error.to_string()).at("for"))?;
        let name = name_of(count.id.take())?;
        let (parts, shard) = self.counts(count, Operation::Credit)?;
        of.subjects = self.written(&parts);
        of.about = format!("a credit of {units}");
        let mut asked = ask(&parts, shard.as_deref())?.cost(units);
        if let Some(name) = name {
            asked = asked.named(name);
        }
        let given = self.api.service.gate.admin().credit(asked, lasts).await;
        let given = given.map_err(Refusal::from)?;
        let hold = given.hold.map(|hold| (self.api.service.sign(&hold), hold.fence, hold.end));
        Ok(json(&HoldAnswer::new(Answer::from(&given.decision), hold, 0)))
    }
}
