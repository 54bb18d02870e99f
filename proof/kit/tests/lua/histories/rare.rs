//! Rare operations: refunds, adjustments and resets.

use tollgate::engine;
use tollgate::{Adjustment, Cost, LimitSet, Time};
use tollgate_redis::compose::{self, Clock};
use tollgate_redis::{Keys, Script};

use super::pair::{Difference, Pair};
use crate::lua::fake::{Reply, Stored};
use crate::lua::model::{Charge, Mark, MarkOf, by_place, whose};

impl Pair {
    pub(crate) fn refund(
        &mut self,
        charge: &Charge,
        units: impl Into<Cost>,
        now_us: u64,
    ) -> Result<(), Difference> {
        let units = units.into();
        self.nonce += 1;
        self.seen.cases += 1;
        self.seen.saw("refund");
        let (first, _) = self.keys_of(&charge.parts[0].0, &charge.parts[0].1);
        let mark = Keys::mark(&first, charge.number);
        let mut keys = vec![mark.clone()];
        let each = charge.parts.iter().flat_map(|(_, limits, at_us)| {
            let each = limits.limits().iter().zip(at_us);
            each.map(|(limit, at_us)| charge.spent_until_us(limit, *at_us))
        });
        let until_us = each.max().unwrap();
        let mut args = vec![
            self.nonce.to_string(),
            charge.cost.to_string(),
            charge.at_us.to_string(),
            until_us.to_string(),
            charge.number.to_string(),
            units.to_string(),
        ];
        for (subject, limits, at_us) in &charge.parts {
            let (state, logs) = self.keys_of(subject, limits);
            keys.extend([state.clone(), Keys::reset(&state)]);
            keys.extend(logs);
            args.push(limits.limits().len().to_string());
            args.push(engine::longest_count_us(limits).to_string());
            for i in by_place(limits) {
                let (limit, at_us) = (&limits.limits()[i], at_us[i]);
                let until_us = charge.spent_until_us(limit, at_us);
                let (code, most) = (limit.strategy().code(), limit.capacity() + limit.debt());
                let edges = compose::refund_edges(limit, Time::from_micros(now_us));
                args.push(format!("{code}{at_us}:{until_us}:{most}{edges}"));
            }
        }
        self.clock(now_us, &mut args);
        let script = self.scripts.refund.clone();
        let mut answer = self.fake.call(&script, &keys, &args);
        let left = in_numbers(&mut answer, &charge.cost);
        let expected = match self.model.refund(charge, &units, Time::from_micros(now_us)) {
            None => vec![1],
            Some((rest, given)) => {
                if left.is_some_and(|left| left != rest) {
                    return Err(format!("refund {charge:?} at {now_us}: not {rest} is left"));
                }
                let rest = rest.plain().filter(|_| charge.cost.plain().is_some()).unwrap_or(0);
                let numbers = std::iter::once(rest).chain(given);
                let numbers = numbers.map(|units| i64::try_from(units).unwrap());
                std::iter::once(0).chain(numbers).collect()
            }
        };
        self.record(|| format!("{charge:?} refunded at {now_us}: {answer:?}"));
        self.compare(&answer, &expected, || format!("refund {charge:?} at {now_us}"))?;
        if expected == [1] {
            return if self.fake.wrote() {
                Err("a second refund writes".to_owned())
            } else {
                Ok(())
            };
        }
        let lies = self.fake.written(&mark);
        let wanted = self.lifetime(until_us.saturating_sub(now_us));
        if lies != Some(wanted) {
            return Err(format!("{charge:?} at {now_us}: the mark lies {lies:?} ms, not {wanted}"));
        }
        let of = MarkOf::Refund(charge.number);
        self.model.marks.insert(mark, Mark { of, until_us });
        for (subject, limits, _) in &charge.parts {
            self.left(subject, limits, now_us, false)?;
        }
        Ok(())
    }

    pub(crate) fn adjust(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        delta: impl Into<Adjustment>,
        now_us: u64,
    ) -> Result<(), Difference> {
        let delta = delta.into();
        self.seen.saw("adjust");
        let script = self.scripts.adjust.clone();
        let answer = self.change(&script, (subject, limits), delta.to_string(), now_us);
        let expected = self.model.adjust(subject, limits, &delta, Time::from_micros(now_us));
        let what = format!("{limits} {subject} adjust {delta} at {now_us}");
        self.changed((subject, limits), &what, &answer, &expected, now_us)
    }

