//! Tollgate before HTTP services: who a client is, and what the answers say.
//!
//! [`identity`] finds whose count a request belongs to (`docs/identity.md`), [`answer`] writes what
//! was decided into headers and bodies (`docs/headers.md`). Both are pure functions over the types
//! of the crate `http`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod answer;
pub mod identity;
