//! The messages of Envoy's rate limit service (`envoy.service.ratelimit.v3`) and of Kuadrant's
//! (`kuadrant.service.ratelimit.v1`), and those with which a control plane sends rules
//! (`envoy.service.discovery.v3`). There are clients and servers of them for tonic.
//!
//! The `.proto` files of this crate have the messages that the services need, and no others.
//! Names and numbers of their fields are those of Envoy and Kuadrant.
//!
//! ```
//! use tollgate_envoy::proto::service::RateLimitRequest;
//!
//! let request = RateLimitRequest { domain: "shop".into(), ..RateLimitRequest::default() };
//! assert_eq!(request.hits_addend, 0); // means 1
//! ```

mod codec;

/// Generated code, in the tree of its packages: it refers to itself by such paths.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(clippy::exhaustive_structs, clippy::exhaustive_enums, clippy::use_self)]
mod generated {
    pub mod envoy {
        pub mod config {
            pub mod core {
                pub mod v3 {
                    tonic::include_proto!("envoy.config.core.v3");
                }
            }
        }
        pub mod extensions {
            pub mod common {
                pub mod ratelimit {
                    pub mod v3 {
                        tonic::include_proto!("envoy.extensions.common.ratelimit.v3");
                    }
                }
            }
        }
        pub mod service {
            pub mod discovery {
                pub mod v3 {
                    tonic::include_proto!("envoy.service.discovery.v3");
                }
            }
            pub mod ratelimit {
                pub mod v3 {
                    tonic::include_proto!("envoy.service.ratelimit.v3");
                }
            }
        }
        pub mod r#type {
            pub mod v3 {
                tonic::include_proto!("envoy.r#type.v3");
            }
        }
    }
    pub mod google {
        pub mod rpc {
            tonic::include_proto!("google.rpc");
        }
    }
    pub mod ratelimit {
        pub mod config {
            pub mod ratelimit {
                pub mod v3 {
                    tonic::include_proto!("ratelimit.config.ratelimit.v3");
                }
            }
        }
    }
    pub mod kuadrant {
        pub mod service {
            pub mod ratelimit {
                pub mod v1 {
                    tonic::include_proto!("kuadrant.service.ratelimit.v1");
                }
            }
        }
    }
}

pub use generated::envoy::config::core::v3 as core;
pub use generated::envoy::extensions::common::ratelimit::v3 as descriptor;
pub use generated::envoy::service::discovery::v3 as discovery;
pub use generated::envoy::service::ratelimit::v3 as service;
pub use generated::envoy::r#type::v3 as unit;
pub use generated::google::rpc;
pub use generated::kuadrant::service::ratelimit::v1 as kuadrant;
pub use generated::ratelimit::config::ratelimit::v3 as rules;

/// The full name of Kuadrant's service.
pub const KUADRANT_SERVICE: &str = "kuadrant.service.ratelimit.v1.RateLimitService";

/// The type of the rules that a control plane sends: resources are [`rules::RateLimitConfig`].
pub const RULES_TYPE: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// The rules of a response.
///
/// # Errors
/// It has something else.
pub fn resources(
    response: &discovery::DiscoveryResponse,
) -> Result<Vec<rules::RateLimitConfig>, String> {
    use prost::Message as _;
    if response.type_url != RULES_TYPE {
        let found = &response.type_url;
        return Err(format!("the response is of `{found}`, and not of `{RULES_TYPE}`"));
    }
    let decoded = response.resources.iter().enumerate().map(|(place, resource)| {
        if resource.type_url != RULES_TYPE {
            let found = &resource.type_url;
            return Err(format!("resources[{place}] is a `{found}`, and not a `{RULES_TYPE}`"));
        }
        rules::RateLimitConfig::decode(&*resource.value)
            .map_err(|error| format!("resources[{place}] cannot be read: {error}"))
    });
    decoded.collect()
}

/// The full name of Envoy's service.
pub const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The encoded `google.protobuf.FileDescriptorSet` of the services, for reflection.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor_set.bin"));

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::descriptor::RateLimitDescriptor;
    use super::service::{RateLimitRequest, RateLimitResponse, rate_limit_response};

    /// Bytes as Envoy 1.40 sends them: a wrapper of 0 is present and empty, and negative hits are
    /// field 4.
    #[test]
    fn messages_have_the_numbers_of_envoy() {
        let bytes = [
            &b"\x0a\x02rl"[..],
            b"\x12\x12\x0a\x08\x0a\x03foo\x12\x01a\x12\x04\x08\x07\x10\x03\x1a\x00",
            b"\x12\x04\x1a\x00\x20\x01",
            b"\x18\x05",
        ]
        .concat();
        let request = RateLimitRequest::decode(&*bytes).unwrap();
        assert_eq!((request.domain.as_str(), request.hits_addend), ("rl", 5));
        let [one, other] = &request.descriptors[..] else { panic!("{request:?}") };
        let entry = &one.entries[0];
        assert_eq!((entry.key.as_str(), entry.value.as_str()), ("foo", "a"));
        let limit = one.limit.unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit), (7, 3));
        assert_eq!((one.hits_addend, one.is_negative_hits), (Some(0), false));
        assert_eq!((other.hits_addend, other.is_negative_hits), (Some(0), true));
        assert_eq!(request.encode_to_vec(), bytes);
        assert_eq!(RateLimitDescriptor::default().hits_addend, None);
    }

    #[test]
    fn answers_have_the_numbers_of_envoy() {
        use rate_limit_response::{DescriptorStatus, RateLimit};
        let limit = RateLimit { requests_per_unit: 3, unit: 7, name: "n".into() };
        let status = DescriptorStatus {
            code: 2,
            current_limit: Some(limit),
            limit_remaining: 4,
            duration_until_reset: Some(prost_types::Duration { seconds: 9, nanos: 0 }),
        };
        let answer = RateLimitResponse {
            overall_code: 2,
            statuses: vec![status],
            raw_body: b"b".to_vec(),
            ..RateLimitResponse::default()
        };
        let bytes = b"\x08\x02\x12\x11\x08\x02\x12\x07\x08\x03\x10\x07\x1a\x01n\x18\x04\x22\x02\x08\x09\x2a\x01b";
        assert_eq!(answer.encode_to_vec(), bytes);
    }

    #[test]
    fn holds_have_the_numbers_of_kuadrant() {
        use super::kuadrant::{CommitRequest, CommitResponse, ReserveRequest, ReserveResponse};
        let bytes = b"\x0a\x01d\x12\x02\x0a\x00\x18\x05\x22\x02\x08\x3c";
        let reserve = ReserveRequest::decode(&bytes[..]).unwrap();
        assert_eq!((&*reserve.domain, reserve.amount), ("d", 5));
        assert_eq!((reserve.descriptors.len(), reserve.ttl.unwrap().seconds), (1, 60));
        assert_eq!(reserve.encode_to_vec(), bytes);
        let bytes = b"\x0a\x01d\x12\x02\x0a\x00\x1a\x01i\x20\x05";
        let commit = CommitRequest::decode(&bytes[..]).unwrap();
        assert_eq!((&*commit.reservation_id, commit.actual_amount), ("i", 5));
        assert_eq!(commit.encode_to_vec(), bytes);
        let held = ReserveResponse { code: 1, reservation_id: "i".into() };
        assert_eq!(held.encode_to_vec(), b"\x08\x01\x12\x01i");
        let done = CommitResponse { reservation_released: true };
        assert_eq!(done.encode_to_vec(), b"\x08\x01");
    }
}
