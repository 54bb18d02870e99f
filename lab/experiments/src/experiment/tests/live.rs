//! Real time, driven by hand.

use super::*;
use crate::experiment::live::{Live, ServerUsage, TimedAnswer};
use tollgate_logs::decide::{InMemory, Verdict};
use tollgate_logs::event::Event;

/// Runs each case as in real time, on a store that takes no time.
fn live(experiment: &Experiment) -> Results {
    let mut results = Results::new(experiment);
    let mut decider = InMemory::default();
    for case in &experiment.cases {
        decider.begin(&case.parts).unwrap();
        let mut live = Live::new(experiment, case).unwrap();
        while let Some(now_us) = live.next_due().unwrap() {
            let question = live.take(now_us).unwrap().unwrap();
            let client = tollgate_logs::event::ClientId::new(question.client());
            let event = Event::new(experiment.start_us + now_us, client);
            let mut verdicts = Vec::new();
            decider.decide(&[event], &mut verdicts).unwrap();
            let verdict = verdicts[0];
            let (sent_us, answered_us) = (now_us, now_us);
            let decided_us = experiment.start_us + now_us;
            live.answered(question, TimedAnswer { sent_us, decided_us, answered_us, verdict });
        }
        results.cases.push(live.finish(None));
    }
    results.conclude(experiment);
    results
}

#[test]
fn real_time_on_a_store_that_takes_none_is_simulated_time() {
    let experiments =
        [Experiment::parse("x", RETRIES).unwrap(), zoo(40, 30, 1).unwrap(), sides(1).unwrap()];
    for mut experiment in experiments {
        experiment.cases.retain(|case| case.queue.is_none());
        let simulated = run_of(&experiment);
        let mut live = live(&experiment);
        for (live, simulated) in live.cases.iter_mut().zip(&simulated.cases) {
            let took = live.live.take().unwrap();
            assert_eq!((took.latency_us.unwrap().max, took.failed, took.in_flight), (0, 0, 1));
            // Nobody was asked for it.
            live.bytes_per_subject = simulated.bytes_per_subject;
            (live.keys, live.bytes) = (simulated.keys, simulated.bytes);
        }
        assert_eq!(live, simulated);
    }
}

#[test]
fn what_gets_no_answer_is_neither_admitted_nor_denied() {
    let experiment = Experiment::parse("x", RETRIES).unwrap();
    let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
    let (mut attempt, mut failed) = (0, 0);
    while let Some(due_us) = live.next_due().unwrap() {
        assert!(due_us == 0 || live.take(due_us - 1).unwrap().is_none(), "not before it is due");
        let question = live.take(due_us).unwrap().unwrap();
        attempt += 1;
        if attempt % 3 == 0 {
            failed += 1;
            live.failed(question, "no answer within 50 ms");
            continue;
        }
        // Denied for ever: nobody comes back.
        let verdict = Verdict::new(attempt % 3 == 1, None);
        let (sent_us, answered_us) = (due_us + 4, due_us + 9);
        let decided_us = experiment.start_us + due_us + 5;
        live.answered(question, TimedAnswer { sent_us, decided_us, answered_us, verdict });
    }
    let case = live.finish(Some(ServerUsage { cpu_us: 500, calls: 50, commands: 150 }));
    assert_eq!(case.attempts, case.admitted + case.denied + failed);
    assert_eq!(case.attempts, attempt);
    let took = case.live.unwrap();
    assert_eq!((took.failed, took.failure.as_deref()), (failed, Some("no answer within 50 ms")));
    assert_eq!((took.latency_us.unwrap().p50, took.late_us.unwrap().p50), (9, 4));
    let answered = (attempt - failed) as f64;
    assert!((took.calls.unwrap() - 50.0 / answered).abs() < 1e-3);
}

