//! How the printed lines reach the server: by `--host` and `--port`, else by the store.

use anyhow::{Result, bail};

use super::shell::shell_word;
use crate::args::Scripts;
use crate::store::redis_options;

/// The words of `redis-cli`, and remarks about them.
#[derive(Debug, Default)]
pub(super) struct Reach {
    words: Vec<String>,
    remarks: Vec<&'static str>,
}

impl Reach {
    pub(super) fn new(args: &Scripts) -> Result<Self> {
        let mut reach = Self::default();
        if args.host.is_some() || args.port.is_some() {
            if args.port == Some(0) {
                bail!("--port 0 is no port: give 1 to 65535, as in `--port 6379`");
            }
            if let Some(host) = &args.host {
                reach.words.extend(["-h".to_owned(), host.clone()]);
            }
            if let Some(port) = args.port {
                reach.words.extend(["-p".to_owned(), port.to_string()]);
            }
            return Ok(reach);
        }
        let Some(options) = redis_options(args.store.as_deref())? else { return Ok(reach) };
        match options.redis_cli() {
            Some(words) => reach.words = words,
            None => reach.remarks.push(
                "the one that the sentinels name: `SENTINEL GET-MASTER-ADDR-BY-NAME NAME`; add \
                 --host and --port",
            ),
        }
        if options.has_password() {
            reach.remarks.push("redis-cli takes the password from REDISCLI_AUTH");
        }
        Ok(reach)
    }

    /// `redis-cli` with the words of a shell.
    pub(super) fn redis_cli(&self) -> String {
        let plain =
            |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._/:".contains(&b));
        let mut text = "redis-cli".to_owned();
        for word in &self.words {
            text.push(' ');
            text += &if plain(word) { word.clone() } else { shell_word(word) };
        }
        text
    }

    pub(super) fn remarks(&self) -> &[&'static str] {
        &self.remarks
    }
}
