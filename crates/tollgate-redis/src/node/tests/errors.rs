//! Errors of a real Redis, and of connecting to it.

use std::time::Duration;

use super::server::{Server, until};
use super::{call, call_of, connect, count, counting, fault, refusal};
use crate::fault::{ChargeState, Fault};
use crate::node::Node;
use crate::options::Options;
use crate::script::Script;

const LONG: Duration = Duration::from_secs(5);

/// The fault of counting.
async fn failure(client: &Node) -> Fault {
    let error = call(client, &counting(), LONG).await.unwrap_err();
    let fault = fault(&error).clone();
    assert_eq!(error.is_ambiguous(), fault.charge_state() == ChargeState::Unknown);
    fault
}

#[tokio::test]
async fn wrong_passwords_and_databases_are_told_apart() {
    let open = Server::start(&[]);
    assert_eq!(refusal(open.options().password("pw")).await, Fault::NoPasswordSet);
    assert_eq!(refusal(open.options().database(99)).await, Fault::NoSuchDatabase);

    let user = ["--user", "limiter", "on", ">s3cret", "~*", "+@all"];
    let server = Server::start(&[&["--requirepass", "pw"][..], &user].concat());
    assert_eq!(refusal(server.options()).await, Fault::NoAuth);
    assert_eq!(refusal(server.options().password("wrong")).await, Fault::WrongPassword);
    let nobody = server.options().user("nobody").password("pw");
    assert_eq!(refusal(nobody).await, Fault::WrongPassword);
    count(&connect(server.options().password("pw")).await).await;
    count(&connect(server.options().user("limiter").password("s3cret")).await).await;
}

#[tokio::test]
async fn what_a_user_may_not_do_is_told_from_what_a_script_may_not() {
    let server = Server::start(&[]);
    server.tell(&["ACL", "SETUSER", "t", "on", ">t", "~k:*", "+script|load", "+get"]).await;
    let user = server.options().user("t").password("t");
    let client = connect(user.clone()).await;
    let before = Fault::NoPermission { charge: ChargeState::NotCharged, missing: String::new() };
    assert_eq!(failure(&client).await, before);
    server.tell(&["ACL", "SETUSER", "t", "+evalsha"]).await;
    let within = Fault::NoPermission { charge: ChargeState::Unknown, missing: String::new() };
    assert_eq!(failure(&client).await, within, "nobody says what is missing");
    server.tell(&["ACL", "SETUSER", "t", "+eval"]).await;
    let named = Fault::NoPermission { charge: ChargeState::Unknown, missing: "incr".into() };
    assert_eq!(failure(&client).await, named, "it is asked for after the refusal");
    server.tell(&["SCRIPT", "FLUSH"]).await;
    let early = Fault::NoPermission { charge: ChargeState::NotCharged, missing: "incr".into() };
    assert_eq!(failure(&client).await, early, "it is asked for when the script is loaded");
    server.tell(&["ACL", "SETUSER", "t", "+incr"]).await;
    assert_eq!(count(&client).await, 1);
    let other = call_of(&client, &counting(), "other", 7, LONG).await.unwrap_err();
    assert_eq!(fault(&other), &before);
    assert_eq!(refusal(user.database(1)).await, before, "SELECT is not allowed");
}

#[tokio::test]
async fn refused_writes_are_named_and_charge_nothing() {
    let server = Server::start(&[]);
    let client = connect(server.options()).await;
    assert_eq!(count(&client).await, 1);
    for (set, fault, unset) in [
        (
            vec!["CONFIG", "SET", "maxmemory", "1"],
            Fault::OutOfMemory,
            vec!["CONFIG", "SET", "maxmemory", "0"],
        ),
        (
            vec!["CONFIG", "SET", "min-replicas-to-write", "1"],
            Fault::NoReplicas,
            vec!["CONFIG", "SET", "min-replicas-to-write", "0"],
        ),
        (vec!["REPLICAOF", "127.0.0.1", "1"], Fault::ReadOnly, vec!["REPLICAOF", "NO", "ONE"]),
    ] {
        server.tell(&set).await;
        assert_eq!(failure(&client).await, fault);
        server.tell(&unset).await;
    }
    assert_eq!(count(&client).await, 2);
    server.tell(&["DEL", "k:1"]).await;
    server.tell(&["LPUSH", "k:1", "x"]).await;
    assert_eq!(failure(&client).await, Fault::WrongType);
}

