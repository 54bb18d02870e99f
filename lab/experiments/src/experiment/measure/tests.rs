//! Shares, windows and bursts are measured as they are defined.

use super::*;

fn index(clients: &[(u32, u32)]) -> f64 {
    rounded(fairness(clients).unwrap())
}

#[test]
fn fairness_is_what_each_got_of_its_fair_share() {
    assert_eq!(fairness(&[]), None);
    assert_eq!(fairness(&[(5, 0), (9, 0)]), None, "nobody got anything");
    assert!((index(&[(10, 10), (10, 10)]) - 1.0).abs() < 1e-9, "all got all");
    assert!((index(&[(10, 5), (10, 5)]) - 1.0).abs() < 1e-9);
    // One of four got it all.
    assert!((index(&[(9, 8), (9, 0), (9, 0), (9, 0)]) - 0.25).abs() < 1e-9);
    // A client that wants little and gets it takes nothing from the fairness.
    assert!((index(&[(1, 1), (100, 49), (100, 49)]) - 1.0).abs() < 1e-9);
    // A greedy one that got what a polite one wanted: its fair share was 5 and it got 10.
    assert!(index(&[(100, 10), (5, 0), (0, 0)]) < 0.6);
}

#[test]
fn a_window_is_half_open() {
    let mut window = PeakWindow::new(10, Per::Resource, 0);
    for (at, most) in [(0, 1), (9, 2), (10, 2), (19, 2), (20, 2), (20, 3)] {
        window.pass(at);
        window.admit(at, 0, 1);
        assert_eq!(window.most, most, "at {at}");
    }
    let mut each = PeakWindow::new(10, Per::Client, 2);
    for (at, client) in [(0, 0), (1, 1), (2, 0), (10, 0), (12, 0)] {
        each.pass(at);
        each.admit(at, client, 1);
    }
    assert_eq!((each.most, &each.counts[..]), (2, &[2, 0][..]));
    // Units leave with the attempt that brought them.
    let mut weighed = PeakWindow::new(10, Per::Client, 2);
    for (at, client, units) in [(0, 0, 7), (1, 1, 8), (5, 0, 2), (10, 0, 6), (16, 0, 1)] {
        weighed.pass(at);
        weighed.admit(at, client, units);
    }
    assert_eq!((weighed.most, weighed.units, &weighed.counts[..]), (9, 7, &[7, 0][..]));
}

#[test]
fn use_is_of_windows_in_which_enough_was_asked_for() {
    let mut used = Utilization {
        units: 2,
        window_us: 10,
        begin_us: 1_000,
        end_us: 1_035,
        window: 0,
        attempt: 0,
        admitted: 0,
        used: 0,
        windows: 0,
    };
    // One admitted of three in a window, no more asked for than the capacity in one, more than
    // it admitted in one, and one that ends after the experiment.
    let attempt = [
        [(0, true), (5, false), (9, false)].as_slice(),
        &[(10, true), (11, false)],
        &[(20, true), (21, true), (22, true)],
        &[(30, false), (31, false), (32, false)],
    ];
    for (at, is_admitted) in attempt.concat() {
        used.count(1_000 + at, 1, is_admitted);
    }
    assert_eq!(used.share(), Some(0.75));
}

#[test]
fn burstiness_is_the_peak_over_the_mean_while_something_comes() {
    assert_eq!(burstiness(&[0, 0]), None);
    assert_eq!(burstiness(&[0, 3, 3, 3, 0]), Some(1.0));
    assert_eq!(burstiness(&[6, 0, 0]), Some(1.0));
    assert_eq!(burstiness(&[6, 0, 3]), Some(2.0));
}
