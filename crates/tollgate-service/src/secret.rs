//! The secrets that clients say: tokens and passwords.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The fewest bytes of a token or a password.
pub(crate) const MIN_TOKEN_BYTES: usize = 16;

/// Whether a client said this secret. The comparison of keyed hashes leaks nothing through its
/// time.
pub(crate) fn is_same(secret: &str, said: &[u8]) -> bool {
    let Ok(key) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return false };
    let [mut mine, mut theirs] = [key.clone(), key];
    mine.update(secret.as_bytes());
    theirs.update(said);
    let mine = mine.finalize().into_bytes();
    theirs.verify_slice(&mine).is_ok()
}
