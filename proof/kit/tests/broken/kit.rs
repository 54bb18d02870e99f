//! Stores with mistakes that only the conformance kit asks about: refunds, peeks, subjects,
//! resets. Each wraps the store in memory.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use tollgate::engine::{Mode, Outcome};
use tollgate::operation::{
    self, Adjust, Charge, Check, Inspect, Operation, Operations, Post, ReadNotices, Renew, Reset,
    Settle, Withdraw,
};
use tollgate::{
    Adjustment, Amounts, Around, Charged, Counted, Hold, Inspection, LimitSet, ManualClock,
    MemoryStore, Notice, Notices, Question, Receipt, Refund, Settled, Store, StoreError, Subject,
    Time,
};
use tollgate_proof::conformance;

/// The mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    Nothing,
    /// A refund gives units back like a correction: whatever counts now, and as often as asked.
    RefundsWhateverCounts,
    /// Subjects are compared without case.
    IgnoresCase,
    /// A peek charges.
    PeekCharges,
    /// A limit with new numbers starts fresh.
    ForgetsOnChange,
    /// `*` resets everybody.
    ResetsByPattern,
    /// The subject that came first is forgotten for the next one.
    EvictsTheFirst,
    /// Every wait is a microsecond too short.
    ShortWaits,
    /// A denial is charged with the remaining units.
    DenialCharges,
    /// Several limits are judged one by one.
    OneByOne,
}

type Case = fn(&Maker);

/// Makes stores with a mistake.
pub(crate) struct Maker(pub(crate) Mistake);

impl conformance::StoreMaker for Maker {
    type Store = Wrapped;

    fn make(&self, clock: ManualClock) -> Wrapped {
        let inner = MemoryStore::builder().clock(clock).build();
        let (texts, seen) = (Mutex::default(), Mutex::default());
        Wrapped { inner, mistake: self.0, texts, seen }
    }
}

pub(crate) struct Wrapped {
    inner: MemoryStore,
    mistake: Mistake,
    /// The numbers that each count was last asked under.
    texts: Mutex<HashMap<String, String>>,
    seen: Mutex<VecDeque<(Subject, LimitSet)>>,
}

impl Wrapped {
    fn subject(&self, subject: &Subject) -> Subject {
        match self.mistake {
            Mistake::IgnoresCase => subject.to_string().to_lowercase().parse().unwrap(),
            _ => subject.clone(),
        }
    }

    async fn forget(&self, counted: Counted<'_>) -> Result<(), StoreError> {
        let key = format!("{} under {}", counted.subject, counted.limits.identity());
        let text = counted.limits.full_text().to_owned();
        let before = self.texts.lock().unwrap().insert(key, text.clone());
        if self.mistake == Mistake::ForgetsOnChange && before.is_some_and(|before| before != text) {
            self.inner.perform(&Reset::new(counted)).await?;
        }
        let oldest = {
            let mut seen = self.seen.lock().unwrap();
            let known = |(subject, limits): &(Subject, LimitSet)| {
                subject == counted.subject && limits == counted.limits
            };
            if !seen.iter().any(known) {
                seen.push_back((counted.subject.clone(), counted.limits.clone()));
            }
            (seen.len() > 64).then(|| seen.pop_front()).flatten()
        };
        if self.mistake == Mistake::EvictsTheFirst
            && let Some((subject, limits)) = &oldest
        {
            self.inner.perform(&Reset::new(Counted::new(subject, limits))).await?;
        }
        Ok(())
    }
}

impl Around for Wrapped {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        operation.visit(self).await
    }
}

