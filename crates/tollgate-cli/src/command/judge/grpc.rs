//! The driver over gRPC: Envoy's rate limit service, asked with descriptors from a template.

use core::pin::Pin;
use core::task::{Context, Poll};

use anyhow::{Result, bail};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::descriptor::rate_limit_descriptor::Entry;
use tollgate_envoy::proto::service::rate_limit_response::Code as Verdict;
use tollgate_envoy::proto::service::rate_limit_service_client::RateLimitServiceClient;
use tollgate_envoy::proto::service::{RateLimitRequest, RateLimitResponse};
use tollgate_proof::judge::Ask;
use tonic::Code;
use tonic::body::Body;
use tower_service::Service;

use super::network::{Protocol, unread};
use super::place::Raw;
use super::reading::{Answer, Reading};
use super::target::Target;
use super::words::{Written, filled};
use crate::input::shown;

/// The word of a template that has the cost, and is no entry.
const HITS: &str = "hits_addend";

/// The word of a template behind which another descriptor begins.
const NEXT: &str = ";";

/// A server, and the request to ask it with.
#[derive(Debug)]
pub(super) struct Grpc {
    target: Target,
    origin: Uri,
    question: Question,
}

/// The template of a request.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    domain: String,
    /// The entries of each descriptor: keys and values.
    descriptors: Vec<Vec<(String, String)>>,
    hits: Option<String>,
}

impl Question {
    /// Reads `DOMAIN KEY=VALUE KEY=VALUE ; KEY=VALUE hits_addend={cost}`.
    fn new(words: &[String]) -> Result<Self> {
        let Some((domain, rest)) = words.split_first() else { bail!("--ask is empty") };
        let (mut descriptors, mut hits) = (vec![Vec::new()], None);
        for word in rest {
            match (word.split_once('='), descriptors.last_mut()) {
                (Some((HITS, text)), _) => hits = Some(text.to_owned()),
                (Some((key, value)), Some(entries)) if !key.is_empty() => {
                    entries.push((key.to_owned(), value.to_owned()));
                }
                (None, _) if word == NEXT => descriptors.push(Vec::new()),
                _ => bail!(
                    "--ask: `{}` is no entry of a descriptor: write `DOMAIN KEY=VALUE`, as in \
                     `shop user={{subject}} hits_addend={{cost}}`",
                    shown(word)
                ),
            }
        }
        if descriptors.iter().any(Vec::is_empty) {
            bail!(
                "--ask: a descriptor has no entry: write `DOMAIN KEY=VALUE`, as in `shop \
                 user={{subject}}`"
            );
        }
        Ok(Self { domain: domain.clone(), descriptors, hits })
    }

    fn templates(&self) -> Vec<String> {
        let values = self.descriptors.iter().flatten().map(|(_, value)| value.clone());
        values.chain([self.domain.clone()]).chain(self.hits.clone()).collect()
    }

    /// The request of a question; none where the protocol has no such cost.
    fn request(&self, ask: &Ask) -> Option<RateLimitRequest> {
        let fill = |text: &str| filled(text, ask, Written::AsItIs);
        let entry =
            |(key, value): &(String, String)| Entry { key: key.clone(), value: fill(value) };
        let descriptor = |entries: &Vec<(String, String)>| RateLimitDescriptor {
            entries: entries.iter().map(entry).collect(),
            ..RateLimitDescriptor::default()
        };
        // 0 is the same as 1.
        let hits_addend = match &self.hits {
            Some(text) => fill(text).parse().ok().filter(|hits| *hits > 0)?,
            None => 0,
        };
        Some(RateLimitRequest {
            domain: fill(&self.domain),
            descriptors: self.descriptors.iter().map(descriptor).collect(),
            hits_addend,
        })
    }
}

impl Grpc {
    /// The service there, asked with these words.
    pub(super) fn new(target: Target, words: &[String]) -> Result<Self> {
        let origin = format!("http://{target}").parse()?;
        Ok(Self { target, origin, question: Question::new(words)? })
    }

    /// All templates.
    pub(super) fn templates(&self) -> Vec<String> {
        self.question.templates()
    }
}

impl Protocol for Grpc {
    type Connection = RateLimitServiceClient<Channel>;

    async fn connect(&self) -> Result<Self::Connection> {
        let stream = TokioIo::new(self.target.connect().await?);
        let (sender, connection) = handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        Ok(RateLimitServiceClient::with_origin(Channel(sender), self.origin.clone()))
    }

    async fn ask(
        &self,
        connection: &mut Self::Connection,
        ask: &Ask,
        reading: &Reading,
    ) -> Result<Answer> {
        let Some(request) = self.question.request(ask) else { return Ok(Answer::REFUSED) };
        match connection.should_rate_limit(request).await {
            Ok(response) => Ok(reading.read(&raw(response.into_inner()))),
            Err(status) if is_refusal(status.code()) => Ok(Answer::REFUSED),
            Err(status) => bail!("{status}"),
        }
    }

    async fn send(&self, connection: &mut Self::Connection, ask: &Ask) -> Result<()> {
        if let Some(request) = self.question.request(ask) {
            unread(connection.should_rate_limit(request)).await;
        }
        Ok(())
    }
}

