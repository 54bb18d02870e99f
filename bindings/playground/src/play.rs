//! The playground's state: one limiter in memory for each strategy, on one clock.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};
use tollgate::wire::{Charge, duration};
use tollgate::{
    Ask, Charged, Decision, Limit, LimitSet, Limiter, ManualClock, MemoryStore, ParseError,
    Strategy, Subject, Time,
};

use crate::answer::{LaneJson, LimitJson, Opened, Problem, Refused, Reply, Seen};
use crate::moment::{self, Moment, Verdict, moments};
use crate::question::{self, How, MAX_ASKS, MAX_HISTORY, MAX_SIDES, Message};
use crate::traffic;

/// The most bytes of one strategy's store. A page has two clients.
const STORE_BYTES: usize = 16 << 20;

/// The reader's own page has no attacker, and without glue it has no source of random numbers.
const SEEDS: [u64; 2] = [1, 2];

/// The longest text of limits, in bytes: a page should not hang on what was pasted by mistake.
const MAX_TEXT_BYTES: usize = 10_000;

/// The most spans of one limit that are drawn: as many as a window can have sub-buckets.
const MAX_SPANS: usize = 1_001;

/// Every strategy under the limits that the page opened last, and their clock.
#[derive(Debug, Default)]
pub struct Playground {
    table: Table,
    /// All questions since it was opened, so that a moment before can be looked at.
    history: Vec<question::Ask>,
    /// For each subject and each lane, why it answered the last of them as it did.
    why: BTreeMap<String, Reasons>,
}

/// Limiters on one clock.
#[derive(Debug, Default)]
struct Table {
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
        let answer = match question {
            Message::Open { limits } => self.open(&limits),
            Message::Ask { asks } => self.ask_all(asks),
            Message::Look { times_us, subjects } => self.look(&times_us, &subjects),
            Message::See { asked, at_us, subjects } => self.see(asked, at_us, &subjects),
            Message::Traffic(traffic) => {
                traffic::asks(&traffic).map(|asks| Reply::Traffic { asks })
            }
        };
        answer.unwrap_or_else(|error| Reply::Refused { error })
    }

    fn open(&mut self, texts: &[String]) -> Result<Reply, String> {
        if !(1..=MAX_SIDES).contains(&texts.len()) {
            return Err(format!("{} texts of limits: open 1 or {MAX_SIDES}", texts.len()));
        }
        let mut opened = Opened { lanes: Vec::new(), refused: Vec::new() };
        let mut sets = Vec::new();
        for (side, text) in texts.iter().enumerate() {
            match read(text) {
                Ok(Reading { fit, refused }) => {
                    opened.lanes.extend(fit.iter().map(|set| lane(side, set)));
                    opened.refused.extend(refused.into_iter().map(|(strategy, error)| Refused {
                        side,
                        strategy: strategy.name(),
                        problem: Problem::new(text, &error),
                    }));
                    sets.extend(fit);
                }
                Err(error) => {
                    return Ok(Reply::Problem { side, problem: Problem::new(text, &error) });
                }
            }
        }
        *self = Self { table: Table::new(sets), ..Self::default() };
        Ok(Reply::Opened(opened))
    }

    fn ask_all(&mut self, asks: Vec<question::Ask>) -> Result<Reply, String> {
        let most = MAX_HISTORY - self.history.len();
        if asks.len() > MAX_ASKS {
            return Err(format!("{} questions at once: ask at most {MAX_ASKS}", asks.len()));
        }
        if asks.len() > most {
            return Err(format!("{MAX_HISTORY} requests are remembered at most: start afresh"));
        }
        let mut lanes: Vec<Vec<_>> = self.table.lanes.iter().map(|_| Vec::new()).collect();
        for (place, ask) in asks.iter().enumerate() {
            // There are two clients: one step back from the end or two.
            let is_same = |later: &question::Ask| later.subject == ask.subject;
            let is_last = asks.iter().rposition(is_same) == Some(place);
            let answers = if is_last {
                let (answers, why) = self.table.explain(ask)?;
                self.why.insert(ask.subject.clone(), why);
                answers
            } else {
                self.table.ask(ask)?
            };
            for (lane, answer) in lanes.iter_mut().zip(answers) {
                lane.push(answer.written(ask)?);
            }
        }
        self.history.extend(asks);
        Ok(Reply::Answered { lanes })
    }

    fn look(&self, times_us: &[u64], subjects: &[String]) -> Result<Reply, String> {
        if times_us.len() > MAX_ASKS || subjects.len() > traffic::CLIENTS.len() {
            return Err(format!("look at most at {MAX_ASKS} times of each client"));
        }
        let look = |limiter: &Limiter, subject: &String| {
            let at = |us: &u64| {
                self.table.clock.set(Time::from_micros(*us));
                let peek = limiter.check(Ask::new(subject).peek()).now().map_err(text_of)?;
                Ok(peek.remaining())
            };
            times_us.iter().map(at).collect::<Result<Vec<u64>, String>>()
        };
        let lane = |limiter| subjects.iter().map(|subject| look(limiter, subject)).collect();
        let left = self.table.lanes.iter().map(lane).collect::<Result<_, String>>()?;
        Ok(Reply::Looked { left })
    }

    /// Asks everything again up to that question, which costs less than remembering every state.
    fn see(&self, asked: Option<usize>, at_us: u64, subjects: &[String]) -> Result<Reply, String> {
        let Some(asked) = asked else {
            let spans = self.table.spans(at_us, subjects)?;
            return Ok(Reply::Seen(Seen { spans, why: self.why.clone() }));
        };
        let questions = self
            .history
            .get(..asked)
            .ok_or_else(|| format!("question {asked} of {}: there is none", self.history.len()))?;
        let sets = self.table.lanes.iter().map(|limiter| limiter.limits().clone());
        let table = Table::new(sets);
        let mut why = BTreeMap::new();
        if let Some((last, before)) = questions.split_last() {
            for ask in before {
                table.ask(ask)?;
            }
            why.insert(last.subject.clone(), table.explain(last)?.1);
        }
        Ok(Reply::Seen(Seen { spans: table.spans(at_us, subjects)?, why }))
    }
}

