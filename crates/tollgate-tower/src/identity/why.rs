//! The reasons why an identity has no value.

/// Why an identity has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// The value is absent or empty.
    Absent,
    /// No route matched, or the layer cannot see it.
    NoRoute,
    /// The header occurs several times.
    Repeated,
    /// The value is too long.
    TooLong {
        /// Its length, in bytes.
        bytes: usize,
        /// The longest value, in bytes.
        most: usize,
    },
    /// The value is not UTF-8.
    NotText,
    /// The server did not provide the address of the peer, or the peer has none.
    NoPeer,
    /// The cost is not a whole number from 1.
    NoNumber,
    /// The path has a segment `.` or `..`, possibly escaped: the server behind may interpret it
    /// differently.
    Dots,
    /// The path has an escaped slash, and no setting defines how the server behind interprets it
    /// ([`EscapedSlashes`](super::EscapedSlashes)).
    EscapedSlash,
    /// The path has a backslash, escaped or not; as for an escaped slash.
    Backslash,
    /// The path has a `;`, escaped or not, and no setting defines how the server behind interprets
    /// it ([`PathParameters`](super::PathParameters)).
    Parameter,
    /// The path has a zero byte; some servers end the path there.
    Nul,
    /// The request has two different hosts.
    TwoHosts,
}
