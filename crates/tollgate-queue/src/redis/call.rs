//! The call of a script.

use crate::settings::{ConsumerSettings, ProducerSettings};

/// The call of a script.
pub(super) struct ScriptCall<'s> {
    pub(super) queue: &'s str,
    pub(super) expected: ExpectedSettings<'s>,
    pub(super) keys: Vec<String>,
    pub(super) args: Vec<Vec<u8>>,
}

/// The settings that a call expects.
pub(super) enum ExpectedSettings<'s> {
    Any,
    Producer(&'s ProducerSettings),
    Consumer(&'s ConsumerSettings),
}

pub(super) fn args<const N: usize>(args: [String; N]) -> Vec<Vec<u8>> {
    args.map(String::into_bytes).into()
}
