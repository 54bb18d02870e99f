//! Faults that are read from the error replies of a server.

use super::{ChargeState, Fault};

/// The most bytes of an error's code that are shown.
const MAX_CODE_BYTES: usize = 32;

impl Fault {
    /// Parses an error reply: the line after the `-`, without its end.
    ///
    /// The first word identifies most errors; an `ERR` is identified by its text. Nothing that the
    /// line quotes of a call is kept.
    #[must_use]
    pub fn from_reply(line: &str) -> Self {
        let (code, text) = line.split_once(' ').unwrap_or((line, ""));
        match code {
            "MISCONF" => Self::Misconf,
            "NOREPLICAS" => Self::NoReplicas,
            "READONLY" => Self::ReadOnly,
            "MASTERDOWN" => Self::MasterDown,
            "LOADING" => Self::Loading,
            "BUSY" => Self::Busy,
            "CLUSTERDOWN" => Self::ClusterDown,
            "TRYAGAIN" => Self::TryAgain,
            "NOAUTH" => Self::NoAuth,
            "WRONGPASS" => Self::WrongPassword,
            "NOPERM" => no_permission(text),
            "OOM" => Self::OutOfMemory,
            "MOVED" | "ASK" => Self::Cluster,
            "CROSSSLOT" => Self::CrossSlot,
            "WRONGTYPE" => Self::WrongType,
            "NOSCRIPT" => Self::NoScript,
            "DENIED" => Self::Protected,
            "ERR" => Self::from_text(text),
            // These are the words of our own scripts, which quote nothing of a call.
            "TOLLGATE" => Self::Refused { what: text.to_owned() },
            _ => Self::other(code),
        }
    }

    /// Identifies an `ERR` by its text. Texts are lower-cased, since some changed their case
    /// between versions.
    fn from_text(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let begins = |with: &str| text.starts_with(with);
        // Before 6.0 the name was in backquotes.
        let unknown = |name: &str| {
            ["'", "`"].iter().any(|quote| begins(&format!("unknown command {quote}{name}")))
        };
        if unknown("evalsha") || unknown("script") {
            return Self::NoScripting;
        }
        if begins("auth <password> called without any password")
            || begins("client sent auth, but no password is set")
        {
            return Self::NoPasswordSet;
        }
        if begins("invalid password") {
            return Self::WrongPassword;
        }
        if begins("max number of clients") {
            return Self::TooManyClients;
        }
        if begins("db index is out of range")
            || begins("invalid db index")
            || begins("select is not allowed in cluster mode")
        {
            return Self::NoSuchDatabase;
        }
        // In 7.0 a script's missing permission is an ERR, not NOPERM.
        if begins("the user executing the script can't") {
            return Self::NoPermission { charge: ChargeState::Unknown, missing: String::new() };
        }
        // The key that the script reads beside those of its call is on the other node already, or
        // nowhere. Our scripts read all that they write before they write.
        if begins("script attempted to access a non local key in a cluster node") {
            return Self::TryAgain;
        }
        if begins("script killed by user") {
            return Self::Killed;
        }
        Self::other("ERR")
    }

    fn other(code: &str) -> Self {
        let is_code = !code.is_empty()
            && code.len() <= MAX_CODE_BYTES
            && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        Self::Other { code: if is_code { code.to_owned() } else { String::new() } }
    }
}

/// The fault for the text of a `NOPERM`. Our own scripts look before they write, and name what the
/// user lacks.
fn no_permission(text: &str) -> Fault {
    let (charge, missing) = match text.strip_prefix("TOLLGATE ") {
        Some(missing) => (ChargeState::NotCharged, missing),
        // Redis 7 appends the script's name to the error of a command in a script.
        None if text.contains(" script: ") => (ChargeState::Unknown, ""),
        None => (ChargeState::NotCharged, ""),
    };
    Fault::NoPermission { charge, missing: missing.to_owned() }
}
