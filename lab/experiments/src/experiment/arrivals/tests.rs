//! Requests come when their arrivals say, and clients are as busy as theirs.

use super::*;

const SECOND: u64 = 1_000_000;

fn workload(arrivals: Arrivals) -> Workload {
    Workload {
        name: "w".to_owned(),
        clients: 4,
        arrivals,
        from_us: 2 * SECOND,
        until_us: 62 * SECOND,
        retry: Retry::Never,
        zipf: None,
    }
}

fn all(workload: &Workload, seed: u64) -> Vec<(u64, u32)> {
    let mut source = RequestSource::new(workload, 10, seed, crate::experiment::START_US).unwrap();
    let mut all = Vec::new();
    while let Some(next) = source.next().unwrap() {
        assert_eq!(next.cost, 1);
        all.push((next.at_us, next.client));
    }
    assert!(all.is_sorted_by_key(|(at, _)| *at), "in order");
    let within = workload.from_us..workload.until_us;
    assert!(all.iter().all(|(at, _)| within.contains(at)));
    all
}

#[test]
fn steady_ones_come_evenly_and_in_turn() {
    let all = all(&workload(Arrivals::Steady(Rate::new(3, SECOND))), 1);
    assert_eq!(all.len(), 180);
    assert_eq!(&all[..3], [(2_000_000, 10), (2_333_333, 11), (2_666_666, 12)]);
    assert_eq!((all[3], all[4].1), ((3_000_000, 13), 10));
}

#[test]
fn a_poisson_process_has_its_mean_and_its_spread() {
    let poisson = workload(Arrivals::Poisson(Rate::new(1_000, SECOND)));
    let all = all(&poisson, 5);
    // 60,000 on average, with a standard deviation of 245.
    assert!((59_000..61_000).contains(&all.len()), "{}", all.len());
    let mut per_second = [0_i64; 60];
    for (at, _) in &all {
        per_second[usize::try_from(at / SECOND - 2).unwrap()] += 1;
    }
    // The variance is the mean; with 60 seconds it is seen to within a half.
    let variance = per_second.iter().map(|n| (n - 1_000).pow(2)).sum::<i64>() / 60;
    assert!((500..1_500).contains(&variance), "{variance}");
}

#[test]
fn the_same_seed_gives_the_same_and_another_other_requests() {
    for arrivals in [
        Arrivals::Poisson(Rate::new(10, SECOND)),
        Arrivals::Diurnal { rate: Rate::new(10, SECOND), day_us: 30 * SECOND },
        Arrivals::Gang { each: 2, within_us: SECOND, every_us: Some(SECOND), is_new: true },
    ] {
        let workload = workload(arrivals);
        assert_eq!(all(&workload, 7), all(&workload, 7));
        assert_ne!(all(&workload, 7), all(&workload, 8));
    }
}

#[test]
fn the_first_of_a_reproducible_sequence_stays_what_it_is() {
    let poisson = workload(Arrivals::Poisson(Rate::new(10, SECOND)));
    let first: Vec<u64> = all(&poisson, 1).iter().take(4).map(|(at, _)| *at).collect();
    assert_eq!(first, [2_056_816, 2_086_149, 2_089_091, 2_170_203]);
}

#[test]
fn a_loop_asks_so_often_and_at_its_own_pace() {
    let all = all(&workload(Arrivals::Loop { count: 101, every_us: 10_000 }), 1);
    assert_eq!((all.len(), all[0], all[5].1), (101, (2_000_000, 10), 11));
    assert!(all.windows(2).all(|two| (5_000..=15_000).contains(&(two[1].0 - two[0].0))));
    assert!((2_950_000..3_050_000).contains(&all[100].0), "{:?}", all[100]);
}

