//! The limiter, as Python sees it.

use core::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use tollgate::{Ask, Cost};
use tollgate_binding::{Counts, Operation};

use crate::argument::{self, PolicyText, ProfileText, StoreText, SubjectText};
use crate::bridge::Bridge;
use crate::clock::ManualClock;
use crate::decision::Decision;
use crate::error;
use crate::greenlets;
use crate::http::{self, Headers, Refusal};
use crate::limits::{AnyLimits, in_policy};
use crate::reply::{self, BindingAnswer};
use crate::request::Request;

/// Limits and the store that counts them.
#[pyclass(frozen, subclass, module = "tollgate_limiter._tollgate")]
#[derive(Debug)]
pub(crate) struct Limiter(tollgate_binding::Limiter, Option<Py<ManualClock>>, String);

impl Limiter {
    /// Asks and waits, while other threads and greenlets run unless the answer is immediate.
    fn ask<'py>(slf: &Bound<'py, Self>, operation: Operation) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if let Counts::Remote(_) = &this.0.counts
            && let Some(pool) = greenlets::pool(py)?
        {
            let words = (slf.getattr(intern!(py, "wait"))?, (Request(operation),));
            return pool.call_method1(intern!(py, "apply"), words);
        }
        reply::object(py, this.answer_here(py, &operation)?)
    }

    /// Asks and waits in this thread.
    fn answer_here(&self, py: Python<'_>, operation: &Operation) -> PyResult<BindingAnswer> {
        let raised = |failure| error::raised(py, failure);
        match &self.0.counts {
            Counts::Memory(limiter) => tollgate_binding::answer(limiter, operation).map_err(raised),
            Counts::Remote(remote) => {
                let waiting = remote.waiting(operation).map_err(raised)?;
                py.detach(waiting).map_err(|it| raised(it.into()))
            }
        }
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
        clock: Option<Py<ManualClock>>,
    ) -> PyResult<Self> {
        let limits = in_policy(py, limits.0, policy)?;
        let by = clock.as_ref().map(|clock| clock.get().0.clone());
        let made = tollgate_binding::Limiter::new("python", limits, store.0, by);
        made.map(|made| Self(made, clock, store.0.to_owned())).map_err(|it| error::raised(py, it))
    }

    /// Checks every limit, and charges the cost if all admit.
    #[pyo3(signature = (subject, cost=Cost::from(1)), text_signature = "($self, subject, cost=1)")]
    fn check<'py>(
        slf: &Bound<'py, Self>,
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::cost)] cost: Cost,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        // Faster than to make an operation of it.
        if let Counts::Memory(limiter) = &slf.get().0.counts {
            let decision = limiter.check(Ask::new(subject.0).cost(cost)).now();
            return match decision {
                Ok(decision) => Ok(Bound::new(py, Decision(decision.into_owned()))?.into_any()),
                Err(it) => Err(error::raised(py, it)),
            };
        }
        Self::ask(slf, Operation::check(subject.0.to_owned(), cost))
    }

    /// Asks, and returns the answer.
    fn run<'py>(
        slf: &Bound<'py, Self>,
        request: &Bound<'py, Request>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::ask(slf, request.get().0.clone())
    }

    /// Asks and waits in this thread, whatever else could run in it.
    fn wait<'py>(
        &self,
        py: Python<'py>,
        request: &Bound<'py, Request>,
    ) -> PyResult<Bound<'py, PyAny>> {
        reply::object(py, self.answer_here(py, &request.get().0)?)
    }

    /// Asks for `future`, a future of the loop whose answers `bridge` carries.
    fn start<'py>(
        &self,
        request: &Bound<'py, Request>,
        bridge: &Bound<'py, Bridge>,
        future: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        match &self.0.counts {
            Counts::Memory(_) => Err(PyRuntimeError::new_err("memory answers by `run`")),
            Counts::Remote(remote) => Bridge::ask(bridge, future, remote, request.get().0.clone()),
        }
    }

    /// Whether it counts in the memory of this process, which answers immediately.
    #[getter]
    fn in_memory(&self) -> bool {
        matches!(self.0.counts, Counts::Memory(_))
    }

    /// The limits as text.
    #[getter]
    fn limits(&self) -> String {
        self.0.limits.to_string()
    }

    /// The name of the policy, within which it counts; None without one.
    #[getter]
    fn policy(&self) -> Option<&str> {
        self.0.limits.policy()
    }

    /// The URL of the store, as it was given.
    #[getter]
    fn store(&self) -> &str {
        &self.2
    }

    /// The clock that it was made with; None without one.
    #[getter]
    fn clock(&self, py: Python<'_>) -> Option<Py<ManualClock>> {
        self.1.as_ref().map(|clock| clock.clone_ref(py))
    }

    /// The headers of a response to a request that `decision` was made for.
    #[pyo3(signature = (decision, headers=ProfileText("draft")))]
    fn headers(
        &self,
        py: Python<'_>,
        decision: &Bound<'_, Decision>,
        headers: ProfileText<'_>,
    ) -> PyResult<Headers> {
        let headers = self.0.headers(&decision.get().0, headers.0);
        headers.map_err(|it| error::raised(py, it))
    }

    /// The status, headers and body of the response to a denied request; None if it was admitted.
    #[pyo3(signature = (decision, headers=ProfileText("draft")))]
    fn refusal<'py>(
        &self,
        py: Python<'py>,
        decision: &Bound<'py, Decision>,
        headers: ProfileText<'_>,
    ) -> PyResult<Option<Refusal<'py>>> {
        let refusal = self.0.refusal(&decision.get().0, headers.0);
        let refusal = refusal.map_err(|it| error::raised(py, it))?;
        Ok(refusal.map(|refusal| http::shown(py, &refusal)))
    }

    /// The status, headers and body of the response where the store could not answer.
    #[pyo3(signature = (retry_after=Duration::from_secs(5)))]
    fn unavailable<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = argument::retry_after)] retry_after: Duration,
    ) -> Refusal<'py> {
        http::shown(py, &self.0.unavailable(retry_after))
    }

    fn __repr__(&self) -> String {
        format!("<Limiter {} in {}>", self.0.limits, self.0.kind())
    }
}
