//! Failures as exceptions of Python, which `tollgate_limiter/_errors.py` defines.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use tollgate_binding::{Failure, Fault};

/// An exception of the package by its name, with a message.
fn named(py: Python<'_>, name: &str, what: &str, marks: &[(&str, bool)]) -> PyErr {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let made = || {
        let module = MODULE
            .get_or_try_init(py, || py.import("tollgate_limiter._errors").map(Bound::unbind))?;
        let kind = module.bind(py).getattr(name)?.cast_into::<PyType>()?;
        let words = PyDict::new(py);
        for (mark, is_set) in marks {
            words.set_item(mark, is_set)?;
        }
        kind.call((what,), Some(&words))
    };
    made().map_or_else(|error: PyErr| error, PyErr::from_value)
}

/// An argument with a value that is out of range. The message names it.
#[cold]
pub(crate) fn argument(py: Python<'_>, what: impl AsRef<str>) -> PyErr {
    named(py, "ArgumentError", what.as_ref(), &[])
}

/// The exception of a failure.
#[cold]
pub(crate) fn raised(py: Python<'_>, failure: impl Into<Failure>) -> PyErr {
    let Failure { fault, what } = failure.into();
    match fault {
        Fault::Limit => named(py, "LimitError", &what, &[]),
        Fault::Argument => argument(py, what),
        Fault::Hold => named(py, "HoldError", &what, &[]),
        Fault::Store { transient, ambiguous } => {
            let marks = [("transient", transient), ("ambiguous", ambiguous)];
            named(py, "StoreError", &what, &marks)
        }
        Fault::Other => PyRuntimeError::new_err(what),
    }
}
