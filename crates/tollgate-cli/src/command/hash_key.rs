//! `hash-key`: the hash of an API key, so that no file and no command has to name the key.

use std::io::BufRead as _;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use tollgate_tower::identity::{Hashing, MAX_KEY_BYTES};

use crate::args::HashKey;
use crate::input::secret;
use crate::show::{Output, note};

/// One hash as JSON.
#[derive(Debug, Serialize)]
struct HashJson {
    hash: String,
    /// True when it was made with `TOLLGATE_KEY_SECRET`.
    keyed: bool,
}

pub(crate) fn hash_key(args: &HashKey, out: &mut Output) -> Result<u8> {
    let secret = secret("TOLLGATE_KEY_SECRET")?;
    let hashing = match &secret {
        Some(secret) => Hashing::keyed(secret).context("TOLLGATE_KEY_SECRET")?,
        None => Hashing::plain_for_random_keys(),
    };
    if secret.is_none() {
        note("TOLLGATE_KEY_SECRET is not set: this is the hash of a service without a secret");
    }
    let mut say = |key: &str, place: &str| {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            // The error must not contain the key.
            bail!("{place} has {} bytes: a key has 1 to {MAX_KEY_BYTES}", key.len());
        }
        let hash = format!("hash:{}", hashing.hash(key.as_bytes()));
        match args.json {
            true => out.json(&HashJson { hash, keyed: secret.is_some() }),
            false => out.exact(&format!("{hash}\n")),
        }
    };
    if let Some(key) = &args.key {
        say(key, "the key")?;
        return Ok(0);
    }
    let mut lines = 0;
    for line in std::io::stdin().lock().lines() {
        lines += 1;
        say(&line.context("the standard input is not text")?, &format!("line {lines}"))?;
    }
    if lines == 0 {
        bail!(
            "the standard input is empty: give a key in each line, e.g. `tollgate hash-key < FILE`"
        );
    }
    Ok(0)
}
