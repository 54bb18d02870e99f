//! Waiting for a slot or a check, in arrival order or not.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::waiting::spread;
use super::{Guard, Limiter, Pace, Waiting};
use crate::question::Parts;
use crate::{
    Ask, Cost, Decision, Error, Hold, HoldId, HoldKind, HoldName, Holding, LimitSet, Store, Verdict,
};

/// The first pause before a slot that others hold is asked for again, and the longest. Each is
/// twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(100);

impl<S: Store> Limiter<S> {
    /// As [`Limiter::hold`] of an [acquire](Ask::acquire), and waits until a slot is free. If that
    /// takes longer than the deadline, it returns a denial. Pass a [`Duration`] as the deadline, or
    /// a [`Waiting`].
    ///
    /// It asks again after pauses of 5 to 100 ms, since a slot may be released at any time. Without
    /// more it is not fair: a later caller may get the slot first. With [`Waiting::in_line`] slots
    /// go to waiters in the order of their arrival, over all programs that share the store. Those
    /// far behind ask less often. A killed waiter delays those behind by 10 s at most.
    ///
    /// It is cancel-safe as [`Limiter::acquire_guard`] is: dropped, it holds nothing, and leaves
    /// the line.
    ///
    /// # Errors
    /// As [`Limiter::hold`]; in line, also where [`crate::engine::MAX_TICKETS`] wait already.
    pub async fn until_acquired<'l>(
        &'l self,
        ask: impl Into<Ask<'l>>,
        waiting: impl Into<Waiting>,
    ) -> Result<Holding<'l>, Error>
    where
        S: Clone + 'static,
    {
        let (mut ask, waiting) = (ask.into().waiting(), waiting.into());
        let mut place = None;
        if waiting.in_line {
            place = Some(self.stand(&mut ask)?);
        }
        let start = Instant::now();
        let mut pauses = Pauses::new();
        if let Some(hold) = place.as_ref().and_then(Guard::hold) {
            pauses.longest = hold.place_kept() / 3;
        }
        loop {
            let (decision, ahead, guard) = self.acquire_guarded(ask.clone()).await?;
            let holding = Holding { decision, hold: guard.into_hold(), ahead };
            let left = waiting.deadline.saturating_sub(start.elapsed());
            let Some(pause) = pauses.next(&holding, left) else {
                match place {
                    Some(place) if holding.hold.is_some() => drop(place.into_hold()),
                    // Those behind move up immediately.
                    Some(place) => drop(place.release().await),
                    None => {}
                }
                return Ok(holding);
            };
            tokio::time::sleep((pause + spread(waiting.jitter)).min(left)).await;
        }
    }

    /// Lets an ask join the line. The returned guard leaves the line when it is dropped.
    fn stand(&self, ask: &mut Ask<'_>) -> Result<Guard<S>, Error>
    where
        S: Clone + 'static,
    {
        // A name of the caller's is its own to release: another may have the hold by now.
        let given = ask.name.map(|name| HoldId::named(HoldKind::Acquire, name));
        let named = ask.clone().named(ask.name.unwrap_or_else(HoldName::random)).in_line();
        let hold = named.clone().named_hold(&self.limits)?;
        *ask = named;
        let hold = match given {
            Some(id) => Hold { id, ..hold.undelivered() },
            None => hold,
        };
        Ok(Guard::of(self.clone(), hold))
    }
}

/// The pauses of one waiter.
struct Pauses {
    next: Duration,
    /// How many were ahead in line.
    ahead: usize,
    /// The longest pause, by which a place in line is kept.
    longest: Duration,
}

impl Pauses {
    fn new() -> Self {
        Self { next: FIRST_PAUSE, ahead: 0, longest: Duration::MAX }
    }

    /// How long to pause after this answer; `None` where it is the last.
    fn next(&mut self, holding: &Holding<'_>, left: Duration) -> Option<Duration> {
        if holding.hold.is_some() {
            return None;
        }
        let wait = holding.decision.retry_after()?;
        if !holding.decision.is_until_hold() {
            // A place in line ends unless it is asked for again.
            return Some(wait.min(self.longest)).filter(|_| wait <= left);
        }
        if holding.ahead != self.ahead {
            // The line moves.
            (self.next, self.ahead) = (FIRST_PAUSE, holding.ahead);
        }
        // Nobody comes before those ahead.
        let turns = u32::try_from(holding.ahead).unwrap_or(u32::MAX).saturating_add(1);
        let in_turn = self.next.saturating_mul(turns).min(self.longest);
        let pause = in_turn.min(wait);
        self.next = (self.next * 2).min(LAST_PAUSE);
        Some(pause).filter(|_| !left.is_zero())
    }
}

/// The outcome of waiting in a [`Line`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Turn {
    /// The slot.
    Held(Hold),
    /// The deadline passed before.
    Late,
    /// As many wait already as may; nothing was asked of the store.
    Full,
    /// The ask has a cost that is never admitted.
    Never,
}

