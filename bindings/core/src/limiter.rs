//! The limiter of a language: limits and where they are counted.

use tollgate::{LimitSet, ManualClock, MemoryStore, Store as _, at_once};
use tollgate_stores::StoreUrl;
use tollgate_tower::answer::HeaderTemplate;

use crate::answer::BindingAnswer;
use crate::failure::{Failure, Result};
use crate::keep::Keep;
use crate::operation::Operation;
use crate::remote::Remote;

/// The name in headers where there is no policy, as of the layer of Rust.
const USUAL_NAME: &str = "client";

/// Limits and the store that counts them.
#[derive(Debug)]
pub struct Limiter {
    /// The limits.
    pub limits: LimitSet,
    /// The name under which headers list them.
    pub name: String,
    /// The headers for them.
    pub template: HeaderTemplate,
    /// Where they are counted.
    pub counts: Counts,
}

/// Where it counts.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a program has few limiters")]
pub enum Counts {
    /// In the memory of this process, which answers immediately.
    Memory(tollgate::Limiter<MemoryStore>),
    /// In a file or behind a network.
    Remote(Remote),
}

impl Limiter {
    /// A limiter over the store of a URL. `language` begins the names of counts by a separate
    /// clock.
    ///
    /// # Errors
    /// The URL is of no store, or headers cannot name the policy.
    pub fn new(
        language: &str,
        limits: LimitSet,
        store: &str,
        clock: Option<ManualClock>,
    ) -> Result<Self> {
        let name = limits.policy().unwrap_or(USUAL_NAME).to_owned();
        let template = HeaderTemplate::new(&name, &limits);
        let template = template.map_err(|it| Failure::argument(format!("policy: {it}")))?;
        let url = StoreUrl::parse(store).map_err(|it| Failure::from(&it))?;
        let counts = match (url, clock) {
            (StoreUrl::Memory, clock) => {
                let store = match clock {
                    Some(clock) => MemoryStore::builder().clock(clock).build(),
                    None => MemoryStore::new(),
                };
                Counts::Memory(tollgate::Limiter::new(limits.clone(), store))
            }
            (url, clock) => Counts::Remote(Remote::new(language, limits.clone(), url, clock)),
        };
        Ok(Self { limits, name, template, counts })
    }

    /// The kind of its store: `memory`, `sqlite` or `redis`.
    pub fn kind(&self) -> &'static str {
        match &self.counts {
            Counts::Memory(_) => "memory",
            Counts::Remote(remote) => remote.kind(),
        }
    }

    /// The number that tells the receipts of its store from those of others; 0 while that is not
    /// open.
    pub fn identity(&self) -> u64 {
        match &self.counts {
            Counts::Memory(limiter) => limiter.store().identity(),
            Counts::Remote(remote) => remote.identity(),
        }
    }
}

/// The answer of memory, which never waits.
///
/// # Errors
/// As the limiter's.
pub fn answer<D: Keep>(
    limiter: &tollgate::Limiter<MemoryStore>,
    operation: &Operation,
) -> Result<BindingAnswer<D>> {
    Ok(ready(D::ask(operation, limiter))??)
}

/// The value of a future that never waits.
///
/// # Errors
/// It waits.
pub fn ready<T>(future: impl Future<Output = T>) -> Result<T> {
    at_once(future).ok_or_else(|| Failure::other("memory answers at once"))
}

#[cfg(test)]
mod tests {
    use tollgate::Decision;

    use super::*;
    use crate::Fault;

    fn limiter(store: &str, clock: Option<ManualClock>) -> Result<Limiter> {
        Limiter::new("test", "2/s".parse().unwrap(), store, clock)
    }

    #[test]
    fn a_url_says_where_it_counts() {
        let memory = limiter("memory://", None).unwrap();
        assert_eq!((memory.kind(), memory.name.as_str()), ("memory", "client"));
        assert_ne!(memory.identity(), 0);
        let redis = limiter("redis://127.0.0.1", None).unwrap();
        assert_eq!(
            (redis.kind(), redis.identity()),
            ("redis", 0),
            "it opens at the first question"
        );
        let failure = limiter("ftp://host", None).unwrap_err();
        assert!(matches!(failure.fault, Fault::Store { transient: false, .. }), "{failure:?}");
    }

    #[test]
    fn memory_answers_at_once_by_the_given_clock() {
        let clock = ManualClock::at_micros(5);
        let limiter = limiter("memory://", Some(clock)).unwrap();
        let Counts::Memory(memory) = &limiter.counts else { panic!("{limiter:?}") };
        let check = Operation::check("a".to_owned(), 1);
        let Ok(BindingAnswer::Decision(decision)) = answer::<Decision<'static>>(memory, &check)
        else {
            panic!("no decision")
        };
        assert_eq!((decision.at().as_micros(), decision.remaining()), (5, 1));
        let failure = answer::<Decision<'static>>(memory, &Operation::check(String::new(), 1));
        assert_eq!(failure.unwrap_err().fault, Fault::Argument);
        assert_eq!(ready(core::future::pending::<()>()).unwrap_err().fault, Fault::Other);
    }
}
