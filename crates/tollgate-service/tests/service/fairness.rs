//! One client that asks for much does not hold up the others.

use core::cell::Cell;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Service;

/// A question over four limits.
fn question() -> String {
    let limits: Vec<_> = (1..=4).map(|days| format!("1000000/{days}d via fixed_window")).collect();
    format!(r#"{{"subject": "greedy", "limit": "{}"}}"#, limits.join(", "))
}

/// A batch as large as it may be.
fn batch() -> String {
    let body = format!(r#"{{"checks": [{}]}}"#, vec![question(); 256].join(", "));
    let length = body.len();
    format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// All of it runs on one thread, so what is counted are turns and no times: while a batch is
/// decided, and before the first byte of its answer, another connection is answered many times.
#[tokio::test]
async fn a_batch_that_is_decided_leaves_turns_to_others() {
    const BATCHES: usize = 8;
    let service = Service::start().await;
    let mut greedy = service.client().await;
    let mut other = service.client().await;
    let mut turns = 0;
    for _ in 0..BATCHES {
        let stream = TcpStream::connect(service.address).await.unwrap();
        let (mut from, mut to) = stream.into_split();
        let is_answered = Cell::new(false);
        let asks = async { to.write_all(batch().as_bytes()).await.unwrap() };
        let answer = async {
            let first = from.read_u8().await.unwrap();
            is_answered.set(true);
            first
        };
        let others = async {
            while !is_answered.get() {
                let question = r#"{"subject": "other", "limit": "1000000/h via gcra"}"#;
                assert_eq!(other.check(question).await["allowed"], true);
                turns += 1;
            }
        };
        let ((), first, ()) = tokio::join!(asks, answer, others);
        assert_eq!(first, b'H');
    }
    println!("{turns} answers to another client, while {BATCHES} batches were decided");
    assert!(turns >= 4 * BATCHES, "only {turns} answers to another client");
    let left = greedy.check(&question()).await;
    assert_eq!(left["remaining"], 1_000_000 - 256 * BATCHES - 1, "all of them were asked");
}
