//! Arguments that both languages pass as text.

use tollgate::{HoldKind, HoldName, LimitSet, ParseError, Patience};

use crate::{Failure, Result};

/// The failure for an argument. No message repeats it.
fn wrong(name: &str, error: &ParseError) -> Failure {
    Failure::argument(format!("{name}: {}: {}", error.what(), error.remedy()))
}

/// The argument `limits`.
///
/// # Errors
/// It says no limits.
pub fn limits(text: &str) -> Result<LimitSet> {
    text.parse().map_err(|it| Failure::limits(&it))
}

/// The limits within the policy that the argument `policy` names, if it is given.
///
/// # Errors
/// No policy can have that name.
pub fn in_policy(limits: LimitSet, policy: Option<&str>) -> Result<LimitSet> {
    let Some(name) = policy else { return Ok(limits) };
    limits.in_policy(name).map_err(|it| Failure::argument(format!("policy: {it}")))
}

/// The argument `id`: a caller's id for a hold.
///
/// # Errors
/// It is too short, too long, or has other characters.
pub fn id(text: &str) -> Result<HoldName> {
    text.parse().map_err(|it| wrong("id", &it))
}

/// The argument `kind`: the kind of cost that a peek judges.
///
/// # Errors
/// There is no such kind.
pub fn kind_of_peek(text: &str) -> Result<Option<HoldKind>> {
    HoldKind::of_peek(text).map_err(|it| wrong("kind", &it))
}

/// The argument `waiting`.
///
/// # Errors
/// Nobody waits so.
pub fn waiting(text: &str) -> Result<Patience> {
    text.parse().map_err(|it| wrong("waiting", &it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    #[test]
    fn what_is_read_is_what_the_engine_reads() {
        let limits = limits("10/s, 240/h").unwrap();
        assert_eq!(in_policy(limits.clone(), None).unwrap().policy(), None);
        assert_eq!(in_policy(limits, Some("api")).unwrap().policy(), Some("api"));
        assert_eq!(kind_of_peek("check").unwrap(), None);
        assert!(kind_of_peek("reserve").unwrap().is_some());
        assert!(kind_of_peek("acquire").unwrap().is_some());
        assert_ne!(waiting("again").unwrap(), Patience::None);
        assert!(id("0123456789abcdef0123456789abcdef").is_ok());
    }

    #[test]
    fn a_message_names_the_argument() {
        let of = |failure: Failure, fault, start: &str| {
            assert_eq!(failure.fault, fault);
            assert!(failure.what.starts_with(start), "{}", failure.what);
        };
        of(limits("ten").unwrap_err(), Fault::Limit, "limits: ");
        let ten = limits("10/s").unwrap();
        of(in_policy(ten, Some("")).unwrap_err(), Fault::Argument, "policy: ");
        of(id("").unwrap_err(), Fault::Argument, "id: ");
        of(kind_of_peek("lend").unwrap_err(), Fault::Argument, "kind: ");
        of(waiting("long").unwrap_err(), Fault::Argument, "waiting: ");
    }
}
