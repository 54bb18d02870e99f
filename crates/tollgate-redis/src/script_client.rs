//! Calls scripts of other crates over connections like those of a store.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::Value;
use tollgate::StoreError;

use crate::client::Client;
use crate::node::{BatchScript, Call, Deadline, first_nonce};
use crate::options::Options;
use crate::script::Script;
use crate::subscription::Subscription;

/// Calls scripts that count no limits, for example those of a queue. It uses the connections, the
/// deadline and the breaker of [`Options`], and never repeats a call. Cheap to clone: clones share
/// the connections.
#[derive(Clone)]
pub struct ScriptClient(Arc<Shared>);

struct Shared {
    client: Client,
    deadline: Duration,
    nonce: AtomicU64,
}

/// The script that answers several calls of another script in one call
/// ([`ScriptClient::call_shared`]). Clones are one.
#[derive(Clone)]
pub struct SharedScript(Arc<BatchScript>);

impl fmt::Debug for SharedScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedScript").finish_non_exhaustive()
    }
}

impl SharedScript {
    /// The script is composed when it is needed first. Its keys are the keys of each call, and its
    /// arguments the arguments of each, as many for each as for the others. It must reply with a
    /// list of the reply to each, in their order, where an error concerns that call alone.
    #[must_use]
    pub fn new(compose: impl Fn() -> Script + Send + Sync + 'static) -> Self {
        Self(Arc::new(BatchScript::new(compose, Arc::default())))
    }
}

/// The reply of a script, in the types that scripts return.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums)] // RESP2 has no more kinds that a script can answer
pub enum ScriptReply {
    /// Nil, or false.
    Nil,
    /// An integer.
    Int(i64),
    /// Text or bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Self>),
}

impl fmt::Debug for ScriptClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Caller").field(&self.0.client).finish()
    }
}

impl ScriptClient {
    /// Connects.
    ///
    /// # Errors
    /// As [`crate::RedisStore::connect`].
    pub async fn connect(options: Options) -> Result<Self, StoreError> {
        let it = Self::unconnected(options);
        it.try_connect().await?;
        Ok(it)
    }

    /// The same before its first connection: all calls fail immediately until
    /// [`ScriptClient::try_connect`] has succeeded.
    #[must_use]
    pub fn unconnected(options: Options) -> Self {
        let deadline = options.deadline;
        let client = Client::unconnected(options);
        Self(Arc::new(Shared { client, deadline, nonce: first_nonce() }))
    }

    /// Connects, unless it has connected before.
    ///
    /// # Errors
    /// As [`crate::RedisStore::try_connect`].
    pub async fn try_connect(&self) -> Result<(), StoreError> {
        Ok(self.0.client.try_connect().await?)
    }

    /// Subscribes to a channel over a separate connection, on the current Tokio runtime.
    #[must_use]
    pub fn subscribe(&self, channel: String) -> Subscription {
        Subscription::new(self.0.client.clone(), channel)
    }

    /// Calls a script with these keys. Its first argument is a nonce, and `args` follow. The script
    /// must reply with a list that starts with the nonce, which is removed from the result.
    ///
    /// # Errors
    /// As [`tollgate::operation::Operations::check`]; [`StoreError::is_ambiguous`] when the script
    /// may have run.
    pub async fn call<W: AsRef<[u8]>>(
        &self,
        script: &Script,
        keys: &[String],
        args: impl IntoIterator<Item = W>,
    ) -> Result<Vec<ScriptReply>, StoreError> {
        self.call_shared(script, None, keys, args).await
    }

    /// The same. With a shared script, calls with as many keys and arguments that wait for the
    /// connection at the same time go in one, as checks do.
    ///
    /// # Errors
    /// As [`ScriptClient::call`].
    pub async fn call_shared<W: AsRef<[u8]>>(
        &self,
        script: &Script,
        shared: Option<&SharedScript>,
        keys: &[String],
        args: impl IntoIterator<Item = W>,
    ) -> Result<Vec<ScriptReply>, StoreError> {
        let nonce = self.0.nonce.fetch_add(1, Ordering::Relaxed);
        let batch = shared.map(|SharedScript(batch)| batch);
        let mut call = Call::new(script, nonce, keys.len()).with_others(batch);
        call.word(keys).word(nonce);
        for word in args {
            call.word(word.as_ref());
        }
        let answer = self.0.client.call(call, Deadline::within(self.0.deadline)).await?;
        Ok(answer.into_iter().map(to_reply).collect())
    }
}

fn to_reply(value: Value) -> ScriptReply {
    match value {
        Value::Int(number) => ScriptReply::Int(number),
        Value::BulkString(bytes) => ScriptReply::Bytes(bytes),
        Value::SimpleString(text) => ScriptReply::Bytes(text.into_bytes()),
        Value::Okay => ScriptReply::Bytes(b"OK".to_vec()),
        Value::Array(list) => ScriptReply::List(list.into_iter().map(to_reply).collect()),
        _ => ScriptReply::Nil,
    }
}
