//! Refunds beside the skew, in parts, after resets, and with marks that are not numbers.

use tollgate::engine::Mode;
use tollgate_redis::Keys;

use super::{LIMITS, NOW_US, place, set};
use crate::lua::fake::{Fake, Stored};
use crate::lua::histories::{Difference, Pair, Texts};
use crate::lua::model::Charge;

/// A refund at the edge of the skew, and one microsecond beyond it.
pub(super) fn skewed(texts: &Texts) -> Result<(), Difference> {
    for limits in LIMITS.map(set) {
        for back_us in [0, 1, 999_999, 1_000_000, 1_000_001, 1_000_002] {
            let mut pair = Pair::new(texts.clone());
            pair.fake = Fake::new().bounded();
            let asked = [("somebody".to_owned(), limits.clone())];
            for cost in [1, 2] {
                pair.check(&asked, cost, Mode::Whole, NOW_US)?;
            }
            let parts = vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])];
            let charge = Charge { number: 1, at_us: NOW_US, cost: 2.into(), parts };
            pair.refund(&charge, charge.cost.clone(), NOW_US - back_us)?;
            pair.check(&asked, 1, Mode::Peek, NOW_US - back_us)?;
        }
    }
    Ok(())
}

/// Parts of a charge, while others count and time passes, until nothing is left.
pub(super) fn in_parts(texts: &Texts) -> Result<(), Difference> {
    for limits in LIMITS.map(set) {
        for parts in [[1, 1, 1, 1], [2, 1, 3, 1], [3, 1, 1, 1], [1, 2, 2, 3]] {
            for step_us in [0, 1, 2_857_143, 8_571_428, 9_000_000, 20_000_000] {
                let mut pair = Pair::new(texts.clone());
                pair.fake = Fake::new().bounded();
                let asked = [("somebody".to_owned(), limits.clone())];
                pair.check(&asked, 3, Mode::Whole, NOW_US)?;
                let own = vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])];
                let charge = Charge { number: 1, at_us: NOW_US, cost: 3.into(), parts: own };
                for (i, units) in (1..).zip(parts) {
                    pair.refund(&charge, units, NOW_US + i * step_us)?;
                    pair.check(&asked, 1, Mode::Peek, NOW_US + i * step_us)?;
                    pair.check(&asked, 1, Mode::Whole, NOW_US + i * step_us)?;
                }
            }
        }
    }
    Ok(())
}

/// A mark without a number is one of before, or damaged: nothing is given back.
pub(super) fn marks(texts: &Texts) -> Result<(), Difference> {
    for limits in LIMITS.map(set) {
        for mark in ["", "x", "-1", "1.5", "1e0", "0x1", " 1", "nan", "inf", "99999999999999999999"]
        {
            let mut pair = Pair::new(texts.clone());
            pair.fake = Fake::new().bounded();
            let asked = [("somebody".to_owned(), limits.clone())];
            pair.check(&asked, 3, Mode::Whole, NOW_US)?;
            let parts = vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])];
            let charge = Charge { number: 1, at_us: NOW_US, cost: 3.into(), parts };
            pair.fake.put(&Keys::mark(&place(&limits).state, 1), Stored::Text(mark.into()));
            pair.model.given_back(1, 3.into());
            pair.refund(&charge, 1, NOW_US + 1)?;
        }
    }
    Ok(())
}

/// A reset after the charge, by its number or by its time, where only one of them shows it.
pub(super) fn forgotten(texts: &Texts) -> Result<(), Difference> {
    const FAR: u64 = 1 << 40;
    for limits in LIMITS.map(set) {
        for (number, reset) in [
            (FAR + 9, FAR + 10),
            (FAR + 10, FAR + 9),
            (FAR + 9, FAR + FAR + 8),
            (FAR + 9, FAR + FAR + 9),
            (FAR + FAR + 8, FAR + 9),
            (FAR + FAR + 9, FAR + 9),
        ] {
            for reset_us in [NOW_US - 1, NOW_US, NOW_US + 1] {
                let mut pair = Pair::new(texts.clone());
                pair.fake = Fake::new().bounded();
                let asked = [("somebody".to_owned(), limits.clone())];
                pair.nonce = number - 1;
                pair.check(&asked, 2, Mode::Whole, NOW_US)?;
                pair.nonce = reset - 1;
                pair.reset("somebody", &limits, reset_us)?;
                pair.check(&asked, 2, Mode::Whole, NOW_US)?;
                let parts = vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])];
                let charge = Charge { number, at_us: NOW_US, cost: 2.into(), parts };
                pair.refund(&charge, charge.cost.clone(), NOW_US + 2)?;
            }
        }
    }
    Ok(())
}

/// The newest count lies within the skew ahead: without it the window is that of now, which holds
/// what had left the other one.
pub(super) fn uncovered(texts: &Texts) -> Result<(), Difference> {
    let mut pair = Pair::new(texts.clone());
    let limits = set("x: 9/4s precision 1s rounding truncate via sliding_window");
    let asked = [("somebody".to_owned(), limits.clone())];
    pair.check(&asked, 3, Mode::Whole, 10_000_000)?;
    pair.check(&asked, 1, Mode::Whole, 14_000_000)?;
    let parts = vec![("somebody".to_owned(), limits, vec![14_000_000])];
    let charge = Charge { number: 2, at_us: 14_000_000, cost: 1.into(), parts };
    pair.refund(&charge, charge.cost.clone(), 13_500_000)?;
    Ok(())
}
