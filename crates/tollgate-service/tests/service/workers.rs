//! Workers of a queue that have HTTP alone: their jobs, and the effect of their reports.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::{ManualClock, MemoryStore};
use tollgate_queue::{AnyQueues, ConsumerSettings, Job, MemoryQueues, ProducerSettings, Queue};
use tollgate_service::{Address, AnyStore, Options, Queues, Server, StartError};

use crate::client::{Client, Reply};
use crate::{FILE, Service, gate_of, here};

const TOKEN: &str = "0123456789abcdef";

/// The time after which a test hangs, on any machine.
const LONG: Duration = Duration::from_secs(60);

/// A queue by a clock of the test's.
struct Mail {
    queue: Queue<AnyQueues>,
    clock: ManualClock,
}

impl Mail {
    fn new() -> Self {
        let clock = ManualClock::at_micros(1_700_000_000_000_000);
        let queues = AnyQueues::Memory(MemoryQueues::with_clock(clock.clone()));
        Self { queue: Queue::new(queues, "mail").unwrap(), clock }
    }

    async fn offer(&self, to: &str) {
        let door = self.queue.producer(ProducerSettings::new(9)).unwrap();
        door.offer(&Job::new().field("to", to)).await.unwrap();
    }

    async fn serve(&self, change: impl FnOnce(&mut Options)) -> Service {
        let queues = [(self.queue.clone(), Some(ProducerSettings::new(9)))];
        let queues = Queues::open(queues).await.unwrap();
        Service::with(|options| {
            options.queues = queues;
            options.queue_workers = true;
            change(options);
        })
        .await
    }
}

async fn post(client: &mut Client, act: &str, body: &Value) -> Reply {
    client.post(&format!("/v1/queues/mail/{act}"), &body.to_string()).await
}

/// The valid answer to a valid request.
async fn post_ok(client: &mut Client, act: &str, body: Value) -> Value {
    let reply = post(client, act, &body).await;
    assert_eq!(reply.status, StatusCode::OK, "{body}: {}", reply.text);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    reply.json()
}

/// The only outcome of a report about one delivery.
async fn outcome(client: &mut Client, act: &str, id: &str, delivery: u32) -> String {
    let body = json!({"jobs": [{"id": id, "delivery": delivery}]});
    let answer = post_ok(client, act, body).await;
    let jobs = answer["jobs"].as_array().unwrap();
    assert_eq!(
        (jobs.len(), &jobs[0]["id"], &jobs[0]["delivery"]),
        (1, &json!(id), &json!(delivery))
    );
    jobs[0]["outcome"].as_str().unwrap().to_owned()
}

fn take(max: u64) -> Value {
    json!({"worker": "w1", "max": max})
}

#[tokio::test]
async fn jobs_are_taken_and_done() {
    let mail = Mail::new();
    let service = mail.serve(|_| {}).await;
    let mut client = service.client().await;
    let none = post_ok(&mut client, "take", take(1)).await;
    assert_eq!(none["jobs"], json!([]));
    assert_eq!((&none["paused"], &none["foreign"]), (&json!(false), &json!([])));
    mail.offer("ann").await;
    let door = mail.queue.producer(ProducerSettings::new(9)).unwrap();
    door.offer(&Job::from_bytes(b"\0\xff")).await.unwrap();
    mail.offer("cem").await;
    let answer = post_ok(&mut client, "take", take(2)).await;
    let ids: Vec<&str> =
        answer["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(
        answer,
        json!({
            "jobs": [
                {"id": ids[0], "delivery": 1, "fields": {"to": "ann"}},
                {"id": ids[1], "delivery": 1, "base64": "AP8="},
            ],
            "visibility_us": 30_000_000, "next_us": 0, "paused": false, "foreign": [],
        })
    );
    let stranger = "1600000000000-7";
    let body = json!({"jobs": [
        {"id": ids[0], "delivery": 1}, {"id": stranger, "delivery": 1},
        {"id": ids[1], "delivery": 1}, {"id": ids[0], "delivery": 1},
    ]});
    let answer = post_ok(&mut client, "done", body).await;
    let outcomes: Vec<&Value> =
        answer["jobs"].as_array().unwrap().iter().map(|job| &job["outcome"]).collect();
    assert_eq!(outcomes, ["done", "lost", "done", "lost"]);
    assert_eq!(answer["jobs"][1]["id"], stranger);
    // One that waits was not taken, so it is nobody's to say that it is done.
    let waiting = mail.queue.waiting(1).await.unwrap()[0].id.to_string();
    assert_eq!(outcome(&mut client, "done", &waiting, 1).await, "lost");
    let stats = mail.queue.stats().await.unwrap();
    assert_eq!((stats.done, stats.waiting, stats.in_flight), (2, 1, 0));
    mail.queue.pause().await.unwrap();
    let answer = post_ok(&mut client, "take", take(1)).await;
    assert_eq!((&answer["jobs"], &answer["paused"]), (&json!([]), &json!(true)));
}

