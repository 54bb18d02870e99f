//! Series that expire.

use super::*;

fn series(key: &str) -> Series {
    Series::new(key, Duration::ZERO, [("data", "hits")]).unwrap()
}

fn pexpire(key: &str, ms: &str) -> Step {
    let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    hear(format!("*3\r\n{}{}{}", word("PEXPIRE"), word(key), word(ms)))
}

#[tokio::test]
async fn series_expire_by_their_keys() {
    let mut steps = greeting();
    steps.extend([pexpire("a", "1500"), pexpire("b", "1500"), say(":1\r\n:1\r\n")]);
    // One that is not there has nothing to expire.
    steps.extend([pexpire("a", "1"), pexpire("b", "1"), say(":1\r\n:0\r\n")]);
    steps.extend([pexpire("a", "1"), say("-NOPERM User u has no permissions\r\n"), Gone]);
    let server = Scripted::start(steps);
    let redis = server.connect().await;
    let [a, b] = ["a", "b"].map(series);
    let after = Duration::from_micros(1_499_001);
    assert_eq!(redis.expire(&[&a, &b], after).await, Ok(()), "rounded up to milliseconds");
    assert_eq!(redis.expire(&[&a, &b], Duration::from_nanos(1)).await, Ok(()));
    let error = redis.expire(&[&a], Duration::from_millis(1)).await.unwrap_err();
    assert_eq!(error, TimeSeriesError::NoPermission);
    assert!(error.to_string().contains("+pexpire"), "{error}");
    drop(redis);
    server.done().await;
}
