//! Bodies of questions, sent to a real service over a socket, as anybody can.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tollgate::{ManualClock, MemoryStore};
use tollgate_policy::{Format, Gate, Policies};
use tollgate_service::{Address, AnyStore, Options, Server};

const FILE: &str = r#"
    version = 1
    match = "first"
    [[policies]]
    name = "login"
    on_failure = "deny"
    when = { path = "/login", method = "POST" }
    limits = [{ subject = "ip", limit = "2/h" }]
    [[policies]]
    name = "dear"
    on_failure = "allow"
    cost = { from = "field.weight", max = 50, otherwise = 1 }
    when = { host = "dear.example" }
    limits = [{ subject = "ip", limit = "9/h via sliding_log" }]
"#;

/// No time passes: the same bodies have the same answers.
const NOW_US: u64 = 1_000_000_000_000;

/// A service and one connection to it.
struct Service {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
    server: Server,
}

impl Service {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (server, sender) = runtime.block_on(async {
            let store = MemoryStore::builder().clock(ManualClock::at_micros(NOW_US)).build();
            let policies = Policies::parse(FILE, Format::Toml).unwrap();
            let gate = Gate::new(policies, AnyStore::Memory(store)).unwrap();
            let options = Options::new(vec!["127.0.0.1:0".parse().unwrap()]);
            let server = Server::start(gate, options).await.unwrap();
            let Address::Tcp(found) = &server.addresses()[0] else { panic!("it is not TCP") };
            let stream = TcpStream::connect(found[0]).await.unwrap();
            let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            (server, sender)
        });
        Self { runtime, sender, server }
    }

    fn post(&mut self, path: &str, body: &[u8]) -> Reply {
        let body = Full::new(Bytes::copy_from_slice(body));
        let request = Request::post(path).header("host", "a.example").body(body).unwrap();
        self.runtime.block_on(async {
            self.sender.ready().await.expect("the service keeps the connection");
            let response = self.sender.send_request(request).await.expect("it answers");
            let status = response.status();
            let bytes = response.into_body().collect().await.expect("to the end").to_bytes();
            let json = serde_json::from_slice(&bytes).expect("an answer is JSON");
            Reply { status, json }
        })
    }

    fn end(self) {
        let Self { runtime, sender, server } = self;
        drop(sender);
        runtime.block_on(server.end());
    }
}

#[derive(PartialEq, Debug)]
struct Reply {
    status: StatusCode,
    json: Value,
}

/// A body, asked in each way that there is. It is answered, or refused with a reason.
pub(crate) fn bodies(data: &[u8]) {
    let mut service = Service::start();
    let peeked = service.post("/v1/peek", data);
    is_told(&peeked);
    assert_eq!(service.post("/v1/peek", data), peeked, "a peek changes nothing");
    is_the_same_in_a_batch(&mut service, data, &peeked);
    is_told(&service.post("/v1/refund", data));
    let checked = service.post("/v1/check", data);
    is_told(&checked);
    if peeked.status == StatusCode::OK {
        assert_eq!(checked.status, StatusCode::OK, "what can be peeked at can be asked");
        assert_eq!(checked.json["allowed"], peeked.json["allowed"]);
    }
    if let Some(receipt) = checked.json["receipt"].as_str() {
        let refund = serde_json::json!({ "receipt": receipt }).to_string();
        let first = service.post("/v1/refund", refund.as_bytes());
        assert_eq!((first.status, &first.json["already"]), (StatusCode::OK, &Value::Bool(false)));
        let second = service.post("/v1/refund", refund.as_bytes());
        assert_eq!((second.status, &second.json["already"]), (StatusCode::OK, &Value::Bool(true)));
    }
    service.end();
}

/// Never a fault of the service, and a refusal says what was wrong.
fn is_told(reply: &Reply) {
    if reply.status != StatusCode::OK {
        assert!(reply.status.is_client_error(), "{reply:?}");
        assert!(reply.json["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        assert_eq!(reply.json["status"], reply.status.as_u16());
    }
}

/// A question has one reading: alone, or as the item of a batch.
fn is_the_same_in_a_batch(service: &mut Service, data: &[u8], alone: &Reply) {
    // Text that is not JSON, or is a batch itself, is not allowed in a batch.
    let Ok(question) = serde_json::from_slice::<Value>(data) else { return };
    if alone.json.get("results").is_some() || question.get("checks").is_some() {
        return;
    }
    let batch = [b"{\"checks\":[", data, b"]}"].concat();
    let reply = service.post("/v1/peek", &batch);
    // A body may be as long as one can be, and a batch is longer.
    if reply.status == StatusCode::PAYLOAD_TOO_LARGE {
        return;
    }
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    let item = &reply.json["results"][0];
    if alone.status == StatusCode::OK {
        assert_eq!(*item, alone.json);
    } else {
        assert_eq!(item["problem"]["status"], alone.status.as_u16(), "{item} is not {alone:?}");
    }
}