impl Operations for Wrapped {
    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        let subjects: Vec<Subject> =
            question.parts.iter().map(|part| self.subject(part.subject)).collect();
        let parts = question.parts.iter().zip(&subjects);
        let parts: Vec<Counted<'_>> =
            parts.map(|(part, subject)| Counted::new(subject, part.limits)).collect();
        for part in &parts {
            self.forget(*part).await?;
        }
        let mode = match (self.mistake, question.mode) {
            (Mistake::PeekCharges, Mode::Peek) => Mode::Whole,
            (_, mode) => mode,
        };
        let asked = Question::new(&parts, question.cost, mode);
        let mut outcome = self.inner.perform(&Check::new(&asked)).await?;
        let denied = outcome.granted == 0 && !mode.is_peek();
        if denied && self.mistake == Mistake::DenialCharges {
            for part in &parts {
                let cost = i64::try_from(question.cost.first()).unwrap();
                self.inner.perform(&Adjust::new(*part, &(-cost).into())).await?;
            }
        }
        if denied && self.mistake == Mistake::OneByOne {
            // Those before the one that denied were charged.
            for part in parts.split_last().map_or(&[][..], |(_, before)| before) {
                let alone = Question::new(std::slice::from_ref(part), question.cost, mode);
                self.inner.perform(&Check::new(&alone)).await?;
            }
        }
        if self.mistake == Mistake::ShortWaits {
            for fields in &mut outcome.fields {
                fields.retry_after_us = fields.retry_after_us.map(|wait| wait.saturating_sub(1));
            }
        }
        Ok(outcome)
    }

    async fn refund(&self, receipt: &Receipt, units: Amounts<'_>) -> Result<Refund, StoreError> {
        if self.mistake != Mistake::RefundsWhateverCounts {
            return self.inner.perform(&operation::Refund::new(receipt, units)).await;
        }
        let mut given = Vec::new();
        for charges in &receipt.charges {
            let counted = Counted::new(&charges.subject, &charges.limits);
            let units = i64::try_from(units.first()).unwrap();
            let back = self.inner.perform(&Adjust::new(counted, &units.into())).await?;
            given.extend(back.into_iter().map(i64::unsigned_abs));
        }
        Ok(Refund::new(given, 0))
    }

    async fn charge(
        &self,
        counted: Counted<'_>,
        cost: Amounts<'_>,
    ) -> Result<Vec<Charged>, StoreError> {
        self.inner.perform(&Charge::new(counted, cost)).await
    }

    async fn adjust(&self, counted: Counted<'_>, by: &Adjustment) -> Result<Vec<i64>, StoreError> {
        self.inner.perform(&Adjust::new(counted, by)).await
    }

    async fn settle(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
    ) -> Result<Option<Settled>, StoreError> {
        self.inner.perform(&Settle::new(hold, actual)).await
    }

    async fn renew(&self, hold: &Hold, ttl_us: u64) -> Result<Option<Time>, StoreError> {
        self.inner.perform(&Renew::new(hold, ttl_us)).await
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        let subject = counted.subject.to_string();
        if self.mistake == Mistake::ResetsByPattern && subject.contains("%2A") | (subject == "*") {
            let seen: Vec<_> = self.seen.lock().unwrap().iter().cloned().collect();
            let mut any = false;
            for (subject, limits) in &seen {
                any |= self.inner.perform(&Reset::new(Counted::new(subject, limits))).await?;
            }
            return Ok(any);
        }
        self.inner.perform(&Reset::new(counted)).await
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.inner.perform(&Inspect::new(counted)).await
    }

    async fn notices(&self, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
        self.inner.perform(&ReadNotices::new(seen)).await
    }

    async fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        self.inner.perform(&Post::new(notice)).await
    }

    async fn withdraw(&self, name: &str) -> Result<bool, StoreError> {
        self.inner.perform(&Withdraw::new(name)).await
    }
}

/// The mistakes, the traps they are, and the case of the kit that catches each.
pub(crate) const STORES: &[(&str, Mistake, &str, Case)] = &[
    (
        "refunds whatever counts now",
        Mistake::RefundsWhateverCounts,
        "a_refund_gives_only_what_still_counts",
        conformance::a_refund_gives_only_what_still_counts,
    ),
    (
        "compares subjects without case",
        Mistake::IgnoresCase,
        "subjects_are_told_apart_byte_by_byte",
        conformance::subjects_are_told_apart_byte_by_byte,
    ),
    (
        "charges a peek",
        Mistake::PeekCharges,
        "denials_and_peeks_change_nothing",
        conformance::denials_and_peeks_change_nothing,
    ),
    (
        "starts fresh when numbers change",
        Mistake::ForgetsOnChange,
        "numbers_may_go_up_and_down_while_they_count",
        conformance::numbers_may_go_up_and_down_while_they_count,
    ),
    (
        "resets by a pattern",
        Mistake::ResetsByPattern,
        "a_reset_forgets_one_count_and_no_other",
        conformance::a_reset_forgets_one_count_and_no_other,
    ),
    (
        "evicts the subject that came first",
        Mistake::EvictsTheFirst,
        "a_shared_subject_keeps_its_count_while_others_come_in",
        conformance::a_shared_subject_keeps_its_count_while_others_come_in,
    ),
    (
        "tells waits that are 1 us short",
        Mistake::ShortWaits,
        "retry_after_is_exact_both_ways",
        conformance::retry_after_is_exact_both_ways,
    ),
    (
        "takes what remains on a denial",
        Mistake::DenialCharges,
        "denials_and_peeks_change_nothing",
        conformance::denials_and_peeks_change_nothing,
    ),
    (
        "charges several subjects one by one",
        Mistake::OneByOne,
        "a_check_is_all_or_nothing",
        conformance::a_check_is_all_or_nothing,
    ),
];

/// Whether the case fails for stores with the mistake.
pub(crate) fn is_caught(mistake: Mistake, case: Case) -> bool {
    catch_unwind(AssertUnwindSafe(|| case(&Maker(mistake)))).is_err()
}
