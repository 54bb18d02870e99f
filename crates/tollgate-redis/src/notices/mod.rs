//! Notices in Redis: a hash that all processes read when it has changed.

use core::time::Duration;

use redis::Value;
use tollgate::{MAX_NOTICES, Notice, Notices, StoreError};

use crate::compose::{Clock, Parts, with_clock};
use crate::script::Script;
use crate::store::{parse_unsigned, unexpected_reply};

/// The scripts of the notices.
pub(crate) struct Scripts {
    pub(crate) read: Script,
    pub(crate) post: Script,
    pub(crate) withdraw: Script,
}

impl Scripts {
    pub(crate) fn new(clock: Clock, parts: &Parts) -> Self {
        let of = |head, body| with_clock(head, body, clock, parts);
        Self {
            read: of("#!lua flags=no-writes\n-- Tollgate: notices", include_str!("read.lua")),
            post: of("#!lua\n-- Tollgate: post a notice", include_str!("post.lua")),
            withdraw: of("#!lua\n-- Tollgate: withdraw a notice", include_str!("withdraw.lua")),
        }
    }
}

/// The arguments of [`Scripts::read`] after the nonce.
pub(crate) fn read_args(version: Option<u64>) -> String {
    version.map(|version| version.to_string()).unwrap_or_default()
}

/// The arguments of [`Scripts::post`] after the nonce.
pub(crate) fn post_args(notice: &Notice) -> [String; 5] {
    let lasts = notice.left.as_micros().to_string();
    let yields = u8::from(notice.yields).to_string();
    [notice.name.clone(), notice.text.clone(), lasts, MAX_NOTICES.to_string(), yields]
}

/// Parses the reply of [`Scripts::read`]. A notice that cannot be parsed is left out: it is of a
/// newer version.
pub(crate) fn read(answer: &[Value]) -> Result<Option<Notices>, StoreError> {
    let [now, version, Value::Array(fields)] = answer else {
        return if answer.is_empty() { Ok(None) } else { Err(unexpected_reply()) };
    };
    let (now_us, version) = (parse_unsigned(now)?, parse_unsigned(version)?);
    let mut all: Vec<Notice> =
        fields.chunks_exact(2).filter_map(|pair| notice(&pair[0], &pair[1], now_us)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Some(Notices::new(version, all)))
}

fn notice(name: &Value, value: &Value, now_us: u64) -> Option<Notice> {
    let (Value::BulkString(name), Value::BulkString(value)) = (name, value) else { return None };
    let (until_us, text) = str::from_utf8(value).ok()?.split_once(':')?;
    let left_us = until_us.parse::<u64>().ok()?.checked_sub(now_us)?;
    Notice::new(str::from_utf8(name).ok()?, text, Duration::from_micros(left_us)).ok()
}
