//! The answer to a request: the status of each descriptor, and their status together.

use core::time::Duration;
use std::time::SystemTime;

use prost_types::Duration as Seconds;
use tollgate::{Decision, Report};
use tollgate_envoy::proto::service::RateLimitResponse;
use tollgate_envoy::proto::service::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use tollgate_envoy::{OnFailure, Rule, Unit};
use tollgate_policy::Answer;
use tonic::Status;

use super::decide::Asked;
use super::plan::{How, Planned};
use super::question::Hits;
use crate::metrics::Reached;

/// The outcome of one descriptor.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) status: DescriptorStatus,
    /// Whether it counts among those that deny only together.
    pub(super) is_quota: bool,
    /// Whether it never denies, so that no client hears of it.
    pub(super) is_shadow: bool,
    /// Whether no waiting helps: it is banned, or its hits are above the capacity.
    pub(super) is_never: bool,
    /// How far its hits reached, if the limit of its rule decided.
    pub(super) reached: Option<Reached>,
    /// The place of the answer that it is in.
    pub(super) asked: Option<usize>,
}

impl Judged {
    pub(super) fn is_over(&self) -> bool {
        self.status.code == i32::from(Code::OverLimit)
    }

    /// Whether the headers of an admitted request list its limit.
    pub(super) fn is_told(&self) -> bool {
        self.asked.is_some() && !self.is_shadow && !self.is_quota
    }
}