/// Whether an error is about the question, so that nothing was charged. After others nobody knows.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::Unauthenticated
            | Code::Unimplemented
    )
}

/// The reply with the names of its fields. Of all descriptors those of the least units that remain
/// and of the longest wait stand at the top, since all of them must admit.
fn raw(response: RateLimitResponse) -> Raw {
    let verdict = |code: i32| match Verdict::try_from(code) {
        Ok(code @ (Verdict::Ok | Verdict::OverLimit)) => Value::from(code.as_str_name()),
        // It says nothing.
        _ => Value::Null,
    };
    let is_denied = response.overall_code == i32::from(Verdict::OverLimit);
    let (mut least, mut longest) = (None::<u32>, None::<(i64, i32)>);
    let mut statuses = Vec::new();
    for status in &response.statuses {
        let wait = status.duration_until_reset.map(|it| (it.seconds, it.nanos));
        statuses.push(json!({
            "code": verdict(status.code),
            "limit_remaining": status.limit_remaining,
            "duration_until_reset": wait.map(seconds),
        }));
        // A descriptor without a limit has a 0 there.
        if status.current_limit.is_some() {
            least = Some(least.map_or(status.limit_remaining, |it| it.min(status.limit_remaining)));
        }
        if !is_denied || status.code == i32::from(Verdict::OverLimit) {
            longest = longest.max(wait);
        }
    }
    let headers = response.response_headers_to_add.into_iter();
    let value = json!({
        "overall_code": verdict(response.overall_code),
        "limit_remaining": least,
        "duration_until_reset": longest.map(seconds),
        "statuses": statuses,
    });
    let headers = headers.map(|header| {
        let text = String::from_utf8_lossy(&header.raw_value).into_owned();
        (header.key.to_lowercase(), if text.is_empty() { header.value } else { text })
    });
    Raw { headers: headers.collect(), value, ..Raw::default() }
}

fn seconds((seconds, nanos): (i64, i32)) -> String {
    format!("{seconds}.{nanos:09}")
}

/// One connection of HTTP/2.
#[derive(Debug)]
pub(super) struct Channel(SendRequest<Body>);

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use tollgate_envoy::proto::service::rate_limit_response::{DescriptorStatus, RateLimit};

    use super::*;

    fn question(text: &str) -> Result<Question> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Question::new(&words)
    }

    fn ask(cost: i64) -> Ask {
        let (id, client, subject) = (7, 0, "ann".to_owned());
        let (request, now_us, limits, peek, lose) = (None, None, None, false, false);
        Ask { id, client, subject, cost, request, now_us, limits, peek, lose }
    }

    #[test]
    fn a_template_has_descriptors_and_hits() {
        let found = question("shop user={subject} path=/a=b ; id={id} hits_addend={cost}").unwrap();
        assert_eq!(found.templates(), ["{subject}", "/a=b", "{id}", "shop", "{cost}"]);
        let request = found.request(&ask(3)).unwrap();
        assert_eq!((request.domain.as_str(), request.hits_addend), ("shop", 3));
        let entries: Vec<Vec<(&str, &str)>> = request
            .descriptors
            .iter()
            .map(|it| it.entries.iter().map(|it| (&*it.key, &*it.value)).collect())
            .collect();
        assert_eq!(entries, [vec![("user", "ann"), ("path", "/a=b")], vec![("id", "ann-7")]]);
        assert_eq!(
            question("shop user={subject}").unwrap().request(&ask(3)).unwrap().hits_addend,
            0
        );
        for cost in [0, -1, 1 << 40] {
            assert_eq!(found.request(&ask(cost)), None, "{cost}");
        }
        for wrong in ["shop", "shop user", "shop =a", "shop ; a=b", "shop a=b ;"] {
            assert!(
                question(wrong).unwrap_err().to_string().contains("DOMAIN KEY=VALUE"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_answer_of_several_descriptors_is_that_of_the_strictest() {
        let status = |code: Verdict, limit_remaining, seconds| DescriptorStatus {
            code: code.into(),
            current_limit: Some(RateLimit::default()),
            limit_remaining,
            duration_until_reset: Duration::new(seconds, 5).try_into().ok(),
        };
        let statuses = vec![
            status(Verdict::Ok, 4, 9),
            status(Verdict::OverLimit, 2, 3),
            DescriptorStatus { code: Verdict::Ok.into(), ..DescriptorStatus::default() },
        ];
        let overall_code = Verdict::OverLimit.into();
        let denied = raw(RateLimitResponse { overall_code, statuses, ..Default::default() });
        let at = |pointer: &str| denied.value.pointer(pointer).cloned().unwrap();
        assert_eq!(at("/overall_code"), "OVER_LIMIT");
        assert_eq!(at("/limit_remaining"), 2);
        assert_eq!(at("/duration_until_reset"), "3.000000005");
        assert_eq!(at("/statuses/0/limit_remaining"), 4);
        assert_eq!(raw(RateLimitResponse::default()).value["overall_code"], Value::Null);
    }
}
