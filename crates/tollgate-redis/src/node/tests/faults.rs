//! A server that freezes, dies and comes back.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::server::{Act, Fake, Server, until};
use super::{call, connect, count, counting, fault};
use crate::fault::{ChargeState, Fault};
use crate::node::{BreakerState, Connector, Node};

/// A deadline of the product, not of the test.
const SHORT: Duration = Duration::from_millis(50);

/// How much later than its deadline a call may be on a machine that is busy.
const SLACK: Duration = Duration::from_secs(1);

/// How many of some calls were answered, and how many may have run without an answer.
#[derive(Default, Debug)]
struct Tally {
    answered: u64,
    ambiguous: u64,
    breaker: u64,
}

impl Tally {
    /// Calls once, and sees to it that the call is over in time.
    async fn add(&mut self, client: &Node) {
        let start = Instant::now();
        let answer = call(client, &counting(), SHORT).await;
        assert!(start.elapsed() < SHORT + SLACK, "{:?}", start.elapsed());
        match answer {
            Ok(_) => self.answered += 1,
            Err(error) => {
                self.ambiguous += u64::from(error.is_ambiguous());
                self.breaker += u64::from(matches!(fault(&error), Fault::Breaker { .. }));
                assert!(error.is_transient(), "{error}");
            }
        }
    }
}

/// Calls until there are answers again.
async fn recover(client: &Node, tally: &mut Tally) {
    let before = tally.answered;
    let start = Instant::now();
    until("answers again", async || {
        tally.add(client).await;
        tally.answered > before + 3
    })
    .await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_frozen_server_is_left_alone_and_found_again() {
    frozen_and_back(SHORT).await;
}

/// Nobody waits for as long as the server may take, and it is found out all the same.
#[tokio::test]
async fn a_frozen_server_is_left_alone_by_the_impatient_too() {
    frozen_and_back(SHORT * 4).await;
}

async fn frozen_and_back(breaker_timeout: Duration) {
    let server = Server::start(&[]);
    let client = connect(server.options().breaker_timeout(breaker_timeout)).await;
    count(&client).await;
    let mut tally = Tally { answered: 1, ..Tally::default() };
    server.freeze();
    until("the breaker is open", async || {
        tally.add(&client).await;
        tally.breaker > 10
    })
    .await;
    assert!(tally.ambiguous >= 1, "{tally:?}");
    server.thaw();
    recover(&client, &mut tally).await;
    // An answered call ran once; an unanswered one ran once or never.
    let ran = server.count("k:1").await;
    assert!((tally.answered..=tally.answered + tally.ambiguous).contains(&ran), "{ran} {tally:?}");
}

/// On a thread that is busy a question's time may be over before it is sent: it fails as late, and
/// was not charged, and its connection goes on.
#[tokio::test]
async fn a_question_that_is_late_before_it_is_sent_ends_no_connection() {
    let server = Server::start(&[]);
    let client = connect(server.options()).await;
    let mut charged = count(&client).await;
    for _ in 0..50 {
        let deadline = Duration::from_millis(1);
        let script = counting();
        let asked = call(&client, &script, deadline);
        let busy = async {
            let begun = Instant::now();
            while begun.elapsed() < deadline * 2 {}
        };
        let (answer, ()) = tokio::join!(asked, busy);
        match answer {
            Ok(_) => charged += 1,
            Err(error) => {
                assert!(matches!(fault(&error), Fault::Deadline { .. }), "{error}");
                assert!(!error.is_ambiguous(), "{error}");
            }
        }
    }
    assert_eq!(client.connects(), 1);
    assert_eq!(count(&client).await, charged + 1, "what was not sent was not charged");
}

/// However many calls are late together, the server was silent for no longer.
#[tokio::test]
async fn a_stall_is_no_outage() {
    let server = Server::start(&[]);
    let client = connect(server.options().breaker_timeout(Duration::from_secs(60))).await;
    count(&client).await;
    server.freeze();
    let script = counting();
    let late = (0..50).map(|_| call(&client, &script, SHORT));
    for answer in futures_util::future::join_all(late).await {
        let error = answer.unwrap_err();
        // Each waited for its own deadline, and not for the breaker's time.
        let late = Fault::Deadline { after: SHORT, charge: ChargeState::Unknown };
        assert_eq!(*fault(&error), late, "{error}");
    }
    assert_eq!(client.breaker(), BreakerState::Closed);
    server.thaw();
    count(&client).await;
    assert_eq!(client.connects(), 1, "the connection goes on");
}

#[tokio::test]
async fn a_late_answer_closes_the_breaker() {
    let server = Server::start(&[]);
    // Only the calls tell of the server: none is sent while the breaker is open.
    let client = connect(server.options().breaker_timeout(SHORT)).await;
    count(&client).await;
    server.freeze();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { count(&client).await }
    });
    until("the breaker is open", async || client.breaker() == BreakerState::Open).await;
    server.thaw();
    assert_eq!(waiting.await.unwrap(), 2);
    assert_eq!(client.breaker(), BreakerState::Closed);
}