#[tokio::test]
async fn what_is_said_is_taken_of_the_newest_delivery() {
    let mail = Mail::new();
    mail.queue.change(ConsumerSettings::new().deliveries(2)).await.unwrap();
    let service = mail.serve(|_| {}).await;
    let mut client = service.client().await;
    mail.offer("ann").await;
    let answer = post_ok(&mut client, "take", take(1)).await;
    let id = answer["jobs"][0]["id"].as_str().unwrap().to_owned();
    mail.clock.advance(Duration::from_secs(20));
    assert_eq!(outcome(&mut client, "extend", &id, 1).await, "extended");
    assert_eq!(outcome(&mut client, "extend", &id, 2).await, "lost");
    mail.clock.advance(Duration::from_secs(29));
    assert_eq!(post_ok(&mut client, "take", take(1)).await["jobs"], json!([]), "it was extended");
    mail.clock.advance(Duration::from_secs(1));
    let again = post_ok(&mut client, "take", json!({"worker": "w2"})).await;
    assert_eq!((&again["jobs"][0]["id"], &again["jobs"][0]["delivery"]), (&json!(id), &json!(2)));
    // The first worker is late.
    for act in ["extend", "nack"] {
        assert_eq!(outcome(&mut client, act, &id, 1).await, "lost", "{act}");
    }
    let body = json!({"jobs": [{"id": id, "delivery": 1}], "begun": false});
    assert_eq!(post_ok(&mut client, "nack", body).await["jobs"][0]["outcome"], "lost");
    assert_eq!(mail.queue.stats().await.unwrap().in_flight, 1);
    // And a finished job stays finished, whoever reports it, when there is nothing left to do.
    assert_eq!(outcome(&mut client, "done", &id, 1).await, "done");
    for act in ["done", "extend", "nack"] {
        assert_eq!(outcome(&mut client, act, &id, 2).await, "lost", "{act}");
    }
}

#[tokio::test]
async fn what_failed_comes_back_later_until_it_is_dead() {
    let mail = Mail::new();
    mail.queue.change(ConsumerSettings::new().deliveries(2)).await.unwrap();
    let service = mail.serve(|_| {}).await;
    let mut client = service.client().await;
    mail.offer("ann").await;
    let answer = post_ok(&mut client, "take", take(1)).await;
    let id = answer["jobs"][0]["id"].clone();
    // Not begun: it was not delivered.
    let body = json!({"jobs": [{"id": id, "delivery": 1}], "begun": false});
    assert_eq!(post_ok(&mut client, "nack", body).await["jobs"][0]["outcome"], "released");
    let answer = post_ok(&mut client, "take", take(1)).await;
    assert_eq!(answer["jobs"][0]["delivery"], 1);
    let body = json!({"jobs": [{"id": id, "delivery": 1}], "why": "no route", "after": "2h"});
    assert_eq!(post_ok(&mut client, "nack", body).await["jobs"][0]["outcome"], "again");
    let out = mail.queue.in_flight(1).await.unwrap();
    assert_eq!(
        (out[0].reason.as_deref(), out[0].due_in),
        (Some("no route"), Duration::from_secs(7_200))
    );
    let answer = post_ok(&mut client, "take", take(1)).await;
    assert_eq!((&answer["jobs"], &answer["next_us"]), (&json!([]), &json!(7_200_000_000_u64)));
    mail.clock.advance(Duration::from_secs(7_200));
    assert_eq!(post_ok(&mut client, "take", take(1)).await["jobs"][0]["delivery"], 2);
    let body = json!({"jobs": [{"id": id, "delivery": 2}]});
    assert_eq!(post_ok(&mut client, "nack", body).await["jobs"][0]["outcome"], "dead");
    assert_eq!(mail.queue.dead_letters(1).await.unwrap()[0].id.to_string(), id.as_str().unwrap());
    // Without a time it is put off as `queue work` does: a second, less half at most.
    mail.offer("bob").await;
    let answer = post_ok(&mut client, "take", take(1)).await;
    let body = json!({"jobs": [{"id": answer["jobs"][0]["id"], "delivery": 1}]});
    assert_eq!(post_ok(&mut client, "nack", body).await["jobs"][0]["outcome"], "again");
    let back = mail.queue.in_flight(1).await.unwrap()[0].due_in;
    assert!((500..=1_000).contains(&back.as_millis()), "{back:?}");
}