/// Waiters for slots and checks in the order of their arrival, of those that wait here: in one
/// process, for equal subjects. Of each subject's waiters only the first asks the store.
///
/// A slot that is released through the line goes to the first waiter immediately. One that is
/// released elsewhere, or whose hold ends, is found within 100 ms. An acquire from the limiter
/// itself does not join the line, and may come first.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, Line, Turn};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let limiter = Limiter::memory("1 at once".parse()?);
/// let line = Line::new(limiter, 100);
/// let wait = Duration::from_secs(5);
/// let Turn::Held(hold) = line.acquire("backend", wait).await? else { panic!("no slot") };
/// assert_eq!(line.acquire("backend", Duration::from_millis(1)).await?, Turn::Late);
/// line.release(&hold).await?;
/// assert!(matches!(line.acquire("backend", wait).await?, Turn::Held(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Line<S> {
    limiter: Limiter<S>,
    most: usize,
    places: Mutex<HashMap<String, Arc<Place>>>,
    /// Until when nobody's turn begins, by [`Line::back_off`].
    backed_off: Mutex<HashMap<String, Instant>>,
}

/// The waiters for one list of subjects.
#[derive(Debug, Default)]
struct Place {
    /// The turn of the first waiter. It is given in the order of arrival.
    turn: tokio::sync::Mutex<Paced>,
    released: Notify,
}

/// The time before which nobody need ask, after the admissions of those that came before.
#[derive(Debug, Default)]
struct Paced {
    pace: Pace,
    /// For checks of this cost.
    next: Option<(Cost, Instant)>,
}

impl Paced {
    /// The pause before asking for this cost, unless it is too long: the denial then has the wait.
    fn next(&self, cost: &Cost, left: Duration) -> Option<Duration> {
        let (_, at) = self.next.as_ref().filter(|(admitted, _)| admitted == cost)?;
        Some(at.saturating_duration_since(Instant::now())).filter(|pause| *pause <= left)
    }

    fn admitted(&mut self, cost: Cost, decision: &Decision<'_>) {
        let wait = self.pace.admitted(decision);
        self.next = Some((cost, Instant::now() + wait));
    }
}

impl<S: Store> Line<S> {
    /// A line in front of a limiter in which at most `most` wait for equal subjects at a time, at
    /// least 1, the one whose turn it is included.
    #[must_use]
    pub fn new(limiter: Limiter<S>, most: usize) -> Self {
        let (places, backed_off) = (Mutex::default(), Mutex::default());
        Self { limiter, most: most.max(1), places, backed_off }
    }

    /// The limiter.
    pub fn limiter(&self) -> &Limiter<S> {
        &self.limiter
    }

    /// Waits for a slot behind those that came before, at most for the deadline. It is cancel-safe:
    /// dropped before its turn it leaves the line, and dropped while the store is asked it gives
    /// back what the store may have placed.
    ///
    /// # Errors
    /// As [`Limiter::hold`].
    pub async fn acquire(
        &self,
        ask: impl Into<Ask<'_>>,
        waiting: impl Into<Waiting>,
    ) -> Result<Turn, Error>
    where
        S: Clone + 'static,
    {
        let (ask, waiting) = (ask.into().waiting(), waiting.into());
        let start = Instant::now();
        let left = || waiting.deadline.saturating_sub(start.elapsed());
        let key = self.key_of(ask.clone())?;
        let Some(waiter) = self.enter(key) else { return Ok(Turn::Full) };
        let Ok(_turn) = timeout(left(), waiter.place.turn.lock()).await else {
            return Ok(Turn::Late);
        };
        let mut pauses = Pauses::new();
        loop {
            let (decision, ahead, guard) = self.limiter.acquire_guarded(ask.clone()).await?;
            let holding = Holding { decision, hold: guard.into_hold(), ahead };
            let is_never = holding.decision.verdict() == Verdict::Never;
            let pause = pauses.next(&holding, left());
            if let Some(hold) = holding.hold {
                return Ok(Turn::Held(hold));
            }
            let Some(pause) = pause else {
                return Ok(if is_never { Turn::Never } else { Turn::Late });
            };
            let pause = (pause + spread(waiting.jitter)).min(left());
            // A slot that was released meanwhile ends the pause.
            let _ = timeout(pause, waiter.place.released.notified()).await;
        }
    }

