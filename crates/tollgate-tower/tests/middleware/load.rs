//! The example server under `ab`: exactly what there is, on every store, and over two processes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpSocket};
use tokio::process::Command;
use tollgate_testbed::redis_or_skip;

use crate::common::example;
use crate::server;

const SKIPPED: &str = "SKIPPED: ab is not installed: apt-get install apache2-utils";

/// Which store a child of this program serves on.
const CHILD: &str = "TOLLGATE_TEST_EXAMPLE_STORE";

fn ab_is_there() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("ab").is_file())
}

macro_rules! ab_or_skip {
    () => {
        if !ab_is_there() {
            println!("{SKIPPED}");
            return;
        }
    };
}

/// The example policy, with a deadline that a busy machine keeps: by its rule requests that the
/// store cannot answer in time are admitted uncounted, which is not what is measured here.
fn patient(folder: &Path) -> PathBuf {
    let text = std::fs::read_to_string(example("1000-per-hour.toml")).unwrap();
    let patient = text.replace("on_failure = ", "deadline = \"1m\"\non_failure = ");
    assert_ne!(text, patient);
    let path = folder.join("patient.toml");
    std::fs::write(&path, patient).unwrap();
    path
}

/// How many of `requests` were answered with 200, and how many with something else.
async fn ab(requests: u64, address: &str) -> (u64, u64) {
    let output = Command::new("ab")
        .args(["-q", "-n", &requests.to_string(), "-c", "50", &format!("http://{address}/")])
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let number = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |line| line.trim().parse().unwrap())
    };
    assert_eq!(number("Complete requests:"), requests, "{text}");
    let other = number("Non-2xx responses:");
    (requests - other, other)
}

/// The whole answer to a request that comes from `local`.
async fn get(local: &str, address: &str) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{local}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// The bucket gives one back every 3.6 s: the units that a slow machine may see beyond 1,000.
fn refilled(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap() / 3_600_000
}

fn is_exactly(admitted: u64, of: u64, denied: u64, began: Instant) {
    let beyond = admitted.checked_sub(1_000).unwrap_or_else(|| panic!("{admitted} were admitted"));
    assert!(beyond <= refilled(began), "{admitted} were admitted");
    assert_eq!(admitted + denied, of);
}

async fn a_thousand_of_twelve_hundred(store: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let (policies, store) = (patient(folder.path()), store.to_owned());
    let serving = tokio::spawn(async move { server::run(&policies, &store, listener).await });
    let began = Instant::now();
    let (admitted, denied) = ab(1_200, &address).await;
    is_exactly(admitted, 1_200, denied, began);
    let refused = get("127.0.0.1", &address).await;
    if refilled(began) == 0 {
        assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
        for part in [
            "ratelimit-policy: \"hourly\";q=1000;w=3600\r\n",
            "ratelimit: \"hourly\";r=0;t=",
            "retry-after: ",
            "content-type: application/problem+json\r\n",
            "tollgate-revision: 1-",
            "#quota-exceeded\"",
        ] {
            assert!(refused.contains(part), "{part} in {refused}");
        }
    }
    let other = get("127.0.0.2", &address).await;
    assert!(other.starts_with("HTTP/1.1 200 OK\r\n"), "{other}");
    assert!(other.contains("ratelimit: \"hourly\";r=999;t="), "{other}");
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_of_twelve_hundred_in_memory() {
    ab_or_skip!();
    a_thousand_of_twelve_hundred("memory").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_of_twelve_hundred_on_sqlite() {
    ab_or_skip!();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("counts.db").display());
    a_thousand_of_twelve_hundred(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_of_twelve_hundred_on_redis() {
    ab_or_skip!();
    let server = redis_or_skip!();
    a_thousand_of_twelve_hundred(&server.url()).await;
    assert!(server.without_ttl().is_empty());
}

/// Serves as one of several processes, when it is started as one.
#[tokio::test(flavor = "multi_thread")]
async fn serves_as_one_of_two_processes() {
    let Ok(store) = std::env::var(CHILD) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    server::run(&patient(folder.path()), &store, listener).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_one_redis_admit_the_limit_between_them() {
    ab_or_skip!();
    let server = redis_or_skip!();
    let mut servers = Vec::new();
    for _ in 0..2 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "load::serves_as_one_of_two_processes", "--nocapture"])
            .env(CHILD, server.url())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line());
            let line = line.await.expect("it does not start").unwrap().expect("it has ended");
            if let Some((_, address)) = line.split_once("listening on http://") {
                break address.to_owned();
            }
        };
        servers.push((child, lines, address));
    }
    let began = Instant::now();
    let (one, other) = tokio::join!(ab(1_000, &servers[0].2), ab(1_000, &servers[1].2));
    is_exactly(one.0 + other.0, 2_000, one.1 + other.1, began);
}