impl Table {
    fn new(sets: impl IntoIterator<Item = LimitSet>) -> Self {
        let clock = ManualClock::at_micros(0);
        let lanes = sets.into_iter().map(|set| limiter(set, &clock)).collect();
        Self { clock, lanes }
    }

    /// Asks every lane.
    fn ask<'l>(&'l self, ask: &'l question::Ask) -> Result<Vec<Answered<'l>>, String> {
        self.clock.set(Time::from_micros(ask.at_us));
        self.lanes.iter().map(|limiter| answered(limiter, ask)).collect()
    }

    /// The same, and for each lane why its limits answered so.
    fn explain<'l>(
        &'l self,
        ask: &'l question::Ask,
    ) -> Result<(Vec<Answered<'l>>, Reasons), String> {
        self.clock.set(Time::from_micros(ask.at_us));
        let lanes = self.lanes.iter();
        let before = lanes.map(|limiter| moments(limiter, &ask.subject, ask.at_us));
        let before = before.collect::<Result<Vec<_>, _>>()?;
        let answers = self.ask(ask)?;
        let why = |(moments, answer): (&Vec<Moment<'_>>, &Answered<'_>)| {
            let verdicts = answer.verdicts(ask);
            moments
                .iter()
                .zip(verdicts)
                .map(|(it, (cost, verdict))| it.why(cost, verdict))
                .collect()
        };
        let reasons = before.iter().zip(&answers).map(why).collect();
        Ok((answers, reasons))
    }

    /// For each lane, subject and limit, what counts at that time.
    fn spans(&self, at_us: u64, subjects: &[String]) -> Result<SpansOfLanes, String> {
        self.clock.set(Time::from_micros(at_us));
        let spans = |moment: &Moment<'_>| {
            let mut spans = moment.spans();
            // The newest.
            spans.drain(..spans.len().saturating_sub(MAX_SPANS));
            spans
        };
        let of_subject = |limiter: &Limiter, subject: &String| {
            let moments = moments(limiter, subject, at_us)?;
            Ok(moments.iter().map(spans).collect())
        };
        let lane = |limiter| subjects.iter().map(|subject| of_subject(limiter, subject)).collect();
        self.lanes.iter().map(lane).collect()
    }
}

/// A text of limits under each strategy.
struct Reading {
    fit: Vec<LimitSet>,
    refused: Vec<(Strategy, ParseError)>,
}

/// For each lane and limit, why it answered so.
type Reasons = Vec<Vec<String>>;

