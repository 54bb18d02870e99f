//! The case that runs the time lines of `vectors/holds/`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use core::time::Duration;
use std::collections::BTreeMap;

use tollgate::{
    Ask, Decision, Error, Hold, HoldId, HoldKind, HoldName, Holding, LimitSet, Reserve, Store,
    Subject,
};

use super::StoreMaker;
use super::named_holds::keeps_names;
use super::world::{self, World, block_on, fields, set};
use crate::oracle::{Charged, Fields};
use crate::vectors::holds::{
    self, HOLD_VECTORS, HoldAsk, HoldTimeLine, LimitAnswer, LineAnswer, Said,
};

const SUBJECT: &str = "zoo";

/// Every line of `vectors/holds/` is answered as it says, whether a store forgets in between or
/// not.
pub(super) fn time_lines_with_holds_are_answered_as_written<M: StoreMaker>(maker: &M) {
    for (name, text) in HOLD_VECTORS {
        let has_names = text.contains("named");
        for time_line in holds::parse(text).unwrap_or_else(|e| panic!("{name}: {e}")) {
            if has_names && !keeps_names(maker) {
                continue;
            }
            run(maker, name, &time_line, false);
            let times = time_line.lines.windows(2);
            // Behind a step back a store may have forgotten what another remembers.
            if times.into_iter().all(|pair| pair[0].at_us <= pair[1].at_us) {
                run(maker, name, &time_line, true);
            }
        }
    }
}

fn run<M: StoreMaker>(maker: &M, name: &str, time_line: &HoldTimeLine, forgets: bool) {
    let first_us = time_line.lines.first().map_or(0, |line| line.at_us);
    let world = World::new(maker, &time_line.limits, first_us);
    let limits = set(&time_line.limits);
    let mut player = Player { world: &world, limits, holds: BTreeMap::new(), last_fence: 0 };
    for line in &time_line.lines {
        world.at(line.at_us);
        let what = format!("{name}:{}: {} ({:?})", line.number, line.case, line.ask);
        let Some(expect) = &line.expect else {
            player.answer(&line.ask, &what);
            continue;
        };
        let seen = player.answer(&line.ask, &what).unwrap_or_else(|| panic!("{what}: no answer"));
        assert!(expect.allows(&seen), "{what}: answered {seen} instead of {expect}");
        if forgets {
            maker.forget(world.limiter.store());
        }
    }
}

/// A time line in a store.
struct Player<'w, S> {
    world: &'w World<S>,
    limits: LimitSet,
    holds: BTreeMap<String, Hold>,
    last_fence: u64,
}

