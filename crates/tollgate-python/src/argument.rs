//! What Python passes: checked, with errors that name the argument.

use core::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use tollgate::HoldName;

use crate::error;

/// The longest time that an argument may say, in seconds: 366 days, as a period of a limit.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// Types for text that is read in place: a `str` without lone surrogates.
macro_rules! text {
    ($($(#[$doc:meta])+ $type:ident = $name:literal;)+) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $type<'a>(pub(crate) &'a str);

        impl<'a, 'py> FromPyObject<'a, 'py> for $type<'a> {
            type Error = PyErr;

            #[inline]
            fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
                <&str>::extract(object).map(Self).map_err(|it| no_text(object, $name, it.into()))
            }
        }
    )+};
}

text! {
    /// Whose count: `user:42`.
    SubjectText = "subject";
    /// Limits as text: `10/s, 240/h`.
    LimitsText = "limits";
    /// The URL of a store.
    StoreText = "store";
    /// The name of a policy.
    PolicyText = "policy";
    /// An address of a client.
    AddressText = "address";
    /// A caller's id for a hold.
    IdText = "id";
    /// The name of a profile of headers.
    ProfileText = "headers";
}

/// What is wrong with an object that is no text.
#[cold]
fn no_text(object: Borrowed<'_, '_, PyAny>, name: &str, error: PyErr) -> PyErr {
    if !object.is_instance_of::<PyString>() {
        return wrong_type(object, name, "str");
    }
    let start = error.value(object.py()).getattr("start");
    let place = start.map_or_else(|_| String::new(), |start| format!(" at index {start}"));
    let what = format!(
        "{name} has a lone surrogate{place}, which is no character: decode bytes with \
         errors=\"replace\""
    );
    error::argument(object.py(), what)
}

/// A number of units for the argument `name`.
#[inline]
pub(crate) fn units(object: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    // `True` is an int for Python. As a cost it is a mistake.
    if object.is_exact_instance_of::<PyInt>() {
        return object.extract::<u64>().map_err(|it| out_of_range(object, name, it));
    }
    if object.is_instance_of::<PyBool>() {
        return Err(wrong_type(object.as_borrowed(), name, "int"));
    }
    // As of numpy. A float has no `__index__`.
    match object.call_method0("__index__") {
        Ok(number) => number.extract::<u64>().map_err(|it| out_of_range(&number, name, it)),
        Err(_) => Err(wrong_type(object.as_borrowed(), name, "int")),
    }
}

#[cold]
fn out_of_range(number: &Bound<'_, PyAny>, name: &str, error: PyErr) -> PyErr {
    let py = number.py();
    if !error.is_instance_of::<PyOverflowError>(py) {
        return error;
    }
    error::argument(
        py,
        match number.lt(0).unwrap_or(false) {
            true => format!("{name} must not be negative"),
            false => format!("{name} is too large: the largest is 2^40 = {}", tollgate::MAX_COST),
        },
    )
}

/// The argument `cost`.
#[inline]
pub(crate) fn cost(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    units(object, "cost")
}

/// The argument `slots`.
pub(crate) fn slots(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    units(object, "slots")
}

/// The argument `actual`.
pub(crate) fn actual(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    units(object, "actual")
}

/// The argument `at_us`.
pub(crate) fn at_us(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    units(object, "at_us")
}

/// The argument `ttl`, in seconds: an `int` or a finite `float` above 0.
pub(crate) fn ttl(object: &Bound<'_, PyAny>) -> PyResult<Duration> {
    seconds(object, "ttl")
}

/// The argument `ttl` where it may be left out.
pub(crate) fn optional_ttl(object: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if object.is_none() { Ok(None) } else { ttl(object).map(Some) }
}

/// The argument `id`: a caller's id for a hold. No message repeats it.
pub(crate) fn id(object: &Bound<'_, PyAny>) -> PyResult<HoldName> {
    let IdText(text) = object.extract()?;
    text.parse().map_err(|it: tollgate::ParseError| {
        error::argument(object.py(), format!("id: {}: {}", it.what(), it.remedy()))
    })
}

/// The argument `id` where it may be left out.
pub(crate) fn optional_id(object: &Bound<'_, PyAny>) -> PyResult<Option<HoldName>> {
    if object.is_none() { Ok(None) } else { id(object).map(Some) }
}

/// The argument `retry_after`, in seconds.
pub(crate) fn retry_after(object: &Bound<'_, PyAny>) -> PyResult<Duration> {
    seconds(object, "retry_after")
}

/// The argument `seconds`.
pub(crate) fn seconds_of(object: &Bound<'_, PyAny>) -> PyResult<Duration> {
    seconds(object, "seconds")
}

fn seconds(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Duration> {
    let is_number = object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>();
    if !is_number || object.is_instance_of::<PyBool>() {
        return Err(wrong_type(object.as_borrowed(), name, "int or float (seconds)"));
    }
    // A number that no float can be is too large. NaN is in no range.
    let seconds: f64 = object.extract().unwrap_or(f64::INFINITY);
    if !(seconds > 0.0 && seconds <= MAX_SECONDS) {
        let what = format!("{name} is out of range: give seconds above 0, up to 366 days");
        return Err(error::argument(object.py(), what));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A `TypeError` that says what was given.
#[cold]
pub(crate) fn wrong_type(object: Borrowed<'_, '_, PyAny>, name: &str, wanted: &str) -> PyErr {
    let given = object.get_type().name().map_or_else(|_| "?".to_owned(), |it| it.to_string());
    PyTypeError::new_err(format!("{name} must be {wanted}, not {given}"))
}
