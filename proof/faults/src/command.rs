//! Commands that faults give to servers.

use anyhow::{Context as _, Result, bail};
use tollgate_testbed::{Client, RedisServer, Reply};

fn command(client: &mut Client, words: &[&str]) -> Result<Reply> {
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    client.command(&bytes).with_context(|| words.join(" "))
}

pub(crate) fn ok(server: &RedisServer, words: &[&str]) -> Result<()> {
    match command(&mut server.client()?, words)? {
        Reply::Error(why) => bail!("{}: {why}", words.join(" ")),
        _ => Ok(()),
    }
}
