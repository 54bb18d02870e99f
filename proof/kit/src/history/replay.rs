//! The replay of a group of calls in the order of the store's time, through the oracle.

use std::collections::BTreeMap;

use crate::oracle::Rule;

use super::plan::{Plan, Planned, Role, by_store_time};
use super::record::{Bounds, CallOutcome};
use super::report::{Promise, Wrong};
use super::track::{Doubt, Doubted, Judged, Track};

/// On which side of the definitions an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// More was given than even the least use admits.
    Above,
    /// Less was given than even the most use admits.
    Below,
}

/// The first answer that the definitions do not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) call: u64,
    pub(super) side: Side,
    /// The answer by the definitions, in words.
    pub(super) expected: String,
    /// Which part of the answer is wrong.
    pub(super) wrong: Wrong,
    /// The promises that this breaks beside the exact answer.
    pub(super) promises: Vec<Promise>,
}

/// How many charges were doubted, and how many of these were disproved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) checked: u64,
    pub(super) places: u64,
}

/// The finding of a replay.
#[derive(Clone, Debug, Default)]
pub(super) struct Replayed {
    /// Two calls whose times contradict real time.
    pub(super) contradiction: Option<[u64; 2]>,
    pub(super) violation: Option<Violation>,
    /// Why the group is not decided, if it is not.
    pub(super) undecided: Option<String>,
    pub(super) exact: Tally,
    pub(super) denied: Tally,
    pub(super) partial: Tally,
    pub(super) twice: Tally,
}

/// The maximum number of calls of one microsecond for which every order is tried.
const MOST_PERMUTED: usize = 7;

/// How many answers after the first wrong one a mistake must explain before it is named.
const EVIDENCE: u64 = 8;

/// Replays calls that share counts. All decisions among them have the store's time.
pub(super) fn replay(plan: &Plan<'_>, calls: &[&Planned<'_>], bounds: &Bounds) -> Replayed {
    let mut replayed = replay_as(plan, calls, bounds, None);
    let Some(violation) = &mut replayed.violation else { return replayed };
    if violation.side == Side::Below && violation.promises.is_empty() {
        // A limiter with exactly one of the mistakes would have given every answer. The number on a
        // denial is first taken for the remainder before the mistake, then for anything.
        let before = replayed.exact.places;
        let explaining = |tells_before: bool| -> Vec<Doubt> {
            let explains = |doubt: &Doubt| {
                [true, false].into_iter().any(|bounded| {
                    let mistake = Mistake { doubt: *doubt, bounded, tells_before };
                    let other = replay_as(plan, calls, bounds, Some(mistake));
                    let more = other.exact.places.saturating_sub(before);
                    other.violation.is_none() && other.undecided.is_none() && more >= EVIDENCE
                })
            };
            let on_denials = |doubt: &Doubt| tells_before || *doubt != Doubt::Twice;
            // Of one limit nothing is charged in part.
            let several = calls.iter().any(|planned| planned.asked.len() > 1);
            let possible = |doubt: &Doubt| several || *doubt != Doubt::Partial;
            Doubt::ALL.into_iter().filter(on_denials).filter(possible).filter(explains).collect()
        };
        let mut explained = explaining(true);
        if explained.is_empty() {
            explained = explaining(false);
        }
        if let [doubt] = explained[..] {
            violation.promises = vec![doubt.promise()];
        }
    }
    replayed
}

/// A limiter that makes charges of one kind that must not happen: up to its limit, or beyond.
#[derive(Clone, Copy)]
struct Mistake {
    doubt: Doubt,
    bounded: bool,
    /// Whether `remaining` and `retry_after` of a denial are those before its charge.
    tells_before: bool,
}

/// The same, where each charge of a kind that must not happen did happen.
fn replay_as(
    plan: &Plan<'_>,
    calls: &[&Planned<'_>],
    bounds: &Bounds,
    mistake: Option<Mistake>,
) -> Replayed {
    let mut replayed = Replayed::default();
    let decided = |planned: &&&Planned<'_>| {
        planned.call.outcome.is_decision() && planned.role != Role::Repeat
    };
    if calls.iter().filter(decided).any(|planned| planned.epoch.is_none()) {
        replayed.undecided = Some("a call was under way while the clock was set".to_owned());
        return replayed;
    }
    let ties = match by_store_time(calls.iter().filter(decided).copied().collect()) {
        Ok(ties) => ties,
        Err(ids) => {
            replayed.contradiction = Some(ids);
            return replayed;
        }
    };
    let mut unanswered: Vec<&Planned<'_>> = calls
        .iter()
        .copied()
        .filter(|p| p.call.outcome == CallOutcome::Unknown && p.role != Role::Repeat)
        .collect();
    unanswered.sort_by_key(|planned| std::cmp::Reverse(planned.call.invoked_us));
    let mut replay =
        Replay { plan, bounds, tracks: BTreeMap::new(), unanswered, mistake, found: replayed };
    for tie in ties {
        if !replay.tie(&tie) {
            break;
        }
    }
    replay.found
}

