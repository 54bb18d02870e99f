//! Cases: every user of the store reads a posted notice until its end.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use core::time::Duration;
use std::collections::BTreeMap;

use tollgate::operation::{Post, ReadNotices, Withdraw};
use tollgate::{ManualClock, Notice, Notices, Store, Time};

use super::StoreMaker;
use super::world::block_on;
use crate::Random;

const NOW_US: u64 = 100_000_000;

fn notice(name: &str, text: &str, left_us: u64) -> Notice {
    Notice::new(name, text, Duration::from_micros(left_us)).unwrap()
}

fn pick<T: Copy, const N: usize>(random: &mut Random, all: [T; N]) -> T {
    all[usize::try_from(random.below(N as u64)).unwrap()]
}

/// Random histories beside a map.
pub(super) fn notices_are_kept_until_their_end<M: StoreMaker>(maker: &M) {
    for seed in 0..20 {
        let clock = ManualClock::at_micros(NOW_US);
        let store = maker.make(clock.clone());
        let read = |seen| block_on(store.perform(&ReadNotices::new(seen))).unwrap();
        let first = read(None).unwrap();
        assert_eq!((first.version, first.all.len()), (0, 0));
        assert_eq!(read(Some(0)), None);
        block_on(store.perform(&Post::new(&notice("first", "", 1_000)))).unwrap();
        assert!(block_on(store.perform(&Withdraw::new("first"))).unwrap());
        let mut version = read(None).unwrap().version;
        let (mut random, mut now_us) = (Random::new(seed), NOW_US);
        let mut expected: BTreeMap<String, (String, u64)> = BTreeMap::new();
        for step in 0..60 {
            let name = pick(&mut random, ["ann", "b\u{e9}a \0\"", "c:d", "%41", "10.0.0.0/8"]);
            let is_there = |expected: &BTreeMap<String, (String, u64)>| {
                expected.get(name).is_some_and(|(_, until_us)| *until_us > now_us)
            };
            let changed = match random.below(5) {
                0 => {
                    now_us += pick(&mut random, [1, 999, 1_000, 2_500_000]);
                    clock.set(Time::from_micros(now_us));
                    false
                }
                1 => {
                    let was_there = is_there(&expected);
                    let withdrawn = block_on(store.perform(&Withdraw::new(name))).unwrap();
                    assert_eq!(withdrawn, was_there, "step {step}");
                    // One that has ended may lie there still, and be removed.
                    expected.remove(name);
                    was_there
                }
                kind => {
                    let (yields, was_there) = (kind == 2, is_there(&expected));
                    let left_us =
                        pick(&mut random, [1_000, 1_500, 2_000_000, 366 * 86_400_000_000]);
                    let text = format!("{{\"step\":{step}}}\n\0:\u{1f980}");
                    let posted = notice(name, &text, left_us);
                    let posted = if yields { posted.yielding() } else { posted };
                    block_on(store.perform(&Post::new(&posted))).unwrap();
                    if !(yields && was_there) {
                        expected.insert(name.to_owned(), (text, now_us + left_us));
                    }
                    !(yields && was_there)
                }
            };
            if changed {
                let next = read(Some(version)).map(|notices| notices.version);
                assert!(next.is_some_and(|next| next != version), "step {step}: a change is seen");
            }
            let now = expected.iter().filter(|(_, (_, until_us))| *until_us > now_us);
            let now: Vec<Notice> = now
                .map(|(name, (text, until_us))| {
                    let mut notice = notice(name, text, 1_000);
                    notice.left = Duration::from_micros(until_us - now_us);
                    notice
                })
                .collect();
            let all = read(None).unwrap();
            version = all.version;
            assert_eq!(all, Notices::new(version, now), "seed {seed}, step {step}");
            assert_eq!(read(Some(version)), None, "seed {seed}, step {step}");
        }
    }
}