#[test]
fn who_asks_again_waits_from_its_answer_and_was_served_when_that_was_there() {
    let text = "version = 1\nduration = \"10s\"\n\
                workload = [{ arrivals = \"bursts\", size = 2, every = \"1h\", retry = \"obey\" }]\n\
                case = [{ limits = [{ per = \"client\", limit = \"1/s via gcra\" }] }]\n";
    let experiment = Experiment::parse("x", text).unwrap();
    let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
    let begin_us = experiment.start_us + 777;
    live.begin(begin_us);
    let [straggler, denied] = [0, 0].map(|now| live.take(now).unwrap().unwrap());
    assert_eq!(live.next_due().unwrap(), None);
    let verdict = Verdict::new(false, Some(1_000_000));
    let (sent_us, decided_us, answered_us) = (3, begin_us + 50, 100);
    live.answered(denied, TimedAnswer { sent_us, decided_us, answered_us, verdict });
    assert_eq!(live.next_due().unwrap(), Some(1_000_100));
    // The straggler holds back what is counted, and is one of two that wait.
    let again = live.take(1_000_100).unwrap().unwrap();
    let verdict = Verdict::new(true, None);
    let (sent_us, decided_us, answered_us) = (1_000_200, begin_us + 1_000_300, 1_000_400);
    live.answered(again, TimedAnswer { sent_us, decided_us, answered_us, verdict });
    // Decided before the others, by a clock that is a little behind; and answered after the end.
    let (sent_us, decided_us, answered_us) = (1, begin_us - 20, 12_000_000);
    live.answered(straggler, TimedAnswer { sent_us, decided_us, answered_us, verdict });
    let case = live.finish(None);
    assert_eq!((case.requests, case.attempts, case.admitted), (2, 3, 2));
    assert_eq!(case.longest_wait_us, Some(12_000_000), "until the answer was there");
    let live = case.live.unwrap();
    assert_eq!((live.in_flight, live.clock_steps), (2, 0));
    // 1.00032 s apart by the store's clock: as far as it promises, and not a microsecond nearer.
    assert_eq!((case.limits[0].peak, case.limits[0].holds), (1, true));
}

#[test]
fn what_is_decided_after_the_end_is_in_the_series_too() {
    let text = "version = 1\nduration = \"1s\"\nbucket = \"100ms\"\n\
                workload = [{ arrivals = \"steady\", rate = \"10/s\" }]\n\
                case = [{ limits = [{ per = \"client\", limit = \"9/s via gcra\" }] }]\n";
    let experiment = Experiment::parse("x", text).unwrap();
    let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
    let verdict = Verdict::new(true, None);
    for late_us in [0, 1_000_000, 900_000, 9_000_000_000_000] {
        let question = live.take(u64::MAX).unwrap().unwrap();
        let decided_us = experiment.start_us + question.due_us() + late_us;
        live.answered(question, TimedAnswer { sent_us: 0, decided_us, answered_us: 0, verdict });
    }
    let case = live.finish(None);
    let admitted: Vec<u64> = case.buckets.iter().map(|bucket| bucket.admitted).collect();
    assert_eq!(admitted.len(), 20, "twice as many as planned, and no more");
    assert_eq!((admitted[0], admitted[11], admitted[19]), (1, 2, 1), "{admitted:?}");
}

#[test]
fn who_comes_on_the_wrong_side_of_an_edge_is_told() {
    let text = "version = 1\nduration = \"25s\"\n\
                workload = [{ arrivals = \"edge\", size = 2, window = \"10s\", before = \"5ms\" }]\n\
                case = [{ limits = [{ per = \"client\", limit = \"9/10s via gcra\" }] }]\n";
    let experiment = Experiment::parse("x", text).unwrap();
    let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
    let verdict = Verdict::new(true, None);
    let mut due = Vec::new();
    while let Some(due_us) = live.next_due().unwrap() {
        let question = live.take(due_us).unwrap().unwrap();
        due.push(due_us);
        // Between the two that come before an edge, and at it.
        let decided_us = experiment.start_us + due_us + 3_000;
        live.answered(
            question,
            TimedAnswer { sent_us: 0, decided_us, answered_us: due_us, verdict },
        );
    }
    assert_eq!(due[..4], [9_995_000, 9_997_500, 10_000_000, 10_000_000]);
    let mut results = Results::new(&experiment);
    results.live = Some(results::LiveRun::new("memory://".into(), None));
    results.cases.push(live.finish(None));
    results.conclude(&experiment);
    assert_eq!(results.cases[0].live.as_ref().unwrap().missed_edges, 2);
    let told = results.findings.join(" ");
    assert!(told.contains("2 attempts came on the wrong side of an edge"), "{told}");
}

