//! The playground: the engine of Tollgate in one page, without a server (`docs/playground.md`).
//!
//! The page asks questions as JSON and gets answers as JSON. [`Playground`] answers them with a
//! limiter in memory for each strategy, on a clock that the page sets. `cargo xtask playground`
//! builds this crate for WebAssembly and puts it into the page, with everything in `page/`.
//!
//! ```
//! use tollgate_playground::Playground;
//!
//! let mut playground = Playground::default();
//! playground.answer(r#"{"do": "open", "limits": ["1/10s"]}"#);
//! let asks = r#"[{"at_us": 0, "cost": 1, "how": "check", "subject": "a"}]"#;
//! let answer = playground.answer(&format!(r#"{{"do": "ask", "asks": {asks}}}"#));
//! assert!(answer.starts_with(r#"{"lanes":[[{"allowed":true,"outcome":"allowed","#), "{answer}");
//! ```

mod abi;
mod answer;
mod moment;
mod play;
mod question;
mod traffic;

pub use abi::{tollgate_answer, tollgate_answer_bytes, tollgate_question};
pub use play::Playground;
