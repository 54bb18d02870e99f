//! The operations on a queue in Redis: one script call each.

use core::time::Duration;

use tollgate_redis::{Keys, ScriptReply};

use super::call::{ExpectedSettings, ScriptCall, args};
use super::layout::{PREFIX, dedup_key, keys, subject};
use super::reply::{dead, done_job, with_layout, without_layout};
use super::value::{integer, optional_wait, text, unexpected_reply, unsigned};
use super::{RedisQueues, body, offer, reply};
use crate::backend::{Backend, poll};
use crate::error::Error;
use crate::job::{
    DeadLetter, DeliveryTag, DoneJob, InFlightJob, Job, JobId, MAX_BATCH, TakeOutcome, WaitingJob,
};
use crate::outcome::{NackOutcome, OfferOutcome};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings};
use crate::stats::Stats;

impl Backend for RedisQueues {
    async fn offer(
        &self,
        queue: &str,
        producer: &ProducerSettings,
        job: &Job,
    ) -> Result<OfferOutcome, Error> {
        let offered = self.offer_all(queue, producer, std::slice::from_ref(job)).await?;
        offered.first().copied().ok_or_else(unexpected_reply)
    }

    async fn offer_all(
        &self,
        queue: &str,
        producer: &ProducerSettings,
        jobs: &[Job],
    ) -> Result<Vec<OfferOutcome>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let call = offer::call(&self.0.prefix, self.0.layout, queue, producer, jobs);
        // Plain jobs that are offered at the same time share a call.
        let shared = matches!(jobs, [job] if job.is_plain()).then_some(&self.0.offers);
        let answer = self.call_shared(&self.0.offer, shared, call).await?;
        let [after, depth, ids @ ..] = &answer[..] else { return Err(unexpected_reply()) };
        let (retry_after, mut depth) = (optional_wait(after)?, unsigned(depth)?);
        let mut offered = Vec::with_capacity(ids.len());
        for the_id in ids {
            let the_id = text(the_id)?;
            offered.push(if the_id.is_empty() {
                OfferOutcome::Full { depth, retry_after }
            } else if let Some(known) = the_id.strip_prefix('=') {
                OfferOutcome::Duplicate { id: known.parse().map_err(|_| unexpected_reply())? }
            } else if let Some(of_client) = the_id.strip_prefix('!') {
                OfferOutcome::ClientFull {
                    of_client: of_client.parse().map_err(|_| unexpected_reply())?,
                }
            } else {
                depth += 1;
                OfferOutcome::Accepted {
                    id: the_id.parse().map_err(|_| unexpected_reply())?,
                    depth,
                }
            });
        }
        if offered.len() == jobs.len() { Ok(offered) } else { Err(unexpected_reply()) }
    }

    async fn take(
        &self,
        queue: &str,
        consumer: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> Result<TakeOutcome, Error> {
        // Jobs offered from here on count as new.
        if let Some(subscription) = self.0.subscriptions.lock().get(queue) {
            subscription.mark_seen();
        }
        let mut call = self.take_call(queue, consumer, worker, max);
        let answer = match consumer.limits() {
            None => self.call(&self.0.take, call).await?,
            Some(limits) => {
                let rate_script = self.rate_script(limits)?;
                let state = Keys::new().within(&self.0.prefix).state(&subject(queue)?, limits);
                call.keys.extend(Keys::for_check(&state, limits));
                self.call(&rate_script, call).await?
            }
        };
        let (next, found) = match &answer[..] {
            [ScriptReply::Bytes(what)] if what == b"paused" => {
                return Ok(TakeOutcome { paused: true, ..TakeOutcome::default() });
            }
            [ScriptReply::Bytes(what)] if what == b"absent" => {
                return Ok(TakeOutcome { absent: true, ..TakeOutcome::default() });
            }
            [ScriptReply::Bytes(what), next] if what == b"jobs" => (next, Vec::new()),
            [ScriptReply::Bytes(what), next, ScriptReply::Bytes(packed)] if what == b"jobs" => {
                (next, body::taken(packed)?)
            }
            _ => return Err(unexpected_reply()),
        };
        let mut taken = TakeOutcome { next: optional_wait(next)?, ..TakeOutcome::default() };
        taken.jobs.reserve_exact(found.len());
        for found in found {
            match found {
                Ok(job) => taken.jobs.push(job),
                Err((tag, reason)) => {
                    let dead_letter =
                        self.settle(queue, Some(consumer), "bury", tag, Duration::ZERO, &reason);
                    // If this fails, the entry is redelivered, and becomes dead then.
                    if matches!(dead_letter.await.as_deref(), Ok(b"dead")) {
                        taken.foreign.push((tag.id, reason));
                    }
                }
            }
        }
        Ok(taken)
    }

    async fn ack(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        match &self.call(&self.0.ack, self.ack_call(queue, ids)).await?[..] {
            [done] => unsigned(done),
            _ => Err(unexpected_reply()),
        }
    }

    async fn nack(
        &self,
        queue: &str,
        consumer: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<NackOutcome, Error> {
        let answer = self.settle(queue, Some(consumer), "again", tag, after, reason).await?;
        match &answer[..] {
            b"kept" => Ok(NackOutcome::Requeued),
            b"dead" => Ok(NackOutcome::DeadLettered),
            b"lost" => Ok(NackOutcome::Lost),
            _ => Err(unexpected_reply()),
        }
    }

    async fn extend(
        &self,
        queue: &str,
        consumer: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> Result<bool, Error> {
        let after = consumer.visibility_timeout();
        Ok(self.settle(queue, Some(consumer), "extend", tag, after, "").await? == b"kept")
    }

    async fn release(&self, queue: &str, tag: DeliveryTag) -> Result<bool, Error> {
        Ok(self.settle(queue, None, "release", tag, Duration::ZERO, "").await? == b"kept")
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        let answer = self.inspect(queue, args(["settings".to_owned()])).await?;
        let [producer, consumer] = &answer[..] else { return Err(unexpected_reply()) };
        let (producer, consumer) = (text(producer)?, text(consumer)?);
        Settings::parse(
            queue,
            Some(without_layout(&producer)).filter(|text| !text.is_empty()),
            Some(&*consumer).filter(|text| !text.is_empty()),
        )
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        let Settings { producer, consumer } = settings;
        let layout = self.0.layout;
        let all = producer.as_ref().is_some_and(ProducerSettings::counts_all);
        let args = args([
            producer.as_ref().map(|producer| with_layout(producer, layout)).unwrap_or_default(),
            if all { "1" } else { "0" }.to_owned(),
            consumer.as_ref().map(ConsumerSettings::to_text).unwrap_or_default(),
            consumer.as_ref().map_or(0, ConsumerSettings::kept_done).to_string(),
        ]);
        let keys = keys(&self.0.prefix, layout, queue, layout.ack_keys());
        let call = ScriptCall { queue, expected: ExpectedSettings::Any, keys, args };
        self.call(&self.0.change, call).await.map(drop)
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        let keys = keys(&self.0.prefix, self.0.layout, queue, usize::MAX);
        let args = args([if is_paused { "1" } else { "0" }.to_owned()]);
        let call = ScriptCall { queue, expected: ExpectedSettings::Any, keys, args };
        match &self.call(&self.0.pause, call).await?[..] {
            [was] => Ok(integer(was)? == 1),
            _ => Err(unexpected_reply()),
        }
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        let keys = keys(&self.0.prefix, self.0.layout, queue, usize::MAX);
        let call = ScriptCall { queue, expected: ExpectedSettings::Any, keys, args: Vec::new() };
        match &self.call(&self.0.remove, call).await?[..] {
            [was] => Ok(integer(was)? == 1),
            _ => Err(unexpected_reply()),
        }
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        let before = format!("{}{PREFIX}:{{queue:", self.0.prefix);
        let after = "}:meta";
        let (mut names, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let args = args([cursor, format!("{before}*{after}")]);
            let answer = self.0.caller.call(&self.0.names, &[], &args).await?;
            let [next, keys @ ..] = &answer[..] else { return Err(unexpected_reply()) };
            for key in keys {
                let key = text(key)?;
                let name = key.strip_prefix(&before).and_then(|rest| rest.strip_suffix(after));
                names.extend(name.map(str::to_owned));
            }
            cursor = text(next)?;
            if cursor == "0" {
                break;
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        let answer = self.inspect(queue, args(["stats".to_owned()])).await?;
        let [waiting, in_flight, dead, oldest, totals @ ..] = &answer[..] else {
            return Err(unexpected_reply());
        };
        let [accepted, refused, known, delivered, redelivered, done, expired, died, paused] =
            totals
        else {
            return Err(unexpected_reply());
        };
        let oldest = text(oldest)?.parse::<i64>().ok();
        let oldest = oldest.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0)));
        Ok(Stats {
            waiting: unsigned(waiting)?,
            in_flight: unsigned(in_flight)?,
            dead: unsigned(dead)?,
            oldest,
            accepted: unsigned(accepted)?,
            refused: unsigned(refused)?,
            duplicates: unsigned(known)?,
            delivered: unsigned(delivered)?,
            redelivered: unsigned(redelivered)?,
            done: unsigned(done)?,
            expired: unsigned(expired)?,
            died: unsigned(died)?,
            paused: unsigned(paused)? == 1,
        })
    }

    async fn waiting(&self, queue: &str, max: usize) -> Result<Vec<WaitingJob>, Error> {
        let args = args(["waiting".to_owned(), max.min(MAX_BATCH).to_string()]);
        reply::waiting(&self.inspect(queue, args).await?)
    }

    async fn in_flight(&self, queue: &str, max: usize) -> Result<Vec<InFlightJob>, Error> {
        let args = args(["out".to_owned(), max.min(MAX_BATCH).to_string()]);
        reply::in_flight(&self.inspect(queue, args).await?)
    }

    async fn done_jobs(&self, queue: &str, max: usize) -> Result<Vec<DoneJob>, Error> {
        let args = args(["done".to_owned(), max.min(MAX_BATCH).to_string()]);
        self.inspect(queue, args).await?.iter().map(done_job).collect()
    }

    async fn dead_letters(&self, queue: &str, max: usize) -> Result<Vec<DeadLetter>, Error> {
        let args = args(["dead".to_owned(), max.min(MAX_BATCH).to_string()]);
        let answer = self.inspect(queue, args).await?;
        answer.iter().map(dead).collect()
    }

    async fn take_dead_letter(&self, queue: &str, id: JobId) -> Result<Option<DeadLetter>, Error> {
        let args = args(["take".to_owned(), id.to_string()]);
        let answer = self.inspect(queue, args).await?;
        answer.first().map(dead).transpose()
    }

    async fn forget_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> Result<Option<DeadLetter>, Error> {
        // The deduplication id has its own key, which must be declared to the script.
        let dead_letter_args = args(["grave".to_owned(), id.to_string()]);
        let answer = self.inspect(queue, dead_letter_args).await?;
        let Some(dead_letter) = answer.first().map(dead).transpose()? else { return Ok(None) };
        let Some(dedup) = dead_letter.dedup else { return self.take_dead_letter(queue, id).await };
        let mut keys = keys(&self.0.prefix, self.0.layout, queue, usize::MAX);
        keys.push(dedup_key(&self.0.prefix, queue, &dedup.id));
        let args = args(["forget".to_owned(), id.to_string(), dedup.of.to_string()]);
        let call = ScriptCall { queue, expected: ExpectedSettings::Any, keys, args };
        let answer = self.call(&self.0.inspect, call).await?;
        answer.first().map(dead).transpose()
    }

    async fn wait(&self, queue: &str, max: Duration) {
        if !self.subscription(queue).wait(max).await {
            poll(max).await;
        }
    }
}
