//! Holds: questions that place one or meet open ones, commits and renewals. One script decides
//! about any limits, since the counts describe themselves.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use redis::{ToRedisArgs, Value};
use smallvec::SmallVec;
use tollgate::engine::{
    Charged, Fields, HoldRefusal, Mode, OpenHold, Outcome, Placed, RELEASED_WITHOUT_UNITS,
    SETTLED_FOR_US, ShownHold,
};
use tollgate::{
    Amounts, Carried, Cost, Counted, Hold, HoldId, HoldKind, HoldTerms, LimitSet, MAX_SHOWN_HOLDS,
    Patience, Period, Question, Settled, StoreError, Time,
};

use super::plan::{CountArgs, HoldTask, asked};
use super::redis_store::RedisStore;
use super::reply::{Forgotten, damaged, parse_unsigned, unexpected_reply};
use crate::compose::all_codes;
use crate::key::Keys;
use crate::node::{Call, Deadline};

/// The counts of a call: their keys, and the script's arguments about their limits.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) keys: Vec<String>,
    each: SmallVec<[Arc<CountArgs>; 1]>,
    sets: SmallVec<[LimitSet; 1]>,
}

impl Counts {
    fn add(&mut self, store: &RedisStore, counted: Counted<'_>) {
        self.keys.push(store.0.keys.for_count(counted));
        self.each.push(store.0.plans.count_args(counted.limits, || store.server_time()));
        self.sets.push(counted.limits.clone());
    }

    /// Takes the edges of calendars around the server's time, which has become known.
    fn renew_edges(&mut self, store: &RedisStore) {
        let args = |set| store.0.plans.count_args(set, || store.server_time());
        self.each = self.sets.iter().map(args).collect();
    }

    /// The number of their limits.
    fn limits(&self) -> usize {
        self.each.iter().map(|args| args.places.len()).sum()
    }

    /// The letters of the steps of their limits, in order.
    fn codes(&self) -> Cow<'_, str> {
        match &self.each[..] {
            [first, others @ ..] if others.iter().all(|other| other.codes == first.codes) => {
                Cow::Borrowed(&first.codes)
            }
            each => {
                let codes: BTreeSet<char> = each.iter().flat_map(|it| it.codes.chars()).collect();
                Cow::Owned(codes.into_iter().collect())
            }
        }
    }

    /// The arguments of each limit, in declared order.
    fn in_order<T>(&self, each: Vec<T>) -> Vec<T> {
        let mut first = 0;
        let places = self.each.iter().flat_map(|args| {
            let before = first;
            first += args.places.len();
            args.places.iter().map(move |place| before + place)
        });
        let mut each: Vec<(usize, T)> = places.zip(each).collect();
        each.sort_by_key(|(place, _)| *place);
        each.into_iter().map(|(_, it)| it).collect()
    }
}

impl RedisStore {
    /// Answers a question about counts on which holds may be open, or which places one.
    pub(super) async fn check_among_holds(
        &self,
        question: &Question<'_>,
        nonce: u64,
        by: Deadline,
    ) -> Result<Outcome, StoreError> {
        if question.request.is_some() && question.hold.is_some() {
            return Err(StoreError::misuse(
                "a hold is not remembered under a request id: ask without one",
            ));
        }
        let mut counts = Counts::default();
        question.parts.iter().for_each(|part| counts.add(self, *part));
        let mode = match question.mode {
            Mode::Partial => "partial",
            Mode::Peek => "peek",
            Mode::PeekPartial => "peek-partial",
            Mode::Waiting => "waiting",
            Mode::WaitingPartial => "waiting-partial",
            _ => match question.hold.map_or(Patience::None, |terms| terms.patience) {
                Patience::InLine => "in-line",
                Patience::Waiting => "waiting",
                _ => "whole",
            },
        };
        let (id, ttl_us) = match question.hold {
            Some(HoldTerms { id, ttl_us, .. }) => (id.to_string(), *ttl_us),
            None => (String::new(), 0),
        };
        let mut args: Vec<Vec<u8>> = vec![
            question.cost.to_string().into(),
            mode.into(),
            id.into(),
            ttl_us.to_string().into(),
        ];
        let mut request_key = None;
        match (question.request, question.parts.first()) {
            (Some(request), Some(first)) => {
                request_key = Some(Keys::requests(&self.0.keys.for_count(*first)));
                let remembered_us = request.time().as_micros().to_string();
                args.extend([asked(request, question), remembered_us.into()]);
            }
            _ => args.extend([Vec::new(), b"0".to_vec()]),
        }
        counts.keys.extend(request_key);
        // Those that the fast path may answer: the others would be asked twice.
        let is_simple = matches!(question.mode, Mode::Whole)
            && question.request.is_none()
            && question.parts.iter().all(|part| part.limits.is_plain())
            && question.cost.plain().is_some()
            && question.parts.len() == 1
            && question.hold.is_none_or(|terms| {
                terms.id.name().is_none() && terms.id.kind() != HoldKind::Credit
            });
        let task = HoldTask::Among { is_simple };
        let answer = self.call_holds(task, &mut counts, &args[..], nonce, by).await?;
        match (&answer[..], question.request) {
            ([Value::Int(-1)], _) => Err(Question::of_other_question()),
            ([Value::Int(-5), number, granted, now, rows @ ..], Some(_)) => {
                let nothing = [Value::Int(0), Value::Int(0)];
                let answer = [&[granted.clone(), now.clone()], &nothing, rows].concat();
                let number = parse_unsigned(number)?;
                let mut outcome = read_outcome(&answer, question, &counts, number)?;
                outcome.repeated = true;
                Ok(outcome)
            }
            ([answer @ .., forgotten], Some(_)) if answer.len() > 1 => {
                let forgotten = Forgotten::parse(forgotten)?;
                let mut outcome = read_outcome(answer, question, &counts, nonce)?;
                outcome.overused = forgotten.count(&self.0.forgotten_requests);
                Ok(outcome)
            }
            (answer, _) => read_outcome(answer, question, &counts, nonce),
        }
    }

