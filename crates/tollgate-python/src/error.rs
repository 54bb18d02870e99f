//! Errors of the engine as exceptions of Python, which `tollgate/_errors.py` defines.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use tollgate::{Error, ParseError, StoreError};

/// An exception of the package by its name, with a message.
fn named(py: Python<'_>, name: &str, what: &str, marks: &[(&str, bool)]) -> PyErr {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let made = || {
        let module =
            MODULE.get_or_try_init(py, || py.import("tollgate._errors").map(Bound::unbind))?;
        let kind = module.bind(py).getattr(name)?.cast_into::<PyType>()?;
        let words = PyDict::new(py);
        for (mark, is_set) in marks {
            words.set_item(mark, is_set)?;
        }
        kind.call((what,), Some(&words))
    };
    made().map_or_else(|error: PyErr| error, PyErr::from_value)
}

/// A text that is no limit.
pub(crate) fn limits(py: Python<'_>, error: &ParseError) -> PyErr {
    named(py, "LimitError", &format!("limits: {error}"), &[])
}

/// An argument with a value that is out of range. The message names it.
#[cold]
pub(crate) fn argument(py: Python<'_>, what: impl AsRef<str>) -> PyErr {
    named(py, "ArgumentError", what.as_ref(), &[])
}

/// A store that could not answer.
pub(crate) fn store(py: Python<'_>, error: &StoreError) -> PyErr {
    let mut what = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        what = format!("{what}: {cause}");
        source = cause.source();
    }
    let marks = [("transient", error.is_transient()), ("ambiguous", error.is_ambiguous())];
    named(py, "StoreError", &what, &marks)
}

/// Whatever a limiter returns.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Parse(error) => argument(py, format!("subject: {error}")),
        Error::Ask(what) => argument(py, what),
        Error::NotOpen(what) | Error::Conflict(what) | Error::TooManyHolds(what) => {
            named(py, "HoldError", what, &[])
        }
        Error::Store(error) => store(py, error),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}
