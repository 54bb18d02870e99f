//! Where a reply has a value: a status, a header, a part of a JSON body, an item of an array.

use anyhow::{Result, bail};
use serde_json::Value;

use crate::args::TimeUnit;
use crate::input::shown;

/// A reply as its protocol has it.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) status: u16,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    /// The body of HTTP, or a reply of the Redis protocol.
    pub(super) value: Value,
}

/// A place in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Status,
    Header(String),
    /// A pointer into a JSON body.
    Json(String),
    /// An item of an array, from 0.
    Item(usize),
    /// A field of a flat array of names and values; with points, of arrays within it.
    Field(String),
}

impl Place {
    pub(super) fn parse(text: &str, option: &str) -> Result<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        Ok(match (kind, rest) {
            ("status", "") => Self::Status,
            ("header", name) if !name.is_empty() => Self::Header(name.to_lowercase()),
            ("json", pointer) if pointer.starts_with('/') => Self::Json(pointer.to_owned()),
            ("field", name) if !name.is_empty() => Self::Field(name.to_owned()),
            ("item", number) if number.parse::<usize>().is_ok() => {
                Self::Item(number.parse().unwrap_or(0))
            }
            _ => bail!(
                "{option}: `{}` is no place in a reply: write `header:NAME`, `json:/POINTER`, \
                 `item:NUMBER` or `field:NAME`",
                shown(text)
            ),
        })
    }

    /// The value there, as text; none where it is absent or null.
    pub(super) fn text(&self, raw: &Raw) -> Option<String> {
        match self {
            Self::Status => Some(raw.status.to_string()),
            Self::Header(name) => {
                raw.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            }
            Self::Json(pointer) => plain(raw.value.pointer(pointer)?),
            Self::Item(place) => match &raw.value {
                Value::Array(items) => plain(items.get(*place)?),
                one if *place == 0 => plain(one),
                _ => None,
            },
            Self::Field(path) => {
                let mut value = &raw.value;
                for name in path.split('.') {
                    let items = value.as_array()?;
                    let at = items.iter().step_by(2).position(|it| it.as_str() == Some(name))?;
                    value = items.get(2 * at + 1)?;
                }
                plain(value)
            }
        }
    }
}

/// A value as text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A place, and the value that it has for a reply that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) place: Place,
    pub(super) value: String,
}

impl Allowed {
    pub(super) fn parse(text: &str) -> Result<Self> {
        const OPTION: &str = "--allowed";
        if let Some(status) = text.strip_prefix("status:") {
            return Ok(Self { place: Place::Status, value: status.to_owned() });
        }
        let Some((place, value)) = text.split_once('=') else {
            bail!("{OPTION}: `{}` has no `=VALUE`, as in `item:0=0`", shown(text));
        };
        Ok(Self { place: Place::parse(place, OPTION)?, value: value.to_owned() })
    }
}

/// A number of seconds, milliseconds or microseconds, in microseconds; a rest is rounded up. None
/// for what is no such number, or below 0.
pub(super) fn micros(text: &str, unit: TimeUnit) -> Option<u64> {
    let decimals = match unit {
        TimeUnit::S => 6,
        TimeUnit::Ms => 3,
        TimeUnit::Us => 0,
    };
    let (whole, rest) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    if whole.is_empty() || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = rest.get(..decimals.min(rest.len()))?;
    let more = rest.get(kept.len()..)?.bytes().any(|byte| byte != b'0');
    let digits = format!("{whole}{kept:0<decimals$}");
    digits.parse::<u64>().ok()?.checked_add(u64::from(more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn waits_are_exact() {
        for (text, unit, us) in [
            ("1.5", TimeUnit::S, Some(1_500_000)),
            ("0.0000001", TimeUnit::S, Some(1)),
            ("3", TimeUnit::S, Some(3_000_000)),
            ("250", TimeUnit::Ms, Some(250_000)),
            ("7", TimeUnit::Us, Some(7)),
            ("-1", TimeUnit::S, None),
            ("soon", TimeUnit::S, None),
            ("1.x", TimeUnit::S, None),
        ] {
            assert_eq!(micros(text, unit), us, "{text}");
        }
    }

    #[test]
    fn places_are_found() {
        let value = json!(["allowed", 1, "retry_after", ["seconds", "1.5", "text", "1.5s"]]);
        let raw = Raw { status: 200, headers: vec![("a".into(), "b".into())], value };
        let text = |place: &str| Place::parse(place, "--x").unwrap().text(&raw);
        assert_eq!(text("field:allowed").as_deref(), Some("1"));
        assert_eq!(text("field:retry_after.seconds").as_deref(), Some("1.5"));
        assert_eq!(text("item:1").as_deref(), Some("1"));
        assert_eq!(text("header:A").as_deref(), Some("b"));
        assert_eq!(text("field:none"), None);
        assert!(Place::parse("body", "--x").is_err());
        assert!(Allowed::parse("item:0").is_err());
    }
}
