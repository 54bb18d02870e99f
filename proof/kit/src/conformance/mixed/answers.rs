//! The comparison of each answer of a mixed history with the oracle's.

use core::time::Duration;

use tollgate::{Authority, Carried, Decision, Limit, LimitKind};

use super::super::StoreMaker;
use super::super::world::{charged, fields};
use super::run::{Differs, Run};
use crate::oracle::{Charged, Fields, HoldOracle, Kind};

pub(super) fn same<T: PartialEq + core::fmt::Debug>(
    field: &'static str,
    got: T,
    expected: T,
) -> Result<(), Differs> {
    if got == expected {
        return Ok(());
    }
    Err((field, format!("{got:?} instead of {expected:?}")))
}

pub(super) fn answered<T, E: core::fmt::Display>(answer: Result<T, E>) -> Result<T, Differs> {
    answer.map_err(|error| ("error", error.to_string()))
}

impl<M: StoreMaker> Run<'_, M> {
    /// Every field of a decision. `oracle` is the count after it, and `known` what each limit must
    /// say of its numbers.
    pub(super) fn decided(
        &mut self,
        decision: &Decision<'_>,
        oracle: &HoldOracle,
        (cost, kind): (u64, Option<Kind>),
        granted: u64,
        fields: &[Fields],
        known: Option<Vec<Carried>>,
    ) -> Result<(), Differs> {
        let now_us = self.world.now_us();
        same("grant", (decision.is_allowed(), decision.granted()), (granted > 0, granted))?;
        self.compare(&got(decision), fields, oracle)?;
        let until_hold = granted == 0 && oracle.waits_for_holds(now_us, cost, kind, fields);
        same("until_hold", decision.is_until_hold(), until_hold)?;
        if let Some(known) = known {
            let said: Vec<Carried> = decision.reports().map(|report| report.carried()).collect();
            same("carried", said, known)?;
        }
        let summary = (decision.at().as_micros(), decision.authority(), decision.is_isolated());
        same("summary", summary, (now_us, Authority::Store, true))?;
        let rare = (decision.is_shared(), decision.is_repeated(), decision.is_id_overused());
        same("mark", rare, (false, false, false))?;
        self.binding(decision, fields, granted > 0)
    }

    /// The binding limit, and its numbers.
    fn binding(
        &mut self,
        decision: &Decision<'_>,
        fields: &[Fields],
        admitted: bool,
    ) -> Result<(), Differs> {
        let wait = |fields: &Fields| fields.retry_after_us.map_or(u128::MAX, u128::from);
        let mut first = 0;
        for (place, one) in fields.iter().enumerate() {
            let is_tighter = match admitted {
                true => one.remaining < fields[first].remaining,
                false => wait(one) > wait(&fields[first]),
            };
            first = if is_tighter { place } else { first };
        }
        let reports: Vec<_> = decision.reports().collect();
        let (binding, report) = (decision.binding(), &reports[first]);
        same("binding limit", binding.limit().identity(), report.limit().identity())?;
        let capacity = report.limit().capacity();
        let others = reports.iter().map(|report| report.limit().capacity());
        let is_ban = report.limit().kind() == LimitKind::Ban;
        let limit = if is_ban { others.min().unwrap_or(capacity) } else { capacity };
        same("limit", decision.limit(), limit)?;
        let unit =
            reports.iter().map(tollgate::Report::limit).filter(|it| it.kind() != LimitKind::Ban);
        let unit = match is_ban {
            true => unit.min_by_key(|it| it.capacity()).map(Limit::unit),
            false => Some(report.limit().unit()),
        };
        same("unit", Some(decision.unit()), unit)?;
        let is_of_unit =
            |limit: &Limit| limit.kind() == LimitKind::Ban || Some(limit.unit()) == unit;
        let each = fields.iter().zip(&reports).filter(|(_, it)| is_of_unit(it.limit()));
        let least = each.map(|(fields, _)| fields.remaining).min().unwrap_or(0);
        same("least remaining", decision.remaining(), least)?;
        let retry = if admitted { None } else { fields[first].retry_after_us };
        same("longest retry", decision.retry_after().map(micros), retry)?;
        same("reset of all", decision.reset_after(), report.reset_after())?;
        let now_us = self.world.now_us();
        self.named_us = [now_us + retry.unwrap_or(0), now_us + micros(decision.reset_after())];
        Ok(())
    }

    /// The receipt of a charge of this many units; `None` for 0.
    pub(super) fn receipt(&mut self, decision: &Decision<'_>, granted: u64) -> Result<(), Differs> {
        let receipt = decision.receipt();
        if granted == 0 {
            // An acquire of slots alone has a receipt, which gives nothing.
            return Ok(());
        }
        let receipt = receipt.ok_or(("receipt", "none".to_owned()))?;
        let charge = self.oracle.last_charge(granted);
        let said = (receipt.units(), receipt.at, receipt.charges.len());
        same("receipt", said, (granted, decision.at(), 1))?;
        for (seen, at_us) in receipt.charges[0].at_us.iter().zip(charge.at_us()) {
            same("time of the charge", *seen, at_us.unwrap_or(*seen))?;
        }
        same("number of the receipt", self.receipts.insert(receipt.number), true)?;
        self.charges.push((receipt, charge));
        Ok(())
    }

    pub(super) fn charged(
        &self,
        done: &[tollgate::Charged],
        expected: &[Charged],
    ) -> Result<(), Differs> {
        let got: Vec<Charged> = done.iter().map(charged).collect();
        let facts = |each: &[Charged]| each.iter().map(|it| (it.fits, it.cut)).collect::<Vec<_>>();
        same("fits and cut", facts(&got), facts(expected))?;
        let fields = |each: &[Charged]| each.iter().map(|it| it.fields).collect::<Vec<_>>();
        self.compare(&fields(&got), &fields(expected), &self.oracle)
    }

    /// The three fields of each limit. Where ends charge, or holds of slots and of units are open
    /// side by side, `reset_after` is a bound.
    fn compare(
        &self,
        got: &[Fields],
        expected: &[Fields],
        oracle: &HoldOracle,
    ) -> Result<(), Differs> {
        let of = |each: &[Fields], what: fn(&Fields) -> Option<u64>| -> Vec<Option<u64>> {
            each.iter().map(what).collect()
        };
        let remaining = |fields: &Fields| Some(fields.remaining);
        same("remaining", of(got, remaining), of(expected, remaining))?;
        let retry = |fields: &Fields| fields.retry_after_us;
        same("retry_after", of(got, retry), of(expected, retry))?;
        let is_exact = oracle.resets_exactly();
        for (got, expected) in got.iter().zip(expected) {
            let (got, expected) = (got.reset_after_us, expected.reset_after_us);
            if is_exact || got < expected {
                same("reset_after", got, expected)?;
            }
        }
        Ok(())
    }
}

pub(super) fn got(decision: &Decision<'_>) -> Vec<Fields> {
    (0..decision.reports().count()).map(|index| fields(decision, index)).collect()
}

fn micros(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)
}
