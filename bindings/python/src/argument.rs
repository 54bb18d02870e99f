//! The arguments from Python: checked, with errors that name the argument.

use core::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use tollgate::{Cost, HoldKind, HoldName, ParseError, Patience};
use tollgate_binding::argument;

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
    /// The subject: `user:42`.
    SubjectText = "subject";
    /// Limits as text: `10/s, 240/h`.
    LimitsText = "limits";
    /// The URL of a store.
    StoreText = "store";
    /// The name of a policy.
    PolicyText = "policy";
    /// The networks of proxies.
    ProxiesText = "proxies";
    /// The name of a header.
    HeaderText = "header";
    /// A caller's id for a hold.
    IdText = "id";
    /// The name of a profile of headers.
    ProfileText = "headers";
}

/// The problem with an object that is not text.
#[cold]
fn no_text(object: Borrowed<'_, '_, PyAny>, name: &str, error: PyErr) -> PyErr {
    if !object.is_instance_of::<PyString>() {
        return wrong_type(object, name, "str");
    }
    let start = error.value(object.py()).getattr("start");
    let place = start.map_or_else(|_| String::new(), |start| format!(" at index {start}"));
    let what = format!(
        "{name} has a lone surrogate{place}, which is not a character: decode bytes with \
         errors=\"replace\""
    );
    error::argument(object.py(), what)
}

/// The whole numbers that an argument may be.
struct Whole {
    name: &'static str,
    least: u64,
    most: u64,
    /// As a message says them.
    range: &'static str,
}

const _: () = assert!(tollgate::MAX_COST == 1_099_511_627_776, "the ranges below say it");

const MOST: u64 = tollgate::MAX_COST;

const COST: Whole =
    Whole { name: "cost", least: 1, most: MOST, range: "from 1 to 2^40 = 1099511627776" };
const SLOTS: Whole = Whole { name: "slots", ..COST };
const ACTUAL: Whole =
    Whole { name: "actual", least: 0, range: "from 0 to 2^40 = 1099511627776", ..COST };
/// An amount of one unit of a cost, of which others may be more.
const AMOUNT: Whole = Whole { name: "cost", ..ACTUAL };
const HOPS: Whole = Whole { name: "hops", least: 1, most: 32, range: "from 1 to 32" };
const IPV6_PREFIX: Whole =
    Whole { name: "ipv6_prefix", least: 32, most: 128, range: "from 32 to 128" };
const AT_US: Whole = Whole { name: "at_us", least: 0, most: u64::MAX, range: "from 0 to 2^64 - 1" };

impl Whole {
    #[inline]
    fn read(&self, object: &Bound<'_, PyAny>) -> PyResult<u64> {
        // `True` is an int for Python. As a cost it is a mistake.
        if object.is_exact_instance_of::<PyInt>() {
            return self.in_range(object);
        }
        if object.is_instance_of::<PyBool>() {
            return Err(wrong_type(object.as_borrowed(), self.name, "int"));
        }
        // As of numpy. A float has no `__index__`.
        match object.call_method0("__index__") {
            Ok(number) => self.in_range(&number),
            Err(_) => Err(wrong_type(object.as_borrowed(), self.name, "int")),
        }
    }

    #[inline]
    fn in_range(&self, number: &Bound<'_, PyAny>) -> PyResult<u64> {
        match number.extract::<u64>() {
            Ok(read) if (self.least..=self.most).contains(&read) => Ok(read),
            Ok(_) => Err(self.out_of_range(number)),
            Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => {
                Err(self.out_of_range(number))
            }
            Err(error) => Err(error),
        }
    }

    #[cold]
    fn out_of_range(&self, number: &Bound<'_, PyAny>) -> PyErr {
        let Self { name, range, .. } = self;
        // Python writes no number of more than 4,300 digits.
        let given = match (number.extract::<i64>(), number.lt(0)) {
            (Ok(number), _) => number.to_string(),
            (Err(_), Ok(true)) => "below -2^63".to_owned(),
            (Err(_), _) => "2^64 or more".to_owned(),
        };
        let what = format!("{name} is {given}: give a whole number {range}");
        error::argument(number.py(), what)
    }
}

