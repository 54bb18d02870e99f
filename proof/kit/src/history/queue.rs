//! P14: a queue never exceeds its bound, is first in first out, and loses no accepted job.

use std::collections::BTreeMap;

use super::record::{Bounds, Fault, FaultKind, QueueCall, QueueStep};
use super::report::Verdict;

/// The finding about one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) verdict: Verdict,
    pub(super) reason: String,
    /// Ids of the calls that show it.
    pub(super) calls: Vec<u64>,
    /// Jobs with everything decided, and all.
    pub(super) checked: u64,
    pub(super) places: u64,
}

impl Queued {
    fn broken(calls: &[&QueueCall], reason: String) -> Option<Self> {
        let calls = calls.iter().map(|call| call.id).collect();
        Some(Self { verdict: Verdict::Broken, reason, calls, checked: 1, places: 1 })
    }
}

/// The history of one job, by invocation.
#[derive(Debug, Default)]
struct Story<'h> {
    accepted: Option<&'h QueueCall>,
    refused: Option<&'h QueueCall>,
    unanswered: Option<&'h QueueCall>,
    delivered: Vec<&'h QueueCall>,
    acknowledged: Vec<&'h QueueCall>,
}

impl<'h> Story<'h> {
    /// The delivery that certainly ended first.
    fn first(&self) -> Option<&'h QueueCall> {
        self.delivered.iter().copied().min_by_key(|call| returned(call))
    }

    /// The earliest instant at which the first delivery can have begun.
    fn first_invoked(&self) -> Option<&'h QueueCall> {
        self.delivered.iter().copied().min_by_key(|call| call.invoked_us)
    }
}

fn returned(call: &QueueCall) -> u64 {
    call.returned_us.unwrap_or(u64::MAX)
}

/// Checks the calls of one queue.
pub(super) fn check(calls: &[&QueueCall], faults: &[Fault], bounds: &Bounds) -> Queued {
    let mut stories: BTreeMap<&str, Story<'_>> = BTreeMap::new();
    for &call in calls.iter().filter(|call| call.step != QueueStep::Empty) {
        let story = stories.entry(&call.job).or_default();
        match call.step {
            QueueStep::Accepted { .. } => story.accepted = Some(call),
            QueueStep::Refused => story.refused = Some(call),
            QueueStep::Unanswered => story.unanswered = Some(call),
            QueueStep::Delivered => story.delivered.push(call),
            QueueStep::Acknowledged => story.acknowledged.push(call),
            QueueStep::Empty => {}
        }
    }
    let loses = faults.iter().any(|fault| fault.lost_states > 0);
    let stepped = faults.iter().any(|fault| fault.kind == FaultKind::Failover);
    let broken = depth(calls, &stories, bounds)
        .or_else(|| refused(&stories))
        .or_else(|| first_in_first_out(&stories).filter(|_| !stepped))
        .or_else(|| again(&stories).filter(|_| !loses))
        .or_else(|| lost(calls, &stories).filter(|_| !loses));
    if let Some(broken) = broken {
        return broken;
    }
    let accepted: Vec<&Story<'_>> =
        stories.values().filter(|story| story.accepted.is_some()).collect();
    let open = accepted.iter().filter(|story| story.delivered.is_empty()).count();
    let places = u64::try_from(accepted.len()).unwrap_or(u64::MAX);
    let checked = places.saturating_sub(u64::try_from(open).unwrap_or(u64::MAX));
    let (verdict, reason) = if loses {
        (Verdict::Unknown, "a fault may have lost jobs".to_owned())
    } else if open > 0 {
        (Verdict::Unknown, format!("{open} accepted jobs were not delivered yet"))
    } else if bounds.queue_bound.is_none() {
        (Verdict::Unknown, "no bound of the queue was given".to_owned())
    } else if possible_depth(&stories) > bounds.queue_bound.unwrap_or(u64::MAX) {
        (Verdict::Unknown, "offers and deliveries overlap: the bound may be kept or not".to_owned())
    } else {
        (Verdict::Held, String::new())
    };
    Queued { verdict, reason, calls: Vec::new(), checked, places }
}

