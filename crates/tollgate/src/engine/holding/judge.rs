//! The answer to a question where holds are open: the remaining units of each limit, and the wait.

use smallvec::SmallVec;

use crate::cost::Amounts;
use crate::engine::amount::{Amount, charging_of, kept_of};
use crate::engine::charge::take;
use crate::engine::holds::{self, Holds, MAX_ENDS, OpenHold};
use crate::engine::line::Ahead;
use crate::engine::{Carried, Fields, HoldSums, Mode, Outcome, States, VecStates};
use crate::hold::{HoldKind, HoldTerms};
use crate::limit::{Limit, LimitSet, Place};
use crate::strategy::{NEVER_US, Step as _};
use crate::time::Time;

/// One part while it is judged.
pub(super) struct PartView<'a> {
    pub(super) limits: &'a LimitSet,
    pub(super) states: &'a mut dyn States,
    pub(super) held: OpenEnds<'a>,
    pub(super) carried: &'a [Carried],
    /// The line ahead of the question.
    pub(super) ahead: Ahead,
}

/// The units that the open holds of a count keep, once due holds have ended.
pub(in crate::engine) struct OpenEnds<'h> {
    holds: Option<&'h dyn Holds>,
    pub(super) sums: HoldSums,
    /// The first holds, which are due, and by how much earlier all of them end.
    pub(super) due: usize,
    pub(super) back_us: u64,
    /// The time by which ends are judged, where some may be due.
    pub(super) at_us: u64,
    pub(in crate::engine) last_us: u64,
}

impl<'h> OpenEnds<'h> {
    /// Of a count on which nothing is due.
    pub(in crate::engine) fn open(holds: Option<&'h dyn Holds>) -> Self {
        let sums = holds.map(Holds::sums).unwrap_or_default();
        let last = holds.filter(|_| sums.count > 0).and_then(Holds::last);
        let last_us = last.map_or(0, |hold| hold.end_us);
        Self { holds, sums, due: 0, back_us: 0, at_us: 0, last_us }
    }

    /// Of a count whose due holds are still there, with those.
    pub(super) fn after_due(holds: Option<&'h dyn Holds>, now: Time) -> (Self, Vec<OpenHold>) {
        let mut ends = Self::open(holds);
        let Some(holds) = holds else { return (ends, Vec::new()) };
        let (at_us, back_us) = holds::clock(holds, now);
        (ends.at_us, ends.back_us) = (at_us, back_us);
        ends.sums.credits.advance(back_us);
        ends.last_us = ends.last_us.saturating_sub(back_us);
        let mut most = MAX_ENDS;
        let due: Vec<OpenHold> = loop {
            let soonest = holds.soonest(most);
            let each = soonest.iter().map(|hold| earlier(hold.clone(), back_us));
            let due: Vec<OpenHold> = each.filter(|hold| hold.end_us <= at_us).collect();
            if due.len() < soonest.len() || soonest.len() < most {
                break due;
            }
            // Few are due in nearly every peek, and seldom all.
            most *= 8;
        };
        due.iter().for_each(|hold| ends.sums.subtract(hold));
        ends.due = due.len();
        (ends, due)
    }

    /// The next holds to end, and all credits.
    fn soonest(&self) -> Vec<OpenHold> {
        let Some(holds) = self.holds else { return Vec::new() };
        let all = holds.soonest(self.due + MAX_ENDS);
        let mut ends: Vec<OpenHold> =
            all.into_iter().skip(self.due).map(|hold| earlier(hold, self.back_us)).collect();
        if !self.sums.credits.is_empty() {
            ends.extend(self.sums.credits.iter().map(OpenHold::from));
            ends.sort_unstable();
        }
        ends
    }
}

pub(super) fn earlier(hold: OpenHold, by_us: u64) -> OpenHold {
    OpenHold { end_us: hold.end_us.saturating_sub(by_us), ..hold }
}