impl<'w, S: Store> Player<'w, S> {
    fn ask<'a>(limits: &'a LimitSet, cost: u64) -> Ask<'a> {
        Ask::new(SUBJECT).cost(cost).under(limits)
    }

    /// The answer to a question; `None` to a change.
    fn answer(&mut self, ask: &HoldAsk, what: &str) -> Option<LineAnswer> {
        let (world, limits) = (self.world, &self.limits.clone());
        Some(match ask {
            HoldAsk::Change(changed) => {
                self.limits = set(changed);
                return None;
            }
            HoldAsk::Check(cost) => decided(&world.check(Self::ask(limits, *cost)), Said::Yes),
            HoldAsk::Peek(cost) => decided(&world.peek(Self::ask(limits, *cost)), Said::Yes),
            HoldAsk::Partial(cost) => {
                let decision = world.check(Self::ask(limits, *cost).partial());
                decided(&decision, Said::Granted(decision.granted()))
            }
            HoldAsk::Charge(cost) => {
                let charged = block_on(world.limiter.charge(Self::ask(limits, *cost)));
                all_charged(Said::Charged(*cost), &charged.expect(what))
            }
            HoldAsk::Reserve { name, .. } | HoldAsk::Acquire { name, .. } => {
                let Holding { decision, hold, .. } = self.hold_for(limits, ask, None).expect(what);
                self.placed(name, &decision, hold, what)
            }
            HoldAsk::Named(asked) => {
                let (HoldAsk::Reserve { name, .. } | HoldAsk::Acquire { name, .. }) = &**asked
                else {
                    panic!("{what}")
                };
                match self.hold_for(limits, asked, Some(caller(name))) {
                    Ok(Holding { decision, hold, .. }) => self.placed(name, &decision, hold, what),
                    Err(Error::Conflict(why)) => only(refused(&why, what)),
                    Err(error) => panic!("{what}: {error}"),
                }
            }
            HoldAsk::ByName(asked) => {
                let (HoldAsk::Commit(name, _)
                | HoldAsk::Cancel(name)
                | HoldAsk::Release(name)
                | HoldAsk::Renew(name, _)) = &**asked
                else {
                    panic!("{what}")
                };
                let ask = Ask::new(SUBJECT).under(limits).named(caller(name));
                let hold = ask.named_hold(world.limiter.limits()).expect(what);
                match &**asked {
                    HoldAsk::Renew(_, ttl_us) => self.renew(hold, *ttl_us, what),
                    HoldAsk::Release(_) => {
                        given_back(block_on(world.limiter.commit(&hold, 0)), what)
                    }
                    HoldAsk::Commit(_, units) => {
                        settled(block_on(world.limiter.commit(&hold, *units)), what)
                    }
                    _ => settled(block_on(world.limiter.commit(&hold, 0)), what),
                }
            }
            HoldAsk::Lost(name, answer) => {
                let mut hold = self.hold(name).undelivered();
                hold.answer = *answer;
                given_back(block_on(world.limiter.commit(&hold, 0)), what)
            }
            HoldAsk::Commit(name, units) => self.settle(name, *units, what),
            HoldAsk::Cancel(name) => {
                settled(block_on(world.limiter.commit(&self.hold(name), 0)), what)
            }
            HoldAsk::Release(name) => {
                let released = block_on(world.limiter.release(&self.hold(name))).expect(what);
                only(if released { Said::Released } else { Said::NotOpen })
            }
            HoldAsk::Renew(name, ttl_us) => self.renew(self.hold(name), *ttl_us, what),
            HoldAsk::Reset => {
                world.reset(Ask::new(SUBJECT).under(limits));
                only(Said::Reset)
            }
        })
    }

    /// Asks for a hold, which its caller may name.
    fn hold_for<'a>(
        &self,
        limits: &'a LimitSet,
        ask: &HoldAsk,
        caller: Option<HoldName>,
    ) -> Result<Holding<'a>, Error>
    where
        'w: 'a,
    {
        let named = |ask: Ask<'a>| match caller {
            Some(name) => ask.named(name),
            None => ask,
        };
        match ask {
            HoldAsk::Reserve { cost, ttl_us, charging, .. } => {
                let reserve = Reserve::from(Duration::from_micros(*ttl_us));
                let reserve = if *charging { reserve.charging() } else { reserve };
                let ask = named(Self::ask(limits, *cost));
                block_on(self.world.limiter.hold(ask.reserve(reserve)))
            }
            HoldAsk::Acquire { slots, .. } => {
                block_on(self.world.limiter.hold(named(Self::ask(limits, *slots)).acquire()))
            }
            _ => panic!("{ask:?} asks for no hold"),
        }
    }

    fn renew(&self, mut hold: Hold, ttl_us: Option<u64>, what: &str) -> LineAnswer {
        let ttl = ttl_us.map(Duration::from_micros);
        match block_on(self.world.limiter.renew(&mut hold, ttl)).expect(what) {
            true => only(Said::Until(hold.end.as_micros())),
            false => only(Said::NotOpen),
        }
    }

    fn placed(
        &mut self,
        name: &str,
        decision: &Decision<'_>,
        hold: Option<Hold>,
        what: &str,
    ) -> LineAnswer {
        assert_eq!(decision.is_allowed(), hold.is_some(), "{what}");
        let Some(hold) = hold else { return decided(decision, Said::Yes) };
        if hold.answer > 1 {
            let first = &self.holds[name];
            assert_eq!((hold.id, hold.fence), (first.id, first.fence), "{what}");
            let said = Said::Again(hold.end.as_micros());
            self.holds.insert(name.to_owned(), hold);
            return decided(decision, said);
        }
        assert!(hold.fence > self.last_fence, "{what}: {} after {}", hold.fence, self.last_fence);
        self.last_fence = hold.fence;
        let said = Said::Until(hold.end.as_micros());
        self.holds.insert(name.to_owned(), hold);
        decided(decision, said)
    }

    fn settle(&self, name: &str, units: u64, what: &str) -> LineAnswer {
        settled(block_on(self.world.limiter.commit(&self.hold(name), units)), what)
    }

    /// The hold of a name, or one that nobody placed.
    fn hold(&self, name: &str) -> Hold {
        let unknown = || {
            let subject = Subject::literal(SUBJECT).unwrap();
            let (id, end) =
                (HoldId::random(HoldKind::Reserve, 1_000), tollgate::Time::from_micros(1));
            Hold::new(id, 1, 1, end, [(subject, self.limits.clone())])
        };
        self.holds.get(name).cloned().unwrap_or_else(unknown)
    }
}

