//! Receipts and holds for callers: signed, so that a caller cannot refund what was never charged,
//! or settle the hold of another.

use core::fmt::Display;
use core::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use parking_lot::RwLock;
use sha2::Sha256;
use tollgate::operation::Post;
use tollgate::{Error, Hold, Receipt, Store as _};
use tollgate_policy::Gate;
use tollgate_stores::AnyStore;

use super::signing_keys::{KEY_NOTICE, Keys};
use super::{Kind, Refusal};

/// The bytes of a signature: 128 bits, which cannot be guessed over a network.
const SIGNATURE_BYTES: usize = 16;

/// The fewest bytes of a signing key.
pub(crate) const MIN_KEY_BYTES: usize = 32;

/// The most bytes of subjects and limits in a receipt.
pub(crate) const MAX_RECEIPT_BYTES: usize = 32 * 1_024;

/// The longest text to verify, in bytes: the maximum above in base 64, with the other fields.
const MAX_BYTES: usize = 60 * 1_024;

/// The receipts and holds that callers get, signed. The first line of its text is the name of its
/// format, so that neither can pass for the other.
pub(crate) trait Signable: Display + FromStr {
    /// Its name in an error, and its field in a question.
    const NAME: &'static str;

    /// Whether its text names the store that it is of.
    const NAMES_STORE: bool;
}

impl Signable for Receipt {
    const NAME: &'static str = "receipt";
    const NAMES_STORE: bool = true;
}

impl Signable for Hold {
    const NAME: &'static str = "hold";
    const NAMES_STORE: bool = false;
}

/// Signs receipts and holds, and verifies those that it or another instance signed.
pub(crate) struct Receipts {
    keys: RwLock<Keys>,
    /// Where on its server the store is ([`AnyStore::environment`]): part of the signed text, for a
    /// key may be given to several.
    environment: String,
}

impl core::fmt::Debug for Receipts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Receipts")
    }
}

impl Receipts {
    /// Signs what is counted in this store: with this key of any length, else with a new one.
    /// Processes that share the store share that one by it ([`Receipts::share`]).
    pub(crate) fn new(key: Option<&[u8]>, store: &AnyStore) -> Option<Self> {
        let is_shared = !matches!(store, AnyStore::Memory(_));
        let keys = match key {
            Some(key) => Keys::given(key)?,
            None => Keys::random(is_shared)?,
        };
        Some(Self { keys: RwLock::new(keys), environment: store.environment().to_owned() })
    }

    /// Reads the shared key in the notices that the gate has read, and writes it there where it is
    /// missing. A failure is logged once.
    pub(crate) async fn share(&self, gate: &Gate<AnyStore>) {
        // The second turn takes what another process was the first to write.
        for _ in 0..2 {
            let Some(notice) = self.keys.write().take(gate.admin().notice(KEY_NOTICE).as_ref())
            else {
                return;
            };
            let written = gate.store().perform(&Post::new(&notice)).await.map_err(Error::from);
            let read = match written {
                Ok(()) => gate.admin().read_rulings().await,
                Err(error) => Err(error),
            };
            let was_failing = core::mem::replace(&mut self.keys.write().is_failing, read.is_err());
            if let (Err(error), false) = (&read, was_failing) {
                tracing::warn!(
                    target: "tollgate",
                    "the key that signs receipts and holds cannot be kept in the store, so other \
                     instances may refuse those of this one: {error}"
                );
            }
            if read.is_err() {
                return;
            }
        }
    }

    /// Encodes and signs a receipt or a hold.
    pub(crate) fn sign<T: Signable>(&self, what: &T) -> String {
        let text = what.to_string();
        let mut signer = self.keys.read().signer();
        self.update::<T>(&mut signer, text.as_bytes());
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
                    "this is not a {name} of this service: it was changed, or signed with another \
                     key or for another store. Without TOLLGATE_RECEIPT_KEY instances on one Redis \
                     or one file share a key, and with counts in memory it is a new one at each \
                     start"
                ),
            )
            .at(name)
        };
        if text.len() > MAX_BYTES {
            return Err(strange());
        }
        let signed = URL_SAFE_NO_PAD.decode(text).map_err(|_| strange())?;
        let (signature, text) = signed.split_at_checked(SIGNATURE_BYTES).ok_or_else(strange)?;
        let is_ours = self.keys.read().verifiers().any(|mut verifier| {
            self.update::<T>(&mut verifier, text);
            verifier.verify_truncated_left(signature).is_ok()
        });
        if !is_ours {
            return Err(strange());
        }
        let text = core::str::from_utf8(text).map_err(|_| strange())?;
        text.parse().map_err(|_| strange())
    }

    fn update<T: Signable>(&self, mac: &mut Hmac<Sha256>, text: &[u8]) {
        // The text of a hold begins with the name of its format, so never so.
        if !T::NAMES_STORE && !self.environment.is_empty() {
            mac.update(b"in ");
            mac.update(self.environment.as_bytes());
            mac.update(b"\n");
        }
        mac.update(text);
    }
}

#[cfg(test)]
mod tests {
    use tollgate::Limiter;

    use super::*;

    #[test]
    fn what_was_changed_is_none() {
        let store = AnyStore::from(tollgate::MemoryStore::new());
        let with = |byte: u8| Receipts::new(Some(&[byte; 32]), &store).unwrap();
        let receipts = with(7);
        let limiter = Limiter::memory("5/h".parse().unwrap());
        let receipt = limiter.check("bob").now().unwrap().receipt().unwrap();
        let text = receipts.sign(&receipt);
        assert_eq!(receipts.read::<Receipt>(&text).unwrap(), receipt);
        assert!(receipts.read::<Hold>(&text).is_err(), "a receipt is not a hold");
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
        assert!(with(8).read::<Receipt>(&text).is_err());
    }
}
