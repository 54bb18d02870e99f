//! A cache of parsed inline limits: parsing takes longer than deciding.

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tollgate::{LimitSet, ParseError};

/// The most bytes in the cache: about ten thousand texts of one limit each. More distinct texts
/// suggest a caller that tries to evict entries.
const MAX_BYTES: u64 = 8 << 20;

/// The expected number of texts of usual size.
const USUAL_TEXTS: usize = 8_192;

/// The shards of the cache. The largest set, 24 KiB with its text, is a small part of one shard.
const PARTS: usize = 8;

/// The overhead of a cache entry in bytes, besides the text and the set.
const ENTRY_BYTES: usize = 128;

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Box<str>, LimitSet> for Bytes {
    fn weight(&self, text: &Box<str>, limits: &LimitSet) -> u64 {
        (text.len() + ENTRY_BYTES + limits.bytes()) as u64
    }
}

/// Limit sets by their texts.
#[derive(Debug)]
pub(crate) struct InlineLimits(Cache<Box<str>, LimitSet, Bytes>);

impl Default for InlineLimits {
    fn default() -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(USUAL_TEXTS)
            .weight_capacity(MAX_BYTES)
            .shards(PARTS)
            .build();
        let (hash, life) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self(match options {
            Ok(options) => Cache::with_options(options, Bytes, hash, life),
            // The builder requires only these two numbers, and both are set.
            Err(_) => Cache::with_weighter(USUAL_TEXTS, MAX_BYTES, Bytes),
        })
    }
}

impl InlineLimits {
    /// Parses a text, or returns its cached limits.
    pub(crate) fn read(&self, text: &str) -> Result<LimitSet, ParseError> {
        if let Some(limits) = self.0.get(text) {
            return Ok(limits);
        }
        let limits: LimitSet = text.parse()?;
        self.0.insert(text.into(), limits.clone());
        Ok(limits)
    }

    /// The bytes that the cache holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(i: u32) -> String {
        let limits: Vec<String> = (1..=32).map(|n| format!("l{n}: {n}/{}s", i + 1)).collect();
        limits.join(", ")
    }

    /// A regression test: the cache kept 10,000 texts of 32 limits, in 128 MiB.
    #[test]
    fn texts_take_no_more_than_their_bytes() {
        let limits = InlineLimits::default();
        let one = limits.read(&text(0)).unwrap();
        let bytes = limits.bytes();
        assert!(bytes > one.bytes() as u64 && bytes < one.bytes() as u64 + 1_000, "{bytes}");
        assert_eq!(limits.read(&text(0)).unwrap().serial(), one.serial(), "it is kept");
        for i in 1..2_000 {
            limits.read(&text(i)).unwrap();
        }
        let bytes = limits.bytes();
        assert!((MAX_BYTES / 2..=MAX_BYTES).contains(&bytes), "{bytes} bytes");
        assert!(limits.0.len() < 700, "{} texts", limits.0.len());
        // The largest possible set is cached, too.
        let one = limits.read(&text(2_000)).unwrap();
        assert_eq!(limits.read(&text(2_000)).unwrap().serial(), one.serial());
    }
}
