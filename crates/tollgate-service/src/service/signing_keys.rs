//! The keys that sign receipts and holds. Instances on one store share one by that store, unless
//! one is given.
//!
//! The key is a notice, and is read with the others. The first who misses it writes it. An instance
//! that still has it writes it back after the store has lost it. So it is as secret as the store: a
//! reader of the store can forge receipts, and could as well change the counts.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _};
use sha2::Sha256;
use tollgate::Notice;

/// The name of the notice. That of a ruling is JSON.
pub(super) const KEY_NOTICE: &str = "receipt-key";

/// How long it lies in the store: the longest time of a notice.
const LASTS: Duration = Duration::from_secs(366 * 86_400);

/// It is written again when it has less time left than this.
const RENEWED_AT: Duration = Duration::from_secs(30 * 86_400);

/// The bytes of a key that is made here.
const KEY_BYTES: usize = 32;

/// The key that signs, and the one before it.
pub(super) struct Keys {
    current: Key,
    previous: Option<Key>,
    /// Whether they are shared by the store.
    is_shared: bool,
    /// Whether something may be signed with the current one: here, or elsewhere.
    is_used: AtomicBool,
    pub(super) is_failing: bool,
}

#[derive(Clone)]
struct Key {
    signer: Hmac<Sha256>,
    /// Its form in the store.
    text: String,
}

impl Key {
    fn new(bytes: &[u8]) -> Option<Self> {
        let signer = Hmac::new_from_slice(bytes).ok()?;
        Some(Self { signer, text: URL_SAFE_NO_PAD.encode(bytes) })
    }

    /// The key of a text in the store; `None` if a newer version wrote it.
    fn read(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        if bytes.len() == KEY_BYTES { Self::new(&bytes) } else { None }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Keys {
    /// One key that is never shared.
    pub(super) fn given(bytes: &[u8]) -> Option<Self> {
        Some(Self::of(Key::new(bytes)?, false))
    }

    /// A new key; `is_shared` if other processes use the same store.
    pub(super) fn random(is_shared: bool) -> Option<Self> {
        Some(Self::of(Key::new(&rand::random::<[u8; KEY_BYTES]>())?, is_shared))
    }

    fn of(current: Key, is_shared: bool) -> Self {
        Self { current, previous: None, is_shared, is_used: false.into(), is_failing: false }
    }

    /// The key that signs.
    pub(super) fn signer(&self) -> Hmac<Sha256> {
        if !self.is_used.load(Relaxed) {
            self.is_used.store(true, Relaxed);
        }
        self.current.signer.clone()
    }

    /// The keys that verify, in this order.
    pub(super) fn verifiers(&self) -> impl Iterator<Item = Hmac<Sha256>> {
        core::iter::once(&self.current).chain(&self.previous).map(|key| key.signer.clone())
    }

    /// Takes the keys of the notice in the store, and returns the notice to post, if any.
    pub(super) fn take(&mut self, stored: Option<&Notice>) -> Option<Notice> {
        if !self.is_shared {
            return None;
        }
        let Some(stored) = stored else { return self.notice().map(Notice::yielding) };
        let mut texts = stored.text.split(' ');
        let current = Key::read(texts.next()?)?;
        let previous = texts.next().and_then(Key::read);
        // Others have the key of the store, so it is used from now on.
        let was_used = self.is_used.swap(true, Relaxed);
        if current != self.current {
            let before = core::mem::replace(&mut self.current, current);
            if was_used {
                self.previous = Some(before);
            }
        }
        let is_news = previous.is_none();
        self.previous = self.previous.take().or(previous);
        let is_news = is_news && self.previous.is_some();
        if is_news || stored.left < RENEWED_AT { self.notice() } else { None }
    }

    fn notice(&self) -> Option<Notice> {
        let previous = self.previous.iter().map(|key| format!(" {}", key.text));
        let text = self.current.text.clone() + &previous.collect::<String>();
        Notice::new(KEY_NOTICE, text, LASTS).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of one notice.
    #[derive(Default)]
    struct Board(Option<Notice>);

    impl Board {
        fn share(&mut self, keys: &mut Keys) {
            for _ in 0..2 {
                let Some(mut notice) = keys.take(self.0.as_ref()) else { return };
                if !(notice.yields && self.0.is_some()) {
                    notice.yields = false;
                    self.0 = Some(notice);
                }
            }
        }

        fn text(&self) -> &str {
            &self.0.as_ref().unwrap().text
        }
    }

    fn shared() -> Keys {
        Keys::random(true).unwrap()
    }

    fn takes(keys: &Keys, key: &Key) -> bool {
        keys.current == *key || keys.previous.as_ref() == Some(key)
    }

    #[test]
    fn the_first_key_is_that_of_all() {
        let (mut board, mut one, mut other) = (Board::default(), shared(), shared());
        let first = one.current.clone();
        // Both find nothing; one is the first.
        let (of_one, of_other) = (one.take(None).unwrap(), other.take(None).unwrap());
        assert!(of_one.yields && of_other.yields);
        board.0 = Some(of_one);
        board.share(&mut other);
        board.share(&mut one);
        assert!(one.current == first && other.current == first);
        // Nothing was signed with the key of the other, so it is nobody's.
        assert!(other.previous.is_none() && board.text() == first.text);
        assert!(one.take(board.0.as_ref()).is_none(), "nothing more to write");
    }

    #[test]
    fn what_was_signed_before_a_loss_is_verified_after_it_by_all() {
        let (mut board, mut one, mut other) = (Board::default(), shared(), shared());
        board.share(&mut one);
        board.share(&mut other);
        let first = one.current.clone();
        board.0 = None;
        board.share(&mut other);
        assert_eq!(board.text(), first.text, "written back");
        // Somebody new is faster.
        let mut new = shared();
        board.0 = None;
        board.share(&mut new);
        board.share(&mut one);
        board.share(&mut other);
        board.share(&mut new);
        for keys in [&one, &other, &new] {
            assert!(keys.current != first && takes(keys, &first));
            assert_eq!(board.text(), format!("{} {}", keys.current.text, first.text));
        }
        let mut late = shared();
        board.share(&mut late);
        assert!(takes(&late, &first));
    }

    #[test]
    fn a_key_that_signed_before_the_store_came_stays_as_the_previous_one() {
        let (mut board, mut one, mut other) = (Board::default(), shared(), shared());
        let own = other.current.clone();
        drop(other.signer());
        board.share(&mut one);
        board.share(&mut other);
        board.share(&mut one);
        assert!(takes(&one, &own) && takes(&other, &own) && one.current == other.current);
    }

    #[test]
    fn it_is_written_again_before_its_end_and_others_are_left_alone() {
        let (mut board, mut keys) = (Board::default(), shared());
        board.share(&mut keys);
        let mut old = board.0.clone().unwrap();
        old.left = RENEWED_AT - Duration::from_secs(1);
        let again = keys.take(Some(&old)).unwrap();
        assert!(again.left == LASTS && !again.yields && again.text == old.text);
        for text in ["", "x", "v2:abc", "AAAA"] {
            let newer = Notice::new(KEY_NOTICE, text, LASTS).unwrap();
            assert!(keys.take(Some(&newer)).is_none(), "{text}");
            assert!(takes(&keys, &Key::read(&old.text).unwrap()));
        }
        let mut given = Keys::given(b"0123456789abcdef0123456789abcdef").unwrap();
        assert!(given.take(None).is_none() && given.take(Some(&old)).is_none());
        assert!(Keys::random(false).unwrap().take(None).is_none(), "in memory");
    }
}