/// Judges each descriptor.
///
/// # Errors
/// The store did not answer, and this is an error by the rules of the domain.
pub(super) fn judge(
    planned: &[Planned<'_>],
    asked: &[Asked],
    on_failure: OnFailure,
) -> Result<Vec<Judged>, Status> {
    let failed = asked.iter().find(|asked| asked.answer.decision().is_none());
    if let Some(failed) = failed.filter(|_| on_failure == OnFailure::Error) {
        let why = failed.answer.error().map_or(String::new(), |error| format!(": {error}"));
        return Err(Status::unavailable(format!("the store cannot answer{why}")));
    }
    let mut judged: Vec<_> = planned.iter().map(unasked).collect();
    for (number, asked) in asked.iter().enumerate() {
        for (part, place) in asked.places.iter().enumerate() {
            let Some((judged, planned)) = judged.get_mut(*place).zip(planned.get(*place)) else {
                continue;
            };
            judged.asked = Some(number);
            fill(judged, planned, &asked.answer, part);
        }
    }
    Ok(judged)
}

/// A descriptor before the store was asked, which stays so where it is not.
fn unasked(planned: &Planned<'_>) -> Judged {
    let is_banned = planned.is_banned();
    let unlimited = matches!(planned.how, How::Unlimited);
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let reset = planned.reported.as_ref().and(planned.window);
    Judged {
        status: DescriptorStatus {
            code: code(is_banned, planned.rule),
            current_limit: planned.reported.clone(),
            limit_remaining: if unlimited { u32::MAX } else { 0 },
            duration_until_reset: reset.map(|unit| seconds(window_rest(unit, now().as_secs()))),
        },
        is_quota: planned.rule.is_some_and(Rule::is_quota),
        is_shadow: planned.rule.is_some_and(Rule::is_shadow),
        is_never: is_banned,
        reached: is_banned.then_some(Reached::Over),
        asked: None,
    }
}

fn code(is_over: bool, rule: Option<&Rule>) -> i32 {
    let is_shadow = rule.is_some_and(Rule::is_shadow);
    i32::from(if is_over && !is_shadow { Code::OverLimit } else { Code::Ok })
}

/// The seconds until the window of `now` ends.
fn window_rest(unit: Unit, now: u64) -> u64 {
    unit.seconds() - now % unit.seconds()
}

fn seconds(seconds: u64) -> Seconds {
    Seconds { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

/// Whole seconds, rounded up.
fn rounded_up(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Writes down what the store said about one of its parts.
fn fill(judged: &mut Judged, planned: &Planned<'_>, answer: &Answer<'_>, part: usize) {
    let status = &mut judged.status;
    let Some(decision) = answer.decision() else {
        status.code = code(!answer.is_allowed(), planned.rule);
        return;
    };
    let (mut is_over, mut remaining, mut wait) = (false, u64::MAX, Duration::ZERO);
    let mut near = 0;
    let counts = |report: &Report<'_>| report.part() == part && !report.limit().is_uncounted();
    for report in decision.reports().filter(counts) {
        is_over |= !report.admits();
        remaining = remaining.min(report.remaining());
        near = near.max(beyond_four_fifths(report.limit().capacity(), report.remaining()));
        wait = wait.max(report.reset_after());
    }
    let denying = || decision.reports().filter(|it| it.part() == part && !it.admits());
    judged.is_never = denying().any(|report| report.retry_after().is_none());
    wait = denying().map(|report| report.retry_after().unwrap_or(wait)).max().unwrap_or(wait);
    // Units that were given back are never limited.
    is_over &= !matches!(planned.hits, Hits::GiveBack(_));
    let rest = match planned.window {
        Some(unit) => window_rest(unit, decision.at().as_micros() / 1_000_000),
        None => rounded_up(wait),
    };
    status.code = code(is_over, planned.rule);
    status.limit_remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
    status.duration_until_reset = Some(seconds(rest));
    judged.reached = Some(if is_over { Reached::Over } else { Reached::Within { near } });
}

/// The part of a limit's use beyond 80 %: the ratio of the reference.
fn beyond_four_fifths(capacity: u64, remaining: u64) -> u64 {
    let used = capacity.saturating_sub(remaining);
    // A capacity is at most 2^53.
    used.saturating_sub(capacity.saturating_mul(4) / 5)
}

/// The status of a descriptor that the policies answered.
pub(super) fn by_policies(answer: &Answer<'_>, limit: Option<RateLimit>) -> DescriptorStatus {
    let decision = answer.decision();
    let wait = decision.map(|decision| match decision.is_allowed() {
        true => decision.reset_after(),
        false => decision.retry_after().unwrap_or_else(|| decision.reset_after()),
    });
    let remaining = decision.map_or(0, Decision::remaining);
    DescriptorStatus {
        code: code(!answer.is_allowed(), None),
        current_limit: limit,
        limit_remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
        duration_until_reset: wait.map(|wait| seconds(rounded_up(wait))),
    }
}

/// Whether the request is over its limits: one descriptor is, or all are that deny together.
pub(super) fn is_over(judged: &[Judged]) -> bool {
    let mut quota = judged.iter().filter(|one| one.is_quota).peekable();
    let has_quota = quota.peek().is_some();
    judged.iter().any(|one| one.is_over() && !one.is_quota)
        || has_quota && quota.all(Judged::is_over)
}

/// The descriptor that the headers are about: the last that denies, or the one with the least
/// remaining. A limit that denies for good goes first. Else the client would wait for another
/// limit, and then be denied again.
///
/// A limit that cannot deny is not one of the client's: rules in shadow mode are never told, and
/// those in quota mode only where they deny together.
pub(super) fn told_about(judged: &[Judged]) -> Option<usize> {
    let denies = |one: &Judged| one.is_over() && !one.is_quota;
    let for_good = judged.iter().rposition(|one| denies(one) && one.is_never);
    let denying = for_good.or_else(|| judged.iter().rposition(denies));
    if denying.is_some() {
        return denying;
    }
    if is_over(judged) {
        return judged.iter().rposition(Judged::is_over);
    }
    let told = judged.iter().enumerate().filter(|(_, one)| one.is_told());
    told.min_by_key(|(_, one)| one.status.limit_remaining).map(|(place, _)| place)
}

/// The answer without headers, a body and metadata.
pub(super) fn response(judged: Vec<Judged>) -> RateLimitResponse {
    let code = if is_over(&judged) { Code::OverLimit } else { Code::Ok };
    RateLimitResponse {
        overall_code: code.into(),
        statuses: judged.into_iter().map(|one| one.status).collect(),
        ..RateLimitResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(is_over: bool, is_quota: bool, remaining: u32) -> Judged {
        let status = DescriptorStatus {
            code: code(is_over, None),
            limit_remaining: remaining,
            ..DescriptorStatus::default()
        };
        Judged {
            status,
            is_quota,
            is_shadow: false,
            is_never: false,
            reached: None,
            asked: Some(0),
        }
    }

    #[test]
    fn one_denies_alone_and_those_in_quota_mode_together() {
        let (ok, over) = (one(false, false, 1), one(true, false, 0));
        let (quota_ok, quota_over) = (one(false, true, 1), one(true, true, 0));
        for (all, expected) in [
            (vec![&ok, &ok], false),
            (vec![&ok, &over], true),
            (vec![&quota_over], true),
            (vec![&quota_over, &ok], true),
            (vec![&quota_over, &quota_ok], false),
            (vec![&quota_over, &quota_over], true),
            (vec![&quota_ok, &over], true),
        ] {
            let all: Vec<_> = all.into_iter().cloned().collect();
            assert_eq!(is_over(&all), expected, "{all:?}");
        }
    }

    #[test]
    fn headers_tell_of_the_last_that_denies_or_the_least_that_remains() {
        let told = |all: &[Judged]| told_about(all);
        assert_eq!(
            told(&[one(false, false, 3), one(false, false, 1), one(false, false, 1)]),
            Some(1)
        );
        assert_eq!(
            told(&[one(true, false, 0), one(false, false, 0), one(true, false, 0)]),
            Some(2)
        );
        // A quota that is spent while another one is not, and a rule in shadow mode, deny nobody.
        assert_eq!(told(&[one(false, false, 3), one(true, true, 0), one(false, true, 1)]), Some(0));
        assert_eq!(told(&[one(false, false, 3), one(true, true, 0)]), Some(1), "they all deny");
        let shadow = Judged { is_shadow: true, ..one(false, false, 0) };
        assert_eq!(told(&[one(false, false, 3), shadow.clone()]), Some(0));
        assert_eq!(told(&[shadow]), None);
        let never = Judged { is_never: true, ..one(true, false, 0) };
        assert_eq!(told(&[never.clone(), one(true, false, 0)]), Some(0));
        let unused = Judged { is_never: true, ..one(false, false, 9) };
        assert_eq!(told(&[unused, one(true, false, 0)]), Some(1));
        let unasked = Judged { asked: None, ..one(false, false, 0) };
        assert_eq!(told(&[unasked.clone(), one(false, false, 9)]), Some(1));
        assert_eq!(told(&[unasked]), None);
    }

    #[test]
    fn what_is_beyond_four_fifths_is_near() {
        for (capacity, remaining, near) in
            [(10, 2, 0), (10, 1, 1), (10, 0, 2), (10, 11, 0), (1, 0, 1), (3, 1, 0), (3, 0, 1)]
        {
            assert_eq!(beyond_four_fifths(capacity, remaining), near, "{capacity} {remaining}");
        }
    }

    #[test]
    fn a_window_ends_in_whole_seconds() {
        assert_eq!(window_rest(Unit::Minute, 120), 60);
        assert_eq!(window_rest(Unit::Minute, 179), 1);
        assert_eq!(window_rest(Unit::Second, 5), 1);
        assert_eq!(rounded_up(Duration::from_micros(17_000_001)), 18);
        assert_eq!(rounded_up(Duration::from_secs(17)), 17);
    }
}
