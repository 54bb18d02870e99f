//! The counts of a prepared request, for callers that charge without a check.

use tollgate::{Ask, LimitSet, Subject};

use super::Prepared;

impl Prepared {
    /// The question about the enforced policies that apply, at their cost. `None` where nothing is
    /// counted: no policy applies, or the answer needs no store.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::{Format, Gate, Policies};
    ///
    /// let text = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
    ///             limits = [{ subject = \"ip\", limit = \"1/h\" }]";
    /// let gate = Gate::new(Policies::parse(text, Format::Toml)?, MemoryStore::new())?;
    /// let prepared = gate.prepare(&[("ip", "10.0.0.1")]);
    /// let ask = prepared.question().expect("a policy applies");
    /// # futures_executor::block_on(async {
    /// // Also beyond the limit.
    /// gate.admin().charge(ask.cost(2)).await?;
    /// assert!(!gate.check(&[("ip", "10.0.0.1")]).await.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn question(&self) -> Option<Ask<'_>> {
        self.plan.question(&self.live)
    }

    /// The counts of [`Prepared::question`]: each subject with its limits.
    pub fn counts(&self) -> impl Iterator<Item = (&Subject, &LimitSet)> {
        let limits = self.plan.limits(&self.live.policies).map(|limits| &limits.whole);
        self.plan.subjects.iter().zip(limits)
    }
}
