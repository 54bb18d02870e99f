//! Which subjects ask most, and which are denied most: a bounded count over the last one to two
//! minutes.
//!
//! Each decision of a limit is counted for the subject of the binding limit and for the policy. A
//! shadow policy is not counted. Two minutes are kept: the current one and the one before, in
//! shards that threads seldom share.

mod space_saving;

use core::fmt;
use core::hash::BuildHasher as _;
use core::time::Duration;
use std::collections::BTreeSet;
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;

use crate::denials::SubjectForm;
use space_saving::{Estimate, SpaceSaving};

/// How long counts are collected before they are those of the last minute.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// The number of shards, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// The counters of a shard in a minute: as many for who asks as for who is denied. All shards
/// together have 2,048 of each, of some 130 bytes and a name.
const COUNTERS: usize = 128;

/// The most bytes of a subject that are kept. Longer ones are cut, so that the memory of all
/// counters stays below 10 MiB.
const MAX_SUBJECT_BYTES: usize = 1_024;

/// By what subjects are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    /// How many of its requests were decided.
    Asked,
    /// How many of its requests were denied.
    Denied,
}

/// The busiest or the most denied subjects.
#[derive(Debug, Serialize)]
pub(crate) struct Busiest {
    by: By,
    /// The time of the counts, in milliseconds up to now.
    span_ms: u64,
    /// The counts of all subjects together.
    observed: u64,
    /// The most that any subject has that is not listed.
    others_at_most: u64,
    subjects: Vec<OneSubject>,
}

#[derive(Debug, Serialize)]
struct OneSubject {
    subject: String,
    /// `None` for inline limits, and for rules of Envoy's service.
    policy: Option<String>,
    /// The most that the count can be.
    count: u64,
    /// By how much that may be too high.
    error: u64,
}

/// A subject that was looked up, as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Found {
    subject: String,
    /// `None` for inline limits, and for rules of Envoy's service.
    policy: Option<String>,
}

/// The counts of subjects.
pub(crate) struct Top {
    /// How subjects are shown.
    form: SubjectForm,
    hash: foldhash::fast::RandomState,
    times: Mutex<Times>,
    shards: [Mutex<Shard>; SHARDS],
}

impl fmt::Debug for Top {
    /// Without subjects, which are personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Top").field("form", &self.form).finish_non_exhaustive()
    }
}

/// When the minutes began. Locked while the minutes change, and while they are read.
#[derive(Debug)]
struct Times {
    last: Instant,
    current: Instant,
}

#[derive(Debug)]
struct Shard {
    current: Minute,
    last: Minute,
}

#[derive(Debug)]
struct Minute {
    asked: SpaceSaving<Name>,
    denied: SpaceSaving<Name>,
}

/// The policy, empty for none, and the subject.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Name {
    policy: String,
    subject: String,
}

/// A subject with its estimate over both minutes.
type Row<N> = (Estimate, N);

impl Top {
    /// Begins to count at `now`.
    pub(crate) fn new(form: SubjectForm, now: Instant) -> Self {
        Self::with_counters(COUNTERS, form, now)
    }

    fn with_counters(counters: usize, form: SubjectForm, now: Instant) -> Self {
        let minute =
            || Minute { asked: SpaceSaving::new(counters), denied: SpaceSaving::new(counters) };
        let shard = |_| Mutex::new(Shard { current: minute(), last: minute() });
        Self {
            form,
            hash: foldhash::fast::RandomState::default(),
            times: Mutex::new(Times { last: now, current: now }),
            shards: core::array::from_fn(shard),
        }
    }

    /// Counts one decision for this subject.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the high half
    pub(crate) fn add(&self, policy: Option<&str>, subject: &str, is_denied: bool) {
        let policy = policy.unwrap_or_default();
        let key = self.hash.hash_one((policy, subject));
        let Some(shard) = self.shards.get((key >> 32) as usize % SHARDS) else { return };
        let Minute { asked, denied } = &mut shard.lock().current;
        asked.add(key, |name| name.write(policy, subject));
        if is_denied {
            denied.add(key, |name| name.write(policy, subject));
        }
    }

