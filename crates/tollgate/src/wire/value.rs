//! The values of fields on the wire, for whatever format they are written in.

use core::fmt;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::wait::Wait;
use crate::cost::{Amounts, Cost};

/// The fields of an object, for whatever format they are written in.
pub trait Fields {
    /// How many there are.
    fn count(&self) -> usize;

    /// Tells each, in the order of the wire.
    fn each<'s>(&'s self, to: &mut dyn FnMut(&'static str, Value<'s>));
}

/// The values of a list.
pub trait List {
    /// How many there are.
    fn count(&self) -> usize;

    /// The value at a place; `Null` beyond the last.
    fn at(&self, place: usize) -> Value<'_>;
}

/// A value of a field.
pub trait ToValue {
    /// The value.
    fn to_value(&self) -> Value<'_>;
}

/// The value of a field.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// Not known, or never.
    Null,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Number(u64),
    /// Seconds, which may have a fraction.
    Seconds(Wait),
    /// A text.
    Text(&'a str),
    /// A text that is made when it is written.
    Shown(&'a dyn fmt::Display),
    /// A cost: a number of requests, or an object with an amount of each unit.
    Cost(Amounts<'a>),
    /// An object.
    Fields(&'a dyn Fields),
    /// A list.
    List(&'a dyn List),
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Null => f.write_str("null"),
            Self::Flag(is_so) => is_so.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Seconds(wait) => wait.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Shown(shown) => shown.fmt(f),
            Self::Cost(amounts) => amounts.fmt(f),
            Self::Fields(fields) => {
                let mut map = f.debug_map();
                fields.each(&mut |name, value| {
                    map.entry(&name, &value);
                });
                map.finish()
            }
            Self::List(list) => {
                f.debug_list().entries((0..list.count()).map(|place| list.at(place))).finish()
            }
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Null => to.serialize_none(),
            Self::Flag(is_so) => to.serialize_bool(is_so),
            Self::Number(number) => to.serialize_u64(number),
            Self::Seconds(wait) => wait.serialize_seconds(to),
            Self::Text(text) => to.serialize_str(text),
            Self::Shown(shown) => to.collect_str(&format_args!("{shown}")),
            Self::Cost(amounts) => match amounts.plain() {
                Some(requests) => to.serialize_u64(requests),
                None => to.collect_map(amounts.iter().map(|(unit, amount)| (unit.name(), amount))),
            },
            Self::Fields(fields) => {
                let mut map = to.serialize_map(Some(fields.count()))?;
                let mut done = Ok(());
                fields.each(&mut |name, value| {
                    if done.is_ok() {
                        done = map.serialize_entry(name, &value);
                    }
                });
                done.and_then(|()| map.end())
            }
            Self::List(list) => to.collect_seq((0..list.count()).map(|place| list.at(place))),
        }
    }
}

/// A text that is made when it is written.
#[derive(Clone, Copy)]
#[allow(clippy::exhaustive_structs)] // what is shown, and nothing else
pub struct Shown<'a>(pub &'a dyn fmt::Display);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ToValue for Shown<'_> {
    fn to_value(&self) -> Value<'_> {
        Value::Shown(self.0)
    }
}

impl ToValue for bool {
    fn to_value(&self) -> Value<'_> {
        Value::Flag(*self)
    }
}

impl ToValue for u64 {
    fn to_value(&self) -> Value<'_> {
        Value::Number(*self)
    }
}

impl ToValue for Cost {
    fn to_value(&self) -> Value<'_> {
        Value::Cost(self.amounts())
    }
}

impl ToValue for usize {
    fn to_value(&self) -> Value<'_> {
        Value::Number(*self as u64)
    }
}

impl ToValue for &str {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::to_value)
    }
}

impl<T: ToValue> ToValue for Vec<T> {
    fn to_value(&self) -> Value<'_> {
        Value::List(self)
    }
}

impl<T: ToValue> List for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, place: usize) -> Value<'_> {
        self.get(place).map_or(Value::Null, T::to_value)
    }
}

/// Makes objects of the wire of structs: each field is written in the order in which it is
/// declared.
macro_rules! objects {
    ($($(#[$about:meta])* pub struct $name:ident $(<$life:lifetime>)? {
        $($(#[$meaning:meta])* $field:ident: $type:ty,)+
    })+) => {$(
        $(#[$about])*
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct $name $(<$life>)? {
            $($(#[$meaning])* pub $field: $type,)+
        }

        impl $(<$life>)? $crate::wire::Fields for $name $(<$life>)? {
            fn count(&self) -> usize {
                [$(stringify!($field)),+].len()
            }

            fn each<'s>(&'s self, to: &mut dyn FnMut(&'static str, $crate::wire::Value<'s>)) {
                $(to(stringify!($field), $crate::wire::ToValue::to_value(&self.$field));)+
            }
        }

        $crate::wire::value::written!($name $(<$life>)?);
    )+};
}

/// Lets objects be values, and be written by serde.
macro_rules! written {
    ($name:ident $(<$life:lifetime>)?) => {
        impl $(<$life>)? $crate::wire::ToValue for $name $(<$life>)? {
            fn to_value(&self) -> $crate::wire::Value<'_> {
                $crate::wire::Value::Fields(self)
            }
        }

        impl $(<$life>)? ::serde::Serialize for $name $(<$life>)? {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                ::serde::Serialize::serialize(&$crate::wire::Value::Fields(self), to)
            }
        }
    };
}

pub(super) use {objects, written};

impl Fields for Wait {
    fn count(&self) -> usize {
        2
    }

    fn each<'s>(&'s self, to: &mut dyn FnMut(&'static str, Value<'s>)) {
        to("seconds", Value::Seconds(*self));
        to("text", Value::Shown(self));
    }
}

written!(Wait);