    pub(crate) fn charge(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        cost: impl Into<Cost>,
        now_us: u64,
    ) -> Result<(), Difference> {
        let cost = cost.into();
        self.seen.saw("charge");
        let script = self.scripts.charge.clone();
        let answer = self.change(&script, (subject, limits), cost.to_string(), now_us);
        let expected = self.model.charge_anyway(subject, limits, &cost, Time::from_micros(now_us));
        let what = format!("{limits} {subject} charge {cost} at {now_us}");
        self.changed((subject, limits), &what, &answer, &expected, now_us)
    }

    /// Calls a script that changes each limit of a subject by itself.
    fn change(
        &mut self,
        script: &Script,
        (subject, limits): (&str, &LimitSet),
        change: String,
        now_us: u64,
    ) -> Reply {
        self.nonce += 1;
        self.seen.cases += 1;
        let (state, _) = self.keys_of(subject, limits);
        let mut args = vec![self.nonce.to_string().into_bytes(), change.into_bytes()];
        args.extend(compose::count_args(limits));
        self.clock(now_us, &mut args);
        self.fake.call(script, &[state], &args)
    }

    /// Compares the answer of such a script, and the state that it left.
    fn changed(
        &mut self,
        (subject, limits): (&str, &LimitSet),
        what: &str,
        answer: &Reply,
        expected: &[i64],
        now_us: u64,
    ) -> Result<(), Difference> {
        self.record(|| format!("{what}: {answer:?}"));
        self.compare(answer, expected, || what.to_owned())?;
        let (state, _) = self.keys_of(subject, limits);
        let counts = self.model.limits(subject, limits).is_some();
        if counts && compose::has_state(limits) && self.fake.get(&state).is_none() {
            return Err(format!("{what} leaves no state"));
        }
        self.left(subject, limits, now_us, true)
    }

    pub(crate) fn reset(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        now_us: u64,
    ) -> Result<(), Difference> {
        self.nonce += 1;
        let (state, logs) = self.keys_of(subject, limits);
        let mark = Keys::reset(&state);
        let mut keys = vec![state.clone(), mark.clone()];
        keys.extend(logs);
        let longest_us = engine::refundable_until_us(limits, Time::default());
        let mut args = vec![self.nonce.to_string(), longest_us.to_string()];
        self.clock(now_us, &mut args);
        self.fake.at(if self.scripts.clock == Clock::Server { now_us } else { 1 });
        let lives: Vec<u64> = keys.iter().filter_map(|key| self.fake.left_ms(key)).collect();
        let held = keys.iter().any(|key| *key != mark && self.fake.get(key).is_some());
        let script = self.scripts.reset.clone();
        let answer = self.fake.call(&script, &keys, &args);
        let Reply::List(list) = &answer else { return Err(format!("reset: {answer:?}")) };
        let found = list[1] == Reply::Int(1);
        let longest = lives.iter().copied().max().map(|ms| ms.max(self.lifetime(longest_us)));
        let longest = longest.filter(|_| held);
        let lies = self.fake.written(&mark);
        let shown = self.fake.get(&mark);
        let nonce = Reply::Text(self.nonce.to_string().into_bytes());
        let said = list.len() == 2 && list[0] == nonce && list[1] == Reply::Int(found.into());
        if !said || found != held || lies != longest {
            return Err(format!("{limits}: reset at {now_us}: {answer:?}, {lies:?}, {longest:?}"));
        }
        if found && shown != Some(Stored::Text(format!("{now_us}:{}", self.nonce).into_bytes())) {
            return Err(format!("{limits}: reset at {now_us}: {shown:?}"));
        }
        let now = Time::from_micros(now_us);
        // A count of zero may have been forgotten by one and not yet by the other.
        if found == self.model.is_fresh(subject, limits, now) && !found {
            return Err(format!("{limits}: reset at {now_us}: {answer:?}"));
        }
        self.model.reset(subject, limits, found, self.nonce, now);
        if found {
            let until_us = self.model.charged_until_us(subject, limits);
            let of = MarkOf::Reset(whose(subject, limits));
            self.model.marks.insert(mark, Mark { of, until_us });
        }
        self.record(|| format!("{limits} {subject} reset at {now_us}: {answer:?}"));
        Ok(())
    }
}

/// The rest of a charge of several units. The answer has it as a text of the amounts given back,
/// which becomes a 0 here, or is left out where nothing was given back now.
fn in_numbers(answer: &mut Reply, charged: &Cost) -> Option<Cost> {
    let Reply::List(list) = answer else { return None };
    let Some(Reply::Text(sum)) = list.get(2) else { return None };
    let sum = Cost::parse_used(std::str::from_utf8(sum).unwrap()).unwrap();
    if list.len() == 3 {
        list.pop();
    } else {
        list[2] = Reply::Int(0);
    }
    let portion = engine::Portion::part(charged.amounts(), sum.amounts(), 0.into());
    Some(portion.left_after())
}
