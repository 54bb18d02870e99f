//! The traffic for a limiter whose clock can be set: any spacing, without waiting.

use crate::history::CallOutcome;

use super::ask::{Ask, Disturbance, DriverError};
use super::recorded;
use super::session::Session;

/// One kind of traffic.
#[derive(Clone, Copy)]
struct Plan {
    name: &'static str,
    /// How many subjects are asked about in turn by chance.
    subjects: usize,
    rounds: u64,
    costs: Costs,
    /// The most questions at once.
    together: u64,
    /// Whether time goes on to the edges of windows.
    edges: bool,
    /// Whether a denied question is asked again when its wait is over, or 1 us before.
    told: bool,
    requests: bool,
    peeks: bool,
    changes: bool,
    disturbance: Option<Disturbance>,
    /// After how many rounds the clock is set, and by how much.
    steps: &'static [(u64, i64)],
}

/// The costs of a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Costs {
    One,
    Small,
    /// About the capacity, above it, and far above.
    Large,
    /// 0 and below, beside small ones.
    Odd,
}

const PLAN: Plan = Plan {
    name: "bursts and pauses",
    subjects: 1,
    rounds: 150,
    costs: Costs::One,
    together: 1,
    edges: false,
    told: false,
    requests: false,
    peeks: false,
    changes: false,
    disturbance: None,
    steps: &[],
};

const BACK: &[(u64, i64)] = &[(50, -3_600_000_000), (100, 1_800_000_000)];
const FORTH_AND_BACK: &[(u64, i64)] = &[(50, 3_600_000_000), (75, -3_600_000_000)];

/// Each with the ability that it needs.
fn plans(session: &Session<'_>) -> Vec<Plan> {
    let able = session.able;
    let all = [
        (true, PLAN),
        (true, Plan { name: "edges of windows", edges: true, ..PLAN }),
        (true, Plan { name: "told waits, and 1 us less", told: true, ..PLAN }),
        (able.costs, Plan { name: "costs", costs: Costs::Small, ..PLAN }),
        (able.costs, Plan { name: "over-asks", costs: Costs::Large, ..PLAN }),
        (able.odd_costs, Plan { name: "costs below 1", costs: Costs::Odd, ..PLAN }),
        (true, Plan { name: "clients at once", together: 5, ..PLAN }),
        (
            able.costs,
            Plan { name: "clients at once, costs", together: 4, costs: Costs::Small, ..PLAN },
        ),
        (true, Plan { name: "many subjects", subjects: 100, rounds: 1_200, ..PLAN }),
        (able.requests, Plan { name: "request ids again", requests: true, ..PLAN }),
        (able.peeks, Plan { name: "peeks", peeks: true, ..PLAN }),
        (able.limits, Plan { name: "changed limits", changes: true, ..PLAN }),
        (able.restart, Plan { name: "a restart", disturbance: Some(Disturbance::Restart), ..PLAN }),
        (
            able.failover,
            Plan { name: "a failover", disturbance: Some(Disturbance::Failover), ..PLAN },
        ),
        (able.steps, Plan { name: "a clock that steps back", steps: BACK, ..PLAN }),
        (
            able.steps,
            Plan { name: "a clock that steps forth and back", steps: FORTH_AND_BACK, ..PLAN },
        ),
    ];
    all.into_iter().filter(|(able, _)| *able).map(|(_, plan)| plan).collect()
}

/// So often each plan runs, with other numbers.
const RUNS: u64 = 4;

/// Asks all of it. `said` gets the name of each kind of traffic when it begins.
pub(super) fn ask(
    session: &mut Session<'_>,
    said: &mut dyn FnMut(&str),
) -> Result<(), DriverError> {
    for plan in plans(session) {
        said(plan.name);
        session.begin(plan.name, plan.together == 1);
        let runs = if plan.subjects > 1 { 1 } else { RUNS };
        for _ in 0..runs {
            session.real_us += 2 * session.options.longest_us();
            walk(session, &plan)?;
            if !plan.steps.is_empty() || plan.disturbance.is_some() {
                // A fault is about all subjects of its record.
                session.begin(plan.name, true);
            }
        }
    }
    said("subjects apart");
    session.begin("subjects apart", true);
    apart(session)?;
    if !session.options.recorded.requests.is_empty() {
        said(recorded::NAME);
        session.begin(recorded::NAME, true);
        recorded::ask(session)?;
    }
    Ok(())
}

/// Pairs of subjects that are mistaken for each other: by case, and by the sign that joins parts.
pub(super) fn pairs(session: &mut Session<'_>) -> [[String; 2]; 2] {
    let [one, two] = [session.fresh(), session.fresh()];
    [[format!("{one}-Ann"), format!("{one}-ann")], [format!("{two}|a:b"), format!("{two}:a|b")]]
}

fn apart(session: &mut Session<'_>) -> Result<(), DriverError> {
    for pair in pairs(session) {
        for subject in [&pair[0], &pair[1], &pair[0], &pair[1]] {
            for _ in 0..session.options.capacity().min(20) {
                session.real_us += 10;
                let ask = session.question(subject);
                session.one(ask)?;
            }
        }
    }
    Ok(())
}

/// A walk: the state of one run of a plan.
struct Walk<'p> {
    plan: &'p Plan,
    subjects: Vec<String>,
    gaps_us: Vec<u64>,
    /// When the last denial was, and its wait, with the question.
    told: Option<(u64, u64, Ask)>,
    /// So many more rounds follow at once.
    burst: u64,
    /// A question that is asked again under its id.
    again: Option<Ask>,
}

