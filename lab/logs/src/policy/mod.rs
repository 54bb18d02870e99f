//! Policy files over a log: the decisions of one, and the requests that another would decide
//! otherwise.
//!
//! A request of the log becomes the fields that the policies read. Every request is then decided by
//! a [`tollgate_policy::Gate`], as the service does it, with a store whose clock is set to the time
//! of the request.
//!
//! ```
//! use std::path::Path;
//! use tollgate_logs::Lines;
//! use tollgate_logs::policy::{PolicyReading, diff, limits_as_policies};
//!
//! let log: &[u8] = b"\
//!     {\"ip\":\"::1\",\"ts\":1000}\n{\"ip\":\"::1\",\"ts\":1001}\n{\"ip\":\"::2\",\"ts\":1002}\n";
//! let (old, new) = (limits_as_policies("1/10s", false)?, limits_as_policies("2/10s", false)?);
//! let lines = Lines::from_reader(log, Path::new("-"), None)?;
//! let requests = PolicyReading::default().read_lines(lines, &[&old, &new], |_| ())?;
//! let found = diff(&requests, &old, &new, &mut |_| Ok(()), &mut |_| Ok(()))?;
//! assert_eq!((found.to_admitted.requests, found.to_denied.requests), (1, 0));
//! assert_eq!(found.to_admitted.policies[0].examples[0].line, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod classes;
mod compare;
mod layout;
mod read;
mod replay;
mod request;
mod side;

pub use self::compare::{Change, Changed, Diff, Example, PolicyChange, SideTotals, diff};
pub use self::read::{MAX_COMBINATIONS, PolicyReading, Requests};
pub use self::replay::{Decided, PolicyCounts, PolicyReport, replay};
use self::request::{BY, COST};
use crate::error::Error;
use crate::event_unit::EventUnit;

use tollgate::Unit;
use tollgate_policy::{Amount, Combine, CostRule, Entry, OnFailure, Policies, Policy, Problems};

/// The name of the policy that limits without a file become.
pub const LIMIT: &str = "limit";

/// Limits as policies: they count each client of `--by`, at the costs of `--cost` if the log
/// `has_costs`.
///
/// # Errors
/// The limits are invalid.
pub fn limits_as_policies(limits: &str, has_costs: bool) -> Result<Policies, Error> {
    let entry = Entry::new([BY], limits).and_then(|entry| entry.absent("deny"));
    let entry = entry.map_err(|why| Error::Policies { why: why.to_string() })?;
    let mut policy = Policy::new(LIMIT, OnFailure::Deny).entry(entry.clone());
    if has_costs {
        let field = tollgate_policy::Field::parse(COST);
        let field = field.map_err(|why| Error::Policies { why: why.to_string() })?;
        let amount = Amount::From { sum: field.into(), max: u32::MAX.into(), otherwise: Some(1) };
        let unit = EventUnit::of([&entry.limits])?;
        let request = unit.has_requests().then_some((Unit::REQUESTS.name(), Amount::Fixed(1)));
        let of = unit.unit();
        let rule = CostRule::new(request.into_iter().chain([(of.name(), amount)]));
        policy = policy.cost(rule.map_err(|why| Error::Policies { why: why.to_string() })?);
    }
    let refused = |problems: Problems| Error::Policies { why: problems.to_string() };
    Policies::new(Combine::First, vec![policy]).map_err(refused)
}

/// A function that gets how many requests of how many are decided, and ends the work with an error
/// such as [`Error::Stopped`].
pub type Go<'g> = dyn FnMut((u64, u64)) -> Result<(), Error> + 'g;

#[cfg(test)]
mod tests;
