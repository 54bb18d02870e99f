//! Answers beside those of the oracle.

use tollgate::{Error, Settled};

use super::History;
use crate::conformance::world::charged;
use crate::oracle::{Charged, Ended, Fields};

impl<S> History<'_, S> {
    pub(super) fn compare_settled(
        &self,
        settled: Result<Settled, Error>,
        expected: Ended,
        what: &str,
    ) {
        let matched = match (&settled, &expected) {
            (Ok(settled), Ended::Charged(expected)) if !settled.already && !settled.is_early => {
                let got: Vec<Charged> = settled.charged.iter().map(charged).collect();
                return self.compare_charged(&got, expected, what);
            }
            (Ok(settled), Ended::Already(actual)) => {
                settled.already && !settled.is_early && settled.actual == *actual
            }
            (Ok(settled), Ended::Early) => settled.is_early,
            (Err(Error::NotOpen(_)), Ended::NotOpen) => true,
            _ => false,
        };
        assert!(matched, "{what}: {settled:?} instead of {expected:?}: {:?}", self.oracle);
    }

    pub(super) fn compare_charged(&self, got: &[Charged], expected: &[Charged], what: &str) {
        assert_eq!(got.len(), expected.len(), "{what}");
        for (got, expected) in got.iter().zip(expected) {
            assert_eq!((got.fits, got.cut), (expected.fits, expected.cut), "{what}");
        }
        let fields_of = |each: &[Charged]| each.iter().map(|it| it.fields).collect::<Vec<_>>();
        let (got, expected) = (fields_of(got), fields_of(expected));
        self.compare(&got, &expected, what);
    }

    /// Every field is equal. Where ends charge, `reset_after` is an upper bound.
    pub(super) fn compare(&self, got: &[Fields], expected: &[Fields], what: &str) {
        let same = |fields: &[Fields]| -> Vec<Fields> {
            fields.iter().map(|fields| Fields { reset_after_us: 0, ..*fields }).collect()
        };
        assert_eq!(same(got), same(expected), "{what}: {:?}", self.oracle);
        for (got, expected) in got.iter().zip(expected) {
            let (got, expected) = (got.reset_after_us, expected.reset_after_us);
            let exact = self.oracle.resets_exactly();
            assert!(
                if exact { got == expected } else { got >= expected },
                "{what}: {got} instead of {expected}: {:?}",
                self.oracle
            );
        }
    }
}
