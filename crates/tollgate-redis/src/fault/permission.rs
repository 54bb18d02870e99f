//! What a user of Redis may not do: from the reply, and in a message.

use super::{ChargeState, Fault};

/// The fault for the text of a `NOPERM`. Our own scripts look before they write, and name what the
/// user lacks.
pub(super) fn no_permission(text: &str) -> Fault {
    let (charge, missing) = match text.strip_prefix("TOLLGATE ") {
        Some(missing) => (ChargeState::NotCharged, missing),
        // Redis 7 appends the script's name to the error of a command in a script.
        None if text.contains(" script: ") => (ChargeState::Unknown, ""),
        None => (ChargeState::NotCharged, ""),
    };
    Fault::NoPermission { charge, missing: missing.to_owned() }
}

/// What a user lacks, in a message.
pub(super) fn lacks(missing: &str) -> String {
    match missing {
        "" => String::new(),
        missing => format!(" it lacks the right to {};", missing.replace(' ', ", ")),
    }
}
