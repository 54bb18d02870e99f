//! A call of a script, as it is built and sent.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use redis::{Arg, Cmd, ToRedisArgs};

use super::batch_script::BatchScript;
use super::sending::{BEFORE_KEYS, Sending};
use crate::key::logs_beside;
use crate::script::Script;

/// A client's first nonce: random, so that processes differ; below 2^53 for Lua, with room to
/// count.
pub(crate) fn first_nonce() -> AtomicU64 {
    AtomicU64::new((1 << 50) + (RandomState::new().hash_one(std::process::id()) >> 12))
}

/// A script call with keys and arguments. One argument is the nonce in decimal digits, and the
/// script replies with a list that begins with it.
pub(crate) struct Call<'s> {
    pub(super) script: &'s Script,
    /// The script for a batch of such calls.
    pub(super) batch: Option<&'s Arc<BatchScript>>,
    pub(super) nonce: u64,
    keys: usize,
    /// The slot of its keys on a cluster, else 0. Calls share a batch within a slot.
    slot: u16,
    /// Empty while it is under way.
    pub(super) command: Cmd,
}

/// The ends of the keys that a count may have beside its state and its logs: its holds, their sums,
/// its line, its early marks, and its reset.
const BESIDE: [&[u8]; 6] = [b"@", b"@sums", b"@line", b"@ends", b"@marks", b"!reset"];

/// The arguments and bytes of a usual call.
const USUAL_WORDS: usize = 8;
const USUAL_BYTES: usize = 192;

impl<'s> Call<'s> {
    /// A call without arguments yet; the first `keys` of them are its keys.
    pub(crate) fn new(script: &'s Script, nonce: u64, keys: usize) -> Self {
        let mut command = Cmd::with_capacity(USUAL_WORDS, USUAL_BYTES);
        command.arg("EVALSHA").arg(script.sha()).arg(keys);
        Self { script, batch: None, nonce, keys, slot: 0, command }
    }

    /// Allows the call to be batched with others of its script, where there is a batch script.
    pub(crate) fn with_others(self, batch: Option<&'s Arc<BatchScript>>) -> Self {
        Self { batch, ..self }
    }

    /// Appends a key or an argument.
    pub(crate) fn word(&mut self, word: impl ToRedisArgs) -> &mut Self {
        self.command.arg(word);
        self
    }

    pub(crate) fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Its keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let words = self.command.args_iter().skip(BEFORE_KEYS).take(self.keys);
        words.map(|word| if let Arg::Simple(word) = word { word } else { b"" })
    }

    /// The keys beside its keys that its script may use, if they are there: those of each count,
    /// and of the hold whose id is an argument.
    pub(crate) fn keys_beside(&self) -> Vec<Vec<u8>> {
        let arguments = self.command.args_iter().skip(BEFORE_KEYS + self.keys);
        let words =
            arguments.filter_map(|word| if let Arg::Simple(it) = word { Some(it) } else { None });
        let ids: Vec<Vec<u8>> = words.filter_map(keys_of_hold).flatten().collect();
        let beside = |key: &[u8]| {
            let ends = BESIDE.into_iter().chain(ids.iter().map(Vec::as_slice));
            let mut keys: Vec<_> = ends.map(|end| [key, end].concat()).collect();
            keys.extend(logs_beside(key));
            keys
        };
        self.keys().flat_map(beside).collect()
    }

    /// Sets the slot of its keys.
    pub(crate) fn set_slot(&mut self, slot: u16) {
        self.slot = slot;
    }

    /// The part of it that is sent. Its command is back with the reply.
    pub(super) fn send(&mut self, batch: Option<Arc<BatchScript>>) -> Sending {
        let command = core::mem::take(&mut self.command);
        let words = batch.as_ref().map_or(0, |_| command.args_iter().count());
        Sending { command, keys: self.keys, words, slot: self.slot, batch }
    }
}

/// The ends of a hold's own keys, if an argument begins with its id: of a named one without its
/// kind.
fn keys_of_hold(argument: &[u8]) -> Option<[Vec<u8>; 2]> {
    let id = argument.get(..32).filter(|id| id.iter().all(u8::is_ascii_hexdigit))?;
    let is_named = matches!(id.first(), Some(b'4' | b'5'));
    let rest = id.get(2..)?;
    let own = if is_named { [b"@4e", rest].concat() } else { [b"@", id].concat() };
    let renewed = [&own[..], b"+"].concat();
    Some([own, renewed])
}