    pub(super) async fn settle_in_slot(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
        by: Deadline,
    ) -> Result<Option<Settled>, StoreError> {
        let mut counts = self.counts_of(hold);
        let nonce = self.next_nonce();
        let keeps_ms = SETTLED_FOR_US / 1_000;
        let [id, cost] = told_of(hold);
        let args = [id, cost, actual.to_string(), keeps_ms.to_string()];
        let is_simple = matches!(&hold.counts[..], [(_, limits)] if limits.is_plain())
            && hold.cost.amounts().plain().and(actual.plain()).is_some()
            && hold.id.name().is_none();
        let task = HoldTask::Settle { is_simple };
        let answer = self.call_holds(task, &mut counts, &args, nonce, by).await?;
        let [Value::Int(how), actual, rows @ ..] = &answer[..] else {
            return Err(unexpected_reply());
        };
        let actual = parse_cost(actual)?;
        match how {
            0 => return Ok(None),
            1 => return Ok(Some(Settled::before(actual))),
            3 => return Ok(Some(Settled::early())),
            4 => return Err(StoreError::misuse(RELEASED_WITHOUT_UNITS)),
            _ => {}
        }
        if rows.len() != 5 * counts.limits() {
            return Err(unexpected_reply());
        }
        let each: Vec<Option<Charged>> =
            rows.chunks_exact(5).map(read_charged).collect::<Result<_, _>>()?;
        let mut rest = counts.in_order(each).into_iter();
        let (mut charged, mut open_on) = (Vec::new(), SmallVec::new());
        for (place, (_, limits)) in hold.counts.iter().enumerate() {
            let all = charged.len();
            charged.extend(rest.by_ref().take(limits.limits().len()).flatten());
            open_on.extend((charged.len() > all).then_some(place));
        }
        Ok(Some(Settled::now(actual, charged, open_on)))
    }

    pub(super) async fn renew_in_slot(
        &self,
        hold: &Hold,
        ttl_us: u64,
    ) -> Result<Option<Time>, StoreError> {
        let mut counts = self.counts_of(hold);
        let nonce = self.next_nonce();
        let asked_us = hold.id.asked_us().unwrap_or(0);
        let args =
            [hold.id.to_string(), hold.cost.to_string(), ttl_us.to_string(), asked_us.to_string()];
        let by = self.usual_deadline();
        let answer = self.call_holds(HoldTask::Renew, &mut counts, &args[..], nonce, by).await?;
        match &answer[..] {
            [Value::Int(0)] => Ok(None),
            [end] => Ok(Some(Time::from_micros(parse_unsigned(end)?))),
            _ => Err(unexpected_reply()),
        }
    }

    /// How many holds of the count with this key are open, and the first to end.
    pub(super) async fn open_holds(
        &self,
        key: String,
    ) -> Result<(u64, Vec<ShownHold>), StoreError> {
        let (nonce, script) = (self.next_nonce(), &self.0.rare.open_holds);
        let args = vec![nonce.to_string(), MAX_SHOWN_HOLDS.to_string()];
        let answer = self.call(script, &[key], args, nonce, self.usual_deadline()).await?;
        let [open, back, at, Value::Array(rows)] = &answer[..] else {
            return Err(unexpected_reply());
        };
        let (back, at) = (parse_unsigned(back)?, parse_unsigned(at)?);
        let each = rows.chunks_exact(3).map(|row| shown_hold(row, back, at));
        Ok((parse_unsigned(open)?, each.collect::<Result<_, _>>()?))
    }

