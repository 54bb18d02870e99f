//! The log of denials: which subject was denied by which limit, a few lines a second. Also the form
//! in which administrators read subjects, which is hashed by default.

use core::fmt;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicU64, Ordering};

use hmac::{Hmac, KeyInit as _, Mac as _};
use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt as _;
use sha2::Sha256;
use tollgate::{Limit, LimitSet, Limiter, MemoryStore, ParseError};
use tollgate_policy::{Event, Outcome};

/// The most lines that are logged: a flood of denials must not become a flood of lines.
const LINES: &str = "10/s via token_bucket";

/// The bytes of a hash that are logged. They suffice to distinguish subjects, and nobody can
/// compute a hash without the key.
const SHOWN_BYTES: usize = 8;

/// How subjects are logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Subjects {
    /// As 16 hex digits of a keyed hash. One key maps a subject always to the same digits.
    #[default]
    Hashed,
    /// As plain text. Subjects are personal data.
    Plain,
}

/// Writes subjects for administrators: in the log of denials, and wherever else they read them.
#[derive(Clone)]
pub(crate) struct SubjectForm {
    subjects: Subjects,
    key: Hmac<Sha256>,
}

impl fmt::Debug for SubjectForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubjectForm").field("subjects", &self.subjects).finish_non_exhaustive()
    }
}

impl SubjectForm {
    /// Without a key each process uses its own random key for hashes.
    ///
    /// # Errors
    /// None in practice: a key of any length is accepted.
    pub(crate) fn new(subjects: Subjects, key: Option<&[u8]>) -> Result<Self, ParseError> {
        let own: [u8; 32];
        let key = match key {
            Some(key) => key,
            None => {
                own = rand::random();
                &own
            }
        };
        let refused = |_| ParseError::whole("", "this key hashes nothing", "give another one");
        Ok(Self { subjects, key: Hmac::new_from_slice(key).map_err(refused)? })
    }

    /// Whether subjects are hashes.
    pub(crate) fn is_hashed(&self) -> bool {
        self.subjects == Subjects::Hashed
    }

    /// A subject in this form.
    pub(crate) fn written(&self, subject: &str) -> String {
        match self.subjects {
            Subjects::Plain => subject.to_owned(),
            Subjects::Hashed => {
                let mut hash = self.key.clone();
                hash.update(subject.as_bytes());
                let mut text = String::with_capacity(2 * SHOWN_BYTES);
                for byte in hash.finalize().into_bytes().iter().take(SHOWN_BYTES) {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
        }
    }
}

/// Logs denials through `tracing`, with the target `tollgate`.
#[derive(Debug)]
pub struct Denials {
    form: SubjectForm,
    lines: Limiter<MemoryStore>,
    /// The denials that were not logged since the last line.
    unlogged: AtomicU64,
}

impl Denials {
    /// A log with subjects in this form. Without a key each process uses its own random key for
    /// hashes.
    ///
    /// # Errors
    /// None in practice: a key of any length is accepted.
    pub fn new(subjects: Subjects, key: Option<&[u8]>) -> Result<Self, ParseError> {
        let form = SubjectForm::new(subjects, key)?;
        let lines: LimitSet = LINES.parse()?;
        Ok(Self { form, lines: Limiter::memory(lines), unlogged: AtomicU64::new(0) })
    }

    /// Logs a denial, or a request that was let through without the store, while the rate of lines
    /// allows it.
    #[inline]
    pub(crate) fn observe(&self, event: &Event<'_>) {
        let without_store = event.authority.is_in_place_of_store();
        if event.outcome == Outcome::Withheld || event.outcome.admits() && !without_store {
            return;
        }
        self.write(event);
    }

    #[cold]
    fn write(&self, event: &Event<'_>) {
        if !self.lines.check("lines").now().is_ok_and(|decision| decision.is_allowed()) {
            self.unlogged.fetch_add(event.answers, Ordering::Relaxed);
            return;
        }
        let context = Context::current();
        let span = context.span();
        let trace = Some(span.span_context()).filter(|span| span.is_valid());
        let subject = event.subject.map(|subject| self.form.written(subject));
        tracing::info!(
            target: "tollgate",
            outcome = event.outcome.name(),
            authority = event.authority.name(),
            policy = event.policy,
            domain = event.rule.map(|rule| rule.domain),
            rule = event.rule.and_then(|rule| rule.rule),
            limit = event.limit.map(Limit::identity),
            subject,
            trace_id = trace.map(|span| tracing::field::display(span.trace_id())),
            why = event.error.map(tracing::field::display),
            unlogged = self.unlogged.swap(0, Ordering::Relaxed) + event.answers - 1,
            "{}",
            if event.outcome.admits() { "allowed without the store" } else { "denied" }
        );
    }

    /// How this log writes subjects.
    pub(crate) fn form(&self) -> &SubjectForm {
        &self.form
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
        let hash = log.form().written("user:ann");
        assert_eq!(hash.len(), 16);
        assert_eq!(hash, same.form().written("user:ann"));
        assert_ne!(hash, other.form().written("user:ann"));
        assert_ne!(hash, log.form().written("user:bob"));
        let plain = Denials::new(Subjects::Plain, None).unwrap();
        assert_eq!(plain.form().written("user:ann"), "user:ann");
    }
}
