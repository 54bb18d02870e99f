//! Clients that misbehave: each is let go of, and others are served.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::service;
use crate::abuse::{LONG, closed};
use crate::redis_client::{command, line};
use crate::{Service, here};

/// A service whose deadlines are short.
async fn hasty() -> Service {
    Service::with(|options| {
        let short = Duration::from_millis(500);
        options.bounds.head = short;
        options.bounds.write = short;
        options.bounds.idle = short;
        options.resp = vec![here()];
    })
    .await
}

#[tokio::test]
async fn what_is_no_command_is_told_so_and_closed() {
    let service = service().await;
    for (sent, said) in [
        (
            "*1\r\n$4\r\nPING\r\n*x\r\n",
            "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n",
        ),
        ("*1\r\n$99999999\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*999\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*1\r\n+PING\r\n", "-ERR Protocol error: expected '$', got '+'\r\n"),
        ("\u{16}\u{3}\u{1}\n", "-ERR Protocol error: a line is PING or QUIT here"),
        // A client that speaks HTTP gets no reply.
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""),
        ("POST /v1/check HTTP/1.1\r\nHost: a\r\n\r\n*1\r\n$4\r\nPING\r\n", ""),
        ("PING\r\nHost: a\r\nPING\r\n", ""),
        // A line, and the end of the client.
        ("PING\r\nquit\r\nPING\r\n", "+PONG\r\n+OK\r\n"),
    ] {
        let mut redis = service.redis().await;
        redis.send(sent.as_bytes()).await;
        let rest = redis.rest().await;
        assert!(rest.starts_with(said) && (!said.is_empty() || rest.is_empty()), "{sent}: {rest}");
    }
    // The rest of a line that is too long is not read, and the reason still arrives.
    let mut redis = service.redis().await;
    let mut sent = b"*1\r\n$99999999\r\n".to_vec();
    sent.resize(600_000, b'a');
    let _ = redis.stream.write_all(&sent).await;
    assert_eq!(redis.rest().await, "-ERR Protocol error: invalid bulk length\r\n");
}