/// More wait than the bound: as an answer said, or as offers and deliveries show.
fn depth(
    calls: &[&QueueCall],
    stories: &BTreeMap<&str, Story<'_>>,
    bounds: &Bounds,
) -> Option<Queued> {
    let bound = bounds.queue_bound?;
    for call in calls {
        if let QueueStep::Accepted { depth: Some(depth) } = call.step
            && depth > bound
        {
            return Queued::broken(&[call], format!("{depth} wait; at most {bound}"));
        }
    }
    // A job certainly waits from the return of its offer to the begin of its first delivery.
    let mut ends: Vec<(u64, bool, &QueueCall)> = Vec::new();
    for story in stories.values() {
        let Some(accepted) = story.accepted else { continue };
        let until = story.first_invoked();
        if until.is_none_or(|until| until.invoked_us > returned(accepted)) {
            ends.push((returned(accepted), true, accepted));
            ends.extend(until.map(|until| (until.invoked_us, false, accepted)));
        }
    }
    ends.sort_by_key(|&(at, begins, _)| (at, begins));
    let mut waiting: BTreeMap<u64, &QueueCall> = BTreeMap::new();
    for (at, begins, call) in ends {
        if begins {
            waiting.insert(call.id, call);
        } else {
            waiting.remove(&call.id);
        }
        let count = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
        if count > bound {
            let calls: Vec<&QueueCall> = waiting.into_values().collect();
            return Queued::broken(&calls, format!("{count} wait at {at}; at most {bound}"));
        }
    }
    None
}

/// How many can have waited together.
fn possible_depth(stories: &BTreeMap<&str, Story<'_>>) -> u64 {
    let mut ends: Vec<(u64, i64)> = Vec::new();
    for story in stories.values() {
        if let Some(offer) = story.accepted.or(story.unanswered) {
            ends.push((offer.invoked_us, 1));
            ends.extend(story.first().map(|first| (returned(first), -1)));
        }
    }
    ends.sort_unstable();
    let mut waiting = 0;
    let depths = ends.into_iter().map(|(_, change)| {
        waiting += change;
        waiting
    });
    u64::try_from(depths.max().unwrap_or(0)).unwrap_or(0)
}

/// A job that was refused, and only refused, is never delivered.
fn refused(stories: &BTreeMap<&str, Story<'_>>) -> Option<Queued> {
    stories.iter().find_map(|(job, story)| {
        let (refused, delivered) = (story.refused?, story.first()?);
        if story.accepted.is_some() || story.unanswered.is_some() {
            return None;
        }
        Queued::broken(&[refused, delivered], format!("{job} was refused and delivered"))
    })
}

/// Of two jobs, when one was accepted before the other was offered, it is delivered first.
fn first_in_first_out(stories: &BTreeMap<&str, Story<'_>>) -> Option<Queued> {
    let accepted = || stories.values().filter_map(|story| Some((story, story.accepted?)));
    let mut by_return: Vec<_> = accepted().collect();
    by_return.sort_by_key(|(_, offer)| returned(offer));
    let mut by_invocation: Vec<_> = accepted().collect();
    by_invocation.sort_by_key(|(_, offer)| offer.invoked_us);
    let mut earlier = by_return.into_iter().peekable();
    // Of the jobs offered before, the one whose first delivery began last.
    let mut latest: Option<(u64, &Story<'_>, &QueueCall)> = None;
    for (story, offer) in by_invocation {
        while let Some((before, its_offer)) =
            earlier.next_if(|(_, before)| returned(before) < offer.invoked_us)
        {
            let begun = before.first_invoked().map_or(u64::MAX, |call| call.invoked_us);
            if latest.is_none_or(|(at, ..)| begun > at) {
                latest = Some((begun, before, its_offer));
            }
        }
        let (Some((begun, before, its_offer)), Some(first)) = (latest, story.first()) else {
            continue;
        };
        if returned(first) < begun {
            let mut calls = vec![its_offer, offer, first];
            calls.extend(before.first_invoked());
            let (one, two) = (&its_offer.job, &offer.job);
            let reason = format!("{one} was accepted before {two}, and {two} was delivered first");
            return Queued::broken(&calls, reason);
        }
    }
    None
}

/// An acknowledged job is not delivered again.
fn again(stories: &BTreeMap<&str, Story<'_>>) -> Option<Queued> {
    stories.iter().find_map(|(job, story)| {
        let acknowledged = story.acknowledged.iter().min_by_key(|call| returned(call))?;
        let delivered =
            story.delivered.iter().find(|call| call.invoked_us > returned(acknowledged))?;
        let reason = format!("{job} was delivered after its acknowledgement");
        Queued::broken(&[acknowledged, delivered], reason)
    })
}

/// A queue that holds nothing has delivered all it accepted before.
fn lost(calls: &[&QueueCall], stories: &BTreeMap<&str, Story<'_>>) -> Option<Queued> {
    let empty = calls.iter().filter(|call| call.step == QueueStep::Empty);
    let empty = empty.max_by_key(|call| call.invoked_us)?;
    stories.iter().find_map(|(job, story)| {
        let accepted = story.accepted?;
        let missing = story.delivered.is_empty() && returned(accepted) < empty.invoked_us;
        let reason = || format!("{job} was accepted and never delivered");
        missing.then(|| Queued::broken(&[accepted, empty], reason())).flatten()
    })
}
