//! Receipts as text, so that a receipt can leave the process and come back.

use core::fmt;
use core::str::{FromStr, Lines};

use smallvec::SmallVec;

use crate::ask::{check_cost, check_parts, check_shard};
use crate::cost::Cost;
use crate::decision::{Charges, Receipt};
use crate::error::ParseError;
use crate::limit::LimitSet;
use crate::subject::Subject;
use crate::time::Time;

/// The first line of the text: the version of the format.
const VERSION: &str = "tgr1";

/// The separator before the shard: a line that cannot be a subject, a policy or limits.
const SHARD: &str = "\n%\n";

/// Writes several lines: the version; the store, the number, the cost and the time; then for each
/// charge its subject, its policy (or an empty line), its limits and their times. A receipt with a
/// shard ends with a line `%` and the shard, unescaped.
///
/// Anyone who can write such a text can refund what was never charged. Sign a receipt before it
/// leaves your control, and verify it when it comes back.
///
/// ```
/// use tollgate::{Limiter, Receipt};
/// let limiter = Limiter::memory("5/h".parse()?);
/// let receipt = limiter.check("bob").now()?.receipt().expect("admitted");
/// assert_eq!(receipt.to_string().parse::<Receipt>()?, receipt);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, number, cost, at, charges, shard } = self;
        write!(f, "{VERSION}\n{store} {number} {cost} {}", at.as_micros())?;
        for Charges { subject, limits, at_us } in charges {
            write!(f, "\n{subject}\n{}\n{limits}\n", limits.policy().unwrap_or_default())?;
            for (place, at) in at_us.iter().enumerate() {
                let space = if place > 0 { " " } else { "" };
                write!(f, "{space}{at}")?;
            }
        }
        match shard {
            Some(shard) => write!(f, "{SHARD}{shard}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Receipt {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (body, shard) = match text.split_once(SHARD) {
            Some((body, shard)) => (body, Some(shard.to_owned())),
            None => (text, None),
        };
        let damaged = |what: &str| {
            ParseError::whole("", format!("{what} of a receipt is not what it should be"), REMEDY)
        };
        let mut lines = body.lines();
        if lines.next() != Some(VERSION) {
            return Err(damaged("the first line"));
        }
        let (numbers, cost) = charge_of(lines.next()).ok_or_else(|| damaged("the second line"))?;
        let [store, number, at] = numbers;
        let mut charges = SmallVec::new();
        while let Some(subject) = lines.next() {
            charges.push(charge(subject, &mut lines)?.ok_or_else(|| damaged("a charge"))?);
        }
        let sound = number > 0
            && check_cost(cost.amounts().first()).is_ok()
            && check_parts(charges.len()).is_ok()
            && check_shard(shard.as_deref()).is_ok();
        if !sound {
            return Err(damaged("a number"));
        }
        Ok(Self { store, number, cost, at: Time::from_micros(at), charges, shard })
    }
}

const REMEDY: &str = "give it back as it was given out, whole and unchanged";

/// Parses the store, the number and the time of a charge, and its cost.
fn charge_of(line: Option<&str>) -> Option<([u64; 3], Cost)> {
    let words: Vec<&str> = line?.split(' ').collect();
    let [store, number, cost, at] = words[..] else { return None };
    Some(([store.parse().ok()?, number.parse().ok()?, at.parse().ok()?], cost.parse().ok()?))
}

/// Parses the numbers of a line.
fn numbers(lines: &mut Lines<'_>) -> Option<Vec<u64>> {
    lines.next()?.split(' ').map(|number| number.parse().ok()).collect()
}

/// Parses a charge; `None` when lines are missing or inconsistent.
fn charge(subject: &str, lines: &mut Lines<'_>) -> Result<Option<Charges>, ParseError> {
    let (Some(policy), Some(limits)) = (lines.next(), lines.next()) else { return Ok(None) };
    let subject = Subject::parse(subject)?;
    let mut limits: LimitSet = limits.parse()?;
    if !policy.is_empty() {
        limits = limits.in_policy(policy)?;
    }
    let Some(at_us) = numbers(lines) else { return Ok(None) };
    if at_us.len() != limits.limits().len() {
        return Ok(None);
    }
    Ok(Some(Charges { subject, limits, at_us: at_us.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ask, Limiter};

    fn receipt() -> Receipt {
        let limiter = Limiter::memory("5/h, api: 7/m via gcra".parse().unwrap());
        let own: LimitSet = "9/h".parse().unwrap();
        let own = own.in_policy("p-1").unwrap();
        let ask = Ask::new("user:a,b%\n").cost(2).and_under("ip:::1", &own).shard("x\n%\ny");
        limiter.check(ask).now().unwrap().receipt().unwrap()
    }

    #[test]
    fn every_part_comes_back() {
        let receipt = receipt();
        let text = receipt.to_string();
        assert_eq!(text.parse::<Receipt>().unwrap(), receipt, "{text}");
        let policies: Vec<_> = receipt.charges.iter().map(|part| part.limits.policy()).collect();
        assert_eq!(policies, [None, Some("p-1")]);
        let plain = Receipt { shard: None, ..receipt };
        assert_eq!(plain.to_string().parse::<Receipt>().unwrap(), plain);
        // Whatever a subject and a policy are named.
        let limiter = Limiter::memory("5/h".parse().unwrap());
        let own: LimitSet = "9/h".parse().unwrap();
        let own = own.in_policy("shard").unwrap();
        for subject in ["shard", "%", "tgr1"] {
            let ask = Ask::new(subject).and_under("shard", &own);
            let receipt = limiter.check(ask).now().unwrap().receipt().unwrap();
            assert_eq!(receipt.to_string().parse::<Receipt>().unwrap(), receipt);
        }
    }

    #[test]
    fn what_is_damaged_is_no_receipt() {
        let whole = receipt().to_string();
        let body = whole.split_once(SHARD).unwrap().0;
        for end in (0..body.len()).filter(|end| body.is_char_boundary(*end)) {
            // A time that lost its last digits is a number still: only a signature shows that.
            let cut = &body[..end];
            if let Ok(read) = cut.parse::<Receipt>() {
                let line = |text: &str| text.lines().count();
                assert!(read.charges.len() < 2 || line(cut) == line(body), "{cut}");
            }
        }
        for text in
            ["", "tgr1", "tgr2\n1 1 1 1", "tgr1\n1 1 1 1", "tgr1\n1 0 1 1\nuser:1\n\n5/h\n1"]
        {
            let error = text.parse::<Receipt>().unwrap_err().to_string();
            assert!(error.contains("unchanged"), "{text}: {error}");
        }
        let twice = "tgr1\n1 1 1 1\nuser:1\n\n5/h\n1 2";
        assert!(twice.parse::<Receipt>().is_err());
    }
}