    /// Begins a minute at `now`. The current one becomes the last one, and the one before that is
    /// forgotten.
    pub(crate) fn rotate(&self, now: Instant) {
        let mut times = self.times.lock();
        *times = Times { last: times.current, current: now };
        for shard in &self.shards {
            let Shard { current, last } = &mut *shard.lock();
            core::mem::swap(current, last);
            current.asked.clear();
            current.denied.clear();
        }
    }

    /// The `most` first subjects at `now`, in the order of the minimum of their counts.
    pub(crate) fn busiest(&self, by: By, most: usize, now: Instant) -> Busiest {
        let times = self.times.lock();
        let (mut rows, mut observed, mut others) = (Vec::new(), 0, 0);
        for shard in &self.shards {
            let Shard { current, last } = &*shard.lock();
            let (current, last) = (current.by(by), last.by(by));
            observed += current.observed() + last.observed();
            others = others.max(current.floor() + last.floor());
            let mut own = merged(current, last);
            others = others.max(cut(&mut own, most));
            // Only these are copied while others wait.
            rows.extend(own.into_iter().map(|(estimate, name)| (estimate, name.clone())));
        }
        let span = now.saturating_duration_since(times.last);
        drop(times);
        others = others.max(cut(&mut rows, most));
        let subjects = rows.into_iter().map(|(Estimate { count, error }, name)| OneSubject {
            subject: self.form.written(&name.subject),
            policy: (!name.policy.is_empty()).then_some(name.policy),
            count,
            error,
        });
        Busiest {
            by,
            span_ms: u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
            observed,
            others_at_most: others,
            subjects: subjects.collect(),
        }
    }

    /// The subjects that are counted now and written so, with the policies that count them, in
    /// order: the keys behind a hash.
    pub(crate) fn find(&self, written: &str) -> Vec<Found> {
        let times = self.times.lock();
        let mut found = BTreeSet::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let minutes = [&shard.current, &shard.last];
            let counted = minutes.into_iter().flat_map(|Minute { asked, denied }| [asked, denied]);
            let names = counted.flat_map(SpaceSaving::iter).map(|(.., name)| name);
            let names: BTreeSet<Name> = names.cloned().collect();
            // Hashed while others count.
            drop(shard);
            found.extend(
                names.into_iter().filter(|name| self.form.written(&name.subject) == written),
            );
        }
        drop(times);
        let found = found.into_iter().map(|Name { policy, subject }| Found {
            subject,
            policy: (!policy.is_empty()).then_some(policy),
        });
        found.collect()
    }

    /// Whether subjects are shown as hashes.
    pub(crate) fn is_hashed(&self) -> bool {
        self.form.is_hashed()
    }
}

impl Minute {
    fn by(&self, by: By) -> &SpaceSaving<Name> {
        match by {
            By::Asked => &self.asked,
            By::Denied => &self.denied,
        }
    }
}

impl Name {
    /// Writes over another name, in the memory of that.
    fn write(&mut self, policy: &str, subject: &str) {
        let end = (0..=MAX_SUBJECT_BYTES.min(subject.len())).rev();
        let end = end.into_iter().find(|end| subject.is_char_boundary(*end)).unwrap_or(0);
        let subject = subject.get(..end).unwrap_or_default();
        for (old, new) in [(&mut self.policy, policy), (&mut self.subject, subject)] {
            old.clear();
            // Not more, so that the bound on the memory holds.
            old.reserve_exact(new.len());
            old.push_str(new);
        }
    }
}

/// The estimates over both minutes. A minute without a counter for a subject may have had one that
/// another subject took over (Agarwal et al., *Mergeable Summaries*, PODS 2012).
fn merged<'n>(current: &'n SpaceSaving<Name>, last: &'n SpaceSaving<Name>) -> Vec<Row<&'n Name>> {
    let in_current = current.iter().map(|(key, own, name)| (own.and(last.estimate(key)), name));
    let only_in_last = last.iter().filter(|(key, ..)| !current.has(*key));
    let only_in_last = only_in_last.map(|(key, own, name)| (own.and(current.estimate(key)), name));
    in_current.chain(only_in_last).collect()
}

