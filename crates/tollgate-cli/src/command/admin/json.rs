//! Values of the JSON that a service answers.

use serde_json::Value;

use crate::input::shown;

/// The elements of a JSON list; none where it is another value.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text that a later command takes, whole.
pub(crate) fn whole_of(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A JSON value as text, strings without quotes.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), shown)
}