#[tokio::test]
async fn a_command_may_come_byte_by_byte_and_thousands_at_once() {
    let service = service().await;
    let mut redis = service.redis().await;
    for byte in [line("ECHO a"), line("PING")].concat() {
        redis.send(&[byte]).await;
    }
    assert_eq!((redis.reply().await, redis.reply().await), (r#""a""#.into(), "PONG".into()));
    // More than one read takes, and than one turn decides.
    let many: Vec<u8> = (0..5_000).flat_map(|number| line(&format!("ECHO {number}"))).collect();
    let (mut reading, mut writing) = tokio::io::split(redis.stream.into_inner());
    let sending = tokio::spawn(async move {
        writing.write_all(&many).await.unwrap();
        // The end of a client that still reads.
        writing.shutdown().await.unwrap();
    });
    let mut said = String::new();
    timeout(LONG, reading.read_to_string(&mut said)).await.expect("it hangs").unwrap();
    sending.await.unwrap();
    let expected: String =
        (0..5_000).map(|n| format!("${}\r\n{n}\r\n", n.to_string().len())).collect();
    assert_eq!(said, expected);
}

#[tokio::test]
async fn whoever_is_slow_is_closed_and_the_others_are_served() {
    let service = hasty().await;
    for (slow, reason, said) in [
        ("", "idle", ""),
        ("*1\r\n$4\r\nPI", "head", ""),
        // Half of a second command, which came with the first.
        ("*1\r\n$4\r\nPING\r\n*1\r\n", "head", "+PONG\r\n"),
    ] {
        let before = closed(&service, reason).await;
        let mut redis = service.redis().await;
        redis.send(slow.as_bytes()).await;
        let ended = tokio::spawn(async move { redis.rest().await });
        while !ended.is_finished() {
            assert_eq!(service.redis().await.ask("PING").await, "PONG");
        }
        assert_eq!(ended.await.unwrap(), said);
        assert!(closed(&service, reason).await > before, "{slow:?} was not closed as {reason}");
    }
}

#[tokio::test]
async fn a_byte_now_and_then_does_not_prolong_a_command() {
    let service = hasty().await;
    let mut redis = service.redis().await;
    redis.send(b"*1\r\n$60000\r\n").await;
    let start = std::time::Instant::now();
    let mut is_closed = false;
    while start.elapsed() < LONG && !is_closed {
        is_closed = redis.stream.write_all(b"a").await.is_err()
            || redis.stream.flush().await.is_err()
            || matches!(
                timeout(Duration::from_millis(20), redis.stream.read(&mut [0; 64])).await,
                Ok(Ok(0) | Err(_))
            );
    }
    assert!(is_closed, "it hangs");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed() {
    let service = hasty().await;
    let mut redis = service.redis().await;
    let echo = command(&[b"ECHO", &[b'a'; 60_000]]);
    let mut has_stopped = false;
    let start = std::time::Instant::now();
    while start.elapsed() < LONG && !has_stopped {
        let sent = timeout(Duration::from_secs(5), redis.stream.write_all(&echo)).await;
        has_stopped = !matches!(sent, Ok(Ok(())));
    }
    assert!(has_stopped, "it takes commands without end");
    redis.rest().await;
    assert_eq!(closed(&service, "write").await, 1);
}

/// Long commands and answers share one budget of all connections, and never exceed it.
#[tokio::test]
async fn long_commands_have_a_bound_together() {
    let service = Service::with(|options| {
        options.bounds.buffers = 300_000;
        options.resp = vec![here()];
    })
    .await;
    let long = command(&[b"ECHO", &[b'a'; 60_000]]);
    let mut half = Vec::new();
    for _ in 0..2 {
        let mut redis = service.redis().await;
        redis.send(&long[..50_000]).await;
        half.push(redis);
    }
    // Both have their share once the page shows it.
    let held = async {
        loop {
            let page = service.client().await.get("/metrics").await.text;
            if page.contains("tollgate_connection_buffers_bytes 262144") {
                break;
            }
        }
    };
    timeout(LONG, held).await.expect("it is not held");
    let mut third = service.redis().await;
    third.send(&long).await;
    assert!(third.reply().await.starts_with("(ERR too much is on its way"));
    // A client that needs little is served, and one with a share ends well.
    assert_eq!(service.redis().await.ask("PING").await, "PONG");
    drop(half.pop());
    let mut first = half.pop().unwrap();
    first.send(&long[50_000..]).await;
    assert_eq!(first.reply().await.len(), 60_002);
}

/// An answer that nobody reads takes its share, until it is read or the client is gone.
#[tokio::test]
async fn long_answers_have_a_bound_together() {
    let service = Service::with(|options| {
        options.bounds.buffers = 300_000;
        options.resp = vec![here()];
    })
    .await;
    let held = async |service: &Service| -> u64 {
        let page = service.client().await.get("/metrics").await.text;
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix("tollgate_connection_buffers_bytes ")?.parse().ok());
        line.unwrap()
    };
    let mut unread = service.redis().await;
    let echo = command(&[b"ECHO", &[b'a'; 60_000]]);
    let sending = tokio::spawn(async move {
        // Until the service takes no more, which it does when nobody reads.
        while unread.stream.write_all(&echo).await.is_ok() {}
    });
    // That of the command is 128 KiB; the rest is the answer's.
    let both = async { while held(&service).await < 131_072 + 60_000 {} };
    timeout(LONG, both).await.expect("the answer takes nothing");
    // The rest is too little for the same of another.
    let mut other = service.redis().await;
    other.send(&command(&[b"ECHO", &[b'a'; 60_000]])).await;
    assert!(other.reply().await.starts_with("(ERR too much is on its way"));
    sending.abort();
    let none = async { while held(&service).await > 0 {} };
    timeout(LONG, none).await.expect("it is kept");
}

/// A connection lets go of its buffers after a second, and goes on where it was.
#[tokio::test]
async fn who_was_idle_for_a_while_is_answered_as_before() {
    let service = service().await;
    let mut redis = service.redis().await;
    redis.ask("HELLO 3").await;
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(1_600)).await; // tidy: sleep-ok it is idle
        assert_eq!(redis.ask("CLIENT GETNAME").await, "nil");
        assert_eq!(redis.ask("CONFIG GET save").await, r#"{"save": ""}"#);
    }
}