#[tokio::test]
async fn a_call_that_was_late_runs_once() {
    let server = Server::start(&[]);
    let client = connect(server.options().breaker_timeout(SHORT)).await;
    count(&client).await;
    server.tell(&["CLIENT", "PAUSE", "300", "WRITE"]).await;
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, &counting(), SHORT).await.unwrap_err() })
        })
        .collect();
    for call in calls {
        let error = call.await.unwrap();
        assert!(error.is_ambiguous(), "{error}");
    }
    // A closed connection takes what it sent with it; one that is still read may run it.
    let mut tally = Tally { answered: 1, ambiguous: 3, breaker: 0 };
    recover(&client, &mut tally).await;
    let ran = server.count("k:1").await;
    assert!((tally.answered..=tally.answered + tally.ambiguous).contains(&ran), "{ran} {tally:?}");
}

#[tokio::test]
async fn a_server_that_was_killed_and_started_again_is_found() {
    let mut server = Server::start(&[]);
    let client = connect(server.options().breaker_timeout(SHORT * 4)).await;
    count(&client).await;
    let mut tally = Tally::default();
    server.kill();
    until("the breaker is open", async || {
        tally.add(&client).await;
        tally.breaker > 0
    })
    .await;
    assert_eq!(tally.answered, 0);
    server.restart();
    recover(&client, &mut tally).await;
    let ran = server.count("k:1").await;
    assert_eq!(ran, tally.answered, "nothing from before the restart was sent again");
    assert_eq!(client.loads(), 2);
}

#[tokio::test]
async fn a_killed_connection_is_replaced_without_an_error() {
    let server = Server::start(&[]);
    let client = connect(server.options()).await;
    count(&client).await;
    // A connection that lived for less is taken for one of a server that closes them all.
    let lived = Instant::now();
    until("a second", async || lived.elapsed() > super::super::slot::STABLE).await;
    server.tell(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    until("a new connection", async || client.connects() == 2).await;
    assert_eq!(count(&client).await, 2);
}

#[tokio::test]
async fn a_storm_of_kills_is_no_storm_of_connections() {
    let server = Server::start(&[]);
    let client = connect(server.options()).await;
    let start = Instant::now();
    let mut kills = 0;
    let mut tally = Tally::default();
    while start.elapsed() < Duration::from_millis(1500) {
        server.tell(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        tally.add(&client).await;
        kills += 1;
    }
    // Pauses of at least 5, 10, 20, ... ms: some eight in 1.5 s, however often it is killed.
    assert!(client.connects() < 20, "{} connections for {kills} kills", client.connects());
    recover(&client, &mut tally).await;
}

#[test]
fn a_client_outlives_the_runtime_it_was_made_in() {
    let server = Server::start(&[]);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime().block_on(async {
        let client = connect(server.options()).await;
        count(&client).await;
        client
    });
    assert_eq!(runtime().block_on(count(&client)), 2);
}

/// Sentinels cut off all connections of a replica when they promote it. A client that looks for its
/// promotion looks again immediately. A look at another possible fault of its port takes 250 ms,
/// and for that time the old primary admits units that are lost.
#[tokio::test]
async fn a_replica_that_is_promoted_during_a_look_is_asked_again_at_once() {
    let fake = Fake::start(|number, words| match (number, words[0].as_str()) {
        (0, "ROLE") => Act::Say(b"*1\r\n$5\r\nslave\r\n".to_vec()),
        (1, "ROLE") => Act::SayAndClose(Vec::new()),
        (_, "ROLE") => Act::Say(b"*1\r\n$6\r\nmaster\r\n".to_vec()),
        _ => Act::Nothing,
    })
    .await;
    let options = fake.options().connections(1);
    let node = Node::new(Connector::new(options).unwrap().primaries_only());
    assert!(node.fill_by(Instant::now() + Duration::from_secs(60)).await);
    assert_eq!(fake.connections.load(Ordering::SeqCst), 3);
    assert_eq!(fake.words(), ["ROLE"; 3]);
}