/// The name that a caller gives a hold.
fn caller(name: &str) -> HoldName {
    format!("hold-of-a-time-line-{name}").parse().expect("a name")
}

/// Why an ask under a name was refused.
fn refused(why: &str, what: &str) -> Said {
    let all = [
        ("asked for otherwise", Said::Differs),
        ("times again", Said::TooOften),
        ("released or committed before", Said::Over),
    ];
    let found = all.into_iter().find(|(part, _)| why.contains(part));
    found.map_or_else(|| panic!("{what}: {why}"), |(_, said)| said)
}

fn only(said: Said) -> LineAnswer {
    LineAnswer { said, limits: Vec::new() }
}

/// A decision, with `said` as the result where it admits.
pub(super) fn decided(decision: &Decision<'_>, said: Said) -> LineAnswer {
    let each: Vec<Fields> =
        (0..decision.reports().count()).map(|index| fields(decision, index)).collect();
    let said = match decision.is_allowed() {
        true => said,
        false if decision.retry_after().is_none() => Said::Never,
        false => Said::No { held: decision.is_until_hold() },
    };
    let of = |fields| LimitAnswer { fields, at_least: false, charged: None };
    LineAnswer { said, limits: each.into_iter().map(of).collect() }
}

/// A release, or an answer that was given back.
fn given_back(done: Result<tollgate::Settled, Error>, what: &str) -> LineAnswer {
    match settled(done, what) {
        LineAnswer { said: Said::Charged(0), .. } => only(Said::Released),
        other => other,
    }
}

fn plain(cost: &tollgate::Cost) -> u64 {
    cost.plain().expect("requests alone")
}

fn settled(settled: Result<tollgate::Settled, Error>, what: &str) -> LineAnswer {
    match settled {
        Ok(settled) if settled.is_early => only(Said::Early),
        Ok(settled) if settled.already => only(Said::Already(plain(&settled.actual))),
        Ok(settled) => all_charged(Said::Charged(plain(&settled.actual)), &settled.charged),
        Err(Error::NotOpen(_)) => only(Said::NotOpen),
        Err(error) => panic!("{what}: {error}"),
    }
}

fn all_charged(said: Said, charged: &[tollgate::Charged]) -> LineAnswer {
    let each = charged.iter().map(|done| {
        let Charged { fits, cut, fields } = world::charged(done);
        LimitAnswer { fields, at_least: false, charged: Some((fits, cut)) }
    });
    LineAnswer { said, limits: each.collect() }
}