#[derive(Clone)]
struct Replay<'p, 'h> {
    plan: &'p Plan<'h>,
    bounds: &'p Bounds,
    tracks: BTreeMap<usize, Track>,
    /// Calls without an answer that may not have been charged yet, the earliest last.
    unanswered: Vec<&'p Planned<'h>>,
    mistake: Option<Mistake>,
    found: Replayed,
}

impl<'p, 'h> Replay<'p, 'h> {
    /// Replays the calls of one microsecond. False when going on is useless.
    fn tie(&mut self, tie: &[&'p Planned<'h>]) -> bool {
        if let [one] = tie {
            return self.call(one);
        }
        let before = (tie.len() <= MOST_PERMUTED).then(|| self.clone());
        if tie.iter().all(|planned| self.call(planned)) {
            return true;
        }
        match before {
            None => {
                self.found.violation = None;
                let reason = format!("{} calls were decided in one microsecond", tie.len());
                self.found.undecided = Some(reason);
            }
            Some(before) => {
                let mut left = tie.to_vec();
                if let Some(found) = before.permuted(&mut left) {
                    *self = found;
                    return true;
                }
            }
        }
        false
    }

    /// Tries every order that real time allows.
    fn permuted(&self, left: &mut Vec<&'p Planned<'h>>) -> Option<Self> {
        if left.is_empty() {
            return Some(self.clone());
        }
        for position in 0..left.len() {
            let next = left.remove(position);
            if !left.iter().any(|other| other.is_before(next)) {
                let mut replay = self.clone();
                if replay.call(next)
                    && let Some(found) = replay.permuted(left)
                {
                    return Some(found);
                }
            }
            left.insert(position, next);
        }
        None
    }

    /// Replays one call. False at a violation, or when the call cannot be judged.
    fn call(&mut self, planned: &'p Planned<'h>) -> bool {
        let now_us = planned.call.decided_us.unwrap_or(planned.call.invoked_us);
        if let Err(reason) = self.prepare(planned, now_us) {
            self.found.undecided = Some(reason);
            return false;
        }
        let Some(judged) = self.judge(planned, now_us) else { return false };
        self.found.exact.places += 1;
        if planned.role == Role::OnceWith {
            for asked in &planned.asked {
                if let Some(track) = self.tracks.get_mut(&asked.track) {
                    track.charge_once_with(now_us, planned);
                }
            }
            return true;
        }
        let view = View::new(planned, &judged);
        if let Some((side, wrong, expected)) = self.compare(planned, now_us, &view) {
            let promises =
                if side == Side::Below { self.blame(planned, now_us, &view) } else { vec![] };
            let call = planned.call.id;
            self.found.violation = Some(Violation { call, side, expected, wrong, promises });
            return false;
        }
        self.found.exact.checked += u64::from(view.is_decided());
        self.learn(planned, now_us, &view);
        true
    }

    /// Brings the counts of a call to its time: rules, losses, charges that came late.
    fn prepare(&mut self, planned: &'p Planned<'h>, now_us: u64) -> Result<(), String> {
        let call = planned.call;
        while let Some(next) = self.unanswered.last() {
            if planned.returned_us() < next.call.invoked_us {
                break;
            }
            let until_us = next.returned_us().saturating_add(self.bounds.late_us);
            for asked in &next.asked {
                track(&mut self.tracks, asked.track, asked.rule)?.await_charge(next, until_us);
            }
            self.unanswered.pop();
        }
        for asked in &planned.asked {
            let rule = asked.rule.ok_or("the oracle does not know a strategy")?;
            let track = track(&mut self.tracks, asked.track, asked.rule)?;
            if matches!(rule, Rule::FixedFirstHit { .. }) && !track.is_certain() {
                // A window that opens earlier ends earlier: more used is not always less left.
                return Err("under `anchor first-hit` a charge is uncertain".to_owned());
            }
            if track.epoch.replace(planned.epoch).is_some_and(|before| before != planned.epoch)
                && !track.is_certain()
            {
                // The units that a repair carries over depend on the newest charge, whichever that
                // is.
                return Err("the clock was set while a charge was uncertain".to_owned());
            }
            track.settle(now_us, rule).map_err(|e| e.to_string())?;
            track.land(call.invoked_us, now_us);
            for (seen, loss) in (1..).zip(&self.plan.losses) {
                let over = loss.ended_us < call.invoked_us;
                let during = !over && loss.began_us <= planned.returned_us();
                if during || (over && track.losses_seen < seen) {
                    track.lose().map_err(|e| e.to_string())?;
                }
                if over {
                    track.losses_seen = track.losses_seen.max(seen);
                }
            }
        }
        Ok(())
    }

