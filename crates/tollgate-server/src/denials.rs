//! The log of denials: who was denied by what, a few lines a second, whoever it was hashed.

use core::fmt;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicU64, Ordering};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tollgate::{Limit, LimitSet, Limiter, MemoryStore, ParseError};
use tollgate_policy::{Authority, Event, Outcome};

/// How many lines there are at most: a flood of denials must not become one of lines.
const LINES: &str = "10/s via token_bucket";

/// How many bytes of a hash are shown: enough to tell subjects apart, and none can be computed from
/// it without the key.
const SHOWN_BYTES: usize = 8;

/// How a subject is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Subjects {
    /// As 16 digits of a keyed hash: the same subject is the same word, as long as the key is.
    #[default]
    Hashed,
    /// As they are. They are personal data.
    Plain,
}

/// Writes denials into the log of `tracing`, with the target `tollgate`.
pub struct Denials {
    subjects: Subjects,
    key: Hmac<Sha256>,
    lines: Limiter<MemoryStore>,
    /// Denials since the last line that had none.
    unlogged: AtomicU64,
}

impl fmt::Debug for Denials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denials").field("subjects", &self.subjects).finish_non_exhaustive()
    }
}

impl Denials {
    /// A log with subjects in this form; without a key hashes are others in each process.
    ///
    /// # Errors
    /// None that happens: a key of any length will do.
    pub fn new(subjects: Subjects, key: Option<&[u8]>) -> Result<Self, ParseError> {
        let own: [u8; 32];
        let key = match key {
            Some(key) => key,
            None => {
                own = rand::random();
                &own
            }
        };
        let refused = |_| ParseError::whole("", "this key hashes nothing", "give another one");
        let key = Hmac::new_from_slice(key).map_err(refused)?;
        let lines: LimitSet = LINES.parse()?;
        Ok(Self { subjects, key, lines: Limiter::memory(lines), unlogged: AtomicU64::new(0) })
    }

    /// Writes an event, when it is a denial, or a failure rule let it pass, and there are not too
    /// many lines already.
    #[inline]
    pub(crate) fn observe(&self, event: &Event<'_>) {
        let failed_open = event.authority == Authority::FailureRule;
        if event.outcome == Outcome::Withheld || event.outcome.admits() && !failed_open {
            return;
        }
        self.write(event);
    }

    #[cold]
    fn write(&self, event: &Event<'_>) {
        if !self.lines.check_now("lines").is_ok_and(|decision| decision.is_allowed()) {
            self.unlogged.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let subject = event.subject.map(|subject| self.written(subject));
        tracing::info!(
            target: "tollgate",
            outcome = event.outcome.name(),
            authority = event.authority.name(),
            policy = event.policy,
            limit = event.limit.map(Limit::identity),
            subject,
            why = event.error.map(tracing::field::display),
            unlogged = self.unlogged.swap(0, Ordering::Relaxed),
            "{}",
            if event.outcome.admits() { "allowed without the store" } else { "denied" }
        );
    }

    /// A subject as this log writes it.
    pub(crate) fn written(&self, subject: &str) -> String {
        match self.subjects {
            Subjects::Plain => subject.to_owned(),
            Subjects::Hashed => {
                let mut hash = self.key.clone();
                hash.update(subject.as_bytes());
                let mut text = String::with_capacity(2 * SHOWN_BYTES);
                for byte in hash.finalize().into_bytes().iter().take(SHOWN_BYTES) {
                    // Writing to a string does not fail.
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_tells_subjects_apart_and_not_who_they_are() {
        let log = Denials::new(Subjects::Hashed, Some(b"key")).unwrap();
        let same = Denials::new(Subjects::Hashed, Some(b"key")).unwrap();
        let other = Denials::new(Subjects::Hashed, None).unwrap();
        let hash = log.written("user:ann");
        assert_eq!(hash.len(), 16);
        assert_eq!(hash, same.written("user:ann"));
        assert_ne!(hash, other.written("user:ann"));
        assert_ne!(hash, log.written("user:bob"));
        let plain = Denials::new(Subjects::Plain, None).unwrap();
        assert_eq!(plain.written("user:ann"), "user:ann");
    }
}
