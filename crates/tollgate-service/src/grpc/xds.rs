//! The rules of a control plane: the client of its aggregated discovery service, in the
//! state-of-the-world protocol
//! (<https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol>).
//!
//! A response has all rules. It is answered with its version if they are in force now, and with the
//! version before and the reason if they are not.

use core::future::Future;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use futures_util::stream;
use rand::RngExt as _;
use tokio::sync::mpsc;
use tollgate_envoy::proto::core::Node;
use tollgate_envoy::proto::discovery::aggregated_discovery_service_client as discovery_client;
use tollgate_envoy::proto::discovery::{DiscoveryRequest, DiscoveryResponse};
use tollgate_envoy::proto::rpc::Status as Refusal;
use tollgate_envoy::proto::rules::RateLimitConfig;
use tollgate_envoy::proto::{RULES_TYPE, resources};
use tonic::{Code, Status, Streaming};

use super::xds_channel::{Channel, Target};
use crate::envoy::XdsOptions;
use crate::metrics::Metrics;

/// The pause before the control plane is asked again after it was lost, and the longest one: each
/// is twice the last, less up to a half, so that many services do not come at once.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// The pause before a refusal that follows another one. A control plane may send the refused rules
/// again at once.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The most bytes of a response: 64 MiB. 100,000 rules have some 5 MB.
const MAX_RESPONSE_BYTES: usize = 64 * 1_024 * 1_024;

/// The most characters of a reason that is sent.
const MAX_REASON_CHARS: usize = 4_000;

/// A control plane.
#[derive(Debug)]
pub(super) struct Xds {
    options: XdsOptions,
    target: Target,
    metrics: Metrics,
    /// Whether it has sent rules that were taken.
    has_rules: AtomicBool,
}

/// How far a stream came.
#[derive(Default)]
struct Progress {
    /// The version in force, of those that this stream had.
    version: String,
    /// The refusals since the last version that was taken.
    refused: u32,
    /// Whether it had a response.
    has_answered: bool,
}

impl Xds {
    /// # Errors
    /// An invalid address, or files of TLS that cannot be used.
    pub(super) fn new(options: XdsOptions, metrics: Metrics) -> Result<Self, String> {
        let target = Target::new(&options)?;
        metrics.set_control_plane(false);
        Ok(Self { options, target, metrics, has_rules: AtomicBool::new(false) })
    }

    pub(super) fn address(&self) -> &str {
        &self.options.address
    }

    /// Hands over all rules each time that the control plane sends them, until it is dropped. The
    /// answer of `take` says why it does not take them.
    pub(super) async fn follow<F>(&self, take: impl Fn(Vec<RateLimitConfig>) -> F)
    where
        F: Future<Output = Result<(), String>>,
    {
        let address = self.address();
        let mut pause = FIRST_PAUSE;
        // A loss is logged once, and not at each attempt to come back.
        let mut logged = None;
        loop {
            let mut progress = Progress::default();
            let Err(why) = self.converse(&take, &mut progress).await;
            self.metrics.set_control_plane(false);
            let why = why.message().to_owned();
            if progress.has_answered {
                (pause, logged) = (FIRST_PAUSE, None);
            }
            if logged.as_ref() != Some(&why) {
                tracing::warn!(
                    target: "tollgate",
                    "the control plane {address} is away, and {}: {why}",
                    if self.has_rules.load(Ordering::Relaxed) {
                        "the last rules stay"
                    } else {
                        "there are no rules yet"
                    }
                );
                logged = Some(why);
            }
            let jitter = rand::rng().random_range(0.5..=1.0);
            tokio::time::sleep(pause.mul_f64(jitter)).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Follows one stream to its end.
    async fn converse<F>(
        &self,
        take: &impl Fn(Vec<RateLimitConfig>) -> F,
        progress: &mut Progress,
    ) -> Result<core::convert::Infallible, Status>
    where
        F: Future<Output = Result<(), String>>,
    {
        let channel = Channel::connect(&self.target).await.map_err(Status::unavailable)?;
        let mut client = discovery_client::AggregatedDiscoveryServiceClient::with_origin(
            channel,
            self.target.origin().clone(),
        )
        .max_decoding_message_size(MAX_RESPONSE_BYTES);
        // Each response is answered before the next one is read: there is never a second one.
        let (requests, mut asked) = mpsc::channel(1);
        let send = async |request| {
            requests.send(request).await.map_err(|_| Status::unavailable("the stream has ended"))
        };
        send(self.request(progress, String::new(), None)).await?;
        let requests = stream::poll_fn(move |cx| asked.poll_recv(cx));
        let mut responses: Streaming<DiscoveryResponse> =
            client.stream_aggregated_resources(requests).await?.into_inner();
        let mut newer = None;
        loop {
            let next = match newer.take() {
                Some(response) => Some(response),
                None => responses.message().await?,
            };
            let Some(response) = next else { break };
            if !progress.has_answered {
                let address = self.address();
                tracing::info!(target: "tollgate", "the control plane {address} sends rules");
                progress.has_answered = true;
                self.metrics.set_control_plane(true);
            }
            let DiscoveryResponse { version_info, nonce, .. } = &response;
            let (version, nonce) = (version_info.clone(), nonce.clone());
            let taken = match resources(&response) {
                Ok(resources) => take(resources).await,
                Err(why) => Err(why),
            };
            let refusal = match taken {
                Ok(()) => {
                    self.has_rules.store(true, Ordering::Relaxed);
                    (progress.version, progress.refused) = (version, 0);
                    None
                }
                Err(why) => {
                    let times = progress.refused.min(5);
                    progress.refused += 1;
                    if times > 0 {
                        let pause = tokio::time::sleep(REFUSED_PAUSE * 2_u32.pow(times - 1));
                        // What is corrected meanwhile needs no refusal before it.
                        tokio::select! {
                            () = pause => {}
                            response = responses.message() => match response? {
                                None => break,
                                response => {
                                    newer = response;
                                    continue;
                                }
                            },
                        }
                    }
                    let message = why.chars().take(MAX_REASON_CHARS).collect();
                    Some(Refusal { code: Code::InvalidArgument.into(), message })
                }
            };
            send(self.request(progress, nonce, refusal)).await?;
        }
        Err(Status::unavailable("it has ended the stream"))
    }

    /// Asks for all rules, or answers the response of this nonce. The first request of a stream
    /// names no version: another control plane may have another one under the same name.
    fn request(
        &self,
        progress: &Progress,
        nonce: String,
        refusal: Option<Refusal>,
    ) -> DiscoveryRequest {
        DiscoveryRequest {
            version_info: progress.version.clone(),
            node: Some(Node {
                id: self.options.node.clone(),
                user_agent_name: "tollgate".to_owned(),
                user_agent_version: env!("CARGO_PKG_VERSION").to_owned(),
                ..Node::default()
            }),
            type_url: RULES_TYPE.to_owned(),
            response_nonce: nonce,
            error_detail: refusal,
            ..DiscoveryRequest::default()
        }
    }
}
