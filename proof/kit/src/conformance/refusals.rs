//! A store refuses facilities that it lacks as a mistake of its caller, and nothing changes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use core::time::Duration;

use tollgate::operation::Post;
use tollgate::{Ask, Error, Keeps, Limiter, ManualClock, Notice, RequestId, Store as _};

use super::StoreMaker;
use super::world::block_on;

/// Asks a store for what it does not keep. The case is not tried otherwise, and that is printed.
pub(super) fn are_given<M: StoreMaker>(maker: &M, case: &str, needs: Keeps) {
    let keeps = M::Store::KEEPS;
    let lacks = [
        ("holds", needs.holds && !keeps.holds),
        ("charges without a check", needs.charges && !keeps.charges),
        ("request ids", needs.requests && !keeps.requests),
        ("notices", needs.notices && !keeps.notices),
    ];
    let lacks: Vec<_> = lacks.iter().filter(|(_, lacks)| *lacks).map(|(what, _)| *what).collect();
    println!(
        "{case}: not tried beyond its refusal, since the store keeps no {} (`Store::KEEPS`)",
        lacks.join(" and no "),
    );
    const SECOND: Duration = Duration::from_secs(1);
    let store = maker.make(ManualClock::at_micros(100_000_000));
    let limiter = Limiter::new("5/h".parse().unwrap(), store);
    let ask = || Ask::new("ann");
    let refused = |what: &str, answer: Option<Error>| {
        assert!(matches!(answer, Some(Error::Ask(_))), "{what}: {answer:?}");
    };
    if needs.holds {
        refused("a hold", block_on(limiter.hold(ask().reserve(SECOND))).err());
    }
    if needs.charges {
        refused("a charge", block_on(limiter.charge(ask())).err());
    }
    if needs.requests {
        refused("a request id", block_on(limiter.check(ask().request(RequestId::new("1")))).err());
    }
    if needs.notices {
        let notice = Notice::new("one", "", SECOND).unwrap();
        let posted = block_on(limiter.store().perform(&Post::new(&notice)));
        refused("a notice", posted.err().map(Error::from));
    }
    assert_eq!(block_on(limiter.check(ask().peek())).unwrap().remaining(), 5);
}