    fn judge(&self, planned: &Planned<'_>, now_us: u64) -> Option<Vec<Judged>> {
        let judge = |track: &Track| track.judge(now_us, planned.call.cost);
        planned.asked.iter().map(|asked| self.tracks.get(&asked.track).map(judge)).collect()
    }

    /// Whether the answer is outside of the definitions: on which side, with which part, and the
    /// answer by the definitions.
    fn compare(
        &self,
        planned: &Planned<'_>,
        now_us: u64,
        view: &View<'_>,
    ) -> Option<(Side, Wrong, String)> {
        let decision = |side, expected| Some((side, Wrong::Decision, expected));
        let never = planned.asked.iter().any(|asked| asked.capacity < planned.call.cost);
        let (lower, upper) = (view.lower_admits(), view.upper_admits());
        let [least, most] = view.left();
        match planned.call.outcome {
            CallOutcome::Allowed { .. } if !lower => {
                decision(Side::Above, format!("denied: at most {most} remained"))
            }
            CallOutcome::Allowed { remaining: Some(told) } => {
                let cost = planned.call.cost;
                let range = [least.saturating_sub(cost), most.saturating_sub(cost)];
                outside(told, range)
            }
            CallOutcome::Denied { .. } if upper => {
                decision(Side::Below, format!("allowed: at least {least} remained"))
            }
            CallOutcome::Denied { .. } if never => decision(Side::Below, "never".to_owned()),
            CallOutcome::Never if !never => decision(Side::Below, "not yet, or allowed".to_owned()),
            CallOutcome::Denied { .. } if self.mistake.is_some_and(|it| !it.tells_before) => None,
            CallOutcome::Denied { retry_after_us, remaining } => remaining
                .and_then(|told| outside(told, [least, most]))
                .or_else(|| self.wait(planned, now_us, retry_after_us?)),
            _ => None,
        }
    }

    /// Whether a wait is the shortest one, where the use is certain.
    fn wait(
        &self,
        planned: &Planned<'_>,
        now_us: u64,
        told_us: u64,
    ) -> Option<(Side, Wrong, String)> {
        let tracks: Option<Vec<&Track>> =
            planned.asked.iter().map(|asked| self.tracks.get(&asked.track)).collect();
        let tracks = tracks.filter(|tracks| tracks.iter().all(|track| track.is_certain()))?;
        let cost = planned.call.cost;
        let admitted =
            |wait_us| tracks.iter().all(|track| track.admits_after(now_us, wait_us, cost));
        if !admitted(told_us) {
            return Some((Side::Above, Wrong::Wait, format!("a wait longer than {told_us} us")));
        }
        let too_long_us = self.bounds.wait_unit_us.saturating_add(1);
        let earlier = told_us.checked_sub(too_long_us).filter(|&earlier| admitted(earlier))?;
        Some((Side::Below, Wrong::Wait, format!("a wait of at most {earlier} us")))
    }

    /// Which promise explains that less was given: the only kind of doubted charge that fits. Where
    /// something came back since, or the missing units were not reported, a charge explains
    /// nothing.
    fn blame(&self, planned: &Planned<'_>, now_us: u64, view: &View<'_>) -> Vec<Promise> {
        let tracks = || planned.asked.iter().filter_map(|asked| self.tracks.get(&asked.track));
        if !tracks().all(|track| track.is_steady(now_us)) {
            return Vec::new();
        }
        let mut suspects: Vec<Doubted> = tracks().flat_map(Track::suspects).copied().collect();
        let [left, _] = view.left();
        let (own, left, told) = match planned.call.outcome {
            CallOutcome::Allowed { remaining: Some(told) } => {
                (Doubt::Twice, left.saturating_sub(planned.call.cost), told)
            }
            CallOutcome::Denied { remaining: Some(told), .. } => (Doubt::Denied, left, told),
            _ => return Vec::new(),
        };
        suspects.push(Doubted { doubt: own, cost: planned.call.cost });
        let missing = left.saturating_sub(told);
        // With nothing missing no charge is the reason.
        if missing == 0 {
            return Vec::new();
        }
        // `remaining` is never below 0: more may be missing then.
        let all_gone = told == 0;
        let fits = |kind: &Doubt| {
            let costs = || suspects.iter().filter(|one| one.doubt == *kind).map(|one| one.cost);
            let sum: u64 = costs().sum();
            costs().any(|cost| cost == missing) || sum == missing || (all_gone && sum > missing)
        };
        let fitting: Vec<Doubt> = Doubt::ALL.into_iter().filter(fits).collect();
        match fitting[..] {
            [doubt] => vec![doubt.promise()],
            _ => Vec::new(),
        }
    }