/// The argument `cost`: an `int`, or a `dict` of amounts by unit.
#[inline]
pub(crate) fn cost(object: &Bound<'_, PyAny>) -> PyResult<Cost> {
    match object.cast::<PyDict>() {
        Ok(amounts) => by_unit(amounts, &AMOUNT, |amounts| Cost::new(amounts.iter().copied())),
        Err(_) => COST.read(object).map(Cost::from),
    }
}

type Make = fn(&[(&str, u64)]) -> Result<Cost, ParseError>;

/// Amounts by unit, of which `make` makes a cost.
#[cold]
fn by_unit(amounts: &Bound<'_, PyDict>, whole: &Whole, make: Make) -> PyResult<Cost> {
    let mut all: Vec<(String, u64)> = Vec::new();
    for (unit, amount) in amounts {
        let unit = unit.extract::<String>().map_err(|_| {
            let what = format!("{}: a unit is a str, such as \"tokens\"", whole.name);
            error::argument(amounts.py(), what)
        })?;
        all.push((unit, whole.read(&amount)?));
    }
    let all: Vec<(&str, u64)> = all.iter().map(|(unit, amount)| (&**unit, *amount)).collect();
    make(&all).map_err(|it| {
        error::argument(amounts.py(), format!("{}: {}: {}", whole.name, it.what(), it.remedy()))
    })
}

/// The argument `slots`.
pub(crate) fn slots(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    SLOTS.read(object)
}

/// The argument `actual`: an `int`, or a `dict` of used amounts by unit.
pub(crate) fn actual(object: &Bound<'_, PyAny>) -> PyResult<Cost> {
    match object.cast::<PyDict>() {
        Ok(amounts) => by_unit(amounts, &ACTUAL, |amounts| Cost::used(amounts.iter().copied())),
        Err(_) => ACTUAL.read(object).map(Cost::from),
    }
}

/// The argument `hops`, which may be missing.
pub(crate) fn hops(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if object.is_none() { Ok(None) } else { HOPS.read(object).map(Some) }
}

/// The argument `ipv6_prefix`.
pub(crate) fn ipv6_prefix(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    IPV6_PREFIX.read(object)
}

/// The argument `at_us`.
pub(crate) fn at_us(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    AT_US.read(object)
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
    argument::id(text).map_err(|it| error::raised(object.py(), it))
}

/// The argument `id` where it may be left out.
pub(crate) fn optional_id(object: &Bound<'_, PyAny>) -> PyResult<Option<HoldName>> {
    if object.is_none() { Ok(None) } else { id(object).map(Some) }
}

/// The argument `kind` of a peek.
pub(crate) fn kind_of_peek(object: &Bound<'_, PyAny>) -> PyResult<Option<HoldKind>> {
    if object.is_none() {
        return Ok(None);
    }
    let Ok(name) = object.extract::<&str>() else {
        return Err(wrong_type(object.as_borrowed(), "kind", "a str"));
    };
    argument::kind_of_peek(name).map_err(|it| error::raised(object.py(), it))
}

/// The argument `waiting`, which may be left out.
pub(crate) fn waiting(object: &Bound<'_, PyAny>) -> PyResult<Patience> {
    if object.is_none() {
        return Ok(Patience::None);
    }
    let Ok(text) = object.cast::<PyString>() else {
        return Err(wrong_type(object.as_borrowed(), "waiting", "str"));
    };
    argument::waiting(text.to_str()?).map_err(|it| error::raised(object.py(), it))
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
        // As Python writes it, but for the fraction of a whole number.
        let given = format!("{seconds:?}");
        let given = given.trim_end_matches(".0");
        let what = format!("{name} is {given}: give seconds above 0, up to 366 days");
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
