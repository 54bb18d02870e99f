//! Answers that borrow, and the fast path.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{Subject, SubjectPrefix};
use tollgate_policy::{Authority, Event, Field, Fields, subject_of};

use super::*;

#[test]
fn an_answer_that_is_lent_says_what_one_that_is_kept_does() {
    let text = one("limits = [{ subject = \"ip\", limit = \"2/h\" }]");
    let ((lent, _), (kept, _)) = (gate(&text), gate(&text));
    let fields = [("ip", "10.0.0.1")];
    let prepared = lent.prepare(&fields);
    for outcome in [Outcome::Allowed, Outcome::Allowed, Outcome::Denied] {
        let answer = block_on(kept.ask(kept.prepare(&fields)));
        assert_eq!(answer.outcome(), outcome);
        // One that was prepared in one step may be asked for again, and is charged again.
        let view = lent.ask_now(&prepared).unwrap();
        assert_eq!(view.outcome(), answer.outcome());
        assert_eq!(view.parts(), answer.parts());
        assert_eq!(view.limit(), answer.limit());
        assert_eq!(view.policy().map(|policy| &policy.name), Some(&"p".to_owned()));
        let told = view.decision().map(tollgate::Decision::remaining);
        assert_eq!(told, answer.decision().map(tollgate::Decision::remaining));
    }
    assert_eq!(lent.counters().policies()[0].1.total(Outcome::Denied), 1);
}

#[test]
fn a_refused_request_is_counted_and_asks_nothing() {
    let (gate, _) = gate(&one("limits = [{ subject = \"ip\", limit = \"1/h\" }]"));
    let fields = [("ip", "10.0.0.1")];
    let prepared = gate.prepare(&fields);
    assert!(prepared.enforces(&Field::Ip) && !prepared.enforces(&Field::User));
    let answer = gate.refuse(prepared, Field::Ip);
    assert_eq!((answer.outcome(), answer.missing()), (Outcome::Missing, Some(&Field::Ip)));
    assert_eq!(gate.counters().policies()[0].1.get(Outcome::Missing, Authority::Policy), 1);
    assert!(ask(&gate, &fields).is_allowed());
}

/// The fields of an answer that is lent: as much as a front looks at.
fn told(view: &Answer<'_>) -> String {
    let reports: Vec<_> =
        view.reports().map(|(policy, report)| format!("{} {report:?}", policy.name)).collect();
    let policy = view.policy().map(|policy| &policy.name);
    format!(
        "{:?} {:?} {policy:?} {:?} {:?} {:?} {} {reports:?} {} {:?}",
        view.outcome(),
        view.authority(),
        view.parts(),
        view.limit(),
        view.retry_after(),
        view.revision().number,
        view.shadows().count(),
        view.missing(),
    )
}

/// How subjects are made of the fields of a request.
fn in_fields(fields: &impl Fields) -> impl Fn(&Field, &SubjectPrefix) -> Option<Subject> {
    |field, prefix| subject_of(fields, field, prefix)
}

/// The policies of which every request is asked the same, and a request of each.
const ALIKE: [(&str, &[(&str, &str)]); 5] = [
    ("limits = [{ subject = \"ip\", limit = \"2/h\" }]", &[("ip", "10.0.0.1")]),
    (
        "limits = [{ subject = \"ip\", limit = \"2/s, 3/m, 4/h via sliding_log\" }]",
        &[("ip", "2001:db8:1:2::/64")],
    ),
    (
        "cost = 3\nlimits = [{ subject = \"user\", absent = \"skip\", limit = \"7/h\" }]",
        &[("user", "a name, and % that is written in another way, and longer than most")],
    ),
    (
        "limits = [{ subject = \"header.x-a\", absent = \"deny\", limit = \"1/h, 9/h via gcra\" }]",
        &[("header.x-a", "b")],
    ),
    ("cost = 3\nlimits = [{ subject = \"ip\", limit = \"2/h\" }]", &[("ip", "10.0.0.1")]),
];

#[test]
fn what_is_judged_at_once_is_what_is_judged_in_two_steps() {
    for (lines, fields) in ALIKE {
        let ((short, near), (long, far)) = (gate(&one(lines)), gate(&one(lines)));
        for _ in 0..6 {
            let (mark, said) = short.check_at_once(None, in_fields(&fields), told).unwrap();
            let prepared = long.prepare(&fields);
            assert_eq!(said, told(&long.ask_now(&prepared).unwrap()), "{lines}");
            assert_eq!(mark, short.prepare(&fields).mark());
            near.advance(Duration::from_millis(400));
            far.advance(Duration::from_millis(400));
        }
        let counted =
            |gate: &Gate<MemoryStore>| gate.counters().policies()[0].1.iter().collect::<Vec<_>>();
        assert_eq!(counted(&short), counted(&long), "{lines}");
    }
}

