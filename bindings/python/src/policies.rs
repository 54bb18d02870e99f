//! Policies of a file, as Python sees them.

use std::collections::HashMap;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use tollgate_binding::{PolicyOptions, RequestHead};

use crate::argument::{ProfileText, StoreText};
use crate::bridge::Bridge;
use crate::error;
use crate::http::ClientAddress;
use crate::ruling::PolicyRuling;

/// The policies of a file and the store in which they count.
#[pyclass(frozen, subclass, module = "tollgate_limiter._tollgate")]
#[derive(Debug)]
pub(crate) struct Policies(tollgate_binding::Policies);

/// A line of a header, as bytes.
type Line<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The head of a request, as Python has it: method, target, headers, peer, user, route, fields.
type Head<'py> = (
    String,
    String,
    Vec<Line<'py>>,
    Option<Bound<'py, PyString>>,
    Option<String>,
    Option<String>,
    HashMap<String, String>,
);

/// Does something with a head.
fn with_head<T>(head: Head<'_>, use_it: impl FnOnce(RequestHead<'_>) -> T) -> T {
    let (method, target, headers, peer, user, route, fields) = head;
    let peer = peer.as_ref().map(|peer| peer.to_string_lossy());
    use_it(RequestHead {
        method: &method,
        target: &target,
        headers: headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect(),
        peer: peer.as_deref(),
        user,
        route,
        fields: fields.into_iter().collect(),
    })
}

#[pymethods]
impl Policies {
    #[new]
    #[pyo3(signature = (file, store, *, client=None, headers=ProfileText("draft"), api_key=None))]
    fn new(
        py: Python<'_>,
        file: &str,
        store: StoreText<'_>,
        client: Option<&Bound<'_, ClientAddress>>,
        headers: ProfileText<'_>,
        api_key: Option<(String, String)>,
    ) -> PyResult<Self> {
        let options = PolicyOptions {
            file,
            store: store.0,
            headers: headers.0,
            clients: client.map(|client| client.get().clients()),
            api_key: api_key.as_ref().map(|(header, secret)| (header.as_str(), secret.as_str())),
        };
        let made = tollgate_binding::Policies::new(&options);
        made.map(Self).map_err(|it| error::raised(py, it))
    }

    /// Whether they count in the memory of this process, which answers at once.
    #[getter]
    fn in_memory(&self) -> bool {
        self.0.in_memory()
    }

    /// The names of the fields `field.NAME` that the file reads.
    #[getter]
    fn field_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.0.field_names().map_err(|it| error::raised(py, it))
    }

    /// Reads the file again. Where it has problems, the policies stay as they are.
    fn reload(&self, py: Python<'_>) -> PyResult<()> {
        self.0.reload().map_err(|it| error::raised(py, it))
    }

    /// Judges a request, and waits, while other threads run unless the answer is immediate.
    fn run(&self, py: Python<'_>, head: Head<'_>) -> PyResult<PolicyRuling> {
        let raised = |it| error::raised(py, it);
        if self.0.in_memory() {
            let ruling = with_head(head, |head| self.0.judge(head)).map_err(raised)?;
            return Ok(PolicyRuling(Box::new(ruling)));
        }
        let waiting = with_head(head, |head| self.0.waiting(head)).map_err(raised)?;
        Ok(PolicyRuling(Box::new(py.detach(waiting).map_err(raised)?)))
    }

    /// Judges a request for `future`, a future of the loop whose answers `bridge` carries.
    fn start<'py>(
        &self,
        head: Head<'py>,
        bridge: &Bound<'py, Bridge>,
        future: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        if self.0.in_memory() {
            return Err(PyRuntimeError::new_err("memory answers by `run`"));
        }
        let py = bridge.py();
        Bridge::start(bridge, future, |sender, carrier| {
            let started = with_head(head, |head| self.0.start(head, sender, carrier));
            started.map_err(|it| error::raised(py, it))
        })
    }
}