/// Keeps the first `most` subjects; the result is the largest count of the others.
fn cut<N: Ord>(rows: &mut Vec<Row<N>>, most: usize) -> u64 {
    rows.sort_unstable_by(|(one, name), (other, other_name)| {
        let order = |estimate: &Estimate| (estimate.at_least(), estimate.count);
        order(other).cmp(&order(one)).then_with(|| name.cmp(other_name))
    });
    let others = rows.drain(most.min(rows.len())..).map(|(estimate, _)| estimate.count);
    others.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::denials::Subjects;

    const POLICIES: [Option<&str>; 3] = [None, Some("login"), Some("pages")];

    fn plain() -> SubjectForm {
        SubjectForm::new(Subjects::Plain, None).unwrap()
    }

    fn name(subject: u16) -> String {
        format!("user:{subject}")
    }

    /// A policy, a subject, and whether it is denied.
    type Decided = (usize, u16, bool);

    fn minute() -> impl Strategy<Value = Vec<Decided>> {
        let subject = prop_oneof![2 => 0..3_u16, 1 => 0..40_u16, 1 => 0..200_u16];
        prop::collection::vec((0..POLICIES.len(), subject, any::<bool>()), 0..400)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Three minutes; the first is forgotten.
        #[test]
        fn all_is_within_what_is_stated(
            minutes in prop::collection::vec(minute(), 3),
            counters in 1..6_usize,
            most in 1..100_usize,
        ) {
            let began = Instant::now();
            let top = Top::with_counters(counters, plain(), began);
            for (minute, number) in minutes.iter().zip(0..) {
                if number > 0 {
                    top.rotate(began + number * MINUTE);
                }
                for (policy, subject, is_denied) in minute {
                    top.add(POLICIES[*policy], &name(*subject), *is_denied);
                }
            }
            let now = began + 2 * MINUTE + Duration::from_millis(7_250);
            for by in [By::Asked, By::Denied] {
                let decided = minutes[1..].iter().flatten();
                let counted = decided.filter(|(.., is_denied)| by == By::Asked || *is_denied);
                let mut exact = BTreeMap::new();
                for (policy, subject, _) in counted {
                    *exact.entry((POLICIES[*policy], name(*subject))).or_default() += 1_u64;
                }
                let busiest = top.busiest(by, most, now);
                prop_assert_eq!(busiest.by, by);
                prop_assert_eq!(busiest.span_ms, 67_250);
                prop_assert_eq!(busiest.observed, exact.values().sum::<u64>());
                prop_assert!(busiest.subjects.len() <= most);
                let mut before = u64::MAX;
                for OneSubject { subject, policy, count, error } in &busiest.subjects {
                    let own = exact.remove(&(policy.as_deref(), subject.clone()));
                    let (own, least) = (own.unwrap_or(0), count - error);
                    prop_assert!(least <= own && own <= *count, "{own}: {busiest:?}");
                    prop_assert!(least <= before);
                    before = least;
                }
                let others = exact.into_values().max().unwrap_or(0);
                prop_assert!(others <= busiest.others_at_most, "{others}: {busiest:?}");
            }
        }
    }

    #[test]
    fn few_subjects_are_counted_exactly() {
        let began = Instant::now();
        let top = Top::new(plain(), began);
        for subject in 0..100_u16 {
            for _ in 0..=subject {
                top.add(Some("login"), &name(subject), subject >= 90);
            }
        }
        let listed = |by, most, now| {
            let Busiest { span_ms, observed, others_at_most, subjects, .. } =
                top.busiest(by, most, now);
            assert!(subjects.iter().all(|one| one.error == 0), "{subjects:?}");
            let subjects = subjects.into_iter().map(|one| (one.subject, one.count));
            (span_ms, observed, others_at_most, subjects.collect::<Vec<_>>())
        };
        let first = vec![("user:99".to_owned(), 100), ("user:98".to_owned(), 99)];
        assert_eq!(listed(By::Asked, 2, began), (0, 5_050, 98, first.clone()));
        assert_eq!(listed(By::Denied, 2, began), (0, 955, 98, first.clone()));
        top.rotate(began + MINUTE);
        let later = began + 2 * MINUTE;
        assert_eq!(listed(By::Denied, 2, later), (120_000, 955, 98, first));
        top.rotate(later);
        assert_eq!(listed(By::Denied, 2, later), (60_000, 0, 0, Vec::new()));
        top.add(None, "user:ann", true);
        assert!(!format!("{top:?}").contains("ann"), "personal data");
    }

    #[test]
    fn a_flood_of_subjects_hides_nobody_who_asks_more_than_its_share() {
        let now = Instant::now();
        let top = Top::new(plain(), now);
        for number in 0..100_000_u32 {
            top.add(None, &format!("ip:{number}"), true);
            if number % 100 == 0 {
                top.add(Some("login"), "user:ann", true);
            }
        }
        let busiest = top.busiest(By::Denied, 3, now);
        let Some(OneSubject { subject, policy, count, error }) = busiest.subjects.first() else {
            panic!("nobody is listed");
        };
        assert_eq!((subject.as_str(), policy.as_deref()), ("user:ann", Some("login")));
        assert!(count - error <= 1_000 && 1_000 <= *count, "{busiest:?}");
        // A shard has a 16th of them, and 128 counters.
        assert!(busiest.others_at_most < 100, "{busiest:?}");
    }

    #[test]
    fn the_memory_is_bounded() {
        let now = Instant::now();
        let top = Top::new(plain(), now);
        let (policy, long) = ("p".repeat(64), "x".repeat(2 * MAX_SUBJECT_BYTES));
        for minute in 0..3 {
            top.rotate(now);
            for number in 0..20_000 {
                top.add(Some(&policy), &format!("user:{minute}-{number}-{long}"), true);
            }
        }
        let of_name = |name: &Name| name.policy.capacity() + name.subject.capacity();
        let minute = |minute: &Minute| minute.asked.bytes(of_name) + minute.denied.bytes(of_name);
        let shards = top.shards.iter().map(|shard| {
            let shard = shard.lock();
            minute(&shard.current) + minute(&shard.last)
        });
        let bytes: usize = shards.sum();
        assert!((8 << 20..10 << 20).contains(&bytes), "{bytes}");
        let shown = top.busiest(By::Asked, 1, now);
        assert_eq!(shown.subjects[0].subject.len(), MAX_SUBJECT_BYTES);
    }

    #[test]
    fn who_is_behind_a_hash_is_found_while_it_is_counted() {
        let now = Instant::now();
        let form = SubjectForm::new(Subjects::Hashed, Some(b"key")).unwrap();
        let top = Top::new(form.clone(), now);
        top.add(Some("login"), "ip:192.0.2.7", false);
        top.add(None, "ip:192.0.2.7", true);
        top.add(None, "ip:192.0.2.8", true);
        let subject = "ip:192.0.2.7".to_owned();
        let found = [None, Some("login".to_owned())]
            .map(|policy| Found { subject: subject.clone(), policy });
        let hash = form.written(&subject);
        assert_eq!(top.find(&hash), found);
        assert_eq!(top.find(&subject), [], "the hash is asked for");
        top.rotate(now);
        assert_eq!(top.find(&hash), found);
        top.rotate(now);
        assert_eq!(top.find(&hash), []);
    }

    #[test]
    fn a_subject_is_cut_between_characters() {
        let mut name = Name::default();
        name.write("", &format!("{}é", "x".repeat(MAX_SUBJECT_BYTES - 1)));
        assert_eq!(name.subject, "x".repeat(MAX_SUBJECT_BYTES - 1));
        name.write("p", "user:1");
        assert_eq!((name.policy.as_str(), name.subject.as_str()), ("p", "user:1"));
    }
}
