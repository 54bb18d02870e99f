//! The search for a wait, and the division that it asks for so often.

use super::super::count::{floor_div, least_wait};

#[test]
fn the_least_wait_is_found_wherever_it_lies() {
    let powers = (0..64).flat_map(|i| [(1_i128 << i) - 1, 1 << i, (1 << i) + 1]);
    for least in powers.chain([3, 1_000, 86_400_000_000, 123_456_789_012_345, 1 << 64]) {
        for guess in [0, least - 1, least, least + 1, 1 << 20, i128::from(u64::MAX)] {
            let guess = u64::try_from(guess.max(0)).unwrap_or(u64::MAX);
            assert_eq!(least_wait(guess, |wait| wait >= least), least, "guess {guess}");
        }
    }
}

#[test]
fn a_division_rounds_down_at_every_width() {
    let widths = [1_i128, 7, 1 << 31, (1 << 40) + 1, i64::MAX.into(), 1 << 63, 1 << 100];
    for a in widths {
        for b in widths {
            for a in [a - 1, a, a + 1, 1 - a, -a, -a - 1] {
                assert_eq!(floor_div(a, b), a.div_euclid(b), "{a} / {b}");
            }
        }
    }
}
