//! Decisions on the wire: names of fields, their order, types and units, for every front.
//!
//! The service writes its JSON and its replies of RESP by these types. So do the command line
//! (`--json`), the packages for Python and Node, the playground, and serde of a [`Decision`].
//!
//! - A field is always there. Where nothing is known it is `null`, a flag is as in the usual case,
//!   and a list is empty.
//! - A wait is a [`Wait`]: seconds, exact to the microsecond, and a text. A field whose name ends
//!   in `_us` is a time, in microseconds since 1970 by the store's clock.
//! - `retry_after` of an answer says when to ask again: it is `null` unless the answer is a denial
//!   that waiting helps. `retry_after` of a limit says when that limit alone admits the cost: zero
//!   for now, and `null` for never.
//!
//! ```
//! use tollgate::Limiter;
//! let limiter = Limiter::memory("1/h via gcra".parse()?);
//! let said = serde_json::to_value(limiter.check("ann").now()?)?;
//! assert_eq!((&said["outcome"], &said["retry_after"]), (&"allowed".into(), &().into()));
//! assert_eq!(said["reset_after"]["seconds"], 3_600);
//! assert_eq!(said["limits"][0]["retry_after"]["text"], "0s");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(doc)]
use crate::Decision;

mod answer;
mod hold;
mod response;
mod value;
mod wait;

pub use answer::{Answer, Report, Shadow};
pub use hold::{Charge, Charged, Committed, HoldAnswer, OpenHold, Refunded, Released, Renewed};
pub use response::{Header, Responded, Response};
pub use value::{Fields, List, Shown, ToValue, Value};
pub use wait::{Wait, duration};
