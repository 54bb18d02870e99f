//! The traffic for a limiter on its own clock: it waits in real time, and asks around the instants
//! that matter.

use crate::history::CallOutcome;

use super::ask::{Ask, Disturbance, DriverError, Flood, Reply};
use super::recorded;
use super::session::Session;
use super::settable::pairs;

/// The most questions of one burst.
const BURST: u64 = 2_000;

/// The most questions of the flood.
const FLOOD: usize = 200_000;

/// One kind of traffic: its name, the ability that it needs, the time that it takes (in
/// microseconds), and its questions.
type Kind = (&'static str, bool, u64, fn(&mut Session<'_>) -> Result<(), DriverError>);

fn kinds(session: &Session<'_>) -> Vec<Kind> {
    let able = session.able;
    let period_us = session.options.longest_us();
    // The last number is how many of the longest periods it takes.
    // Disturbances come first: whoever can make one wants to know about it.
    let all: [Kind; 16] = [
        ("a restart", able.restart, 2, |session| disturbed(session, Disturbance::Restart)),
        ("a failover", able.failover, 2, |session| disturbed(session, Disturbance::Failover)),
        ("a burst, and told waits", true, 3, burst),
        ("edges of windows", true, 3, edges),
        ("a late burst in a window", true, 3, late_burst),
        ("costs", able.costs, 1, costs),
        ("over-asks", able.costs, 1, over_asks),
        ("costs below 1", able.odd_costs, 1, odd_costs),
        ("denied again and again", true, 4, hammer),
        ("idle, then a burst", true, 3, idle),
        ("subjects apart", true, 0, apart),
        ("many subjects", true, 1, many),
        ("clients at once", true, 2, flood),
        ("request ids again", able.requests, 1, repeats),
        ("lost replies", able.lose, 1, lost),
        ("peeks", able.peeks, 1, peeks),
    ];
    let mut kinds: Vec<Kind> = all
        .into_iter()
        .map(|(name, able, periods, run)| (name, able, periods.saturating_mul(period_us), run))
        .collect();
    let log = &session.options.recorded;
    if !log.requests.is_empty() {
        kinds.push((recorded::NAME, true, recorded::span_us(log), recorded::ask));
    }
    kinds
}

/// Asks all of it that the time allows. `said` gets the name of each kind of traffic when it
/// begins.
pub(super) fn ask(
    session: &mut Session<'_>,
    said: &mut dyn FnMut(&str),
) -> Result<(), DriverError> {
    let until_us = session.driver.now_us().saturating_add(session.options.within_us);
    for (name, able, needs_us, run) in kinds(session) {
        if !able {
            session.open.push(format!("{name}: the driver cannot ask it"));
        } else if session.driver.now_us().saturating_add(needs_us) > until_us {
            let seconds = needs_us.div_ceil(1_000_000);
            session.open.push(format!("{name}: it takes {seconds} s more than the time allows"));
        } else {
            said(name);
            session.begin(name, name != "clients at once");
            run(session)?;
        }
    }
    Ok(())
}

impl Session<'_> {
    /// As many questions as the limits admit at once, and three more, one after the other.
    fn burst(&mut self, subject: &str) -> Result<Option<Reply>, DriverError> {
        let mut last = None;
        for _ in 0..self.options.capacity().min(BURST) + 3 {
            let ask = self.question(subject);
            let reply = self.one(ask)?;
            if reply.outcome.is_denial() {
                last = Some(reply);
            }
        }
        Ok(last)
    }

    fn sleep(&mut self, us: u64) {
        let until_us = self.driver.now_us() + us;
        self.driver.sleep_until(until_us);
    }

    /// A question with a cost.
    fn costing(&mut self, subject: &str, cost: i64) -> Result<Reply, DriverError> {
        let ask = self.question(subject);
        self.one(Ask { cost, ..ask })
    }
}

/// How long before the end of a wait the early question comes: so that it is surely early.
fn early_us(session: &Session<'_>) -> u64 {
    session.options.precision_us + 3_000
}

fn burst(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    let mut denied = session.burst(&subject)?;
    let until_us = session.driver.now_us() + 3 * session.options.longest_us();
    for _ in 0..6 {
        let Some(reply) = denied.take() else { break };
        let CallOutcome::Denied { retry_after_us: Some(wait_us), .. } = reply.outcome else {
            break;
        };
        let due_us = reply.returned_us.saturating_add(wait_us);
        if due_us > until_us {
            break;
        }
        session.driver.sleep_until(due_us.saturating_sub(early_us(session)));
        let ask = session.question(&subject);
        session.one(ask)?;
        session.driver.sleep_until(due_us + 2 * session.options.precision_us + 1);
        let ask = session.question(&subject);
        session.one(ask)?;
        let ask = session.question(&subject);
        let next = session.one(ask)?;
        denied = next.outcome.is_denial().then_some(next);
    }
    Ok(())
}