    /// As [`Limiter::until_ready`], in the order of arrival: behind those that came before, and at
    /// most for the deadline. Of those that wait for equal subjects only the first asks the store,
    /// and not before the time that [`Pace`] has for it: in the usual case once in its turn.
    /// `None` where the deadline passed in line, or as many wait already as may, or all
    /// [back off](Line::back_off) for longer: nothing was asked.
    ///
    /// A check by the limiter itself does not join the line, and may come first. It is cancel-safe:
    /// dropped during the wait, it has charged nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Line};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let line = Line::new(Limiter::memory("1/20ms via gcra".parse()?), 100);
    /// let within = Duration::from_secs(5);
    /// for _ in 0..3 {
    ///     let decision = line.until_ready("api", within).await?.ok_or("too many wait")?;
    ///     assert!(decision.is_allowed());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Limiter::check`].
    pub async fn until_ready<'l>(
        &'l self,
        ask: impl Into<Ask<'l>>,
        waiting: impl Into<Waiting>,
    ) -> Result<Option<Decision<'l>>, Error> {
        let (ask, waiting) = (ask.into(), waiting.into());
        let start = Instant::now();
        let left = || waiting.deadline.saturating_sub(start.elapsed());
        let key = self.key_of(ask.clone())?;
        let Some(waiter) = self.enter(key) else { return Ok(None) };
        let Ok(mut turn) = timeout(left(), waiter.place.turn.lock()).await else {
            return Ok(None);
        };
        let cost = ask.cost.clone();
        let ask = ask.waiting();
        let mut pause = turn.next(&cost, left());
        loop {
            if let Some(pause) = pause {
                tokio::time::sleep((pause + spread(waiting.jitter)).min(left())).await;
            }
            // A response may have asked for a wait in the meantime.
            while let Some(wait) = self.backed_off(&waiter.key) {
                if wait > left() {
                    return Ok(None);
                }
                tokio::time::sleep(wait).await;
            }
            let decision = self.limiter.check(ask.clone()).await?;
            if decision.is_allowed() {
                turn.admitted(cost.clone(), &decision);
            }
            pause = decision.retry_after().filter(|wait| *wait <= left());
            if pause.is_none() {
                return Ok(Some(decision));
            }
        }
    }

    /// No turn of [`Line::until_ready`] for these subjects begins before this time is over: for a
    /// server that has its own limits, and has asked to be left alone for so long. A time that
    /// ends later than this one stays.
    ///
    /// # Errors
    /// The ask is invalid, as in [`Limiter::check`].
    pub fn back_off<'l>(&self, ask: impl Into<Ask<'l>>, time: Duration) -> Result<(), Error> {
        let (key, now) = (self.key_of(ask.into())?, Instant::now());
        let mut all = self.backed_off.lock();
        all.retain(|_, until| *until > now);
        let until = all.entry(key).or_insert(now);
        // 30 years, as tokio's own farthest time.
        let farthest = Duration::from_secs(86_400 * 365 * 30);
        *until = (*until).max(now + time.min(farthest));
        Ok(())
    }

    /// For how long nobody's turn begins.
    fn backed_off(&self, key: &str) -> Option<Duration> {
        let until = *self.backed_off.lock().get(key)?;
        Some(until.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
    }

    /// Gives a slot back, and lets the first waiter ask immediately. True when it was open until
    /// now.
    ///
    /// # Errors
    /// As [`Limiter::release`].
    pub async fn release(&self, hold: &Hold) -> Result<bool, Error> {
        let released = self.limiter.release(hold).await;
        let counts = hold.counts.iter().map(|(subject, limits)| (subject.as_str(), limits));
        if let Some(place) = self.places.lock().get(&key_of(counts)) {
            place.released.notify_one();
        }
        released
    }

    /// The counts of an ask, as a text that equal asks share.
    fn key_of(&self, mut ask: Ask<'_>) -> Result<String, Error> {
        // As a peek, which may be about slots.
        let mut parts = Parts::new();
        let question = ask.question_without_hold(self.limiter.limits(), true, &mut parts)?;
        Ok(key_of(question.parts.iter().map(|part| (part.subject.as_str(), part.limits))))
    }

    /// Takes a place at the end of a line; `None` where it is full.
    fn enter(&self, key: String) -> Option<Waiter<'_, S>> {
        let mut places = self.places.lock();
        let place = Arc::clone(places.entry(key.clone()).or_default());
        // One is in the map, and one here.
        let is_full = Arc::strong_count(&place) - 2 >= self.most;
        if is_full {
            return None;
        }
        drop(places);
        Some(Waiter { line: self, key, place })
    }
}

fn key_of<'c>(counts: impl Iterator<Item = (&'c str, &'c LimitSet)>) -> String {
    let mut key = String::new();
    for (subject, limits) in counts {
        key.push_str(subject);
        key.push('\n');
        key.push_str(limits.identity());
        key.push('\n');
    }
    key
}

/// A place that is left when this is dropped. An empty line is forgotten.
struct Waiter<'l, S> {
    line: &'l Line<S>,
    key: String,
    place: Arc<Place>,
}

impl<S> Drop for Waiter<'_, S> {
    fn drop(&mut self) {
        let mut places = self.line.places.lock();
        // One is in the map, and one here.
        if Arc::strong_count(&self.place) == 2 {
            places.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