#[test]
fn bursts_and_edges_come_when_they_are_said_to() {
    let bursts = all(&workload(Arrivals::Bursts { size: 3, every_us: 30 * SECOND }), 1);
    let times: Vec<u64> = bursts.iter().map(|(at, _)| at / SECOND).collect();
    assert_eq!(times, [2, 2, 2, 32, 32, 32]);
    // The start is on the edge of every window of 10 s.
    let edges = all(
        &workload(Arrivals::Edge { window_us: 10 * SECOND, size: 2, before_us: BEFORE_EDGE_US }),
        1,
    );
    let times: Vec<u64> = edges.iter().map(|(at, _)| *at).take(5).collect();
    assert_eq!(times, [9_999_000, 9_999_500, 10_000_000, 10_000_000, 19_999_000]);
    assert_eq!(edges.len(), 4 * 6);
}

#[test]
fn a_gang_arrives_together_and_the_next_may_be_of_others() {
    let gang = |every_us, is_new| {
        workload(Arrivals::Gang { each: 2, within_us: SECOND, every_us, is_new })
    };
    let one = gang(None, true);
    assert_eq!((all(&one, 1).len(), one.all_clients()), (8, 4));
    assert!(all(&one, 1).iter().all(|(at, _)| at / SECOND == 2));
    let several = gang(Some(20 * SECOND), true);
    let clients: std::collections::BTreeSet<u32> =
        all(&several, 1).iter().map(|(_, client)| *client).collect();
    assert_eq!((clients.len(), several.all_clients()), (12, 12));
    assert_eq!(clients.first().zip(clients.last()), Some((&10, &21)));
    assert_eq!(gang(Some(20 * SECOND), false).all_clients(), 4);
}

#[test]
fn how_many_there_will_be_is_told_before_within_a_tenth() {
    let rate = Rate::new(100, SECOND);
    for arrivals in [
        Arrivals::Steady(rate),
        Arrivals::Poisson(rate),
        Arrivals::Diurnal { rate, day_us: 60 * SECOND },
        Arrivals::Bursts { size: 300, every_us: 7 * SECOND },
        Arrivals::Loop { count: 500, every_us: 100_000 },
        Arrivals::Loop { count: 5_000, every_us: 100_000 },
        Arrivals::Gang { each: 40, within_us: SECOND, every_us: Some(SECOND), is_new: false },
        Arrivals::Gang { each: 40, within_us: SECOND, every_us: None, is_new: true },
        Arrivals::Edge { window_us: 10 * SECOND, size: 300, before_us: BEFORE_EDGE_US },
    ] {
        let workload = workload(arrivals);
        let (told, made) = (workload.requests(), all(&workload, 4).len() as u64);
        assert!(told.abs_diff(made) * 10 <= made, "{:?}: {told}, {made}", workload.arrivals);
    }
}

#[test]
fn a_day_has_its_night_and_its_noon() {
    let day_us = 60 * SECOND;
    let all = all(&workload(Arrivals::Diurnal { rate: Rate::new(100, SECOND), day_us }), 3);
    assert!((5_700..6_300).contains(&all.len()), "{}", all.len());
    let in_sixth = |n: u64| {
        let sixth = (2 + 10 * n) * SECOND..(12 + 10 * n) * SECOND;
        all.iter().filter(|(at, _)| sixth.contains(at)).count()
    };
    assert!(in_sixth(0) < 250 && in_sixth(5) < 250, "at night");
    assert!(in_sixth(2) > 1_600 && in_sixth(3) > 1_600, "at noon");
}

#[test]
fn the_busiest_client_asks_as_zipf_says() {
    let mut zipf = workload(Arrivals::Poisson(Rate::new(1_000, SECOND)));
    zipf.zipf = Some(1.0);
    let mut counts = [0_u32; 4];
    for (_, client) in all(&zipf, 1) {
        counts[client as usize - 10] += 1;
    }
    // 60,000 by 1, 1/2, 1/3, 1/4.
    for (count, expected) in counts.into_iter().zip([28_800, 14_400, 9_600, 7_200]) {
        assert!(count.abs_diff(expected) < 600, "{counts:?}");
    }
}