#[test]
fn what_has_more_to_find_is_not_judged_at_once() {
    let all = [("ip", "10.0.0.1"), ("user", "ann"), ("path", "/a"), ("field.n", "2")];
    let ip = "limits = [{ subject = \"ip\", limit = \"9/h\" }]";
    let two = format!("{}[[policies]]\nname = \"q\"\non_failure = \"deny\"\n{ip}", one(ip));
    for text in [
        two.replacen("version = 1", "version = 1\nmatch = \"all\"", 1),
        two.replacen("version = 1", "version = 1\nmatch = \"first\"", 1),
        one(&format!("when = {{ path = \"/a\" }}\n{ip}")),
        one(&format!("shadow = true\n{ip}")),
        one(&format!("shard = \"ip\"\n{ip}")),
        one("limits = [{ subject = \"resource=api\", limit = \"9/h\" }]"),
        one(&format!("cost = {{ from = \"field.n\", max = 3, otherwise = 1 }}\n{ip}")),
        one("limits = [{ subject = \"ip\", limit = \"9/h\" }, { subject = \"user\", absent = \
             \"skip\", limit = \"9/h\" }]"),
        one("limits = [{ subject = [\"ip\", \"user\"], absent = \"skip\", limit = \"9/h\" }]"),
        one(
            "[[policies.limits]]\nsubject = \"ip\"\nlimit = \"9/h\"\noverrides = [{ when = { ip = \
             \"10.0.0.1\" }, limit = \"5/h\" }]",
        ),
    ] {
        let (gate, _) = gate(&text);
        assert!(gate.check_at_once(None, in_fields(&all), told).is_none(), "{text}");
        // With the fields of the request, one policy of several is found.
        let is_found = text.contains("match = \"first\"") || text.contains("when = { path");
        let found = gate.check_at_once(Some(&all), in_fields(&all), told).is_some();
        assert_eq!(found, is_found, "{text}");
    }
    // An absent value, or one that is too long for a subject, is not known by it.
    let (gate, _) = gate(&one(ip));
    assert!(gate.check_at_once(None, in_fields(&[("user", "ann")]), told).is_none());
    let long = "1".repeat(70_000);
    assert!(gate.check_at_once(None, in_fields(&[("ip", long.as_str())]), told).is_none());
}

#[test]
fn a_policy_that_is_found_among_several_is_judged_as_in_two_steps() {
    let entry = |limit: &str| format!("limits = [{{ subject = \"ip\", limit = \"{limit}\" }}]");
    let file = |combine: &str| {
        format!(
            "version = 1\nmatch = \"{combine}\"\n\
             [[policies]]\nname = \"login\"\non_failure = \"deny\"\n\
             when = {{ path = \"/login\", method = \"POST\" }}\n{}\n\
             [[policies]]\nname = \"tried\"\non_failure = \"allow\"\nshadow = true\n\
             when = {{ path = \"/tried\" }}\n{}\n\
             [[policies]]\nname = \"rest\"\non_failure = \"allow\"\n\
             when = {{ host = \"*.example.com\" }}\n{}\n",
            entry("1/h"),
            entry("2/h via gcra"),
            entry("3/m, 4/h via sliding_log"),
        )
    };
    let (ip, host) = (("ip", "10.0.0.1"), ("host", "api.example.com"));
    let requests: [&[(&str, &str)]; 6] = [
        &[ip, host, ("path", "/login"), ("method", "POST")],
        &[ip, host, ("path", "/login"), ("method", "GET")],
        &[ip, host, ("path", "/tried"), ("method", "GET")],
        &[ip, ("path", "/login"), ("method", "POST")],
        &[ip, ("host", "elsewhere"), ("path", "/"), ("method", "GET")],
        &[host, ("path", "/"), ("method", "GET")],
    ];
    for (combine, found) in [
        ("first", [true, true, false, true, false, false]),
        ("all", [false, true, false, true, false, false]),
    ] {
        let ((fast, _), (general, _)) = (gate(&file(combine)), gate(&file(combine)));
        for _ in 0..4 {
            for (fields, found) in requests.iter().zip(found) {
                let prepared = general.prepare(fields);
                let expected = told(&general.ask_now(&prepared).unwrap());
                let at_once = fast.check_at_once(Some(fields), in_fields(fields), told);
                assert_eq!(at_once.is_some(), found, "{combine} {fields:?}");
                let answer = match at_once {
                    Some((mark, answer)) => {
                        assert_eq!(mark, fast.prepare(fields).mark());
                        answer
                    }
                    None => told(&fast.ask_now(&fast.prepare(fields)).unwrap()),
                };
                assert_eq!(answer, expected, "{combine} {fields:?}");
            }
        }
        for (one, other) in fast.counters().policies().iter().zip(general.counters().policies()) {
            assert_eq!(one.0, other.0);
            assert!(one.1.iter().eq(other.1.iter()), "{combine} {}", one.0);
        }
        assert_eq!(
            fast.counters().unmatched.total(Outcome::NoPolicy),
            general.counters().unmatched.total(Outcome::NoPolicy)
        );
    }
}

