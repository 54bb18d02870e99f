//! Questions that go in one call, to servers that lie about it.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use redis::Value;
use tokio::time::timeout;

use super::server::{Act, Fake, Server, until};
use super::{called, connect, counting, fault, with_others};
use crate::fault::{ChargeState, Fault};
use crate::node::{BatchScript, Call, Counts, Node};
use crate::script::Script;

const LONG: Duration = Duration::from_secs(5);

/// The same as [`counting`], for several questions of one key and one argument.
fn counting_many() -> Script {
    let text = "local all = {}
for i = 1, #KEYS do
  all[i] = {ARGV[i], redis.call('INCR', KEYS[i])}
end
return all";
    Script::new(text.to_owned())
}

async fn ask(client: &Node, batch: &Arc<BatchScript>, nonce: u64) -> Result<Vec<Value>, Fault> {
    let answer = with_others(client, &counting(), batch, "k:1", nonce, LONG).await;
    answer.map_err(|error| fault(&error).clone())
}

/// Three concurrent questions, and whether the server has the script of several.
async fn three(client: &Node, batch: &Arc<BatchScript>) -> [Result<Vec<Value>, Fault>; 3] {
    let (one, two, three) =
        tokio::join!(ask(client, batch, 1), ask(client, batch, 2), ask(client, batch, 3));
    [one, two, three]
}

fn ready() -> Arc<BatchScript> {
    Arc::new(BatchScript::new(counting_many, Arc::default()).pretend())
}

/// `*N`, and for each a list of its nonce and the count.
fn answers(nonces: &[&str]) -> Vec<u8> {
    let each = nonces.iter().map(|nonce| format!("*2\r\n${}\r\n{nonce}\r\n:7\r\n", nonce.len()));
    format!("*{}\r\n{}", nonces.len(), each.collect::<String>()).into_bytes()
}

/// A server that answers the first call on its first connection so, and others as they should be:
/// those of several, and those of one.
async fn first(act: impl Fn(&[String]) -> Act + Send + Sync + 'static) -> Fake {
    Fake::start(move |connection, words| {
        if connection == 0 {
            return act(words);
        }
        let keys: usize = words[2].parse().unwrap();
        let nonces: Vec<&str> = words[3 + keys..].iter().map(String::as_str).collect();
        Act::Say(match words[1] == counting_many().sha() {
            true => answers(&nonces),
            false => answers(&nonces).split_off(4),
        })
    })
    .await
}

fn seven() -> Result<Vec<Value>, Fault> {
    Ok(vec![Value::Int(7)])
}

#[tokio::test]
async fn wrong_answers_to_several_fail_all_whom_they_may_concern() {
    let garbled = || Err(Fault::Garbled { charge: ChargeState::Unknown });
    let closed = || Err(Fault::Closed { charge: ChargeState::Unknown });
    let cases = [
        ("too few", answers(&["1", "2"]), [garbled(), garbled(), garbled()]),
        ("too many", answers(&["1", "2", "3", "4"]), [garbled(), garbled(), garbled()]),
        ("no list", b"+OK\r\n".to_vec(), [garbled(), garbled(), garbled()]),
        ("another nonce", answers(&["1", "9", "3"]), [seven(), garbled(), seven()]),
        ("another order", answers(&["2", "1", "3"]), [garbled(), garbled(), seven()]),
        ("an answer of one", answers(&["1"]).split_off(4), [garbled(), garbled(), garbled()]),
        ("nothing", Vec::new(), [closed(), closed(), closed()]),
    ];
    for (what, bytes, expected) in cases {
        let fake = first(move |_| match bytes.is_empty() {
            true => Act::SayAndClose(Vec::new()),
            false => Act::Say(bytes.clone()),
        })
        .await;
        let (client, batch) = (connect(fake.options()).await, ready());
        assert_eq!(three(&client, &batch).await, expected, "{what}");
        // The connection was cut, and those who ask next have another.
        assert_eq!(three(&client, &batch).await, [seven(), seven(), seven()], "{what}");
        assert_eq!(fake.connections.load(Ordering::SeqCst), 2, "{what}");
        until("the first is closed", async || fake.open.load(Ordering::SeqCst) == 1).await;
    }
}

