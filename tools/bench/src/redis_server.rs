//! A redis-server for one measurement, or why there is none.

use anyhow::{Context as _, Result, anyhow, bail};
use tollgate_testbed::{Launch, RedisServer};

/// Starts one with more arguments.
pub(super) fn start(more: &[&str]) -> Result<RedisServer> {
    RedisServer::try_launched(&Launch::new(), more).map_err(|why| anyhow!(why)).context(
        "no redis-server can be started: install one (apt-get install redis-server), name it with \
         TOLLGATE_REDIS_SERVER, or measure one that runs with `--store URL`",
    )
}

/// Makes it forget all keys.
pub(super) fn empty(server: &RedisServer) -> Result<()> {
    if server.command(&[b"FLUSHALL"]).text().as_deref() != Some("OK") {
        bail!("the redis-server that was started does not forget its keys");
    }
    Ok(())
}