#[tokio::test]
async fn a_replica_without_its_master_is_named() {
    let server = Server::start(&[]);
    let client = connect(server.options()).await;
    count(&client).await;
    server.tell(&["CONFIG", "SET", "replica-serve-stale-data", "no"]).await;
    server.tell(&["REPLICAOF", "127.0.0.1", "1"]).await;
    assert_eq!(failure(&client).await, Fault::MasterDown);
}

#[tokio::test]
async fn a_script_that_is_not_ours_makes_it_busy_and_is_not_killed() {
    let server = Server::start(&["--lua-time-limit", "20"]);
    let client = connect(server.options()).await;
    count(&client).await;
    let options = server.options();
    let foreign = tokio::spawn(async move {
        super::server::tell(options, &["EVAL", "while true do end", "0"]).await
    });
    until("busy", async || {
        let answer = call(&client, &counting(), LONG).await;
        answer.is_err_and(|error| fault(&error) == &Fault::Busy && !error.is_ambiguous())
    })
    .await;
    assert!(!foreign.is_finished());
    // PING is refused too, so nobody could connect to tell it; our connection is still good.
    let wire =
        client.0.slots[0].wire(super::super::deadline::Deadline::within(LONG)).await.unwrap();
    let mut kill = redis::cmd("SCRIPT");
    kill.arg("KILL");
    wire.exchange(&kill, super::super::deadline::Deadline::within(LONG)).await.unwrap();
    foreign.await.unwrap();
    count(&client).await;
}

#[tokio::test]
async fn a_script_that_fails_half_way_may_have_charged() {
    let server = Server::start(&[]);
    let client = connect(server.options()).await;
    let script = Script::new("redis.call('INCR', KEYS[1]) error('no')".to_owned());
    let error = call(&client, &script, LONG).await.unwrap_err();
    assert!(error.is_ambiguous());
    assert_eq!(fault(&error), &Fault::Other { code: "ERR".to_owned() });
    assert_eq!(server.count("k:1").await, 1);
}

#[tokio::test]
async fn tls_is_checked_and_the_wrong_port_is_named() {
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/src/node/tests/tls");
    let authority = include_bytes!("tls/authority.pem");
    let [certificate, key] = ["server.pem", "server.key"].map(|name| format!("{files}/{name}"));
    let plain = Server::start(&[]);
    let (host, address) = ("localhost", |port| format!("localhost:{port}"));
    let to_plain = Options::tls(host, plain.port).authorities(*authority);
    let named = Fault::TlsToPlainPort { address: address(plain.port) };
    assert_eq!(refusal(to_plain.connect_timeout(Duration::from_millis(300))).await, named);

    let arguments = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
    let secure = Server::start(
        &[&arguments[..], &["--tls-auth-clients", "no", "--tls-ca-cert-file", &certificate]]
            .concat(),
    );
    let named = Fault::PlainToTlsPort { address: address(secure.port) };
    assert_eq!(refusal(Options::tcp(host, secure.port)).await, named);

    let good = Options::tls(host, secure.port).authorities(*authority).deadline(LONG);
    assert_eq!(count(&connect(good.clone()).await).await, 1);
    // Signed by nobody that is trusted, and for another name.
    let stranger = good.clone().authorities(include_bytes!("tls/server.pem").to_vec());
    assert!(matches!(refusal(stranger).await, Fault::Tls { .. }));
    let by_number = Options::tls("127.0.0.1", secure.port).authorities(*authority);
    assert!(matches!(refusal(by_number).await, Fault::Tls { .. }));
    let no_pem = good.authorities(*b"-----BEGIN");
    assert!(matches!(refusal(no_pem).await, Fault::Tls { .. }));
}

/// By a clock that pauses while there is work, and goes on immediately where all wait.
#[tokio::test(start_paused = true)]
async fn a_frozen_server_takes_no_longer_than_the_timeout_says() {
    // The kernel accepts, and nobody reads.
    let frozen = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = frozen.local_addr().unwrap();
    let start = tokio::time::Instant::now();
    let options = Options::tcp("127.0.0.1", address.port());
    let fault = refusal(options.connect_timeout(Duration::from_secs(1))).await;
    let why = "no answer within 1s".to_owned();
    assert_eq!(fault, Fault::Unreachable { address: address.to_string(), why });
    let took = start.elapsed();
    let timers = Duration::from_millis(2);
    assert!(took <= Duration::from_secs(1) + timers, "{took:?}");
}

#[tokio::test]
async fn nothing_there_is_unreachable() {
    let mut server = Server::start(&[]);
    server.kill();
    assert!(matches!(refusal(server.options()).await, Fault::Unreachable { .. }));
    assert!(matches!(
        refusal(Options::unix(server.socket().join("no"))).await,
        Fault::Unreachable { .. }
    ));
}