#[tokio::test]
async fn workers_follow_how_the_queue_is_worked_on() {
    let mail = Mail::new();
    let service = mail.serve(|_| {}).await;
    let mut client = service.client().await;
    mail.offer("ann").await;
    let answer = post_ok(&mut client, "take", take(1)).await;
    let id = answer["jobs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(mail.queue.settings().await.unwrap().consumer, Some(ConsumerSettings::new()));
    mail.queue.change(ConsumerSettings::new().visibility(Duration::from_secs(90))).await.unwrap();
    assert_eq!(outcome(&mut client, "extend", &id, 1).await, "extended");
    assert_eq!(mail.queue.in_flight(1).await.unwrap()[0].due_in, Duration::from_secs(90));
    mail.queue.change(ConsumerSettings::new().visibility(Duration::from_secs(7))).await.unwrap();
    let answer = post_ok(&mut client, "take", take(1)).await;
    assert_eq!(answer["visibility_us"], 7_000_000);
}

#[tokio::test]
async fn who_waits_gets_the_next_job_and_everybody_one() {
    let mail = Mail::new();
    let service = mail.serve(|_| {}).await;
    let waiting: Vec<_> = (0..3)
        .map(|worker| {
            let address = service.address;
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                let body = json!({"worker": format!("w{worker}"), "max": 1, "wait": "60s"});
                post_ok(&mut client, "take", body).await
            })
        })
        .collect();
    // Each offer wakes the waiter with the turn, and that one lets the next look.
    for to in ["ann", "bob", "cem"] {
        service.is_reached().await;
        mail.offer(to).await;
    }
    let mut got = Vec::new();
    for taken in waiting {
        let taken = tokio::time::timeout(LONG, taken).await.expect("nobody woke it").unwrap();
        assert_eq!(taken["jobs"].as_array().unwrap().len(), 1, "{taken}");
        got.push(taken["jobs"][0]["fields"]["to"].as_str().unwrap().to_owned());
    }
    got.sort_unstable();
    assert_eq!(got, ["ann", "bob", "cem"]);
    // When the time has passed there is an answer, too.
    let mut client = service.client().await;
    let body = json!({"worker": "w1", "wait": "30ms"});
    assert_eq!(post_ok(&mut client, "take", body).await["jobs"], json!([]));
}

impl Service {
    /// Asks twice, so that earlier messages on this machine have been read.
    pub(crate) async fn is_reached(&self) {
        for _ in 0..2 {
            assert_eq!(self.client().await.get("/healthz").await.status, StatusCode::OK);
        }
    }
}

#[tokio::test]
async fn who_waits_is_answered_when_the_service_ends() {
    let mail = Mail::new();
    let service = mail.serve(|options| options.grace = LONG).await;
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let address = service.address;
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                post_ok(&mut client, "take", json!({"worker": "w", "wait": "60s"})).await
            })
        })
        .collect();
    service.is_reached().await;
    let stopping = service.server.end().await;
    assert!(stopping.took < Duration::from_secs(30), "it waited for them: {:?}", stopping.took);
    assert_eq!(stopping.cut, 0);
    for taken in waiting {
        assert_eq!(taken.await.unwrap()["jobs"], json!([]));
    }
}

