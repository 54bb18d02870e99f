//! The Redis protocol: the clients' commands, the replies, and clients that misbehave.

mod abuse;
pub(crate) mod ask;
mod holds;
mod redis_rs;
mod throttle;
mod users;

use std::time::Duration;

use tokio::net::UnixStream;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tollgate::MemoryStore;
use tollgate_service::{Address, AnyStore, Options, RespUser, Server};

use crate::redis_client::{Redis, line};
use crate::secured::certificate;
use crate::{FILE, Service, gate_of, here};

const PASSWORD: &str = "a password of many bytes";

/// A service that speaks the Redis protocol.
async fn service() -> Service {
    Service::with(|options| options.resp = vec![here()]).await
}

/// A service where clients say a password.
async fn locked() -> Service {
    Service::with(|options| {
        options.resp = vec![here()];
        options.resp_users = vec![RespUser::default_user(PASSWORD.to_owned())];
    })
    .await
}

/// Each line and the reply to it.
async fn talk(redis: &mut Redis, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(redis.ask(line).await, *expected, "{line}");
    }
}

#[tokio::test]
async fn clients_introduce_themselves() {
    let service = service().await;
    let mut redis = service.redis().await;
    let hello = |proto: u8| {
        format!(
            r#""server": "tollgate", "version": "7.2.0", "proto": {proto}, "id": 1, "mode": "standalone", "role": "master", "modules": []"#
        )
    };
    talk(
        &mut redis,
        &[
            ("PING", "PONG"),
            ("ping hi", r#""hi""#),
            ("ECHO hi", r#""hi""#),
            ("HELLO", &format!("[{}]", hello(2).replace(':', ","))),
            ("HELLO 3", &format!("{{{}}}", hello(3))),
            ("CLIENT GETNAME", "nil"),
            ("CLIENT SETNAME worker-1", "OK"),
            ("client getname", r#""worker-1""#),
            ("CLIENT ID", "1"),
            ("CLIENT SETINFO LIB-NAME redis-py(x_v1)", "OK"),
            ("CLIENT SETINFO lib-ver 8.1.0", "OK"),
            ("CLIENT SETINFO lib-age 1", "(ERR Unrecognized option 'lib-age')"),
            (
                "CLIENT MAINT_NOTIFICATIONS ON",
                "(ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.)",
            ),
            ("SELECT 0", "OK"),
            ("SELECT 1", "(ERR DB index is out of range)"),
            ("SELECT x", "(ERR value is not an integer or out of range)"),
            ("HELLO 4", "(NOPROTO unsupported protocol version)"),
            ("HELLO x", "(ERR Protocol version is not an integer or out of range)"),
            ("HELLO 2 AUTH a", "(ERR Syntax error in HELLO option 'AUTH')"),
            ("CONFIG GET save", r#"{"save": ""}"#),
            ("CONFIG GET appendonly maxmemory", r#"{"appendonly": "no"}"#),
            ("GET a", "(ERR unknown command 'GET', with args beginning with: 'a' )"),
            ("ECHO", "(ERR wrong number of arguments for 'echo' command)"),
            ("RESET", "RESET"),
            ("CLIENT GETNAME", "nil"),
            ("CONFIG GET save", r#"["save", ""]"#),
        ],
    )
    .await;
    let info = redis.ask("INFO").await;
    assert!(info.contains("redis_version:7.2.0\\r\\n") && info.contains("loading:0"), "{info}");
    let info = redis.ask("INFO persistence").await;
    assert_eq!(
        info,
        r##""# Persistence\r\nloading:0\r\nrdb_bgsave_in_progress:0\r\naof_rewrite_in_progress:0\r\n""##
    );
    assert_eq!(redis.ask("QUIT").await, "OK");
    assert_eq!(redis.rest().await, "");
    // The next client has a different number.
    assert_eq!(service.redis().await.ask("CLIENT ID").await, "2");
}

#[tokio::test]
async fn the_table_of_commands_describes_them() {
    let service = service().await;
    let mut redis = service.redis().await;
    let count: usize = redis.ask("COMMAND COUNT").await.parse().unwrap();
    let list = redis.ask("COMMAND LIST").await;
    assert_eq!(list.split(", ").count(), count);
    assert_eq!(
        redis.ask("COMMAND INFO cl.throttle nothing").await,
        r#"[["cl.throttle", -5, [write, fast], 1, 1, 1, [], [], [], []], nil]"#
    );
    redis.ask("HELLO 3").await;
    let docs = redis.ask("COMMAND DOCS echo").await;
    assert_eq!(
        docs,
        r#"{"echo": {"summary": "Answers the message.", "since": "0.1.0", "group": "connection", "arguments": [{"name": "message", "type": "string"}]}}"#
    );
    let all = redis.ask("COMMAND DOCS").await;
    for name in list.trim_matches(['[', ']']).split(", ") {
        assert!(all.contains(&format!("{name}: {{\"summary\"")), "{name}: {all}");
    }
    assert!(all.contains("client|setname") && all.contains(r#""token": "TOKENS""#), "{all}");
    let help = redis.ask("CLIENT HELP").await;
    assert!(help.contains("CLIENT ID: Answers the number of the connection."), "{help}");
}

#[tokio::test]
async fn whoever_has_no_password_is_told_nothing() {
    let service = locked().await;
    let mut redis = service.redis().await;
    let wrong = "(WRONGPASS invalid username-password pair or user is disabled.)";
    talk(
        &mut redis,
        &[
            ("PING", "(NOAUTH Authentication required.)"),
            ("CL.THROTTLE a 1 1 1", "(NOAUTH Authentication required.)"),
            ("INFO", "(NOAUTH Authentication required.)"),
            ("AUTH x", wrong),
            ("AUTH root x", wrong),
            ("HELLO 3 AUTH default x", wrong),
        ],
    )
    .await;
    assert!(redis.ask("HELLO 3").await.starts_with("(NOAUTH HELLO must be called"));
    // Smaller bounds hold until the password was sent.
    let long = format!("ECHO {}", "a".repeat(1_025));
    let mut other = service.redis().await;
    let said = other.ask(&long).await;
    assert_eq!(said, "(ERR Protocol error: unauthenticated invalid bulk length)");
    redis.send(&crate::redis_client::command(&[b"AUTH", PASSWORD.as_bytes()])).await;
    assert_eq!(redis.reply().await, "OK");
    assert_eq!(redis.ask(&long).await.len(), 1_027);
    assert_eq!(redis.ask("CL.THROTTLE a 1 1 1").await, "[0, 2, 1, -1, 1]");
    // It is forgotten with all else.
    assert_eq!(redis.ask("RESET").await, "RESET");
    assert_eq!(redis.ask("PING").await, "(NOAUTH Authentication required.)");
    // With the first word of a client.
    let hello = [&b"HELLO"[..], b"3", b"AUTH", b"default", PASSWORD.as_bytes()];
    let mut redis = service.redis().await;
    redis.send(&crate::redis_client::command(&hello)).await;
    assert!(redis.reply().await.starts_with("{\"server\": \"tollgate\""));
    // Guesses wait, and the right one passes while they do.
    let mut guessing = Vec::new();
    for _ in 0..20 {
        let mut guess = service.redis().await;
        guess.send(&crate::redis_client::command(&[b"AUTH", b"guess"])).await;
        guessing.push(guess);
    }
    for login in 0..80 {
        let mut redis = service.redis().await;
        redis.send(&crate::redis_client::command(&[b"AUTH", PASSWORD.as_bytes()])).await;
        assert_eq!(redis.reply().await, "OK", "{login}");
    }
    drop(guessing);
    // Without a password there is no authentication, and AUTH reports that.
    let open = self::service().await;
    let said = open.redis().await.ask("AUTH x").await;
    assert!(said.starts_with("(ERR AUTH <password> called without any password"), "{said}");
}

#[tokio::test]
async fn an_address_for_everybody_needs_a_password() {
    for (address, password, says) in [
        (
            "0.0.0.0:0",
            None,
            "set TOLLGATE_RESP_PASSWORD or TOLLGATE_RESP_USERS, or listen on 127.0.0.1",
        ),
        (
            "127.0.0.1:0",
            Some("short"),
            "the password of the RESP user `default` has 5 bytes, and needs 16",
        ),
        ("0.0.0.0:0", Some(PASSWORD), ""),
    ] {
        let mut options = Options::new(vec![here()]);
        options.resp = vec![address.parse().unwrap()];
        options.resp_users =
            password.map(|it| RespUser::default_user(it.to_owned())).into_iter().collect();
        let gate = gate_of(FILE, AnyStore::Memory(MemoryStore::new()));
        match Server::start(gate, options).await {
            Ok(_) => assert_eq!(says, "", "{address}"),
            Err(error) => assert!(error.to_string().contains(says) && !says.is_empty(), "{error}"),
        }
    }
}

#[tokio::test]
async fn a_socket_and_tls_lead_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resp.sock");
    let tls = certificate(folder.path(), "one");
    let service = Service::with(|options| {
        options.resp = vec![here()];
        options.tls = Some(tls.clone());
    })
    .await;
    let trusted = CertificateDer::from_pem_file(&tls.certificate).unwrap();
    let address = crate::tcp(&service.server.resp()[0]);
    let service = Service { address, ..service };
    let mut redis = Redis::over(service.trusting(&trusted).await.unwrap());
    assert_eq!(redis.ask("CL.THROTTLE a 1 1 1").await, "[0, 2, 1, -1, 1]");
    let plain = Service::with(|options| options.resp = vec![Address::Unix(path.clone())]).await;
    let mut redis = Redis::over(UnixStream::connect(&path).await.unwrap());
    assert_eq!(redis.ask("PING").await, "PONG");
    plain.server.end().await;
    assert_eq!(redis.rest().await, "");
    assert!(!path.exists());
}

#[tokio::test]
async fn what_was_sent_is_answered_at_the_end_and_nothing_more() {
    let service = Service::with(|options| {
        options.resp = vec![here()];
        options.grace = Duration::from_secs(20);
    })
    .await;
    let mut idle = service.redis().await;
    assert_eq!(idle.ask("PING").await, "PONG");
    let mut half = service.redis().await;
    half.send(b"*1\r\n$4\r\nPI").await;
    let mut busy = service.redis().await;
    busy.send(&line("CL.THROTTLE a 99 1 1").repeat(100)).await;
    for left in (0..100).rev() {
        assert!(busy.reply().await.starts_with(&format!("[0, 100, {left}, -1")), "{left}");
    }
    let stopping = service.server.end().await;
    assert_eq!(
        (stopping.cut, idle.rest().await, busy.rest().await),
        (0, String::new(), String::new())
    );
    assert_eq!(half.rest().await, "");
}

/// A transaction is a pipeline that is all queued before any of it is run.
#[tokio::test]
async fn a_transaction_runs_in_order_or_not_at_all() {
    let service = service().await;
    let mut redis = service.redis().await;
    assert_eq!(redis.ask("EXEC").await, "(ERR EXEC without MULTI)");
    assert_eq!(redis.ask("DISCARD").await, "(ERR DISCARD without MULTI)");
    for (line, says) in [
        ("MULTI", "OK"),
        ("MULTI", "(ERR MULTI calls can not be nested)"),
        ("CL.THROTTLE a 1 2 60", "QUEUED"),
        ("CL.THROTTLE a 1 2 60", "QUEUED"),
        ("CL.THROTTLE a 1 2 60", "QUEUED"),
        ("PING", "QUEUED"),
    ] {
        assert_eq!(redis.ask(line).await, says, "{line}");
    }
    // Nothing was charged while it was queued.
    let mut other = service.redis().await;
    assert!(other.ask("CL.THROTTLE a 1 2 60 0").await.starts_with("[0, 2, 2,"));
    let said = redis.ask("EXEC").await;
    assert!(said.starts_with("[[0, 2, 1,") && said.ends_with(", PONG]"), "{said}");
    assert_eq!(said.matches("[1, 2, 0,").count(), 1, "the third is denied: {said}");
    // An error in the queue ends it before anything is charged.
    for broken in ["NOSUCH", "CL.THROTTLE b", "TOLLGATE.RESET b 1/s", "WATCH b"] {
        assert_eq!(redis.ask("MULTI").await, "OK");
        assert_eq!(redis.ask("CL.THROTTLE b 1 2 60").await, "QUEUED");
        assert!(redis.ask(broken).await.starts_with('('), "{broken}");
        assert!(redis.ask("EXEC").await.starts_with("(EXECABORT"), "{broken}");
        assert_eq!(redis.ask("EXEC").await, "(ERR EXEC without MULTI)");
    }
    // A command that ends a connection's user or state ends its transaction.
    for (end, says) in [("DISCARD", "OK"), ("RESET", "RESET"), ("AUTH x", "(ERR AUTH")] {
        assert_eq!(redis.ask("MULTI").await, "OK");
        assert_eq!(redis.ask("CL.THROTTLE b 1 2 60").await, "QUEUED");
        assert!(redis.ask(end).await.starts_with(says), "{end}");
        assert_eq!(redis.ask("EXEC").await, "(ERR EXEC without MULTI)", "{end}");
    }
    redis.ask("MULTI").await;
    assert_eq!(redis.ask("CL.THROTTLE b 1 2 60").await, "QUEUED");
    drop(redis);
    assert!(other.ask("CL.THROTTLE b 1 2 60 0").await.starts_with("[0, 2, 2,"));
    assert_eq!(other.ask("UNWATCH").await, "OK");
    assert!(other.ask("WATCH a").await.starts_with("(ERR WATCH is not supported"));
    // In the third version of the protocol, and empty.
    assert!(other.ask("HELLO 3").await.starts_with('{'));
    assert_eq!(other.ask("MULTI").await, "OK");
    assert_eq!(other.ask("EXEC").await, "[]");
}

/// `redis-cli --stat` reads these, and shows nonsense for one that is missing.
#[tokio::test]
async fn info_has_what_redis_cli_watches() {
    let service = service().await;
    let mut redis = service.redis().await;
    redis.ask("CL.THROTTLE a 1 2 60").await;
    let info = redis.ask("INFO").await;
    for has in [
        "connected_clients:1\\r",
        "blocked_clients:0\\r",
        "total_connections_received:1\\r",
        "total_commands_processed:1\\r",
        "db0:keys=1,",
    ] {
        assert!(info.contains(has), "{has}: {info}");
    }
    let used = info.split("used_memory:").nth(1).unwrap().split("\\r").next().unwrap();
    assert!(used.parse::<u64>().unwrap() > 0, "{used}");
}
