//! A webhook that receives the thresholds that were reached, signed as the specification of
//! Standard Webhooks says (<https://www.standardwebhooks.com>).

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode, Uri};
use jiff::Timestamp;
use serde_json::json;
use sha2::Sha256;
use tokio::sync::mpsc;
use tollgate_policy::Crossing;

use super::{Delivery, ThresholdCounts};
use crate::clock::since_epoch;
use crate::start_error::StartError;

/// The fewest bytes of a secret.
pub const MIN_SECRET_BYTES: usize = 16;

/// How long the receiver may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The pauses between the attempts: 1 s, and each twice as long as the one before.
const PAUSE: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 10;

/// The most reports that are sent, or wait to be tried again, at a time.
const MAX_IN_FLIGHT: usize = 16;

/// The status that the receiver of a webhook answers, or the reason why it answers none.
pub type Posted<'c> = Pin<Box<dyn Future<Output = Result<StatusCode, String>> + Send + 'c>>;

/// Sends requests. It follows no redirects.
pub trait WebhookClient: Send + Sync {
    /// Sends a request, and waits for the status.
    fn post(&self, request: Request<Bytes>) -> Posted<'_>;
}

/// A receiver of reports.
pub struct Webhook {
    url: Uri,
    key: Vec<u8>,
    client: Arc<dyn WebhookClient>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("at", &self.url.authority()).finish_non_exhaustive()
    }
}

impl Webhook {
    /// A receiver at this URL. The secret signs; after `whsec_` it is in base64, as Standard
    /// Webhooks writes it.
    ///
    /// # Errors
    /// A secret below [`MIN_SECRET_BYTES`], or one that is not in base64 after `whsec_`.
    pub fn new(url: Uri, secret: &str, client: Arc<dyn WebhookClient>) -> Result<Self, StartError> {
        let refused = |what: &str| StartError::Options(format!("the secret of the webhook {what}"));
        let key = match secret.strip_prefix("whsec_") {
            Some(text) => {
                let read = STANDARD.decode(text);
                read.map_err(|_| refused("is not in base64 after `whsec_`"))?
            }
            None => secret.as_bytes().to_vec(),
        };
        if key.len() < MIN_SECRET_BYTES {
            let what = format!("has {} bytes: give at least {MIN_SECRET_BYTES}", key.len());
            return Err(refused(&what));
        }
        Ok(Self { url, key, client })
    }

    /// Delivers what comes. A report that is not taken does not delay the others.
    pub(super) async fn deliver(
        &self,
        reports: mpsc::Receiver<Crossing>,
        counts: &ThresholdCounts,
    ) {
        let next =
            async |mut reports: mpsc::Receiver<Crossing>| Some((reports.recv().await?, reports));
        let each = stream::unfold(reports, next);
        each.for_each_concurrent(MAX_IN_FLIGHT, |crossing| self.deliver_one(crossing, counts))
            .await;
    }

    async fn deliver_one(&self, crossing: Crossing, counts: &ThresholdCounts) {
        let Err(why) = self.persist(&crossing).await else {
            return counts.deliver(Delivery::Delivered);
        };
        counts.deliver(Delivery::Failed);
        // The path may be a secret.
        let (host, policy) = (self.url.authority(), &crossing.policy);
        let host = host.map_or("", http::uri::Authority::as_str);
        tracing::warn!(
            target: "tollgate",
            "the webhook at {host} did not take a report of `{policy}`: {why}"
        );
    }

    /// Tries until it is delivered, it is refused, or there are no attempts left.
    async fn persist(&self, crossing: &Crossing) -> Result<(), String> {
        let (id, at) = (format!("msg_{:032x}", rand::random::<u128>()), since_epoch());
        let body = Bytes::from(body(crossing, at).to_string());
        let mut why = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE.saturating_mul(1 << (attempt - 1))).await;
            }
            let request = self.request(&id, &body);
            let answer = tokio::time::timeout(TIMEOUT, self.client.post(request)).await;
            why = match answer {
                Ok(Ok(status)) if status.is_success() => return Ok(()),
                Ok(Ok(status)) if status.is_redirection() => {
                    return Err(format!("it answers {status}, and redirects are not followed"));
                }
                Ok(Ok(status)) if is_final(status) => return Err(format!("it answers {status}")),
                Ok(Ok(status)) => format!("it answers {status}"),
                Ok(Err(why)) => why,
                Err(_) => format!("it takes more than {} s", TIMEOUT.as_secs()),
            };
        }
        Err(format!("{why}, {ATTEMPTS} times"))
    }

    fn request(&self, id: &str, body: &Bytes) -> Request<Bytes> {
        // The time of the attempt: a receiver refuses what is too old.
        let at = since_epoch().as_secs();
        let mut request = Request::new(body.clone());
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = [
            (CONTENT_TYPE.as_str(), "application/json".to_owned()),
            (USER_AGENT.as_str(), concat!("tollgate/", env!("CARGO_PKG_VERSION")).to_owned()),
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", self.signature(id, at, body)),
        ];
        for (name, value) in headers {
            let name = http::HeaderName::from_static(name);
            if let Ok(value) = http::HeaderValue::from_str(&value) {
                request.headers_mut().insert(name, value);
            }
        }
        request
    }

    fn signature(&self, id: &str, at: u64, body: &[u8]) -> String {
        // Takes a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return String::new() };
        mac.update(format!("{id}.{at}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// Whether asking again is of no use.
fn is_final(status: StatusCode) -> bool {
    let again = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    status.is_client_error() && !again.contains(&status)
}

fn body(crossing: &Crossing, at: Duration) -> serde_json::Value {
    let Crossing { policy, subject, limit, threshold, used, reset_after, .. } = crossing;
    json!({
        "type": "limit.threshold",
        "timestamp": timestamp(at).to_string(),
        "data": {
            "policy": policy,
            "subject": subject,
            "limit": limit.to_string(),
            "unit": limit.unit().name(),
            "threshold": threshold.percent(),
            "used": used,
            "capacity": limit.capacity(),
            "reset_after": reset_after.as_secs_f64(),
        },
    })
}

fn timestamp(at: Duration) -> Timestamp {
    let micros = i64::try_from(at.as_micros()).ok();
    micros.and_then(|micros| Timestamp::from_microsecond(micros).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl WebhookClient for Nobody {
        fn post(&self, _: Request<Bytes>) -> Posted<'_> {
            Box::pin(core::future::pending())
        }
    }

    /// The example of the specification.
    #[test]
    fn a_report_is_signed_as_the_specification_says() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let url = Uri::from_static("http://127.0.0.1:1/");
        let webhook = Webhook::new(url.clone(), secret, Arc::new(Nobody)).unwrap();
        let said = webhook.signature(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(said, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        for (secret, says) in [("short", "has 5 bytes"), ("whsec_%", "base64")] {
            let error = Webhook::new(url.clone(), secret, Arc::new(Nobody)).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
