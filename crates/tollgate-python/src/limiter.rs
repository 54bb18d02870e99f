//! The limiter, as Python sees it.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tollgate::{Ask, LimitSet, MemoryStore};
use tollgate_stores::StoreUrl;
use tollgate_tower::answer::{HeaderTemplate, Wire};

use crate::argument::{self, PolicyText, ProfileText, StoreText, SubjectText};
use crate::bridge::Bridge;
use crate::clock::ManualClock;
use crate::decision::Decision;
use crate::error;
use crate::http::{self, Headers, Refusal};
use crate::limits::{AnyLimits, in_policy};
use crate::remote::Remote;
use crate::reply::Reply;
use crate::request::{Kind, Request};

/// The name in headers where there is no policy, as of the layer of Rust.
const USUAL_NAME: &str = "client";

/// Limits and the store that counts them.
#[pyclass(frozen, subclass, module = "tollgate._tollgate")]
#[derive(Debug)]
pub(crate) struct Limiter {
    limits: LimitSet,
    name: String,
    template: HeaderTemplate,
    store: Counts,
}

/// Where it counts.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a program has few limiters")]
enum Counts {
    Memory(tollgate::Limiter<MemoryStore>),
    Remote(Remote),
}

impl Counts {
    fn new(
        py: Python<'_>,
        limits: LimitSet,
        url: &str,
        clock: Option<&ManualClock>,
    ) -> PyResult<Self> {
        let url = StoreUrl::parse(url).map_err(|it| error::store(py, &it))?;
        let clock = clock.map(|clock| clock.0.clone());
        Ok(match (url, clock) {
            (StoreUrl::Memory, None) => Self::Memory(tollgate::Limiter::memory(limits)),
            (StoreUrl::Memory, Some(clock)) => {
                let store = MemoryStore::builder().clock(clock).build();
                Self::Memory(tollgate::Limiter::new(limits, store))
            }
            (url, clock) => Self::Remote(Remote::new(py, limits, url, clock)),
        })
    }
}

#[pymethods]
impl Limiter {
    #[new]
    #[pyo3(signature = (limits, store=StoreText("memory://"), *, policy=None, clock=None))]
    fn new(
        py: Python<'_>,
        limits: AnyLimits,
        store: StoreText<'_>,
        policy: Option<PolicyText<'_>>,
        clock: Option<&Bound<'_, ManualClock>>,
    ) -> PyResult<Self> {
        let limits = in_policy(py, limits.0, policy)?;
        let name = limits.policy().unwrap_or(USUAL_NAME).to_owned();
        let template = HeaderTemplate::new(&name, &limits);
        let template = template.map_err(|it| error::argument(py, format!("policy: {it}")))?;
        let clock = clock.map(Bound::get);
        let store = Counts::new(py, limits.clone(), store.0, clock)?;
        Ok(Self { limits, name, template, store })
    }

    /// Checks every limit, and charges the cost if all admit.
    #[pyo3(signature = (subject, cost=1))]
    fn check(
        &self,
        py: Python<'_>,
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::cost)] cost: u64,
    ) -> PyResult<Decision> {
        match &self.store {
            // Faster than to let other threads of Python run meanwhile.
            Counts::Memory(limiter) => match limiter.check_now(Ask::new(subject.0).cost(cost)) {
                Ok(decision) => Ok(Decision(decision.into_owned())),
                Err(it) => Err(error::raised(py, &it)),
            },
            Counts::Remote(remote) => match remote.run(py, &Kind::check(subject.0, cost))? {
                Reply::Decision(decision) => Ok(Decision(decision)),
                _ => Err(PyRuntimeError::new_err("a check has no other answer")),
            },
        }
    }

    /// Asks, and returns the answer.
    fn run<'py>(
        &self,
        py: Python<'py>,
        request: &Bound<'py, Request>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = &request.get().0;
        match &self.store {
            Counts::Memory(limiter) => answered_now(py, kind, limiter)?.into_object(py),
            Counts::Remote(remote) => remote.run(py, kind)?.into_object(py),
        }
    }

    /// Asks for `future`, a future of the loop whose answers `bridge` carries.
    fn start<'py>(
        &self,
        py: Python<'py>,
        request: &Bound<'py, Request>,
        bridge: &Bound<'py, Bridge>,
        future: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        match &self.store {
            Counts::Memory(_) => Err(PyRuntimeError::new_err("memory answers by `run`")),
            Counts::Remote(remote) => remote.start(py, request.get().0.clone(), bridge, future),
        }
    }

    /// Whether it counts in the memory of this process, which answers at once.
    #[getter]
    fn in_memory(&self) -> bool {
        matches!(self.store, Counts::Memory(_))
    }

    /// The limits as text.
    #[getter]
    fn limits(&self) -> String {
        self.limits.to_string()
    }

    /// The name of the policy, within which it counts; None without one.
    #[getter]
    fn policy(&self) -> Option<&str> {
        self.limits.policy()
    }

    /// The headers of a response to a request that `decision` was made for.
    #[pyo3(signature = (decision, headers=ProfileText("draft")))]
    fn headers(
        &self,
        py: Python<'_>,
        decision: &Bound<'_, Decision>,
        headers: ProfileText<'_>,
    ) -> PyResult<Headers> {
        let mut map = ::http::HeaderMap::new();
        http::answers(py, headers)?.mark(&mut map, &[&self.template], &decision.get().0);
        Ok(http::pairs(&map))
    }

    /// The status, headers and body of the response to a denied request; None if it was admitted.
    #[pyo3(signature = (decision, headers=ProfileText("draft")))]
    fn refusal<'py>(
        &self,
        py: Python<'py>,
        decision: &Bound<'py, Decision>,
        headers: ProfileText<'_>,
    ) -> PyResult<Option<Refusal<'py>>> {
        let answers = http::answers(py, headers)?;
        let refused = answers.refused(Wire::Http, &[&self.template], &decision.get().0);
        Ok(refused.map(|response| http::refusal(py, response)))
    }

    /// The status, headers and body of the response where the store could not answer.
    #[pyo3(signature = (retry_after=Duration::from_secs(5)))]
    fn unavailable<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = argument::retry_after)] retry_after: Duration,
    ) -> PyResult<Refusal<'py>> {
        let answers = http::answers(py, ProfileText("draft"))?;
        Ok(http::refusal(py, answers.unavailable(Wire::Http, &[&self.name], retry_after)))
    }

    fn __repr__(&self) -> String {
        let place = match &self.store {
            Counts::Memory(_) => "memory",
            Counts::Remote(remote) => remote.kind(),
        };
        format!("<Limiter {} in {place}>", self.limits)
    }
}

/// What memory answers, which never waits.
fn answered_now(
    py: Python<'_>,
    kind: &Kind,
    limiter: &tollgate::Limiter<MemoryStore>,
) -> PyResult<Reply> {
    match pin!(kind.perform(limiter)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.map_err(|it| error::raised(py, &it)),
        Poll::Pending => Err(PyRuntimeError::new_err("memory answers at once")),
    }
}