fn edges(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    let period_us = session.options.shortest_us();
    // A burst takes its time: it has to end before the edge.
    let lead_us = (period_us / 4).min(200_000);
    let edge_us = (session.driver.now_us() + lead_us).next_multiple_of(period_us);
    session.driver.sleep_until(edge_us - lead_us);
    session.burst(&subject)?;
    session.driver.sleep_until(edge_us + 1);
    session.burst(&subject)?;
    session.driver.sleep_until(edge_us + period_us - lead_us);
    session.burst(&subject)?;
    Ok(())
}

fn late_burst(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    let period_us = session.options.shortest_us();
    let ask = session.question(&subject);
    let opened_us = session.one(ask)?.returned_us;
    session.driver.sleep_until(opened_us + period_us - (period_us / 4).min(200_000));
    session.burst(&subject)?;
    session.driver.sleep_until(opened_us + period_us + session.options.precision_us);
    session.burst(&subject)?;
    Ok(())
}

fn costs(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    let pause_us = session.options.longest_us() / 40;
    for _ in 0..40 {
        let cost = session.random.pick(&[1, 1, 2, 3]);
        session.costing(&subject, cost)?;
        if session.random.below(2) == 0 {
            session.sleep(pause_us);
        }
    }
    Ok(())
}

fn over_asks(session: &mut Session<'_>) -> Result<(), DriverError> {
    let capacity = i64::try_from(session.options.capacity()).unwrap_or(i64::MAX);
    for cost in [capacity.saturating_add(1), capacity, capacity.saturating_mul(3)] {
        let subject = session.fresh();
        session.costing(&subject, cost)?;
        session.costing(&subject, 1)?;
        session.costing(&subject, capacity)?;
    }
    Ok(())
}

fn odd_costs(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    for _ in 0..session.options.capacity().min(BURST) {
        for cost in [0, -3, 1, 0] {
            session.costing(&subject, cost)?;
        }
    }
    Ok(())
}

fn hammer(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    session.burst(&subject)?;
    let until_us = session.driver.now_us() + 3 * session.options.longest_us();
    while session.driver.now_us() < until_us {
        session.sleep(session.options.longest_us() / 50);
        let ask = session.question(&subject);
        session.one(ask)?;
    }
    Ok(())
}

fn idle(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    let ask = session.question(&subject);
    session.one(ask)?;
    session.sleep(session.options.longest_us() * 5 / 2);
    session.burst(&subject)?;
    session.burst(&subject)?;
    Ok(())
}

fn apart(session: &mut Session<'_>) -> Result<(), DriverError> {
    for pair in pairs(session) {
        for subject in &pair {
            session.burst(subject)?;
        }
    }
    Ok(())
}

fn many(session: &mut Session<'_>) -> Result<(), DriverError> {
    let first = session.fresh();
    session.burst(&first)?;
    for _ in 0..200 {
        let other = session.fresh();
        let ask = session.question(&other);
        session.one(ask)?;
    }
    session.burst(&first)?;
    Ok(())
}

fn flood(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    let ask = session.question(&subject);
    let long_us = (session.options.longest_us() * 3 / 2).clamp(500_000, 3_000_000);
    let until_us = session.driver.now_us() + long_us;
    session.flood(&Flood { ask, clients: session.options.clients, until_us, most: FLOOD })
}

fn repeats(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    for _ in 0..session.options.capacity().min(40) + 2 {
        let ask = session.question(&subject);
        let ask = Ask { request: Some(format!("{subject}-{}", ask.id)), ..ask };
        session.one(ask.clone())?;
        let again = session.question(&subject);
        session.one(Ask { id: again.id, ..ask })?;
    }
    Ok(())
}

fn lost(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    for number in 0..session.options.capacity().min(40) + 2 {
        let ask = session.question(&subject);
        let request = session.able.requests.then(|| format!("{subject}-{}", ask.id));
        let ask = Ask { lose: number % 2 == 0, request, ..ask };
        session.one(ask.clone())?;
        // A client whose reply was lost asks again, under the id if there is one.
        if ask.lose && ask.request.is_some() {
            let again = session.question(&subject);
            session.one(Ask { id: again.id, lose: false, ..ask })?;
        }
    }
    Ok(())
}

fn peeks(session: &mut Session<'_>) -> Result<(), DriverError> {
    let subject = session.fresh();
    for _ in 0..session.options.capacity().min(BURST) {
        let peek = session.question(&subject);
        session.one(Ask { peek: true, ..peek })?;
        let ask = session.question(&subject);
        session.one(ask)?;
    }
    Ok(())
}

fn disturbed(session: &mut Session<'_>, disturbance: Disturbance) -> Result<(), DriverError> {
    let subject = session.fresh();
    session.burst(&subject)?;
    session.disturb(disturbance)?;
    session.burst(&subject)?;
    session.sleep(session.options.longest_us());
    session.burst(&subject)?;
    Ok(())
}
