//! Follows the files of rules.

use core::time::Duration;
use std::path::Path;

use crate::envoy_files::EnvoyFiles;

/// How often the files are read to see whether they have changed.
pub(super) const POLL: Duration = Duration::from_secs(2);

/// How long files must stay as they are before they are taken: editors write in several steps.
const REST: Duration = Duration::from_millis(100);

/// Reads them on a blocking thread: they may be on a network.
pub(super) async fn read_apart(path: &Path) -> Result<EnvoyFiles, String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || EnvoyFiles::read(&path)).await;
    read.unwrap_or_else(|_| Err("the reading has ended without an answer".to_owned()))
}

/// The files, or what is wrong with them, once they rest; `None` where they are these.
pub(super) async fn other_than(
    path: &Path,
    last: &Result<EnvoyFiles, String>,
) -> Option<Result<EnvoyFiles, String>> {
    let mut found = read_apart(path).await;
    if *last == found {
        return None;
    }
    loop {
        tokio::time::sleep(REST).await;
        let again = read_apart(path).await;
        if again == found {
            return Some(found);
        }
        found = again;
    }
}