/// Judges every limit of every part, whether a hold is asked for or a charge.
pub(super) fn judge(
    parts: &mut [PartView<'_>],
    now: Time,
    mut cost: Amounts<'_>,
    mode: Mode,
    terms: Option<HoldTerms>,
) -> Outcome {
    let mut fields: SmallVec<[Fields; 2]> = SmallVec::new();
    if mode.is_partial() {
        for part in parts.iter_mut() {
            part.judge(now, cost.with_first(1), terms, &mut fields);
        }
        let limits = parts.iter().flat_map(|part| part.limits.limits());
        let bounds = limits.zip(&fields).filter(|(limit, _)| cost.first_is_of(limit));
        let least = bounds.map(|(_, field)| field.remaining).min().unwrap_or(0);
        // With nothing left, the check is denied as for cost 1.
        cost = cost.with_first(cost.first().min(least).max(1));
        fields.clear();
    }
    for part in parts.iter_mut() {
        part.judge(now, cost, terms, &mut fields);
    }
    // Slots are taken by holds alone: a check that places none would never give them back.
    let needs_hold = parts.iter().any(|part| part.limits.needs_hold());
    let is_stray = needs_hold && terms.is_none() && !mode.is_peek();
    let admitted = !is_stray && fields.iter().all(|field| field.retry_after_us == Some(0));
    Outcome::new(if admitted { cost.first() } else { 0 }, fields, 0, now)
}

impl PartView<'_> {
    fn judge(
        &mut self,
        now: Time,
        cost: Amounts<'_>,
        terms: Option<HoldTerms>,
        fields: &mut SmallVec<[Fields; 2]>,
    ) {
        let mut soonest = None;
        let amount = Amount::of_cost(cost, terms.map(|terms| terms.id.kind()));
        let each = self.limits.limits().iter().zip(self.limits.places());
        for (i, (limit, place)) in each.enumerate() {
            let wanted = amount.on(limit).wanted;
            let judged = self.judge_limit(limit, *place, now, wanted, &mut soonest);
            let mut field = Fields::new(
                judged.remaining,
                judged.retry_after_us,
                judged.reset_after_us,
                now.as_micros(),
                self.carried.get(i).copied().unwrap_or_default(),
            );
            field.until_hold = judged.until_hold;
            fields.push(field);
        }
    }

    /// Judges one limit. The next holds to end are looked up once for all, where they are needed.
    pub(super) fn judge_limit(
        &mut self,
        limit: &Limit,
        place: Place,
        now: Time,
        wanted: u64,
        soonest: &mut Option<Vec<OpenHold>>,
    ) -> Judged {
        let kept = kept_of(limit, &self.held.sums);
        let judgement = limit.step().judge(&mut self.states.cell(place), now, wanted);
        let credit = self.held.sums.credits.of(limit);
        let all_left = judgement.remaining + credit;
        let remaining = all_left.saturating_sub(kept);
        let ahead = self.ahead.amount().on(limit).taken;
        let is_behind = ahead > 0 && wanted + ahead > remaining;
        let is_free = wanted > 0 && wanted <= remaining;
        let mut retry_after_us = if is_free || wanted == 0 && self.fits(limit, place, now, 0) {
            0
        } else if wanted > limit.capacity() && credit == 0 {
            NEVER_US
        } else if kept == 0 && credit == 0 {
            judgement.retry_after_us
        } else {
            let ends = soonest.get_or_insert_with(|| self.held.soonest());
            let walk = Walk { limit, wanted, kept, credit, now, ends, held: &self.held };
            walk.wait_us(self.states, place)
        };
        if is_behind && retry_after_us != NEVER_US {
            // Those ahead may be admitted, or leave, before their tickets end.
            let until_us = self.ahead.until_us.saturating_sub(now.as_micros());
            retry_after_us = retry_after_us.max(until_us);
        }
        let reset_after_us = self.reset_after_us(limit, place, now, judgement.reset_after_us);
        // The limit's own wait assumes that every hold is settled now with 0, and that nobody waits
        // ahead.
        let until_hold = retry_after_us != NEVER_US && retry_after_us > judgement.retry_after_us;
        let retry_after_us = (retry_after_us != NEVER_US).then_some(retry_after_us);
        Judged { remaining, retry_after_us, reset_after_us, until_hold }
    }

    /// Whether a limit admits an amount now, whoever waits ahead.
    pub(super) fn fits(&mut self, limit: &Limit, place: Place, now: Time, wanted: u64) -> bool {
        let all = wanted + kept_of(limit, &self.held.sums);
        let mut cell = self.states.cell(place);
        let credit = self.held.sums.credits.of(limit);
        if credit > 0 {
            return all <= limit.step().judge(&mut cell, now, 1).remaining + credit;
        }
        all <= limit.capacity() && limit.step().judge(&mut cell, now, all).retry_after_us == 0
    }

    /// The wait until a limit is fresh, if every hold ends by itself.
    pub(super) fn reset_after_us(
        &mut self,
        limit: &Limit,
        place: Place,
        now: Time,
        by_itself: u64,
    ) -> u64 {
        if kept_of(limit, &self.held.sums) == 0 {
            return by_itself;
        }
        let charging = charging_of(limit, &self.held.sums);
        let until_last = self.held.last_us.saturating_sub(now.as_micros());
        let mut all = by_itself.max(until_last);
        if charging > 0 {
            let mut copy = VecStates::copy_of_cell(&mut self.states.cell(place));
            let at = Time::from_micros(now.as_micros() + until_last);
            take(limit, &mut copy.only_cell(), charging, true, at);
            let then = limit.step().judge(&mut copy.only_cell(), at, 1).reset_after_us;
            all = all.max(until_last + then);
        }
        all
    }
}

