//! A store's view of an ask: the question, checked and borrowed.

use std::borrow::Cow;

use super::kind::{hold_of_a_check, no_terms, terms_of_peek};
use super::refused::{
    check_cost, check_line, check_parts, check_shard, lines_up_for_a_check, names_a_check,
    takes_slots, waits_for_a_charge,
};
use super::terms::{check_credit, counts_of, shortest_slots, ttl_us};
use super::{Ask, AskPart, SubjectText};
use crate::cost::Cost;
use crate::engine::Mode;
use crate::error::Error;
use crate::hold::{Hold, HoldId, HoldKind, HoldTerms, Patience};
use crate::limit::LimitSet;
use crate::question::{Counted, Parts, Question};
use crate::subject::Subject;
use crate::time::Time;

impl<'a> Ask<'a> {
    /// The one subject, if nothing but a cost, limits, a deadline or a peek is said of it.
    #[inline(always)]
    fn only_part(&self) -> Option<&AskPart<'a>> {
        match self {
            Self {
                first: Some(part),
                more,
                cost: _,
                partial: false,
                shard: None,
                name: None,
                patience: Patience::None,
                hold: None,
                request: None,
                peek: _,
                deadline: _,
            } if more.is_empty() => Some(part),
            _ => None,
        }
    }

    /// The only subject of an ask for requests, if the caller keeps it.
    #[inline(always)]
    pub(crate) fn only_known(&self) -> Option<(&'a Subject, Option<&'a LimitSet>)> {
        match (self.only_part()?, &self.cost.units) {
            (AskPart { subject: SubjectText::Known(subject), read: None, limits }, None) => {
                Some((subject, *limits))
            }
            _ => None,
        }
    }

    /// The text of the only subject of an ask for several units, if nobody has read it.
    pub(crate) fn only_literal(&self) -> Option<(&'a str, Option<&'a LimitSet>)> {
        match (self.only_part()?, &self.cost.units) {
            (AskPart { subject: SubjectText::Literal(text), read: None, limits }, Some(_)) => {
                Some((text, *limits))
            }
            _ => None,
        }
    }

    /// The question for the store, borrowed from this ask and from `parts`, into which its counts
    /// go. `usual` are the limits of the subjects without any.
    ///
    /// # Errors
    /// An invalid subject; the same subject twice under the same limits; no subject or too many; a
    /// cost or a shard out of range.
    #[inline]
    pub(crate) fn question<'p, 'q: 'p>(
        &'q mut self,
        usual: &'q LimitSet,
        parts: &'p mut Parts<'q>,
    ) -> Result<Question<'p>, Error> {
        let hold = self.hold;
        let mut question = self.question_without_hold(usual, self.peek, parts)?;
        if let Some((kind, _)) = hold {
            question.hold = Some(terms_of_peek(&question, kind)?);
        }
        Ok(question)
    }

    /// The question of this ask, whatever it says of a hold.
    #[inline]
    pub(crate) fn question_without_hold<'p, 'q: 'p>(
        &'q mut self,
        usual: &'q LimitSet,
        peek: bool,
        parts: &'p mut Parts<'q>,
    ) -> Result<Question<'p>, Error> {
        check_cost(self.cost.amounts().first())?;
        if !peek && self.name.is_some() {
            return Err(names_a_check());
        }
        if !peek && self.patience == Patience::InLine {
            return Err(lines_up_for_a_check());
        }
        let shard = text_of(self.shard.as_deref());
        check_shard(shard)?;
        let mode = match (peek, self.partial) {
            (false, false) => Mode::Whole,
            (false, true) => Mode::Partial,
            (true, false) => Mode::Peek,
            (true, true) => Mode::PeekPartial,
        };
        if let Some(first) = &mut self.first {
            parts.push(first.counted(usual, shard)?);
        }
        if !self.more.is_empty() || parts.is_empty() {
            count_more(parts, &mut self.more, usual, shard)?;
        }
        if peek && self.cost.plain() == Some(1) {
            self.cost = one_of(parts);
        }
        let cost = self.cost.amounts();
        cost.check_units(parts.iter().map(|part| part.limits))?;
        let mut question = Question::of_check(parts, cost, mode).map_err(takes_slots)?;
        // Elsewhere it makes no difference, and the store has one way less to answer.
        if self.patience != Patience::None
            && question.parts.iter().any(|part| part.limits.hears_denials())
        {
            question.mode = mode.waiting();
        }
        question.deadline = self.deadline;
        if let Some(request) = self.request
            && !peek
        {
            question.request = Some(request.check()?);
        }
        Ok(question)
    }

    /// The question of a charge without a check, which no store remembers.
    ///
    /// # Errors
    /// As [`Ask::question`]; also a request id.
    pub(crate) fn question_of_charge<'p, 'q: 'p>(
        &'q mut self,
        usual: &'q LimitSet,
        parts: &'p mut Parts<'q>,
    ) -> Result<Question<'p>, Error> {
        if self.request.is_some() {
            let what = "a charge without a check is not remembered under a request id: ask without \
                        one";
            return Err(Error::Ask(what.to_owned()));
        }
        if self.name.is_some() {
            return Err(names_a_check());
        }
        if self.patience != Patience::None {
            return Err(waits_for_a_charge());
        }
        if self.hold.is_some() {
            return Err(hold_of_a_check());
        }
        self.refuse_peek("a charge")?;
        self.refuse_deadline("a charge")?;
        // As for a peek, slots may be beside the charged limits. None is taken.
        let mut question = self.question_without_hold(usual, true, parts)?;
        question.mode = Mode::Whole;
        Ok(question)
    }

    /// The question that places a hold, by these terms, which are lent to it.
    ///
    /// # Errors
    /// As [`Ask::question`]; also a partial ask.
    pub(crate) fn question_holding<'p, 'q: 'p>(
        &'q mut self,
        usual: &'q LimitSet,
        (lent, parts): (&'p mut Option<HoldTerms>, &'p mut Parts<'q>),
    ) -> Result<Question<'p>, Error> {
        if self.partial {
            let what = "a hold is placed whole or not at all: ask without `partial`";
            return Err(Error::Ask(what.to_owned()));
        }
        if self.request.is_some() {
            let what = "a hold is not remembered under a request id: ask without one";
            return Err(Error::Ask(what.to_owned()));
        }
        self.refuse_peek("a hold")?;
        let Some((kind, ttl)) = self.hold else { return Err(no_terms()) };
        let (name, patience) = (self.name, self.patience);
        // As for a peek, slots may be asked for.
        let mut question = self.question_without_hold(usual, true, parts)?;
        question.mode = Mode::Whole;
        let terms = match lent {
            Some(terms) => terms,
            none => {
                let slots = shortest_slots(question.parts.iter().map(|part| part.limits));
                let lasts_us = match kind {
                    HoldKind::Credit => check_credit(&question, ttl, patience)?,
                    _ => ttl_us(slots, ttl)?,
                };
                let mut terms = HoldTerms::new(kind, lasts_us);
                if patience == Patience::InLine {
                    check_line(name, slots.is_some(), question.cost)?;
                }
                if let Some(name) = name {
                    terms.id = HoldId::named(terms.id.kind(), name);
                }
                terms.patience = patience;
                none.insert(terms)
            }
        };
        Ok(question.holding(terms))
    }

    /// The hold of a named ask under `usual` limits, as far as its caller can know it without an
    /// answer: to settle or renew it. No store is asked.
    ///
    /// # Errors
    /// An ask that no hold could be placed by, or without a name ([`Ask::named`]).
    pub fn named_hold(mut self, usual: &LimitSet) -> Result<Hold, Error> {
        let Some(name) = self.name else {
            return Err(Error::Ask("give the id that the hold was asked for under".to_owned()));
        };
        let cost = self.cost.clone();
        let shard = text_of(self.shard.as_deref()).map(str::to_owned);
        let counts = counts_of(&self.question_without_hold(usual, true, &mut Parts::new())?);
        let hold = Hold::new(HoldId::of_any_kind(name), 0, cost, Time::from_micros(0), counts);
        Ok(Hold { shard, ..hold })
    }

    fn refuse_peek(&self, what: &str) -> Result<(), Error> {
        match self.peek {
            true => Err(Error::Ask(format!("{what} is not a peek: ask without `peek`"))),
            false => Ok(()),
        }
    }

    fn refuse_deadline(&self, what: &str) -> Result<(), Error> {
        match self.deadline {
            Some(_) => Err(Error::Ask(format!("{what} has the store's deadline: ask without one"))),
            None => Ok(()),
        }
    }

    /// The only count of the ask.
    ///
    /// # Errors
    /// As [`Ask::question`]; also more than one subject.
    pub(crate) fn only<'q>(&'q mut self, usual: &'q LimitSet) -> Result<Counted<'q>, Error> {
        self.refuse_deadline("an administrator's call")?;
        let mut parts = Parts::new();
        self.question_without_hold(usual, true, &mut parts)?;
        match parts[..] {
            [counted] => Ok(counted),
            _ => Err(Error::Ask("this is done for one subject at a time".to_owned())),
        }
    }
}

