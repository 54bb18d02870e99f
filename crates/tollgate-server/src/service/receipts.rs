//! Receipts and holds for callers: signed, so that a caller cannot refund what was never charged,
//! or settle the hold of another.

use core::fmt::Display;
use core::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tollgate::{Hold, Receipt};

use super::{Kind, Refusal};

/// The bytes of a signature: 128 bits, which cannot be guessed over a network.
const SIGNATURE_BYTES: usize = 16;

/// The fewest bytes of a signing key.
pub(crate) const MIN_KEY_BYTES: usize = 32;

/// The most bytes of subjects and limits in a receipt.
pub(crate) const MAX_RECEIPT_BYTES: usize = 32 * 1_024;

/// The longest text to verify, in bytes: the maximum above in base 64, with the other fields.
const MAX_BYTES: usize = 60 * 1_024;

/// What callers get signed. The first line of its text is the name of its format, so that neither
/// can pass for the other.
pub(crate) trait Signable: Display + FromStr {
    /// What it is called in an error, and its field in a question.
    const NAME: &'static str;
}

impl Signable for Receipt {
    const NAME: &'static str = "receipt";
}

impl Signable for Hold {
    const NAME: &'static str = "hold";
}

/// Signs receipts and holds, and verifies those that it signed.
pub(crate) struct Receipts {
    signer: Hmac<Sha256>,
}

impl core::fmt::Debug for Receipts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Receipts")
    }
}

impl Receipts {
    /// Signs with this key, of any length.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        Some(Self { signer: Hmac::new_from_slice(key).ok()? })
    }

    /// Encodes and signs a receipt or a hold.
    pub(crate) fn sign(&self, what: &impl Signable) -> String {
        let text = what.to_string();
        let mut signer = self.signer.clone();
        signer.update(text.as_bytes());
        let signature = signer.finalize().into_bytes();
        let mut signed = Vec::with_capacity(SIGNATURE_BYTES + text.len());
        signed.extend(signature.iter().take(SIGNATURE_BYTES));
        signed.extend_from_slice(text.as_bytes());
        URL_SAFE_NO_PAD.encode(signed)
    }

    /// Verifies and decodes a receipt or a hold.
    pub(crate) fn read<T: Signable>(&self, text: &str) -> Result<T, Refusal> {
        let strange = || {
            let name = T::NAME;
            Refusal::new(
                Kind::NotFound,
                format!(
                    "this is no {name} of this service: it was changed, or signed with another \
                     key. Without TOLLGATE_RECEIPT_KEY the key is a new one at each start"
                ),
            )
            .at(name)
        };
        if text.len() > MAX_BYTES {
            return Err(strange());
        }
        let signed = URL_SAFE_NO_PAD.decode(text).map_err(|_| strange())?;
        let (signature, text) = signed.split_at_checked(SIGNATURE_BYTES).ok_or_else(strange)?;
        let mut signer = self.signer.clone();
        signer.update(text);
        signer.verify_truncated_left(signature).map_err(|_| strange())?;
        let text = core::str::from_utf8(text).map_err(|_| strange())?;
        text.parse().map_err(|_| strange())
    }
}

#[cfg(test)]
mod tests {
    use tollgate::Limiter;

    use super::*;

    #[test]
    fn what_was_changed_is_none() {
        let receipts = Receipts::new(&[7; 32]).unwrap();
        let limiter = Limiter::memory("5/h".parse().unwrap());
        let receipt = limiter.check_now("bob").unwrap().receipt().unwrap();
        let text = receipts.sign(&receipt);
        assert_eq!(receipts.read::<Receipt>(&text).unwrap(), receipt);
        assert!(receipts.read::<Hold>(&text).is_err(), "a receipt is no hold");
        for place in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            assert!(
                receipts.read::<Receipt>(core::str::from_utf8(&changed).unwrap()).is_err(),
                "{place}"
            );
        }
        for end in 0..text.len() {
            assert!(receipts.read::<Receipt>(&text[..end]).is_err(), "{end}");
        }
        assert!(Receipts::new(&[8; 32]).unwrap().read::<Receipt>(&text).is_err());
    }
}
