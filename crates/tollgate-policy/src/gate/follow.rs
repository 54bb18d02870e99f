//! Rulings of administrators in the store. They are read at intervals, so that no request waits for
//! them.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tollgate::operation::{Post, ReadNotices, Withdraw};
use tollgate::{Error, Notice, Notices, ParseError, Store};

use super::Admin;
use super::rulings::{Following, Rulings, StandingRuling};
use crate::pattern::Condition;
use crate::ruled_limit::Shapes;
use crate::ruling::{Effect, Ruling};

/// The interval of [`Admin::follow_rulings`]. Including a store call, a ruling of one process is in
/// force in every other within a second.
const EVERY: Duration = Duration::from_millis(500);

impl<S: Store> Admin<'_, S> {
    /// Bans or exempts some requests, or sets their limits, for the duration `lasts`, here and in
    /// every process that follows the rulings in this store ([`Admin::follow_rulings`]). A ruling
    /// replaces an earlier one about the same requests of the same policy.
    ///
    /// An exemption takes precedence over a ban, and both over the policies. An exemption for all
    /// policies overrides every ban; one for a policy overrides the bans of that policy. A request
    /// that is banned for all policies is denied even if no policy applies.
    ///
    /// A ruling that sets limits changes the numbers of limits of a policy. Their counts go on. Of
    /// several that set one limit, the one with the most conditions counts, and of those the first
    /// of [`Admin::rulings`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::{Condition, Effect, Format, Gate, Outcome, Policies, Ruling};
    ///
    /// let text = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
    ///             limits = [{ subject = \"ip\", limit = \"5/h\" }]";
    /// let gate = Gate::new(Policies::parse(text, Format::Toml)?, MemoryStore::new())?;
    /// # futures_executor::block_on(async {
    /// let from = Condition::parse("ip", ["203.0.113.0/24"])?;
    /// let ban = Ruling::new(Effect::Ban, vec![from.clone()])?;
    /// gate.admin().rule(&ban, Duration::from_secs(60)).await?;
    /// let request = [("ip", "203.0.113.7")];
    /// assert_eq!(gate.check(&request).await.outcome(), Outcome::Banned);
    /// assert!(gate.admin().lift(&[from], None).await?);
    /// assert_eq!(gate.check(&request).await.outcome(), Outcome::Allowed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A policy that this gate does not have; limits that do not fit it; a duration below 1 us or
    /// above 366 days; already 10,000 rulings; a store that keeps none; or a store failure.
    pub async fn rule(self, ruling: &Ruling, lasts: Duration) -> Result<(), Error> {
        if let Some(policy) = &ruling.policy
            && self.gate.0.live.load().policies.place_of(policy).is_none()
        {
            return Err(Error::Ask(format!("there is no policy `{policy}` to rule about")));
        }
        if !ruling.is_whole() {
            let what = "limits are set in one policy, and by a ruling of that effect alone";
            return Err(Error::Ask(what.to_owned()));
        }
        if let Some(misfit) = self.misfit_now(ruling) {
            return Err(misfit.into());
        }
        let ruling = self.as_stored(ruling.clone());
        let notice = Notice::new(ruling.name(), ruling.written(), lasts)?;
        self.gate.store().perform(&Post::new(&notice)).await?;
        self.read_rulings().await.map(drop)
    }

    /// The ruling as the store has it: with the hash of each API key in its place
    /// ([`Gate::hash_api_keys`](super::Gate::hash_api_keys)).
    #[must_use]
    pub fn as_stored(self, mut ruling: Ruling) -> Ruling {
        self.gate.hash_conditions(&mut ruling.when);
        // As in every ruling, so that equal conditions have one name.
        ruling.when.iter_mut().for_each(|condition| condition.any_of.sort());
        ruling
    }

    /// Removes a ruling about these requests of this policy, or of all policies, before its end.
    /// True when there was one.
    ///
    /// # Errors
    /// Conditions that no ruling can have; or a store failure.
    pub async fn lift(self, when: &[Condition], policy: Option<&str>) -> Result<bool, Error> {
        let ruling = self.as_stored(Ruling::new(Effect::Ban, when.to_vec())?);
        let ruling = Ruling { policy: policy.map(str::to_owned), ..ruling };
        let was_there = self.gate.store().perform(&Withdraw::new(&ruling.name())).await?;
        self.read_rulings().await?;
        Ok(was_there)
    }

    /// The rulings in force here, each with the time left.
    #[must_use]
    pub fn rulings(self) -> Vec<(Ruling, Duration)> {
        self.standing().into_iter().map(|it| (it.ruling, it.left)).collect()
    }

    /// The rulings in force here, and which of them have no effect under the policies in force.
    #[must_use]
    pub fn standing(self) -> Vec<StandingRuling> {
        let live = self.gate.0.live.load();
        let now = Instant::now();
        let all = live.rulings.iter().flat_map(|rulings| rulings.all.iter().enumerate());
        all.filter(|(_, lasting)| lasting.until > now)
            .map(|(number, lasting)| StandingRuling {
                ruling: lasting.ruling.clone(),
                left: lasting.until - now,
                no_effect: live.misfits.get(&number).cloned(),
            })
            .collect()
    }

    /// Why these limits cannot be set now.
    fn misfit_now(self, ruling: &Ruling) -> Option<ParseError> {
        let live = self.gate.0.live.load();
        live.policies.misfit(ruling.policy.as_deref()?, &ruling.limits, &mut Shapes::default())
    }

    /// Reads the rulings in the store. True when they have changed.
    ///
    /// # Errors
    /// A store failure: the known rulings stay in force, each until its end.
    pub async fn read_rulings(self) -> Result<bool, Error> {
        let Following { seen, .. } = &self.gate.0.following;
        let known = *seen.lock();
        let asked = Instant::now();
        let Some(Notices { version, all, .. }) =
            self.gate.store().perform(&ReadNotices::new(known)).await?
        else {
            // Drops ended rulings, so that requests can take the fast path again.
            if self.gate.0.live.load().rulings.as_ref().is_some_and(|rulings| rulings.have_ended())
            {
                self.take_rulings(None);
            }
            return Ok(false);
        };
        let sets = &self.gate.0.following.sets;
        let hash = |when: &mut [Condition]| self.gate.hash_conditions(when);
        let (rulings, others) = Rulings::new(all, asked, hash, sets);
        *self.gate.0.following.others.lock() = Some((others, asked));
        self.take_rulings(rulings);
        *seen.lock() = Some(version);
        Ok(true)
    }

    /// The notice of this name that is not a ruling, as [`Admin::read_rulings`] last found it, with
    /// the time that it has left now.
    #[must_use]
    pub fn notice(self, name: &str) -> Option<Notice> {
        let others = self.gate.0.following.others.lock();
        let (all, asked) = others.as_ref()?;
        let mut notice = all.iter().find(|notice| notice.name == name)?.clone();
        notice.left = notice.left.checked_sub(asked.elapsed())?;
        Some(notice)
    }

    fn take_rulings(self, rulings: Option<Arc<Rulings>>) {
        // Prevents a replacement of the policies meanwhile.
        let _newest = self.gate.0.newest.lock();
        let before = self.gate.0.live.load();
        let live = before.with_rulings(rulings);
        live.warn_of_misfits(&before);
        self.gate.0.live.store(live);
    }

    /// Follows the rulings in the store, so that a ruling of another process is in force here
    /// within a second. Never returns. `wait` is a timer, such as `tokio::time::sleep`. No request
    /// waits for it.
    ///
    /// ```no_run
    /// # async fn example<S: tollgate::Store + 'static>(gate: tollgate_policy::Gate<S>) {
    /// # mod tokio {
    /// #     pub fn spawn<F: Future>(_: F) {}
    /// #     pub mod time { pub async fn sleep(_: std::time::Duration) {} }
    /// # }
    /// tokio::spawn(async move { gate.admin().follow_rulings(tokio::time::sleep).await });
    /// # }
    /// ```
    pub async fn follow_rulings<W: Future<Output = ()>>(self, wait: impl Fn(Duration) -> W) {
        loop {
            let failed = self.read_rulings().await.err();
            let was_failing =
                self.gate.0.following.is_failing.swap(failed.is_some(), Ordering::Relaxed);
            if let (Some(error), false) = (failed, was_failing) {
                tracing::warn!(
                    target: "tollgate",
                    "bans and exemptions cannot be read, and those that are known hold until their \
                     ends: {error}"
                );
            }
            wait(EVERY).await;
        }
    }
}
