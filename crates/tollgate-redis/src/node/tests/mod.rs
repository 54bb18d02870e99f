//! The client against real servers, and against one that lies.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on has failed

mod batch;
mod certificates;
mod errors;
#[cfg(unix)]
mod event_loop;
mod faults;
mod hostile;
mod server;

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Value;
use tollgate::StoreError;

use super::{BatchScript, Call, Deadline, Node};
use crate::fault::Fault;
use crate::options::Options;
use crate::script::Script;
use server::{Server, tell};

/// Counts how often it is run.
fn counting() -> Script {
    Script::new("return {ARGV[1], redis.call('INCR', KEYS[1])}".to_owned())
}

/// Calls a script with this key and this nonce, as a question does that may go with others; there
/// are none.
async fn call_of(
    client: &Node,
    script: &Script,
    key: &str,
    nonce: u64,
    deadline: Duration,
) -> Result<Vec<Value>, StoreError> {
    let batch = Arc::new(BatchScript::new(|| unreachable!("it is alone"), Arc::default()));
    with_others(client, script, &batch, key, nonce, deadline).await
}

/// The same, together with others that name the same script of several.
async fn with_others(
    client: &Node,
    script: &Script,
    batch: &Arc<BatchScript>,
    key: &str,
    nonce: u64,
    deadline: Duration,
) -> Result<Vec<Value>, StoreError> {
    let mut call = Call::new(script, nonce, 1).with_others(Some(batch));
    call.word(key).word(nonce);
    called(client, call, deadline).await
}

/// Calls a node that is not a part of a cluster.
async fn called(
    client: &Node,
    mut call: Call<'_>,
    deadline: Duration,
) -> Result<Vec<Value>, StoreError> {
    let answer = client.call(&mut call, Deadline::within(deadline)).await;
    Ok(answer.map_err(Fault::from)?)
}

/// Calls a script with one key and a new nonce.
async fn call(client: &Node, script: &Script, deadline: Duration) -> Result<i64, StoreError> {
    static NONCE: AtomicU64 = AtomicU64::new(1);
    let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
    let answer = call_of(client, script, "k:1", nonce, deadline).await?;
    let [Value::Int(count)] = answer[..] else { panic!("{answer:?}") };
    Ok(count)
}

/// The same with the client's own deadline, for calls that must succeed.
async fn count(client: &Node) -> i64 {
    call(client, &counting(), client.options().deadline).await.unwrap()
}

fn fault(error: &StoreError) -> &Fault {
    error.source().and_then(|source| source.downcast_ref()).expect("a fault")
}

async fn connect(options: Options) -> Node {
    Node::connect(options).await.unwrap()
}

async fn refusal(options: Options) -> Fault {
    let error = Node::connect(options).await.unwrap_err();
    assert!(!error.is_ambiguous(), "{error}");
    fault(&error).clone()
}

#[tokio::test]
async fn scripts_are_called_over_tcp_and_sockets_and_in_databases() {
    let server = Server::start(&[]);
    let tcp = connect(server.options()).await;
    assert_eq!([count(&tcp).await, count(&tcp).await], [1, 2]);
    let socket = Options::unix(server.socket()).deadline(server.options().deadline);
    assert_eq!(count(&connect(socket).await).await, 3);
    assert_eq!(count(&connect(server.options().connections(3)).await).await, 4);
    let third = server.options().database(3);
    assert_eq!(count(&connect(third.clone()).await).await, 1);
    assert_eq!(tell(third, &["GET", "k:1"]).await, Value::BulkString(b"1".to_vec()));
    assert_eq!(server.count("k:1").await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_script_is_loaded_once_for_all() {
    let server = Server::start(&[]);
    let client = connect(server.options().connections(2)).await;
    for round in 1..=3 {
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { count(&client).await })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(client.loads(), round);
        assert_eq!(server.count("k:1").await, 100 * round);
        server.tell(&["SCRIPT", "FLUSH"]).await;
    }
}

#[tokio::test]
async fn raw_commands_have_a_connection_of_their_own() {
    let server = Server::start(&[]);
    let client = connect(server.options()).await;
    let deadline = client.options().deadline;
    let mut set = redis::cmd("SET");
    assert_eq!(client.raw(set.arg("a").arg(1).take(), deadline).await.unwrap(), Value::Okay);
    let error = client.raw(redis::cmd("LPUSH").arg("a").arg(1).take(), deadline).await.unwrap_err();
    assert_eq!(fault(&error), &Fault::WrongType);
    assert_eq!(client.connects(), 1);
}

#[tokio::test]
async fn a_client_that_is_dropped_closes_its_connections() {
    let server = Server::start(&[]);
    let client = connect(server.options().connections(4)).await;
    let clients = async || {
        let Value::BulkString(list) = server.tell(&["CLIENT", "LIST"]).await else { panic!() };
        String::from_utf8(list).unwrap().lines().count()
    };
    server::until("four connections and the one that asks", async || clients().await == 5).await;
    let clone = client.clone();
    drop(client);
    count(&clone).await;
    drop(clone);
    server::until("one connection, which asks", async || clients().await == 1).await;
}