/// One request; of limits that count none, one of the first unit that they count. It is what a look
/// at a count is for that says no cost.
fn one_of(parts: &Parts<'_>) -> Cost {
    let sets = || parts.iter().map(|part| part.limits);
    let one = Cost::from(1);
    if one.amounts().check_units(sets()).is_ok() {
        return one;
    }
    let first = sets().flat_map(LimitSet::limits).find(|limit| limit.has_capacity());
    first.map_or(one, |limit| Cost::from_iter([(*limit.unit(), 1)]))
}

/// Adds the parts after the first, and checks how many there are and that no two are the same. Asks
/// with one subject skip this.
#[inline(never)]
fn count_more<'q>(
    parts: &mut Parts<'q>,
    more: &'q mut [AskPart<'_>],
    usual: &'q LimitSet,
    shard: Option<&'q str>,
) -> Result<(), Error> {
    check_parts(parts.len() + more.len())?;
    for part in more {
        let counted = part.counted(usual, shard)?;
        let Counted { subject, limits, .. } = counted;
        let is_same = |other: &Counted<'_>| {
            other.subject == subject && other.limits.identity() == limits.identity()
        };
        if parts.iter().any(is_same) {
            return Err(Error::Ask(format!(
                "`{subject}` is asked twice under the same limits: ask once, with a larger cost"
            )));
        }
        parts.push(counted);
    }
    Ok(())
}

/// The text of an ask's shard.
#[inline]
pub(crate) fn text_of<'q>(shard: Option<&'q Cow<'_, str>>) -> Option<&'q str> {
    shard.map(|shard| &**shard)
}
