//! Headers and refusals, as Python takes them.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use tollgate_binding::{ClientOptions, Clients};

use crate::argument::{self, HeaderText, ProxiesText};
use crate::decision::seconds;
use crate::error;

/// Headers, in the order in which they are written.
pub(crate) type Headers = Vec<(String, String)>;

/// A response: its status, headers and body.
pub(crate) type Refusal<'py> = (u16, Headers, Bound<'py, PyBytes>);

/// A response as Python takes it.
pub(crate) fn shown<'py>(py: Python<'py>, refusal: &tollgate_binding::Refusal) -> Refusal<'py> {
    let tollgate_binding::Refusal { status, headers, body } = refusal;
    (*status, headers.clone(), PyBytes::new(py, body))
}

/// The response to a request whose key or cost is invalid.
#[pyfunction]
pub(crate) fn unidentified(py: Python<'_>) -> Refusal<'_> {
    shown(py, &tollgate_binding::Refusal::unidentified())
}

/// The seconds that a response of another limiter asks to wait; None where it asks for none.
#[pyfunction]
pub(crate) fn wait_of(
    status: u16,
    headers: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>,
) -> Option<f64> {
    let lines = headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    tollgate_binding::wait_of(status, lines).map(seconds)
}

/// How the client of a request is found.
#[pyclass(frozen, subclass, module = "tollgate_limiter._tollgate")]
#[derive(Debug)]
pub(crate) struct ClientAddress(Clients);

impl ClientAddress {
    pub(crate) fn clients(&self) -> &Clients {
        &self.0
    }
}

#[pymethods]
impl ClientAddress {
    #[new]
    #[pyo3(signature = (proxies=None, *, hops=None, header=None, ipv6_prefix=64))]
    fn new(
        py: Python<'_>,
        proxies: Option<ProxiesText<'_>>,
        #[pyo3(from_py_with = argument::hops)] hops: Option<u64>,
        header: Option<HeaderText<'_>>,
        #[pyo3(from_py_with = argument::ipv6_prefix)] ipv6_prefix: u64,
    ) -> PyResult<Self> {
        let options = ClientOptions {
            proxies: proxies.map(|it| it.0),
            hops,
            header: header.map(|it| it.0),
            ipv6_prefix: Some(ipv6_prefix),
        };
        Clients::new(&options).map(Self).map_err(|it| error::raised(py, it))
    }

    /// The names of the headers that `find` has to see, in small letters.
    #[getter]
    fn headers(&self) -> Vec<&str> {
        self.0.headers().iter().map(::http::HeaderName::as_str).collect()
    }

    /// The subject of a request's client, and a warning that nobody was given before.
    fn find(
        &self,
        peer: Option<Bound<'_, PyString>>,
        headers: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>,
    ) -> (Option<String>, Option<String>) {
        let peer = peer.as_ref().map(|peer| peer.to_string_lossy());
        let lines = headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let found = self.0.find(peer.as_deref(), lines);
        (found.subject, found.warning)
    }
}
