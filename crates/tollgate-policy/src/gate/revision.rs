//! The identity of the policies in force: their number, and the hash of their file.

use core::fmt;

/// The identity of policies: how often they were replaced, and the hash of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Revision {
    /// 1 for the first policies of a gate, increased by one at each replacement.
    pub number: u64,
    /// The first 12 hexadecimal digits of the SHA-1 of the file.
    pub hash: String,
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.hash)
    }
}
