//! The rulings of administrators that are in force at a gate, and their effect on a request.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate::Notice;

use super::ruled_sets::RuledSets;
use crate::field::{Field, Fields};
use crate::index::{Found, Index};
use crate::pattern::Condition;
use crate::policies::Policies;
use crate::ruled_limit::{Ruled, RuledLimit, Shapes};
use crate::ruling::{Effect, Ruling};

/// The known rulings in the store.
#[derive(Debug, Default)]
pub(super) struct Following {
    pub(super) seen: Mutex<Option<u64>>,
    pub(super) is_failing: AtomicBool,
    /// The notices that are not rulings, and when they were asked for.
    pub(super) others: Mutex<Option<(Vec<Notice>, Instant)>>,
    pub(super) sets: Arc<RuledSets>,
}

/// A ruling in force at a gate: [`Admin::standing`](super::Admin::standing).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StandingRuling {
    /// The ruling.
    pub ruling: Ruling,
    /// The time left until its end.
    pub left: Duration,
    /// Why it has no effect under the policies in force: its policy or a limit of it is gone, or
    /// counts otherwise. `None` where it has its effect.
    pub no_effect: Option<String>,
}

/// The rulings that have no effect under some policies, by their numbers, and why.
pub(super) type Misfits = BTreeMap<usize, String>;

/// The rulings in force, indexed by their conditions.
#[derive(Debug)]
pub(super) struct Rulings {
    index: Index,
    /// By their numbers in the index.
    pub(super) all: Vec<Lasting>,
    fields: BTreeSet<Field>,
    pub(super) sets: Arc<RuledSets>,
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
    /// Those that set limits, in order.
    setting: SmallVec<[&'r Ruling; 2]>,
}

impl Rulings {
    /// The rulings that were read at `asked`, `None` if there is no readable one; and the other
    /// notices. `hash` puts the hash of each API key in its place: an older version wrote the key.
    pub(super) fn new(
        notices: Vec<Notice>,
        asked: Instant,
        hash: impl Fn(&mut [Condition]),
        sets: &Arc<RuledSets>,
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
        let sets = Arc::clone(sets);
        ((!all.is_empty()).then(|| Arc::new(Self { index, all, fields, sets })), others)
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

    /// Those that set limits which do not fit these policies.
    pub(super) fn misfits(&self, policies: &Policies) -> Misfits {
        // Many rulings set the same limits: each text is tried once.
        let mut tried: HashMap<(&str, String), Option<String>> = HashMap::new();
        let (mut misfits, mut shapes) = (Misfits::new(), Shapes::default());
        for (number, Lasting { ruling, .. }) in self.all.iter().enumerate() {
            let (Effect::Set, Some(policy)) = (ruling.effect, &ruling.policy) else { continue };
            let limits: Vec<String> = ruling.limits.iter().map(ToString::to_string).collect();
            let why = tried.entry((policy, limits.join(", "))).or_insert_with(|| {
                let why = policies.misfit(policy, &ruling.limits, &mut shapes)?;
                Some(format!("{}: {}", why.what(), why.remedy()))
            });
            misfits.extend(why.clone().map(|why| (number, why)));
        }
        misfits
    }

    /// The effect of those whose conditions hold, and that have one.
    pub(super) fn held(&self, fields: &dyn Fields, misfits: &Misfits) -> RulingEffect<'_> {
        let mut held = RulingEffect::default();
        let mut found = Found::new();
        let candidates = self.index.candidates(fields, &mut found).iter();
        let mut now = None;
        for number in candidates.filter(|number| self.index.holds(**number, fields)) {
            let Ok(at) = usize::try_from(*number) else { continue };
            let Some(Lasting { ruling, until }) = self.all.get(at) else { continue };
            if *until <= *now.get_or_insert_with(Instant::now) || misfits.contains_key(&at) {
                continue;
            }
            match (ruling.effect, &ruling.policy) {
                (Effect::Ban, None) => held.banned = true,
                (Effect::Exempt, None) => held.exempt = true,
                (Effect::Ban, Some(policy)) => held.banned_in.push(policy),
                (Effect::Exempt, Some(policy)) => held.exempt_in.push(policy),
                (Effect::Set, _) => held.setting.push(ruling),
            }
        }
        held
    }
}

impl<'r> RulingEffect<'r> {
    /// True when limits are set in some policy.
    pub(super) fn sets_limits(&self) -> bool {
        !self.setting.is_empty()
    }

    /// The limits that are set in this policy. Of several for one limit it is that of the ruling
    /// with the most conditions, then the first.
    pub(super) fn set_in(&self, policy: &str) -> Ruled<'r> {
        let mut all: SmallVec<[(usize, &RuledLimit); 2]> = SmallVec::new();
        for ruling in self.setting.iter().filter(|it| it.policy.as_deref() == Some(policy)) {
            let conditions = ruling.when.len();
            for limit in &ruling.limits {
                match all.iter_mut().find(|(_, known)| known.name == limit.name) {
                    Some(known) if known.0 < conditions => *known = (conditions, limit),
                    Some(_) => {}
                    None => all.push((conditions, limit)),
                }
            }
        }
        all.into_iter().map(|(_, limit)| limit).collect()
    }

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