fn walk(session: &mut Session<'_>, plan: &Plan) -> Result<(), DriverError> {
    let gaps_us = gaps_us(session);
    let subjects: Vec<String> = (0..plan.subjects).map(|_| session.fresh()).collect();
    let mut walk = Walk { plan, subjects, gaps_us, told: None, burst: 0, again: None };
    let mut steps = plan.steps.iter().peekable();
    for round in 0..plan.rounds {
        walk.pass(session);
        if let Some((_, by_us)) = steps.next_if(|(after, _)| *after == round) {
            session.step_clock(*by_us);
            walk.told = None;
        }
        if let Some(disturbance) = plan.disturbance.filter(|_| round == plan.rounds / 2) {
            session.disturb(disturbance)?;
        }
        let asks = walk.asks(session);
        let at_us = session.real_us;
        let replies = session.round(asks.clone())?;
        for (ask, reply) in asks.into_iter().zip(replies) {
            if let CallOutcome::Denied { retry_after_us: Some(wait_us), .. } = reply.outcome
                && walk.told.is_none()
            {
                walk.told = Some((at_us, wait_us, ask));
            }
        }
    }
    Ok(())
}

/// Times between two questions: nearly none, and about the time of one unit of each limit.
fn gaps_us(session: &Session<'_>) -> Vec<u64> {
    let mut gaps_us = vec![10];
    for limit in session.options.limits.limits() {
        let quota = limit.quota();
        let unit_us = quota.period.as_micros() / quota.units.max(1);
        gaps_us.extend([unit_us / 20 + 1, unit_us / 2 + 1, unit_us * 3 / 2 + 1]);
    }
    gaps_us
}

impl Walk<'_> {
    /// Lets time pass.
    fn pass(&mut self, session: &mut Session<'_>) {
        let (longest_us, shortest_us) =
            (session.options.longest_us(), session.options.shortest_us());
        if self.burst > 0 {
            self.burst -= 1;
            session.real_us += 1 + session.random.below(5);
            return;
        }
        let chance = session.random.below(12);
        let told = self.told.as_ref().filter(|_| self.plan.told && chance < 8);
        if let Some((at_us, wait_us, _)) = told {
            let early_us = session.random.below(2);
            let due_us = at_us.saturating_add(*wait_us).saturating_sub(early_us);
            session.real_us = session.real_us.max(due_us.min(at_us + 2 * longest_us));
            return;
        }
        if self.plan.edges && chance < 5 {
            let early_us = session.random.below(2);
            let now_us = session.set_us();
            let edge_us = (now_us + 2).next_multiple_of(shortest_us) - early_us;
            session.real_us += edge_us - now_us;
            return;
        }
        if chance == 11 && self.plan.subjects == 1 {
            session.real_us += longest_us / 2 + session.random.below(2 * longest_us);
            self.burst = session.options.capacity().min(20) + 2;
            return;
        }
        let gap_us = session.random.pick(&self.gaps_us);
        session.real_us += 1 + session.random.below(gap_us);
    }

    /// The questions of a round.
    fn asks(&mut self, session: &mut Session<'_>) -> Vec<Ask> {
        let count = 1 + session.random.below(self.plan.together);
        let first = session.random.below(3);
        let mut asks = Vec::new();
        for place in 0..count {
            let client = usize::try_from((first + place) % 5).unwrap_or(0);
            let ask = self.ask(session, client);
            asks.push(ask);
        }
        asks
    }

    fn ask(&mut self, session: &mut Session<'_>, client: usize) -> Ask {
        let place = session.random.place(self.subjects.len());
        let subject = self.subjects.get(place).cloned().unwrap_or_default();
        let fresh = session.question(&subject);
        // The wait of a denial is for its own cost, and for its own subject.
        if let Some((.., denied)) = self.told.take().filter(|_| self.plan.told) {
            return Ask { id: fresh.id, client, ..denied };
        }
        if let Some(again) = self.again.take() {
            return Ask { id: fresh.id, client, ..again };
        }
        let changes = self.plan.changes;
        let ask = Ask {
            client,
            cost: self.cost(session),
            request: self.plan.requests.then(|| format!("{subject}-{}", fresh.id)),
            peek: self.plan.peeks && session.random.below(3) == 0,
            limits: if changes { changed(session) } else { None },
            ..fresh
        };
        if self.plan.requests && session.random.below(3) == 0 {
            self.again = Some(ask.clone());
        }
        ask
    }

    fn cost(&self, session: &mut Session<'_>) -> i64 {
        let capacity = i64::try_from(session.options.capacity()).unwrap_or(i64::MAX);
        let random = &mut session.random;
        match self.plan.costs {
            Costs::One => 1,
            Costs::Small => [1, 1, 2, 3][random.place(4)],
            Costs::Odd => [1, 2, 0, 0, -3][random.place(5)],
            Costs::Large => {
                let more = i64::try_from(random.below(7)).unwrap_or(0);
                let all = [
                    1,
                    capacity,
                    (capacity - more).max(1),
                    (capacity * 6 / 7).max(1),
                    capacity.saturating_add(1),
                    capacity.saturating_add(4),
                ];
                random.pick(&all)
            }
        }
    }
}

/// The limits with other numbers of units: as they are, or two more.
fn changed(session: &mut Session<'_>) -> Option<String> {
    let text = session.options.limits.to_string();
    if session.random.below(2) == 0 {
        return Some(text);
    }
    let more = |limit: &tollgate::Limit| {
        let text = limit.to_string();
        let units = limit.quota().units.to_string();
        Some(format!("{}{}", limit.quota().units + 2, text.strip_prefix(&units)?))
    };
    let all: Option<Vec<String>> = session.options.limits.limits().iter().map(more).collect();
    let all = all?.join(", ");
    all.parse::<tollgate::LimitSet>().is_ok().then_some(all)
}