#[tokio::test]
async fn an_error_in_the_place_of_one_is_that_of_one() {
    let error = b"*3\r\n*2\r\n$1\r\n1\r\n:7\r\n-WRONGTYPE x\r\n*2\r\n$1\r\n3\r\n:7\r\n".to_vec();
    let fake = first(move |_| Act::Say(error.clone())).await;
    let client = connect(fake.options()).await;
    let expected = [seven(), Err(Fault::WrongType), seven()];
    assert_eq!(three(&client, &ready()).await, expected);
    assert_eq!(client.connects(), 1);
}

#[tokio::test]
async fn what_the_server_says_of_a_call_is_said_to_all() {
    let fake = first(|_| Act::Say(b"-OOM command not allowed\r\n".to_vec())).await;
    let client = connect(fake.options()).await;
    let full = || Err(Fault::OutOfMemory);
    assert_eq!(three(&client, &ready()).await, [full(), full(), full()]);
    assert_eq!(fake.heard("3"), 1, "they were asked together, and not again");
}

/// A call of several that surely did not run is made by each alone.
#[tokio::test]
async fn what_cannot_be_asked_together_is_asked_alone() {
    for refusal in [
        "NOSCRIPT No matching script.",
        "CROSSSLOT Keys in request don't hash to the same slot",
        "NOPERM this user has no permissions to access one of the keys",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    ] {
        let fake = first(move |words| match words.len() {
            // EVALSHA, the script, how many, a key, the nonce.
            5 => Act::Say(answers(&[words[4].as_str()]).split_off(4)),
            _ => Act::Say(format!("-{refusal}\r\n").into_bytes()),
        })
        .await;
        let (client, batch) = (connect(fake.options()).await, ready());
        assert_eq!(three(&client, &batch).await, [seven(), seven(), seven()], "{refusal}");
        assert_eq!([fake.heard("1"), fake.heard("2"), fake.heard("3")], [1, 1, 2], "{refusal}");
        // And from then on immediately, except for faults that a load repairs.
        let again = u64::from(refusal.starts_with("TRYAGAIN"));
        if !refusal.starts_with("NOSCRIPT") {
            assert_eq!(three(&client, &batch).await, [seven(), seven(), seven()], "{refusal}");
            assert_eq!(fake.heard("3"), 3 + usize::try_from(again).unwrap(), "{refusal}");
            assert_eq!(batch.refusals(), 1 + again);
        }
        assert_eq!(client.connects(), 1);
    }
}

