//! The messages of `/json`, as proto3 has them in JSON.

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::Deserializer;
use tollgate_envoy::proto::DESCRIPTOR_SET;
use tollgate_envoy::proto::service::{RateLimitRequest, RateLimitResponse};

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

    /// Reads a request.
    ///
    /// # Errors
    /// A description of the problem.
    pub(super) fn read(&self, body: &[u8]) -> Result<RateLimitRequest, String> {
        let mut json = Deserializer::from_slice(body);
        let message = DynamicMessage::deserialize(self.request.clone(), &mut json)
            .map_err(|error| error.to_string())?;
        json.end().map_err(|error| error.to_string())?;
        message.transcode_to().map_err(|error| error.to_string())
    }
    /// Writes a response.
    pub(super) fn write(&self, response: &RateLimitResponse) -> Vec<u8> {
        let mut message = DynamicMessage::new(self.response.clone());
        let written = message.transcode_from(response).ok();
        written.and_then(|()| serde_json::to_vec(&message).ok()).unwrap_or_default()
    }
}
