//! The headers that tell the clients of one policy of their limits.

/// The headers with which a front tells clients of their limits, where a policy chooses them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ResponseHeaders {
    /// `RateLimit-Policy` and `RateLimit`, of the IETF draft.
    Draft,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, in seconds from now.
    Legacy,
    /// All five.
    Both,
    /// None.
    Off,
}

impl ResponseHeaders {
    /// Every choice.
    pub const ALL: [Self; 4] = [Self::Draft, Self::Legacy, Self::Both, Self::Off];

    /// `draft`, `legacy`, `both` or `off`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Legacy => "legacy",
            Self::Both => "both",
            Self::Off => "off",
        }
    }
}