/// However many come together, all are sent before any is answered, in their order: tokio gives a
/// task a budget of 128 exchanges for a turn, which must not count here.
#[tokio::test]
async fn however_many_come_at_once_all_are_sent() {
    const ALL: u64 = 300;
    let heard = Mutex::new(Vec::new());
    let fake = Fake::start(move |_, words| {
        let mut heard = heard.lock().unwrap();
        heard.push(words.last().unwrap().clone());
        if heard.len() < usize::try_from(ALL).unwrap() {
            return Act::Nothing;
        }
        let each = heard.iter().flat_map(|nonce| answers(&[nonce.as_str()]).split_off(4));
        Act::Say(each.collect())
    })
    .await;
    let client = connect(fake.options()).await;
    let script = counting();
    let all = (1..=ALL).map(|nonce| {
        let batch = Arc::new(BatchScript::new(counting_many, Arc::default()));
        let (client, script) = (client.clone(), script.clone());
        async move { with_others(&client, &script, &batch, "k:1", nonce, LONG).await.is_ok() }
    });
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut answered = 0;
    // All of them are polled before the connection has a turn, and in this order.
    let each = poll_fn(|cx| {
        all.retain_mut(|it| match it.as_mut().poll(cx) {
            Poll::Ready(is_ok) => {
                answered += u64::from(is_ok);
                false
            }
            Poll::Pending => true,
        });
        if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::task::unconstrained(each).await;
    assert_eq!(answered, ALL, "each has its own answer, so they came in their order");
}

/// A call that goes alone is not overtaken by those after it, nor overtakes those before it.
#[tokio::test]
async fn a_call_without_company_keeps_its_place() {
    let fake = first(|words| {
        let keys: usize = words[2].parse().unwrap();
        let nonces: Vec<&str> = words[3 + keys..].iter().map(String::as_str).collect();
        Act::Say(if keys > 1 { answers(&nonces) } else { answers(&nonces).split_off(4) })
    })
    .await;
    let (client, batch) = (connect(fake.options()).await, ready());
    let alone = async {
        let script = counting();
        let mut call = Call::new(&script, 3, 1);
        call.word("k:1").word(3);
        called(&client, call, LONG).await.map_err(|error| fault(&error).clone())
    };
    let done = tokio::join!(
        ask(&client, &batch, 1),
        ask(&client, &batch, 2),
        alone,
        ask(&client, &batch, 4),
        ask(&client, &batch, 5)
    );
    assert_eq!(done, (seven(), seven(), seven(), seven(), seven()));
    assert_eq!(fake.words(), ["2", "3", "5"], "the last words of three calls");
}

/// A question that nobody waits for any more before it was sent never is.
#[tokio::test]
async fn a_question_that_is_dropped_at_once_is_never_sent() {
    let fake = first(|words| Act::Say(answers(&[words.last().unwrap()]).split_off(4))).await;
    let (client, batch) = (connect(fake.options()).await, ready());
    let mut dropped = Box::pin(ask(&client, &batch, 1));
    // Polled once, so that it has asked; the connection has had no turn.
    let polled = poll_fn(|cx| Poll::Ready(dropped.as_mut().poll(cx).is_pending()));
    assert!(polled.await);
    drop(dropped);
    assert_eq!(ask(&client, &batch, 2).await, seven());
    assert_eq!((fake.heard("1"), fake.heard("2")), (0, 1));
}

/// Against a real server: the script of several is loaded when it is needed first, and again when
/// it was forgotten, and no question runs twice.
#[tokio::test]
async fn scripts_of_several_are_loaded_and_loaded_again() {
    let server = Server::start(&[]);
    let client = connect(server.options()).await;
    let counts: Arc<Counts> = Arc::default();
    let batch = Arc::new(BatchScript::new(counting_many, Arc::clone(&counts)));
    let mut asked = 0;
    for round in 1..=3 {
        // Three rounds: alone while it is loaded, then together.
        for _ in 0..3 {
            for answer in three(&client, &batch).await {
                assert!(matches!(answer.unwrap()[..], [Value::Int(_)]));
                asked += 1;
            }
        }
        assert_eq!(counts.loads.load(Ordering::SeqCst), round);
        assert_eq!(server.count("k:1").await, asked);
        server.tell(&["SCRIPT", "FLUSH"]).await;
    }
}

/// A connection that is lost while the script is loaded leaves the load to the next.
#[tokio::test]
async fn a_load_that_is_lost_is_tried_again() {
    let sha = counting_many().sha().to_owned();
    let fake = Fake::start(move |connection, words| match (connection, words[0].as_str()) {
        (0, "SCRIPT") => Act::SayAndClose(Vec::new()),
        (_, "SCRIPT") => Act::Say(format!("$40\r\n{sha}\r\n").into_bytes()),
        _ => {
            let keys: usize = words[2].parse().unwrap();
            let nonces: Vec<&str> = words[3 + keys..].iter().map(String::as_str).collect();
            let all = answers(&nonces);
            Act::Say(if keys > 1 { all } else { all[4..].to_vec() })
        }
    })
    .await;
    let client = connect(fake.options()).await;
    let counts: Arc<Counts> = Arc::default();
    let batch = Arc::new(BatchScript::new(counting_many, Arc::clone(&counts)));
    let closed = || Err(Fault::Closed { charge: ChargeState::Unknown });
    assert_eq!(three(&client, &batch).await, [closed(), closed(), closed()]);
    until("it is loaded", async || {
        let answers = three(&client, &batch).await;
        answers.iter().all(Result::is_ok) && counts.loads.load(Ordering::SeqCst) == 1
    })
    .await;
    let before = fake.heard("1");
    assert_eq!(timeout(LONG, three(&client, &batch)).await.unwrap(), [seven(), seven(), seven()]);
    assert_eq!(fake.heard("1"), before, "together: the last word is the nonce of the last");
}