/// One limit beside open holds and those who wait ahead: its remaining units, two waits, and
/// whether they lengthen the first one.
pub(super) struct Judged {
    pub(super) remaining: u64,
    pub(super) retry_after_us: Option<u64>,
    pub(super) reset_after_us: u64,
    pub(super) until_hold: bool,
}

/// The search for the first time at which a limit admits, while holds end one after the other.
struct Walk<'w> {
    limit: &'w Limit,
    wanted: u64,
    kept: u64,
    credit: u64,
    now: Time,
    ends: &'w [OpenHold],
    held: &'w OpenEnds<'w>,
}

impl Walk<'_> {
    fn wait_us(&self, states: &mut dyn States, place: Place) -> u64 {
        let Self { limit, now, ends, held, .. } = self;
        let (mut kept, mut credit) = (self.kept, self.credit);
        let mut copy: Option<VecStates> = None;
        let (mut at, mut seen) = (*now, 0);
        let after = |at: Time| at.as_micros() - now.as_micros();
        for hold in *ends {
            let admitted = self.admitted_after_us(states, place, copy.as_mut(), at, (kept, credit));
            if let Some(wait) = admitted
                && at.as_micros() + wait < hold.end_us
            {
                return after(at) + wait;
            }
            at = at.max(Time::from_micros(hold.end_us));
            if hold.id.kind() == HoldKind::Credit {
                credit = credit.saturating_sub(Amount::of_charge(&hold.cost).on(limit).taken);
                continue;
            }
            kept = kept.saturating_sub(Amount::from(hold).on(limit).taken);
            let charging = Amount::of_charge(hold.charging()).on(limit).taken;
            if charging > 0 {
                let copy =
                    copy.get_or_insert_with(|| VecStates::copy_of_cell(&mut states.cell(place)));
                take(limit, &mut copy.only_cell(), charging, true, at);
            }
            seen += charging;
        }
        // More holds may be open than are looked at, and may end with those: all of them have ended
        // by the last end.
        let last_us = held.last_us.max(held.sums.credits.last_us());
        if last_us >= at.as_micros() {
            at = Time::from_micros(last_us);
            (kept, credit) = (0, 0);
            let rest = charging_of(limit, &held.sums).saturating_sub(seen);
            if rest > 0 {
                let copy =
                    copy.get_or_insert_with(|| VecStates::copy_of_cell(&mut states.cell(place)));
                take(limit, &mut copy.only_cell(), rest, true, at);
            }
        }
        let wait = self.admitted_after_us(states, place, copy.as_mut(), at, (kept, credit));
        wait.map_or(NEVER_US, |wait| after(at) + wait)
    }

    /// The wait from `at` on, as long as so much is kept and given; `None` for a longer one than
    /// that.
    fn admitted_after_us(
        &self,
        states: &mut dyn States,
        place: Place,
        copy: Option<&mut VecStates>,
        at: Time,
        (kept, credit): (u64, u64),
    ) -> Option<u64> {
        let all = (self.wanted + kept).saturating_sub(credit);
        if all > self.limit.capacity() {
            return None;
        }
        if all == 0 && credit > 0 {
            return Some(0);
        }
        let step = self.limit.step();
        let judgement = match copy {
            Some(copy) => step.judge(&mut copy.only_cell(), at, all),
            None => step.judge(&mut states.cell(place), at, all),
        };
        (judgement.retry_after_us != NEVER_US).then_some(judgement.retry_after_us)
    }
}
