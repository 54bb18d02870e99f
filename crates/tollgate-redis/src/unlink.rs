//! Removes keys that nobody else uses, after a measurement.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::{Value, cmd};
use tollgate::{LimitSet, StoreError, Subject};

use crate::client::owner_of;
use crate::fault::Fault;
use crate::key::Keys;
use crate::node::CommandConnection;
use crate::options::Options;

/// The timeout of each answer; no production call waits for them.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Removes a count, without the mark that a reset leaves for others: for a subject that nobody else
/// counts.
///
/// # Errors
/// A server cannot be reached, or refuses `UNLINK`.
pub async fn unlink_count(
    options: &Options,
    subject: &Subject,
    limits: &LimitSet,
) -> Result<(), StoreError> {
    let state = Keys::new().within(options.key_prefix()).state(subject, limits);
    let mut keys: BTreeSet<String> = Keys::for_check(&state, limits).into_iter().collect();
    keys.insert(state);
    unlink(options, keys).await
}

/// Removes these keys, each from the server that has it.
pub(crate) async fn unlink(
    options: &Options,
    keys: impl IntoIterator<Item = String>,
) -> Result<(), StoreError> {
    for key in keys {
        let owner = owner_of(options.clone(), &key).await.map_err(Fault::before_the_script)?;
        let connection = CommandConnection::open(owner).await.map_err(Fault::before_the_script)?;
        let answer = connection.exchange(cmd("UNLINK").arg(&key), TIMEOUT).await;
        if let Value::ServerError(error) = answer.map_err(Fault::before_the_script)? {
            return Err(StoreError::permanent(format!("UNLINK was refused: {}", error.code())));
        }
    }
    Ok(())
}