/// The answer of a lane.
enum Answered<'l> {
    Decision(Decision<'l>),
    /// A charge without a check: for each limit.
    Charges(&'l Limiter, Vec<Charged>),
}

/// For each lane, subject and limit.
type SpansOfLanes = Vec<Vec<Vec<Vec<crate::answer::Span>>>>;

/// Reads limits under each strategy, as `tollgate replay --strategy all` does: those that fit, and
/// the strategies that do not. Limits that name a strategy have one lane, as written.
fn read(text: &str) -> Result<Reading, ParseError> {
    if text.len() > MAX_TEXT_BYTES {
        let what = format!("the text has {} bytes", text.len());
        return Err(ParseError::whole(text, what, format!("write at most {MAX_TEXT_BYTES}")));
    }
    let mut sets: Vec<LimitSet> = Vec::new();
    let mut refused = Vec::new();
    for &strategy in Strategy::RATES {
        match LimitSet::parse_with(text, strategy) {
            Ok(set) => sets.push(set),
            Err(error) => refused.push((strategy, error)),
        }
    }
    if sets.is_empty() {
        sets.push(text.parse()?);
        refused.clear();
    }
    for set in &sets {
        // Such as slots, which holds take, and limits of tokens: this page has neither.
        let probe = limiter(set.clone(), &ManualClock::at_micros(0));
        if let Err(error) = probe.check("a").now() {
            let remedy = "this page asks for requests alone: write a rate, as in `10/s`".to_owned();
            return Err(ParseError::whole(text, error.to_string(), remedy));
        }
    }
    Ok(Reading { fit: sets, refused })
}

fn limiter(set: LimitSet, clock: &ManualClock) -> Limiter {
    let store = MemoryStore::builder().clock(clock.clone()).hash_seeds(SEEDS);
    Limiter::new(set, store.max_bytes(STORE_BYTES).build())
}

fn lane(side: usize, set: &LimitSet) -> LaneJson {
    let limits = set.limits();
    let mut strategies: Vec<&str> = limits.iter().map(|limit| limit.strategy().name()).collect();
    strategies.dedup();
    LaneJson {
        side,
        strategy: strategies.join(", "),
        limits: limits.iter().map(limit).collect(),
        capacity: limits.iter().map(Limit::capacity).min().unwrap_or(0),
    }
}

fn limit(limit: &Limit) -> LimitJson {
    let meaning = limit.meaning();
    LimitJson {
        text: limit.to_string(),
        period_us: limit.quota().period.as_micros(),
        capacity: limit.capacity(),
        most: meaning.worst_window.map(|most| format!("{most} in {}", meaning.window)),
        rows: meaning.rows(duration),
        choose: moment::choose(limit.strategy()),
        kind: moment::kind(limit),
        edges: moment::edges(limit),
    }
}

fn answered<'l>(limiter: &'l Limiter, ask: &'l question::Ask) -> Result<Answered<'l>, String> {
    let question = Ask::new(&ask.subject).cost(ask.cost);
    let question = match ask.how {
        How::Check => question,
        How::Peek => question.peek(),
        How::Partial => question.partial(),
        How::Charge => {
            let charges = limiter.charge(question).now().map_err(text_of)?;
            return Ok(Answered::Charges(limiter, charges));
        }
    };
    let decision = limiter.check(question).now().map_err(text_of)?;
    Ok(Answered::Decision(decision))
}

impl Answered<'_> {
    /// As every front writes it.
    fn written(&self, ask: &question::Ask) -> Result<Box<RawValue>, String> {
        match self {
            Self::Decision(decision) => to_raw_value(decision).map_err(text_of),
            Self::Charges(limiter, charges) => {
                let subject: Subject = ask.subject.parse().map_err(text_of)?;
                let charge = Charge::new(ask.cost, [(&subject, limiter.limits())], charges);
                to_raw_value(&charge).map_err(text_of)
            }
        }
    }

    /// For each limit, which cost it judged and how.
    fn verdicts(&self, ask: &question::Ask) -> Vec<(u64, Verdict)> {
        let decision = match self {
            Self::Decision(decision) => decision,
            Self::Charges(_, charges) => return vec![(ask.cost, Verdict::Charged); charges.len()],
        };
        let is_cut = ask.how == How::Partial && decision.granted() < ask.cost;
        let verdict = |report: tollgate::Report<'_>| match report.retry_after() {
            // None of it is a denial, with the numbers of a check for one unit.
            _ if is_cut && decision.is_allowed() => (ask.cost, Verdict::Part(decision.granted())),
            _ if report.admits() => (if is_cut { 1 } else { ask.cost }, Verdict::Fits),
            Some(wait) => (if is_cut { 1 } else { ask.cost }, Verdict::Later(moment::micros(wait))),
            None => (ask.cost, Verdict::Never),
        };
        decision.reports().map(verdict).collect()
    }
}