#[test]
fn what_deciding_took_is_told_beside_the_operation() {
    let told = |operation: &str| {
        let text = RETRIES.replace("version = 1", &format!("version = 1\n{operation}"));
        let experiment = Experiment::parse("x", &text).unwrap();
        let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
        let verdict = Verdict::new(true, None);
        for took_us in [0, 2_000] {
            let question = live.take(u64::MAX).unwrap().unwrap();
            let answered_us = question.due_us() + took_us;
            let decided_us = experiment.start_us + answered_us;
            live.answered(question, TimedAnswer { sent_us: 0, decided_us, answered_us, verdict });
        }
        let mut results = Results::new(&experiment);
        results.live = Some(results::LiveRun::new("memory://".into(), experiment.operation_us));
        results.cases.push(live.finish(None));
        results.conclude(&experiment);
        results.findings.iter().find(|it| it.starts_with("An answer took")).unwrap().clone()
    };
    assert!(told("").ends_with(": no more than 20 % of an operation of 5 ms and longer."));
    let within = told("operation = \"10ms\"");
    assert!(within.contains("10.0 % of an operation of 10 ms, within the 20 %"), "{within}");
    let over = told("operation = \"4ms\"");
    assert!(over.contains("25.0 % of an operation of 4 ms, more than the 20 %"), "{over}");
}

/// Offers and workers are reported in any order; what is counted is what happened.
#[test]
fn a_queue_in_real_time_is_measured_by_what_its_workers_report() {
    let text = "version = 1\nduration = \"10s\"\nbucket = \"1s\"\ncapacity = \"9/s\"\n\
                workload = [{ arrivals = \"steady\", rate = \"1/s\" }]\n\
                case = [{ queue = { bound = 2, work = \"3s\" } }]\n";
    let experiment = Experiment::parse("x", text).unwrap();
    let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
    let begin_us = 1_800_000_000_000_000;
    live.begin(begin_us);
    const S: u64 = 1_000_000;
    for second in 0..4_u64 {
        let now_us = second * S;
        let question = live.take(now_us).unwrap().unwrap();
        if second == 0 {
            // Its worker is faster than the answer.
            live.delivered(now_us + 10, 10);
        }
        let verdict = Verdict::new(second < 3, None);
        let (sent_us, answered_us) = (now_us, now_us + 20);
        let decided_us = begin_us + answered_us;
        live.answered(question, TimedAnswer { sent_us, decided_us, answered_us, verdict });
    }
    live.done(3 * S + 30);
    live.delivered(3 * S + 40, 2 * S);
    let memory = tollgate_queue::MemoryQueues::new();
    let handles = QueueHandles::new(memory, "q", experiment.cases[0].queue.as_ref().unwrap());
    let stats = tollgate::at_once(handles.unwrap().queue.stats()).unwrap().unwrap();
    let case = live.finish_queue(None, 10 * S, &stats);
    assert_eq!((case.admitted, case.denied, case.peak), (3, 1, Some(1)), "{case:?}");
    let queue = case.queue.unwrap();
    let depths: Vec<u64> = queue.buckets.iter().map(|bucket| bucket.depth).collect();
    assert_eq!(depths[..5], [0, 1, 2, 2, 1], "{depths:?}");
    assert_eq!((queue.depth_max, queue.waited_us.unwrap().max), (2, 2 * S));
    assert_eq!(queue.buckets[3].done + queue.buckets[3].delivered, 2);
    assert_eq!(case.live.unwrap().latency_us.unwrap().max, 20);
}
