//! The rulings of administrators that are in force at a gate, and their effect on a request.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate::Notice;

use crate::field::{Field, Fields};
use crate::index::{Found, Index};
use crate::pattern::Condition;
use crate::policies::Policies;
use crate::ruling::{Effect, Ruling};

/// The known rulings in the store.
#[derive(Debug, Default)]
pub(super) struct Following {
    pub(super) seen: Mutex<Option<u64>>,
    pub(super) is_failing: AtomicBool,
    /// The notices that are not rulings, and when they were asked for.
    pub(super) others: Mutex<Option<(Vec<Notice>, Instant)>>,
}

/// The rulings in force, indexed by their conditions.
#[derive(Debug)]
pub(super) struct Rulings {
    index: Index,
    /// By their numbers in the index.
    pub(super) all: Vec<Lasting>,
    fields: BTreeSet<Field>,
}

/// A ruling until its end.
#[derive(Debug)]
pub(super) struct Lasting {
    pub(super) ruling: Ruling,
    /// By this process's clock, so that it ends in time even while the store is down.
    pub(super) until: Instant,
}

/// The effect of the rulings on a request.
#[derive(Default)]
pub(super) struct RulingEffect<'r> {
    banned: bool,
    exempt: bool,
    banned_in: SmallVec<[&'r str; 2]>,
    exempt_in: SmallVec<[&'r str; 2]>,
}

impl Rulings {
    /// The rulings that were read at `asked`, `None` if there is no readable one; and the other
    /// notices. `hash` puts the hash of each API key in its place: an older version wrote the key.
    pub(super) fn new(
        notices: Vec<Notice>,
        asked: Instant,
        hash: impl Fn(&mut [Condition]),
    ) -> (Option<Arc<Self>>, Vec<Notice>) {
        let mut others = Vec::new();
        let lasting = |notice: Notice| match Ruling::read(&notice.text) {
            Some(mut ruling) => {
                hash(&mut ruling.when);
                Some(Lasting { ruling, until: asked + notice.left })
            }
            None => {
                others.push(notice);
                None
            }
        };
        let all: Vec<Lasting> = notices.into_iter().filter_map(lasting).collect();
        let conditions = || all.iter().flat_map(|lasting| &lasting.ruling.when);
        let fields = conditions().map(|condition| condition.field.clone()).collect();
        let index = Index::new(all.iter().map(|lasting| lasting.ruling.when.clone()).collect());
        ((!all.is_empty()).then(|| Arc::new(Self { index, all, fields })), others)
    }

    /// True when one of them has a condition on this field.
    pub(super) fn reads(&self, field: &Field) -> bool {
        self.fields.contains(field)
    }

    /// True when none is in force any more.
    pub(super) fn have_ended(&self) -> bool {
        let now = Instant::now();
        self.all.iter().all(|lasting| lasting.until <= now)
    }

    /// The effect of those whose conditions hold.
    pub(super) fn held(&self, fields: &dyn Fields) -> RulingEffect<'_> {
        let mut held = RulingEffect::default();
        let mut found = Found::new();
        let candidates = self.index.candidates(fields, &mut found).iter();
        let mut now = None;
        for number in candidates.filter(|number| self.index.holds(**number, fields)) {
            let lasting = usize::try_from(*number).ok().and_then(|at| self.all.get(at));
            let Some(Lasting { ruling, until }) = lasting else { continue };
            if *until <= *now.get_or_insert_with(Instant::now) {
                continue;
            }
            match (ruling.effect, &ruling.policy) {
                (Effect::Ban, None) => held.banned = true,
                (Effect::Exempt, None) => held.exempt = true,
                (Effect::Ban, Some(policy)) => held.banned_in.push(policy),
                (Effect::Exempt, Some(policy)) => held.exempt_in.push(policy),
            }
        }
        held
    }
}

impl RulingEffect<'_> {
    /// True when the request is denied under all policies.
    pub(super) fn bans_from_all(&self) -> bool {
        self.banned && !self.exempt
    }

    /// True when the request is denied under the policy at this place.
    pub(super) fn bans_from(&self, policies: &Policies, place: usize) -> bool {
        is_among(&self.banned_in, policies, place)
    }

    /// True when the policy at this place does not apply to the request.
    pub(super) fn exempts_from(&self, policies: &Policies, place: usize) -> bool {
        self.exempt || is_among(&self.exempt_in, policies, place)
    }
}

fn is_among(names: &[&str], policies: &Policies, place: usize) -> bool {
    !names.is_empty()
        && policies.policy(place).is_some_and(|policy| names.contains(&policy.name.as_str()))
}