fn text_of(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use serde_json::{Value, json};
    use std::collections::HashMap;
    use tollgate::wire::Wait;
    use tollgate_proof::vectors::wire::decisions;
    use tollgate_proof::vectors::{self, VECTORS};

    use super::*;

    fn answer(playground: &mut Playground, message: &Value) -> Value {
        serde_json::from_str(&playground.answer(&message.to_string())).unwrap()
    }

    fn open(limits: &str) -> (Playground, Value) {
        let mut playground = Playground::default();
        let opened = answer(&mut playground, &json!({"do": "open", "limits": [limits]}));
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

    fn asks(at_s: &[u64]) -> Value {
        let ask =
            |s: &u64| json!({"at_us": s * 1_000_000, "cost": 1, "how": "check", "subject": "a"});
        json!({"do": "ask", "asks": at_s.iter().map(ask).collect::<Vec<_>>()})
    }

    #[test]
    fn two_texts_are_side_by_side_on_one_clock() {
        let mut playground = Playground::default();
        let mut open =
            |limits: Value| answer(&mut playground, &json!({"do": "open", "limits": limits}));
        let opened = open(json!(["1/10s via gcra", "5/10s"]));
        let lanes = opened["lanes"].as_array().unwrap();
        let sides: Vec<&Value> = lanes.iter().map(|lane| &lane["side"]).collect();
        assert_eq!(json!(sides), json!([0, 1, 1, 1, 1, 1, 1]));
        let wrong = open(json!(["5/10s", "5/10"]));
        assert_eq!((&wrong["side"], wrong["problem"].is_object()), (&json!(1), true), "{wrong}");
        assert!(open(json!([]))["error"].as_str().unwrap().contains("open 1 or 2"));
        // A mistake changes nothing.
        let said = answer(&mut playground, &asks(&[0, 0]));
        assert_eq!(said["lanes"].as_array().unwrap().len(), 7);
        assert_eq!(said["lanes"][0][1]["allowed"], false);
        assert_eq!(said["lanes"][3][1]["allowed"], true);
    }

    #[test]
    fn every_question_can_be_looked_at_again() {
        let (mut playground, _) = open("2/10s via sliding_log");
        answer(&mut playground, &asks(&[1, 2, 3, 30]));
        let see = |playground: &mut Playground, asked: Value, at_s: u64| {
            let at_us = at_s * 1_000_000;
            let see = json!({"do": "see", "asked": asked, "at_us": at_us, "subjects": ["a"]});
            answer(playground, &see)
        };
        let third = see(&mut playground, json!(3), 3);
        let why = third["why"]["a"][0][0].as_str().unwrap();
        assert!(why.ends_with("1 more fits at 11s, when that of 1s leaves."), "{why}");
        assert_eq!(third["spans"][0][0][0].as_array().unwrap().len(), 2);
        assert_eq!(see(&mut playground, json!(1), 1)["spans"][0][0][0][0]["start_us"], 1_000_000);
        let present = see(&mut playground, Value::Null, 30);
        assert_eq!(present["why"], see(&mut playground, json!(4), 30)["why"]);
        let error = &see(&mut playground, json!(5), 30)["error"];
        assert_eq!(*error, "question 5 of 4: there is none");
        // Each client has the reason of its own last answer.
        let other = json!({"at_us": 30_000_000, "cost": 2, "how": "check", "subject": "b"});
        answer(&mut playground, &json!({"do": "ask", "asks": [other]}));
        let why = see(&mut playground, Value::Null, 30)["why"].clone();
        assert_eq!(why["a"], present["why"]["a"]);
        assert!(why["b"][0][0].as_str().unwrap().starts_with("0 of 2 used "), "{why}");
        // Nobody asked anything by looking.
        let left = answer(
            &mut playground,
            &json!({"do": "look", "times_us": [30_000_000], "subjects": ["a", "b"]}),
        );
        assert_eq!(left["left"], json!([[[1], [0]]]));
    }

    #[test]
    fn so_many_requests_are_remembered() {
        let (mut playground, _) = open("5/10s via gcra");
        let many = asks(&[0; MAX_ASKS]);
        for _ in 0..MAX_HISTORY / MAX_ASKS {
            assert!(answer(&mut playground, &many)["error"].is_null());
        }
        let error = answer(&mut playground, &asks(&[0]))["error"].clone();
        assert_eq!(error, "10000 requests are remembered at most: start afresh");
    }

    #[test]
    fn limits_that_this_page_cannot_ask_are_refused_at_once() {
        for text in ["20 at once", "10/s, 5 at once", "100/m of tokens via gcra"] {
            let (_, opened) = open(text);
            let remedy = opened["problem"]["remedy"].as_str();
            assert!(remedy.is_some_and(|words| words.contains("`10/s`")), "{text}: {opened}");
        }
        let (mut playground, _) = open("2/m via gcra, ban 1m after 2 denials in 1m up to 1h");
        answer(&mut playground, &asks(&[0, 0, 0, 0, 1]));
        let see = json!({"do": "see", "asked": null, "at_us": 1_000_000, "subjects": ["a"]});
        let seen = answer(&mut playground, &see);
        assert_eq!(seen["why"]["a"][0][1], "A ban runs until 1m.");
        assert_eq!(seen["spans"][0][0][1][0]["end_us"], 60_000_000);
    }
}