    /// Takes from an answer what it shows, and charges what was charged.
    fn learn(&mut self, planned: &Planned<'_>, now_us: u64, view: &View<'_>) {
        let call = planned.call;
        for (position, asked) in planned.asked.iter().enumerate() {
            let Some(track) = self.tracks.get_mut(&asked.track) else { continue };
            if track.is_certain() && view.would_differ(position) {
                for doubted in track.disprove() {
                    self.found.tally(doubted.doubt).checked += 1;
                }
            }
            let own = view.judged.get(position).is_some_and(|judged| judged.lower_admits);
            let doubt = match call.outcome {
                CallOutcome::Allowed { .. } => {
                    track.charge(now_us, call.cost);
                    Doubt::Twice
                }
                _ if own && planned.asked.len() > 1 => Doubt::Partial,
                _ => Doubt::Denied,
            };
            if let Some(mistake) = self.mistake.filter(|mistake| mistake.doubt == doubt) {
                track.charge_by_mistake(now_us, call.cost, mistake.bounded);
            }
            track.doubt(now_us, Doubted { doubt, cost: call.cost });
            self.found.tally(doubt).places += 1;
        }
    }
}

impl Replayed {
    fn tally(&mut self, doubt: Doubt) -> &mut Tally {
        match doubt {
            Doubt::Denied => &mut self.denied,
            Doubt::Partial => &mut self.partial,
            Doubt::Twice => &mut self.twice,
        }
    }
}

/// The track of a count, fresh when it is new.
fn track(
    tracks: &mut BTreeMap<usize, Track>,
    track: usize,
    rule: Option<Rule>,
) -> Result<&mut Track, String> {
    use std::collections::btree_map::Entry;
    match tracks.entry(track) {
        Entry::Occupied(held) => Ok(held.into_mut()),
        Entry::Vacant(place) => {
            let rule = rule.ok_or("the oracle does not know a strategy")?;
            Ok(place.insert(Track::new(rule).map_err(|e| e.to_string())?))
        }
    }
}

/// Whether a `remaining` is outside of a range.
fn outside(told: u64, [least, most]: [u64; 2]) -> Option<(Side, Wrong, String)> {
    let expected = || match least == most {
        true => format!("{least} remaining"),
        false => format!("{least} to {most} remaining"),
    };
    if told > most {
        Some((Side::Above, Wrong::Remaining, expected()))
    } else if told < least {
        Some((Side::Below, Wrong::Remaining, expected()))
    } else {
        None
    }
}

/// The answer of all counts of a call together.
struct View<'j> {
    planned: &'j Planned<'j>,
    judged: &'j [Judged],
}

impl<'j> View<'j> {
    fn new(planned: &'j Planned<'j>, judged: &'j [Judged]) -> Self {
        Self { planned, judged }
    }

    fn lower_admits(&self) -> bool {
        self.judged.iter().all(|one| one.lower_admits)
    }

    fn upper_admits(&self) -> bool {
        self.judged.iter().all(|one| one.upper_admits)
    }

    /// The smallest `remaining` of all limits, under the maximum use and under the minimum.
    fn left(&self) -> [u64; 2] {
        let least = |side: fn(&Judged) -> u64| self.judged.iter().map(side).min().unwrap_or(0);
        [least(|one| one.left[0]), least(|one| one.left[1])]
    }

    /// Whether least and most use give the same answer.
    fn is_decided(&self) -> bool {
        let [least, most] = self.left();
        let told = match self.planned.call.outcome {
            CallOutcome::Allowed { remaining } | CallOutcome::Denied { remaining, .. } => remaining,
            _ => None,
        };
        self.lower_admits() == self.upper_admits() && (told.is_none() || least == most)
    }

    /// Whether the answer would be another one if the count at `position` had one unit more used
    /// since its oldest doubt.
    fn would_differ(&self, position: usize) -> bool {
        let Some(judged) = self.judged.get(position) else { return false };
        let Some((probe_admits, probe_left)) = judged.probe else { return false };
        if !self.is_decided() {
            return false;
        }
        let others = || {
            let others = self.judged.iter().enumerate().filter(|(other, _)| *other != position);
            others.map(|(_, judged)| judged)
        };
        let admits = others().all(|one| one.lower_admits) && probe_admits;
        let left = others().map(|one| one.left[1]).min().unwrap_or(u64::MAX).min(probe_left);
        let told = match self.planned.call.outcome {
            CallOutcome::Allowed { remaining } | CallOutcome::Denied { remaining, .. } => remaining,
            _ => None,
        };
        admits != self.lower_admits() || (told.is_some() && left != self.left()[1])
    }
}