#[tokio::test]
async fn nobody_takes_unless_it_is_asked_for() {
    let mail = Mail::new();
    mail.offer("ann").await;
    let service = mail.serve(|options| options.queue_workers = false).await;
    let mut client = service.client().await;
    let id = json!({"jobs": [{"id": "1-0", "delivery": 1}]});
    for (act, body) in
        [("take", take(1)), ("done", id.clone()), ("extend", id.clone()), ("nack", id)]
    {
        let reply = post(&mut client, act, &body).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{act}: {}", reply.text);
        assert!(reply.text.contains("start it with `--queue-workers`"), "{}", reply.text);
    }
    assert_eq!(mail.queue.stats().await.unwrap().in_flight, 0);
    // A producer is not asked for anything.
    assert_eq!(client.post("/v1/queues/mail", "{}").await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn where_there_is_a_token_workers_bring_it_and_who_offers_need_not() {
    let mail = Mail::new();
    mail.offer("ann").await;
    let service = mail.serve(|options| options.worker_token = Some(TOKEN.to_owned())).await;
    let mut client = service.client().await;
    let path = "/v1/queues/mail/take";
    let body = take(1).to_string();
    let right = format!("Bearer {TOKEN}");
    for wrong in [None, Some("Bearer 0123456789abcdeF"), Some(TOKEN)] {
        let headers: Vec<_> = wrong.map(|it| ("authorization", it)).into_iter().collect();
        let reply = client.ask("POST", path, &headers, &body).await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{wrong:?}: {}", reply.text);
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert!(reply.text.contains("TOLLGATE_WORKER_TOKEN"), "{}", reply.text);
        // A client without one learns no names of queues.
        let other = client.ask("POST", "/v1/queues/x/take", &headers, &body).await;
        assert_eq!(other.status, StatusCode::UNAUTHORIZED);
    }
    for page in [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")] {
        let reply = client.ask("POST", path, &[("authorization", &right), page], &body).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN);
        assert!(reply.text.contains("web page"), "{}", reply.text);
    }
    assert_eq!(mail.queue.stats().await.unwrap().in_flight, 0);
    let reply = client.ask("POST", path, &[("authorization", &right)], &body).await;
    assert_eq!(reply.json()["jobs"][0]["fields"], json!({"to": "ann"}));
    assert_eq!(client.post("/v1/queues/mail", "{}").await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_service_that_others_reach_takes_no_workers_without_a_token() {
    let everywhere: Address = "0.0.0.0:0".parse().unwrap();
    let start = |token: Option<&str>, is_open| {
        let mut options = Options::new(vec![here(), everywhere.clone()]);
        options.queue_workers = is_open;
        options.worker_token = token.map(str::to_owned);
        Server::start(gate_of(FILE, AnyStore::Memory(MemoryStore::new())), options)
    };
    let refused = |started: Result<Server, StartError>| match started {
        Err(StartError::Options(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refused(start(None, true).await);
    assert!(why.contains("0.0.0.0:0") && why.contains("TOLLGATE_WORKER_TOKEN"), "{why}");
    let why = refused(start(Some("short"), true).await);
    assert!(why.contains("the worker token has 5 bytes, and needs 16"), "{why}");
    start(Some(TOKEN), true).await.unwrap().end().await;
    start(None, false).await.unwrap().end().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_told_with_its_place() {
    let mail = Mail::new();
    mail.offer("ann").await;
    let service = mail.serve(|_| {}).await;
    let mut client = service.client().await;
    let many = vec![r#"{"id":"1-0","delivery":1}"#; 101].join(",");
    let (many, long) = (format!(r#"{{"jobs":[{many}]}}"#), "x".repeat(129));
    let long_name = format!(r#"{{"worker":"{long}"}}"#);
    let long_why =
        format!(r#"{{"jobs":[{{"id":"1-0","delivery":1}}],"why":"{}"}}"#, "x".repeat(1_025));
    let one = |more: &str| format!(r#"{{"jobs":[{{"id":"1-0","delivery":1}}]{more}}}"#);
    for (act, body, field, says) in [
        ("take", "", None, "the body is one JSON object, e.g. {\\\"worker\\\""),
        ("take", "[]", None, "the body is one JSON object"),
        ("take", "{", Some("?"), "EOF"),
        ("take", "{}", Some("worker"), "1 to 128 bytes"),
        ("take", r#"{"worker":""}"#, Some("worker"), "1 to 128 bytes"),
        ("take", &long_name, Some("worker"), "1 to 128 bytes"),
        ("take", r#"{"worker":"w","max":0}"#, Some("max"), "1 to 100 jobs"),
        ("take", r#"{"worker":"w","max":101}"#, Some("max"), "1 to 100 jobs"),
        ("take", r#"{"worker":"w","max":1.5}"#, Some("max"), "floating point"),
        ("take", r#"{"worker":"w","max":null}"#, Some("max"), "null"),
        ("take", r#"{"worker":"w","wait":"61s"}"#, Some("wait"), "at most `60s`"),
        ("take", r#"{"worker":"w","wait":"5"}"#, Some("wait"), "as in `90s`"),
        ("take", r#"{"worker":"w","wait":5}"#, Some("wait"), "a text"),
        ("take", r#"{"worker":"w","most":5}"#, Some("most"), "unknown field"),
        ("done", "", None, "e.g. {\\\"jobs\\\""),
        ("done", "{}", Some("jobs"), "1 to 100"),
        ("done", r#"{"jobs":[]}"#, Some("jobs"), "1 to 100"),
        ("done", &many, Some("jobs"), "1 to 100"),
        ("done", r#"{"jobs":["1-0"]}"#, Some("jobs[0]"), "invalid type"),
        ("done", r#"{"jobs":[{"id":"1-0"}]}"#, Some("jobs[0]"), "missing field `delivery`"),
        (
            "extend",
            r#"{"jobs":[{"id":"1-0","delivery":1},{"id":"x","delivery":1}]}"#,
            Some("jobs[1].id"),
            "`x` is not the id of a job",
        ),
        ("extend", r#"{"jobs":[{"id":"1-0","delivery":0}]}"#, Some("jobs[0].delivery"), "from 1"),
        (
            "extend",
            r#"{"jobs":[{"id":"1-0","delivery":4294967296}]}"#,
            Some("jobs[0].delivery"),
            "u32",
        ),
        ("extend", &one(r#","why":"x""#), Some("why"), "unknown field"),
        ("nack", &long_why, Some("why"), "at most 1024 bytes"),
        ("nack", &one(r#","after":"367d""#), Some("after"), "at most `366d`"),
        ("nack", &one(r#","after":"soon""#), Some("after"), "as in `90s`"),
        ("nack", &one(r#","begun":false,"after":"1s""#), Some("after"), "was not started"),
        ("nack", &one(r#","begun":false,"why":"x""#), Some("why"), "was not started"),
    ] {
        let reply = client.post(&format!("/v1/queues/mail/{act}"), body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{act} {body}: {}", reply.text);
        assert!(reply.text.contains(says), "{act} {body}: {}", reply.text);
        let place = field.map_or(Value::Null, |field| json!(field));
        assert_eq!(reply.json()["field"], place, "{act} {body}: {}", reply.text);
    }
    for (method, path, status, says) in [
        ("GET", "/v1/queues/mail/take", StatusCode::METHOD_NOT_ALLOWED, "POST"),
        ("POST", "/v1/queues/mail/take?max=1", StatusCode::BAD_REQUEST, "takes no query"),
        ("POST", "/v1/queues/mail/ack", StatusCode::NOT_FOUND, "/v1/queues/mail/ack"),
        ("POST", "/v1/queues/mail/take/", StatusCode::NOT_FOUND, "/v1/queues/mail/take/"),
        ("POST", "/v1/queues/other/take", StatusCode::NOT_FOUND, "there is no queue `other` here"),
    ] {
        let reply = client.ask(method, path, &[], r#"{"worker":"w"}"#).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
        assert!(reply.text.contains(says), "{path}: {}", reply.text);
    }
    let large = format!(r#"{{"worker":"{}"}}"#, "x".repeat(70_000));
    let reply = client.post("/v1/queues/mail/take", &large).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(mail.queue.stats().await.unwrap().in_flight, 0, "nothing was taken");
}
