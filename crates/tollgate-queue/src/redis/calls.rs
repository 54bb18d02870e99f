//! The calls of each operation, also as raw commands for measuring network traffic.

use core::time::Duration;

use tollgate_redis::{Script, ScriptReply};

use super::call::{ExpectedSettings, ScriptCall, args};
use super::layout::keys;
use super::value::unexpected_reply;
use super::{RedisQueues, body, offer};
use crate::error::Error;
use crate::job::{DeliveryTag, Job, JobId};
use crate::settings::{ConsumerSettings, ProducerSettings, micros};

/// For measurements of network traffic without a client in between: the text of a script, and the
/// command that calls it once it is loaded.
#[doc(hidden)]
impl RedisQueues {
    #[must_use]
    pub fn offer_command(
        &self,
        queue: &str,
        producer: &ProducerSettings,
        jobs: &[Job],
    ) -> (String, Vec<Vec<u8>>) {
        raw_command(
            &self.0.offer,
            offer::call(&self.0.prefix, self.0.layout, queue, producer, jobs),
        )
    }

    #[must_use]
    pub fn take_command(
        &self,
        queue: &str,
        consumer: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> (String, Vec<Vec<u8>>) {
        raw_command(&self.0.take, self.take_call(queue, consumer, worker, max))
    }

    /// The ids in the reply of a take.
    ///
    /// # Errors
    /// It is not such a reply.
    pub fn parse_take_reply(packed: &[u8]) -> Result<Vec<JobId>, Error> {
        Ok(body::taken(packed)?.into_iter().flatten().map(|job| job.id).collect())
    }

    #[must_use]
    pub fn ack_command(&self, queue: &str, ids: &[JobId]) -> (String, Vec<Vec<u8>>) {
        raw_command(&self.0.ack, self.ack_call(queue, ids))
    }
}

/// The calls of each operation.
impl RedisQueues {
    pub(super) fn take_call<'s>(
        &self,
        queue: &'s str,
        consumer: &'s ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> ScriptCall<'s> {
        let args = args([
            consumer.to_text(),
            consumer.visibility_us().to_string(),
            consumer.max_deliveries().to_string(),
            consumer.kept_dead().to_string(),
            worker.to_owned(),
            max.to_string(),
            consumer.kept_done().to_string(),
        ]);
        let keys = keys(&self.0.prefix, self.0.layout, queue, usize::MAX);
        ScriptCall { queue, expected: ExpectedSettings::Consumer(consumer), keys, args }
    }

    pub(super) fn ack_call<'s>(&self, queue: &'s str, ids: &[JobId]) -> ScriptCall<'s> {
        let layout = self.0.layout;
        let args = ids.iter().map(|id| id.to_string().into_bytes()).collect();
        let keys = keys(&self.0.prefix, layout, queue, layout.ack_keys());
        ScriptCall { queue, expected: ExpectedSettings::Any, keys, args }
    }

    pub(super) async fn inspect(
        &self,
        queue: &str,
        args: Vec<Vec<u8>>,
    ) -> Result<Vec<ScriptReply>, Error> {
        let keys = keys(&self.0.prefix, self.0.layout, queue, usize::MAX);
        self.call(
            &self.0.inspect,
            ScriptCall { queue, expected: ExpectedSettings::Any, keys, args },
        )
        .await
    }

    pub(super) async fn settle(
        &self,
        queue: &str,
        consumer: Option<&ConsumerSettings>,
        what: &str,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<Vec<u8>, Error> {
        let [deliveries, dead] = consumer.map_or([0, 0], |consumer| {
            [u64::from(consumer.max_deliveries()), consumer.kept_dead() as u64]
        });
        let args = args([
            consumer.map(ConsumerSettings::to_text).unwrap_or_default(),
            what.to_owned(),
            tag.id.to_string(),
            tag.attempt.to_string(),
            micros(after).to_string(),
            deliveries.to_string(),
            dead.to_string(),
            reason.to_owned(),
        ]);
        let keys = keys(&self.0.prefix, self.0.layout, queue, usize::MAX);
        let expected = consumer.map_or(ExpectedSettings::Any, ExpectedSettings::Consumer);
        let call = ScriptCall { queue, expected, keys, args };
        let answer = self.call(&self.0.settle, call).await?;
        match answer.into_iter().next() {
            Some(ScriptReply::Bytes(what)) => Ok(what),
            _ => Err(unexpected_reply()),
        }
    }
}

fn raw_command(script: &Script, ask: ScriptCall<'_>) -> (String, Vec<Vec<u8>>) {
    let keys = ask.keys.len().to_string();
    // As long as the nonces of a client.
    let nonce = "1125899906842624".to_owned();
    let mut args = args(["EVALSHA".to_owned(), script.sha().to_owned(), keys]);
    args.extend(ask.keys.into_iter().chain([nonce]).map(String::into_bytes));
    args.extend(ask.args);
    (script.text().to_owned(), args)
}
