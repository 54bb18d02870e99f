//! Headers and refusals, as Python takes them.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::argument::AddressText;
use crate::error;

/// Headers, in the order in which they are written.
pub(crate) type Headers = Vec<(String, String)>;

/// A response: its status, headers and body.
pub(crate) type Refusal<'py> = (u16, Headers, Bound<'py, PyBytes>);

/// A response as Python takes it.
pub(crate) fn refusal(
    py: Python<'_>,
    response: impl Into<tollgate_binding::Refusal>,
) -> Refusal<'_> {
    let tollgate_binding::Refusal { status, headers, body } = response.into();
    (status, headers, PyBytes::new(py, &body))
}

/// The subject of a client by the address of its connection.
#[pyfunction]
pub(crate) fn client_subject(py: Python<'_>, address: AddressText<'_>) -> PyResult<String> {
    tollgate_binding::client_subject(address.0).map_err(|it| error::raised(py, it))
}
