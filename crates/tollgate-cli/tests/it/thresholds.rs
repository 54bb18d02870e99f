//! Thresholds that limits reach: told once over two services on one Redis, in the log, on the page
//! and to a webhook.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};
use tollgate_testbed::RedisServer;

use crate::Place;
use crate::serving::{LONG, Serving};

const POLICIES: &str = r#"
version = 1
[[policies]]
name = "api"
on_failure = "deny"
limits = [{ subject = "user", absent = "deny", limit = "100/366d via gcra", notify = ["50 %", "100 %"] }]
"#;

/// A request that came: its head, and its body.
type Came = (String, Value);

/// A receiver that gives these answers, one after the other; the last one for ever.
fn receiver(answers: &'static [&'static str]) -> (SocketAddr, Receiver<Came>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = channel();
    // It ends with the test program.
    thread::spawn(move || {
        for (place, stream) in listener.incoming().enumerate() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer = answers[place.min(answers.len() - 1)];
            let text =
                format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader.get_mut().write_all(text.as_bytes()).unwrap();
            let _ = sender.send((head, serde_json::from_slice(&body).unwrap()));
        }
    });
    (address, received)
}

fn serve(place: &Place, store: &str, webhook: SocketAddr) -> Serving {
    let config = place.path().join("policies.toml");
    std::fs::write(&config, POLICIES).unwrap();
    let config = config.display().to_string();
    let url = format!("http://{webhook}/hook");
    let args = ["--store", store, "--config", &config, "--webhook", &url];
    let mut command = Serving::command(place, &args);
    command.env("TOLLGATE_WEBHOOK_SECRET", "a secret of many bytes");
    Serving::start_command(command)
}

fn charge(serving: &Serving, user: &str, times: usize) {
    let body = json!({ "fields": { "user": user } }).to_string();
    let mut client = serving.client();
    for _ in 0..times {
        assert_eq!(client.ask("POST", "/v1/check", &body).unwrap().0, 200);
    }
}

fn count(serving: &Serving, series: &str) -> Option<u64> {
    let (_, page) = serving.client().ask("GET", "/metrics", "").unwrap();
    page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

#[test]
fn a_threshold_is_told_once_over_two_services() {
    let (place, redis) = (Place::new(), RedisServer::start());
    // The first attempt fails, and is repeated.
    let (webhook, came) = receiver(&["503 Not Now", "204 No Content"]);
    let services = [(); 2].map(|()| serve(&place, &redis.url(), webhook));
    thread::scope(|scope| {
        for serving in &services {
            scope.spawn(|| charge(serving, "ann", 40));
        }
    });
    let (first, (head, body)) =
        (came.recv_timeout(LONG).unwrap(), came.recv_timeout(LONG).unwrap());
    let id = |head: &str| {
        head.lines().find(|line| line.starts_with("webhook-id: msg_")).map(str::to_owned)
    };
    assert_eq!((id(&first.0).is_some(), id(&first.0), &first.1), (true, id(&head), &body));
    assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("webhook-signature: v1,") && head.contains("webhook-timestamp: "),
        "{head}"
    );
    assert_eq!(body["type"], "limit.threshold");
    let data = &body["data"];
    let told =
        [&data["policy"], &data["subject"], &data["limit"], &data["threshold"], &data["unit"]];
    let limit = "100/366d burst 100 via gcra";
    assert_eq!(
        told,
        [&json!("api"), &json!("user:ann"), &json!(limit), &json!("50 %"), &json!("requests")]
    );
    assert_eq!((&data["used"], &data["capacity"]), (&json!(50), &json!(100)));
    charge(&services[0], "ann", 20);
    let (_, body) = came.recv_timeout(LONG).unwrap();
    assert_eq!((&body["data"]["threshold"], &body["data"]["used"]), (&json!("100 %"), &json!(100)));
    // Another subject is another count.
    charge(&services[1], "bob", 50);
    assert_eq!(came.recv_timeout(LONG).unwrap().1["data"]["subject"], "user:bob");
    let sum = |series: &str| services.iter().filter_map(|it| count(it, series)).sum::<u64>();
    assert_eq!(sum("tollgate_thresholds_total{policy=\"api\",threshold=\"50 %\"}"), 2);
    assert_eq!(sum("tollgate_thresholds_total{policy=\"api\",threshold=\"100 %\"}"), 1);
    assert_eq!(sum("tollgate_webhook_deliveries_total{result=\"delivered\"}"), 3);
    assert_eq!(sum("tollgate_thresholds_lost_total"), 0);
    let logs = services.map(Serving::end).concat();
    assert_eq!(logs.matches("a limit has reached a threshold").count(), 3, "{logs}");
    assert!(!logs.contains("user:ann"), "a subject is personal data: {logs}");
}

#[test]
fn a_receiver_that_refuses_or_redirects_is_not_asked_again() {
    for answer in [&["302 Found"], &["400 Bad"]] {
        let place = Place::new();
        let (webhook, came) = receiver(answer);
        let serving = serve(&place, "memory://", webhook);
        charge(&serving, "ann", 50);
        came.recv_timeout(LONG).unwrap();
        charge(&serving, "bob", 50);
        // The next one, and not the first again.
        assert_eq!(came.recv_timeout(LONG).unwrap().1["data"]["subject"], "user:bob");
        let until = std::time::Instant::now() + LONG;
        while count(&serving, "tollgate_webhook_deliveries_total{result=\"failed\"}") != Some(2) {
            assert!(std::time::Instant::now() < until);
        }
        let log = serving.end();
        assert!(log.contains(answer[0].split(' ').next().unwrap()), "{log}");
    }
}

#[test]
fn a_wrong_webhook_is_refused_before_anything_is_served() {
    let place = Place::new();
    for (url, secret, says) in [
        ("hooks.example", "a secret of many bytes", "does not begin with http://"),
        ("ftp://hooks.example/", "a secret of many bytes", "neither http nor https"),
        ("https://me@hooks.example/", "a secret of many bytes", "a user or a password"),
        ("http://localhost:8700/v1/check", "a secret of many bytes", "itself listens there"),
        ("http://hooks.example/", "short", "has 5 bytes"),
        ("http://hooks.example/", "", "TOLLGATE_WEBHOOK_SECRET is set and empty"),
    ] {
        let mut command = place.std(&["serve", "--webhook", url]);
        let output = command.env("TOLLGATE_WEBHOOK_SECRET", secret).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{url}: {error}");
        assert!(error.contains(says), "{url}: {error}");
    }
    let output = place.std(&["serve", "--webhook", "http://hooks.example/"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("set TOLLGATE_WEBHOOK_SECRET"));
}
