//! The service as JSON over HTTP, at `/json`: messages as proto3 has them in JSON.

use std::net::IpAddr;

use bytes::Bytes;
use http::StatusCode;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::Deserializer;
use tollgate_envoy::proto::DESCRIPTOR_SET;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::rate_limit_response::Code;

use super::Rls;
use crate::service::Service;

/// The descriptions of the messages.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    request: MessageDescriptor,
    response: MessageDescriptor,
}

impl Messages {
    /// `None` never, for the messages that are built in.
    pub(super) fn new() -> Option<Self> {
        let pool = DescriptorPool::decode(DESCRIPTOR_SET).ok()?;
        let of = |name| pool.get_message_by_name(&format!("envoy.service.ratelimit.v3.{name}"));
        Some(Self { request: of("RateLimitRequest")?, response: of("RateLimitResponse")? })
    }

    fn read(&self, body: &[u8]) -> Result<RateLimitRequest, String> {
        let mut json = Deserializer::from_slice(body);
        let message = DynamicMessage::deserialize(self.request.clone(), &mut json)
            .map_err(|error| error.to_string())?;
        json.end().map_err(|error| error.to_string())?;
        message.transcode_to().map_err(|error| error.to_string())
    }
}

impl Rls {
    /// Answers a request of this peer in JSON: the status, and the answer or what is wrong.
    pub(crate) async fn json(
        &self,
        service: &Service,
        body: &[u8],
        peer: IpAddr,
    ) -> Option<(StatusCode, Bytes)> {
        let bad = |why: &str| Some((StatusCode::BAD_REQUEST, Bytes::from(format!("{why}\n"))));
        let messages = self.messages()?;
        let request = match messages.read(body) {
            Ok(request) => request,
            Err(why) => return bad(&why),
        };
        let response =
            match Box::pin(self.answer(service, &request, None, self.reads_ids_of(peer))).await {
                Ok(response) => response,
                Err(status) if status.code() == tonic::Code::Unavailable => {
                    let why = Bytes::from(format!("{}\n", status.message()));
                    return Some((StatusCode::INTERNAL_SERVER_ERROR, why));
                }
                Err(status) => return bad(status.message()),
            };
        let mut message = DynamicMessage::new(messages.response.clone());
        let json = message
            .transcode_from(&response)
            .ok()
            .and_then(|()| serde_json::to_vec(&message).ok())
            .unwrap_or_default();
        let status = match response.overall_code() {
            Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
            Code::Ok => StatusCode::OK,
            Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Some((status, Bytes::from(json)))
    }
}