#[test]
fn at_once_the_failure_rule_answers_too_and_who_has_to_wait_is_not_asked() {
    let policies = || parse(&one("limits = [{ subject = \"ip\", limit = \"9/h\" }]"));
    let (store, fields) = (Failing::new(), [("ip", "10.0.0.1")]);
    let slow = Gate::new(policies(), store.clone()).unwrap();
    assert!(slow.check_at_once(None, in_fields(&fields), told).is_none());
    assert!(store.deadlines.lock().unwrap().is_empty());
    let store = Failing { answers_at_once: true, ..store };
    let gate = Gate::new(policies(), store.clone()).unwrap();
    let what = |view: &Answer<'_>| (view.outcome(), view.authority());
    let (_, said) = gate.check_at_once(None, in_fields(&fields), what).unwrap();
    assert_eq!(said, (Outcome::Allowed, Authority::Store));
    store.fails.store(true, Ordering::Relaxed);
    let (_, said) = gate.check_at_once(None, in_fields(&fields), what).unwrap();
    assert_eq!(said, (Outcome::FailedOpen, Authority::FailureRule));
    assert_eq!(gate.counters().policies()[0].1.get(Outcome::FailedOpen, Authority::FailureRule), 1);
    let deadline = Some(tollgate_policy::DEFAULT_DEADLINE);
    assert_eq!(*store.deadlines.lock().unwrap(), [deadline; 2]);
}

/// In one step or in two: the observer gets the same.
#[test]
fn an_observer_is_told_of_every_answer() {
    let observed = |store: Failing| {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&told);
        let policies = parse(&one("limits = [{ subject = \"ip\", limit = \"2/h\" }]"));
        let gate = Gate::observed(policies, store, move |event: &Event<'_>| {
            let Event { policy, limit, subject, outcome, authority, error, decides, .. } = *event;
            let limit = limit.map(ToString::to_string);
            let said = (policy, limit, subject, outcome, authority, error.is_some(), decides);
            into.lock().unwrap().push(format!("{said:?}"));
        });
        (gate.unwrap(), told)
    };
    let stores = [(); 2].map(|()| Failing { answers_at_once: true, ..Failing::new() });
    let [fast, general] = stores.clone().map(observed);
    for fails in [false, false, false, true, false] {
        for store in &stores {
            store.fails.store(fails, Ordering::Relaxed);
        }
        let (fields, what) = ([("ip", "10.0.0.1")], |view: &Answer<'_>| view.outcome());
        let (_, said) = fast.0.check_at_once(None, in_fields(&fields), what).unwrap();
        let prepared = general.0.prepare(&fields);
        assert_eq!(said, what(&general.0.ask_now(&prepared).unwrap()));
    }
    let seen = fast.1.lock().unwrap();
    assert_eq!((seen.len(), &*seen), (5, &*general.1.lock().unwrap()));
    assert!(seen[0].contains("ip:10.0.0.1") && seen[3].contains("FailedOpen"), "{seen:?}");
}

/// Each thread caches the policies that it saw last: never beyond their end.
#[test]
fn policies_that_are_replaced_are_seen_at_once_by_every_thread() {
    let limits = |limit: &str| {
        parse(&one(&format!("limits = [{{ subject = \"ip\", limit = \"{limit}\" }}]")))
    };
    let (gate, _) = gate_of(limits("900/h"));
    let fields = [("ip", "10.0.0.1")];
    let revision =
        || gate.check_at_once(None, in_fields(&fields), |view| view.revision().number).unwrap().1;
    std::thread::scope(|scope| {
        let (question, questions) = std::sync::mpsc::channel::<()>();
        let (answer, answered) = std::sync::mpsc::channel();
        scope.spawn(move || questions.iter().for_each(|()| answer.send(revision()).unwrap()));
        for number in 1..5 {
            question.send(()).unwrap();
            assert_eq!((answered.recv().unwrap(), revision()), (number, number));
            gate.replace(limits(&format!("{}/h", 900 + number)));
        }
        drop(question);
    });
    // One gate's policies are not another's.
    let (other, _) = gate_of(limits("1/h"));
    assert!(ask(&other, &fields).is_allowed());
    let denied =
        other.check_at_once(None, in_fields(&fields), |view| !view.is_allowed()).unwrap().1;
    assert_eq!((denied, revision()), (true, 5));
}

#[test]
fn a_gate_is_asked_while_it_is_asked() {
    let (gate, _) = gate(&one("limits = [{ subject = \"ip\", limit = \"9/h\" }]"));
    let fields = [("ip", "10.0.0.1")];
    assert!(ask(&gate, &fields).is_allowed());
    let left = |view: &Answer<'_>| view.decision().unwrap().remaining();
    let (_, (outer, inner)) = gate
        .check_at_once(None, in_fields(&fields), |view| {
            (left(view), gate.check_at_once(None, in_fields(&fields), left).unwrap().1)
        })
        .unwrap();
    assert_eq!((outer, inner), (7, 6));
}
