//! Envoy's rate limit service, with health and reflection, over gRPC (`docs/envoy.md`).
//!
//! A call passes from `connection.rs`, which holds HTTP/2 to its bounds, to the service that the
//! generated code asks (`envoy.rs`) and to `rls.rs`. That reads the question (`question.rs`), finds
//! what each descriptor is counted under (`plan.rs`), asks the store (`decide.rs`), and writes the
//! answer (`answer.rs`). Kuadrant's service (`kuadrant.rs`) asks the same, and holds
//! (`reservation.rs`).

mod answer;
mod calls;
mod connection;
mod counts;
mod decide;
mod delivery;
mod envoy;
mod frames;
mod front;
mod inbound;
mod json;
mod kuadrant;
mod metadata;
mod plan;
mod policies;
mod question;
mod reservation;
mod rls;
mod rules;
mod settle;

pub(crate) use connection::Grpc;
pub(crate) use front::Front;
pub(crate) use rls::Rls;
