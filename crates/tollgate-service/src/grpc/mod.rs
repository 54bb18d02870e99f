//! Envoy's rate limit service, with health and reflection, over gRPC (`docs/envoy.md`).
//!
//! A call passes from `connection.rs`, which bounds HTTP/2, to `envoy.rs`, which the generated code
//! calls, and to `rls.rs`. That reads the question (`question.rs`), finds the count of each
//! descriptor (`plan.rs`), asks the store (`decide.rs`), and writes the answer (`answer.rs`,
//! `headers.rs`). A request that settles holds or has an id goes through `settle.rs` first, and a
//! domain without rules to `policies.rs`. Kuadrant's service (`kuadrant.rs`) asks the same, and
//! places holds (`reservation.rs`).
//!
//! Rules (`rules.rs`) come from files (`rule_files.rs`) or from a control plane (`xds.rs`).
//!
//! The transport is `front.rs`, `inbound.rs`, `frames.rs`, `calls.rs` and `delivery.rs`.

mod answer;
mod calls;
mod connection;
mod counts;
mod decide;
mod delivery;
mod envoy;
mod frames;
mod front;
mod headers;
mod inbound;
mod json;
mod kuadrant;
mod metadata;
mod plan;
mod policies;
mod question;
mod reservation;
mod rls;
mod rule_files;
mod rules;
mod settle;
mod xds;
mod xds_channel;

pub(crate) use connection::Grpc;
pub(crate) use front::Front;
pub(crate) use rls::Rls;