    /// Calls a script of the steps of these counts, or that of several questions at the same time.
    /// Where a state names another step, it calls the one of all.
    async fn call_holds(
        &self,
        task: HoldTask,
        counts: &mut Counts,
        args: impl ToRedisArgs + Copy,
        nonce: u64,
        by: Deadline,
    ) -> Result<Vec<Value>, StoreError> {
        let answer = self.call_holds_once(task, counts, args, nonce, by).await?;
        if !self.has_other_windows(&answer) {
            return Ok(answer);
        }
        counts.renew_edges(self);
        Box::pin(self.call_holds_once(task, counts, args, nonce, by)).await
    }

    async fn call_holds_once(
        &self,
        task: HoldTask,
        counts: &Counts,
        args: impl ToRedisArgs + Copy,
        nonce: u64,
        by: Deadline,
    ) -> Result<Vec<Value>, StoreError> {
        let call_of = |script| {
            let mut call = Call::new(script, nonce, counts.keys.len());
            call.word(&counts.keys).word(nonce).word(args);
            for args in &counts.each {
                call.word(&args.args);
            }
            call
        };
        let scripts = self.0.plans.hold_scripts(&counts.codes());
        let (script, shared) = scripts.of(task);
        let batch = shared.and_then(|it| it.if_it_pays(nonce));
        let call = call_of(script).with_others(batch);
        let mut answer = self.send(call, by).await?;
        if let Some(shared) = shared.filter(|_| batch.is_some()) {
            let is_simple = !matches!(answer[..], [Value::Int(-10)]);
            shared.note(is_simple);
            if !is_simple {
                answer = self.send(call_of(script), by).await?;
            }
        }
        if !matches!(answer[..], [Value::Int(-4)]) {
            return Ok(answer);
        }
        let all = self.0.plans.hold_scripts(all_codes());
        self.send(call_of(all.of(task).0), by).await
    }

    fn counts_of(&self, hold: &Hold) -> Counts {
        let mut counts = Counts::default();
        for (subject, limits) in &hold.counts {
            let counted = Counted::new(subject, limits).in_shard(hold.shard.as_deref());
            counts.add(self, counted);
        }
        counts
    }
}

/// The arguments by which a script settles a hold. The first is its id, with the number of an
/// answer that reached nobody. The second is its cost, or for a name alone the microseconds that a
/// mark of it lasts.
fn told_of(hold: &Hold) -> [String; 2] {
    let id = match hold.is_undelivered && hold.id.name().is_some() {
        true => format!("{}!{}", hold.id, hold.answer),
        false => hold.id.to_string(),
    };
    let slots = hold.counts.first().and_then(|(_, limits)| limits.hold());
    let cost = match hold.id.is_of_any_kind() {
        true => slots.map_or(SETTLED_FOR_US, Period::as_micros).min(SETTLED_FOR_US).to_string(),
        false => hold.cost.to_string(),
    };
    [id, cost]
}

/// Whether a check was not decided, because holds of a count are open.
pub(super) fn is_held(answer: &[Value]) -> bool {
    matches!(answer, [Value::Int(-2)])
}

/// A hold as it is stored, whose end is so much earlier than written, with its age at a time.
fn shown_hold(row: &[Value], back_us: u64, at_us: u64) -> Result<ShownHold, StoreError> {
    let [Value::BulkString(member), Value::BulkString(end), span] = row else {
        return Err(unexpected_reply());
    };
    let wrong = || damaged("a hold has an impossible id");
    let (id, cost) = member.split_first_chunk::<16>().ok_or_else(wrong)?;
    let id = HoldId::from_bytes(*id).ok_or_else(wrong)?;
    let (requests, others) = cost.split_at_checked(6).unwrap_or((cost, &[]));
    let requests = match requests {
        [] => 1,
        bytes => bytes.iter().fold(0, |cost, byte| cost << 8 | u64::from(*byte)),
    };
    let cost = match core::str::from_utf8(others).map_err(|_| wrong())? {
        "" => Cost::from(requests),
        others => format!("requests={requests},{others}").parse().map_err(|_| wrong())?,
    };
    let end: u64 =
        core::str::from_utf8(end).ok().and_then(|it| it.parse().ok()).ok_or_else(wrong)?;
    let span_us = match parse_unsigned(span)? {
        0 => id.asked_us(),
        span_us => Some(span_us),
    };
    let hold = OpenHold { end_us: end.saturating_sub(back_us), id, cost };
    Ok(ShownHold::at(hold, span_us, at_us))
}

