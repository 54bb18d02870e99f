//! The playground's state: one limiter in memory for each strategy, on one clock.

use serde_json::value::{RawValue, to_raw_value};
use tollgate::wire::{Charge, duration};
use tollgate::{Ask, Limit, LimitSet, Limiter, ManualClock, MemoryStore, Strategy, Subject, Time};

use crate::answer::{LaneJson, LimitJson, Opened, Problem, Refused, Reply};
use crate::question::{self, How, MAX_ASKS, Message};
use crate::traffic;

/// The most bytes of one strategy's store. A page has two clients.
const STORE_BYTES: usize = 16 << 20;

/// The reader's own page has no attacker, and without glue it has no source of random numbers.
const SEEDS: [u64; 2] = [1, 2];

/// The longest text of limits, in bytes: a page should not hang on what was pasted by mistake.
const MAX_TEXT_BYTES: usize = 10_000;

/// Every strategy under the limits that the page opened last, and their clock.
#[derive(Debug, Default)]
pub struct Playground {
    clock: ManualClock,
    lanes: Vec<Limiter>,
}

impl Playground {
    /// Answers a message in JSON with JSON. An error is an answer too, with a member `error`, or
    /// `problem` if the limits cannot be read.
    pub fn answer(&mut self, message: &str) -> String {
        let answer = match serde_json::from_str(message) {
            Ok(question) => self.answer_question(question),
            Err(error) => Reply::Refused { error: format!("not a question: {error}") },
        };
        serde_json::to_string(&answer)
            .unwrap_or_else(|_| r#"{"error":"the answer cannot be written"}"#.to_owned())
    }

    fn answer_question(&mut self, question: Message) -> Reply {
        match question {
            Message::Open { limits } => match self.open(&limits) {
                Ok(opened) => Reply::Opened(opened),
                Err(problem) => Reply::Problem { problem },
            },
            Message::Ask { asks } => match self.ask_all(&asks) {
                Ok(lanes) => Reply::Answered { lanes },
                Err(error) => Reply::Refused { error },
            },
            Message::Traffic(traffic) => match traffic::asks(&traffic) {
                Ok(asks) => Reply::Traffic { asks },
                Err(error) => Reply::Refused { error },
            },
        }
    }

    /// Reads the limits under each strategy, as `tollgate replay --strategy all` does. Limits that
    /// name a strategy have one lane, as written.
    fn open(&mut self, text: &str) -> Result<Opened, Problem> {
        if text.len() > MAX_TEXT_BYTES {
            let what = format!("the text has {} bytes", text.len());
            let remedy = format!("write at most {MAX_TEXT_BYTES}");
            return Err(Problem::new(text, &tollgate::ParseError::whole(text, what, remedy)));
        }
        let mut sets: Vec<LimitSet> = Vec::new();
        let mut refused = Vec::new();
        for &strategy in Strategy::RATES {
            match LimitSet::parse_with(text, strategy) {
                Ok(set) => sets.push(set),
                Err(error) => {
                    let problem = Problem::new(text, &error);
                    refused.push(Refused { strategy: strategy.name(), problem });
                }
            }
        }
        if sets.is_empty() {
            sets.push(text.parse().map_err(|error| Problem::new(text, &error))?);
            refused.clear();
        }
        let lanes = sets.iter().map(lane).collect();
        self.clock = ManualClock::at_micros(0);
        self.lanes = sets.into_iter().map(|set| limiter(set, &self.clock)).collect();
        Ok(Opened { lanes, refused })
    }

    fn ask_all(&self, asks: &[question::Ask]) -> Result<Vec<Vec<Box<RawValue>>>, String> {
        if asks.len() > MAX_ASKS {
            return Err(format!("{} questions at once: ask at most {MAX_ASKS}", asks.len()));
        }
        let mut lanes: Vec<Vec<_>> = self.lanes.iter().map(|_| Vec::new()).collect();
        for ask in asks {
            self.clock.set(Time::from_micros(ask.at_us));
            for (limiter, answers) in self.lanes.iter().zip(&mut lanes) {
                answers.push(answered(limiter, ask)?);
            }
        }
        Ok(lanes)
    }
}

fn limiter(set: LimitSet, clock: &ManualClock) -> Limiter {
    let store = MemoryStore::builder().clock(clock.clone()).hash_seeds(SEEDS);
    Limiter::new(set, store.max_bytes(STORE_BYTES).build())
}

fn lane(set: &LimitSet) -> LaneJson {
    let limits = set.limits();
    let mut strategies: Vec<&str> = limits.iter().map(|limit| limit.strategy().name()).collect();
    strategies.dedup();
    LaneJson {
        strategy: strategies.join(", "),
        limits: limits.iter().map(limit).collect(),
        capacity: limits.iter().map(Limit::capacity).min().unwrap_or(0),
    }
}

fn limit(limit: &Limit) -> LimitJson {
    LimitJson {
        text: limit.to_string(),
        period_us: limit.quota().period.as_micros(),
        rows: limit.meaning().rows(duration),
    }
}

fn answered(limiter: &Limiter, ask: &question::Ask) -> Result<Box<RawValue>, String> {
    let question = Ask::new(&ask.subject).cost(ask.cost);
    let question = match ask.how {
        How::Check => question,
        How::Peek => question.peek(),
        How::Partial => question.partial(),
        How::Charge => {
            let subject: Subject = ask.subject.parse().map_err(text_of)?;
            let charged = limiter.charge(question).now().map_err(text_of)?;
            let charge = Charge::new(ask.cost, [(&subject, limiter.limits())], &charged);
            return to_raw_value(&charge).map_err(text_of);
        }
    };
    to_raw_value(&limiter.check(question).now().map_err(text_of)?).map_err(text_of)
}

fn text_of(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::collections::HashMap;

    use serde_json::{Value, json};
    use tollgate::wire::Wait;
    use tollgate_proof::vectors::wire::decisions;
    use tollgate_proof::vectors::{self, VECTORS};

    use super::*;

    fn answer(playground: &mut Playground, message: &Value) -> Value {
        serde_json::from_str(&playground.answer(&message.to_string())).unwrap()
    }

    fn open(limits: &str) -> (Playground, Value) {
        let mut playground = Playground::default();
        let opened = answer(&mut playground, &json!({"do": "open", "limits": limits}));
        (playground, opened)
    }

    #[test]
    fn a_bare_limit_has_a_lane_for_each_strategy() {
        let (_, opened) = open("5/10s");
        let lanes = opened["lanes"].as_array().unwrap();
        let names: Vec<&str> = lanes.iter().map(|it| it["strategy"].as_str().unwrap()).collect();
        let all: Vec<&str> = Strategy::RATES.iter().map(|it| it.name()).collect();
        assert_eq!(names, all);
        assert_eq!(opened["refused"], json!([]));
        let rows = lanes[0]["limits"][0]["rows"].as_array().unwrap();
        assert_eq!(rows[2], json!(["worst window", "at most 5 in any 10s"]));
    }

    #[test]
    fn what_names_its_strategy_has_one_lane_and_what_does_not_fit_is_refused() {
        let (_, opened) = open("5/10s via gcra, m: 9/m via uniform");
        assert_eq!(opened["lanes"].as_array().unwrap().len(), 1);
        assert_eq!(opened["lanes"][0]["strategy"], "gcra, uniform");
        let (_, opened) = open("5/10s burst 7");
        let refused = opened["refused"].as_array().unwrap();
        assert_eq!((opened["lanes"].as_array().unwrap().len(), refused.len()), (2, 4));
        assert_eq!(refused[0]["strategy"], "uniform");
    }

    #[test]
    fn an_error_has_its_place_as_a_browser_counts() {
        let (_, opened) = open("10/s via gcr");
        let problem = &opened["problem"];
        assert_eq!((&problem["start"], &problem["end"]), (&json!(9), &json!(12)));
        assert_eq!(problem["what"], "unknown strategy `gcr`");
        assert!(problem["shown"].as_str().unwrap().contains("\n  10/s via gcr\n"));
        // Four bytes in UTF-8, two code units in UTF-16.
        let (_, opened) = open("10/s, \u{1f418}/s");
        assert_eq!(opened["problem"]["start"], 6);
        assert_eq!(opened["problem"]["end"], 8, "{opened}");
        let (_, opened) = open(&"9".repeat(MAX_TEXT_BYTES + 1));
        assert!(opened["problem"]["what"].as_str().unwrap().contains("10001 bytes"));
        let (_, opened) = open("");
        assert!(opened["problem"]["what"].is_string());
    }

    #[test]
    fn every_time_line_is_answered_as_written() {
        let mut lines = 0;
        for (name, text) in VECTORS {
            for time_line in vectors::parse(text).unwrap() {
                let (mut playground, _) = open(&time_line.limit);
                for line in &time_line.lines {
                    let how = match line.ask {
                        vectors::Ask::Check => How::Check,
                        vectors::Ask::Peek => How::Peek,
                        vectors::Ask::Partial => How::Partial,
                        vectors::Ask::Charge => How::Charge,
                    };
                    let ask = json!({
                        "at_us": line.at_us, "cost": line.cost, "how": how, "subject": "a",
                    });
                    let seen = answer(&mut playground, &json!({"do": "ask", "asks": [ask]}));
                    let (seen, expect) = (&seen["lanes"][0][0], &line.expect);
                    let (limit, fields) = (&seen["limits"][0], &expect.fields);
                    let at = format!("{name}:{}: {seen}", line.number);
                    match line.ask {
                        vectors::Ask::Charge => assert_eq!(limit["fits"], expect.admitted, "{at}"),
                        _ => assert_eq!(seen["allowed"], expect.admitted, "{at}"),
                    }
                    match line.ask {
                        vectors::Ask::Peek => {}
                        vectors::Ask::Charge => {
                            let charged = line.cost - limit["cut"].as_u64().unwrap();
                            assert_eq!(charged, expect.granted, "{at}");
                        }
                        _ => assert_eq!(seen["granted"], expect.granted, "{at}"),
                    }
                    let us = |us: u64| json!(Wait(Duration::from_micros(us)));
                    assert_eq!(limit["remaining"], fields.remaining, "{at}");
                    assert_eq!(limit["retry_after"], json!(fields.retry_after_us.map(us)), "{at}");
                    assert_eq!(limit["reset_after"], us(fields.reset_after_us), "{at}");
                    lines += 1;
                }
            }
        }
        assert!(lines > 200, "{lines}");
    }

    #[test]
    fn decisions_are_those_of_every_front() {
        let mut playgrounds = HashMap::new();
        // Holds are not asked for here.
        for asked in decisions().unwrap() {
            if !["check", "peek", "charge"].contains(&asked.act) {
                continue;
            }
            let (subject, limits) = (asked.text("subject"), asked.text("limit"));
            let (cost, how) = (asked.cost(), asked.act);
            let ask = json!({"at_us": 0, "cost": cost, "how": how, "subject": subject});
            let opened = playgrounds.entry(limits.to_owned()).or_insert_with(|| open(limits).0);
            let said = answer(opened, &json!({"do": "ask", "asks": [ask]}));
            let said = said["lanes"].as_array().unwrap().iter().map(|lane| asked.settled(&lane[0]));
            assert!(said.into_iter().any(|said| said == asked.answer), "{}", asked.about);
        }
    }

    #[test]
    fn several_limits_are_one_answer() {
        let (mut playground, _) = open("s: 1/s via gcra, m: 3/m via fixed_window");
        let ask =
            |at_us: u64, how: &str| json!({"at_us": at_us, "cost": 1, "how": how, "subject": "a"});
        let asks = [ask(0, "check"), ask(0, "check"), ask(1_000_000, "charge")];
        let seen = answer(&mut playground, &json!({"do": "ask", "asks": asks}));
        let [first, second, charge] = [0, 1, 2].map(|n| &seen["lanes"][0][n]);
        assert_eq!((&first["allowed"], &first["remaining"]), (&json!(true), &json!(0)));
        assert_eq!((&second["retry_after"]["seconds"], &second["binding"]), (&json!(1), &json!(0)));
        assert_eq!(charge["cost"], 1);
        assert_eq!(
            (&charge["limits"][0]["cut"], &charge["limits"][0]["remaining"]),
            (&json!(0), &json!(0))
        );
        assert_eq!(charge["limits"][1]["reset_after"]["seconds"], 59);
    }

    #[test]
    fn what_is_no_question_is_refused_with_a_reason() {
        let (mut playground, _) = open("5/10s");
        let mut error = |message: Value| {
            answer(&mut playground, &message)["error"].as_str().unwrap().to_owned()
        };
        assert!(error(json!({"do": "dance"})).contains("unknown variant `dance`"));
        let ask = |cost: u64| json!({"at_us": 0, "cost": cost, "how": "check", "subject": "a"});
        assert!(error(json!({"do": "ask", "asks": [ask(0)]})).contains("at least 1"));
        let many = vec![ask(1); MAX_ASKS + 1];
        assert!(error(json!({"do": "ask", "asks": many})).contains("at most 5000"));
        let traffic = json!({
            "do": "traffic", "pattern": "steady", "requests": 0, "span_us": 1, "seed": 1,
        });
        assert!(error(traffic).contains("out of range"));
        assert!(Playground::default().answer("{").contains("not a question"));
    }
}