/// The amounts that were charged for a hold.
fn parse_cost(value: &Value) -> Result<Cost, StoreError> {
    let text = match value {
        Value::BulkString(bytes) => core::str::from_utf8(bytes).map_err(|_| unexpected_reply())?,
        number => return Ok(parse_unsigned(number)?.into()),
    };
    Cost::parse_used(text).map_err(|_| unexpected_reply())
}

/// The effect of a commit on a limit; `None` for one of a count on which the hold was not open.
fn read_charged(row: &[Value]) -> Result<Option<Charged>, StoreError> {
    let [Value::Int(fits), cut, left, wait, reset] = row else { return Err(unexpected_reply()) };
    if *fits == -2 {
        return Ok(None);
    }
    let wait = if *wait == Value::Int(-1) { None } else { Some(parse_unsigned(wait)?) };
    let (cut, left, reset) = (parse_unsigned(cut)?, parse_unsigned(left)?, parse_unsigned(reset)?);
    Ok(Some(Charged::new(*fits == 1, cut, left, wait, reset)))
}

/// Parses the reply after the nonce.
fn read_outcome(
    answer: &[Value],
    question: &Question<'_>,
    counts: &Counts,
    nonce: u64,
) -> Result<Outcome, StoreError> {
    match answer {
        [Value::Int(-3)] => return Err(HoldRefusal::TooMany.into()),
        [Value::Int(-8)] => return Err(HoldRefusal::TooManyCharging.into()),
        [Value::Int(-5)] => return Err(HoldRefusal::Differs.into()),
        [Value::Int(-6)] => return Err(HoldRefusal::Repeated.into()),
        [Value::Int(-7)] => return Err(HoldRefusal::Over.into()),
        [Value::Int(-9)] => return Err(HoldRefusal::LineFull.into()),
        [Value::Int(-11)] => return Err(HoldRefusal::TooManyCredits.into()),
        _ => {}
    }
    let is_in_line = question.hold.is_some_and(|terms| terms.patience == Patience::InLine);
    let (answer, ahead) = match (is_in_line, answer) {
        (true, [others @ .., ahead]) => (others, parse_unsigned(ahead)?),
        (_, all) => (all, 0),
    };
    let is_named = question.hold.is_some_and(|terms| terms.id.name().is_some());
    let (answer, which) = match (is_named, answer) {
        (true, [others @ .., which]) => (others, parse_unsigned(which)?),
        (true, []) => return Err(unexpected_reply()),
        (false, all) => (all, 0),
    };
    let [granted, now, fence, end, rows @ ..] = answer else { return Err(unexpected_reply()) };
    if rows.len() != 6 * counts.limits() {
        return Err(unexpected_reply());
    }
    let (granted, now) = (parse_unsigned(granted)?, parse_unsigned(now)?);
    if granted > question.cost.first() {
        return Err(unexpected_reply());
    }
    let each: Vec<Fields> = rows.chunks_exact(6).map(read_fields).collect::<Result<_, _>>()?;
    let fields: SmallVec<[Fields; 2]> = counts.in_order(each).into();
    // A repeated answer has no receipt: the first one had it.
    let receipt = if granted > 0 && question.charges() && which <= 1 { nonce } else { 0 };
    let mut outcome = Outcome::new(granted, fields, receipt, Time::from_micros(now));
    outcome.ahead = u16::try_from(ahead).map_err(|_| unexpected_reply())?;
    let (fence, end) = (parse_unsigned(fence)?, Time::from_micros(parse_unsigned(end)?));
    outcome.hold = (fence > 0).then(|| Box::new(Placed { fence, end, answer: which }));
    Ok(outcome)
}

fn read_fields(row: &[Value]) -> Result<Fields, StoreError> {
    let [left, wait, reset, held, at, carried] = row else { return Err(unexpected_reply()) };
    let wait = if *wait == Value::Int(-1) { None } else { Some(parse_unsigned(wait)?) };
    let carried = match carried {
        Value::Int(0) => Carried::Same,
        Value::Int(1) => Carried::Over,
        _ => Carried::Fresh,
    };
    let (left, reset, at) = (parse_unsigned(left)?, parse_unsigned(reset)?, parse_unsigned(at)?);
    let mut fields = Fields::new(left, wait, reset, at, carried);
    fields.until_hold = *held == Value::Int(1);
    Ok(fields)
}
