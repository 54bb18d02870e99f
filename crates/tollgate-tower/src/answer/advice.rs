//! The wait that somebody else's limiter asks for, read from its response.

use core::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header::RETRY_AFTER};
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

/// The longest wait that is believed: 366 days, as the longest period of a limit.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A number of seconds from here on is a date: seconds since 1970, and from the second on,
/// milliseconds.
const EPOCH: f64 = 1e9;
const EPOCH_MS: f64 = 1e12;

/// How long to wait before the next request to a server that gave this response at `now`: `None`
/// where it asks for no wait.
///
/// It reads `Retry-After` of a 429 and a 503 (RFC 9110, 10.2.3), and in any response the fields
/// with which a server reports that nothing is left: `RateLimit` of the IETF draft in its present
/// and earlier forms, and each pair of `...RateLimit...Remaining` and `...Reset`, as of GitHub,
/// OpenAI and Anthropic. A reset may be seconds, seconds or milliseconds since 1970, a duration
/// such as `6m0s`, or a date. The longest of these waits counts. An entry that cannot be read
/// counts as absent.
///
/// ```
/// use core::time::Duration;
/// use http::{HeaderMap, StatusCode};
/// use std::time::SystemTime;
/// use tollgate_tower::answer::wait_of;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit", r#""minute";r=0;t=7, "day";r=412;t=3600"#.parse()?);
/// let wait = wait_of(StatusCode::OK, &headers, SystemTime::now());
/// assert_eq!(wait, Some(Duration::from_secs(7)));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[must_use]
pub fn wait_of(
    status: StatusCode,
    headers: &HeaderMap,
    now: std::time::SystemTime,
) -> Option<Duration> {
    let now = Timestamp::try_from(now).ok()?;
    let asks = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let retry = headers.get(RETRY_AFTER).filter(|_| asks);
    let retry = retry.and_then(|value| wait(text(value)?, now));
    let all = [retry, draft(headers, now), pairs(headers, now)];
    let longest = all.into_iter().flatten().max()?;
    Some(longest.min(LONGEST)).filter(|wait| !wait.is_zero())
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

/// The wait of `RateLimit`: of items, `"name";r=0;t=7`, or of members, `remaining=0, reset=7`.
fn draft(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let values: Option<Vec<&str>> = headers.get_all("ratelimit").iter().map(text).collect();
    let value = values.filter(|values| !values.is_empty())?.join(", ");
    if let Ok(list) = Parser::new(&value).parse::<List>() {
        let of_item = |entry: &ListEntry| {
            let ListEntry::Item(item) = entry else { return None };
            let number = |name| item.params.get(name).and_then(integer);
            (number("r") == Some(0)).then(|| number("t")).flatten()
        };
        let waits = list.iter().filter_map(of_item).max();
        if let Some(seconds) = waits {
            return u64::try_from(seconds).ok().map(Duration::from_secs);
        }
    }
    let members = Parser::new(&value).parse::<Dictionary>().ok()?;
    let number = |name| match members.get(name)? {
        ListEntry::Item(Item { bare_item, .. }) => integer(bare_item),
        ListEntry::InnerList(_) => None,
    };
    let reset = (number("remaining") == Some(0)).then(|| number("reset")).flatten()?;
    wait(&reset.to_string(), now)
}

fn integer(item: &BareItem) -> Option<i64> {
    item.as_integer().map(i64::from)
}

/// The longest wait of pairs: names that differ in `remaining` and `reset` alone.
fn pairs(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let of_pair = |(name, value): (&http::HeaderName, &HeaderValue)| {
        let name = name.as_str();
        let is_one = name.contains("ratelimit") || name.contains("rate-limit");
        if !is_one || !name.contains("remaining") || text(value)?.parse::<f64>().ok()? > 0.0 {
            return None;
        }
        wait(text(headers.get(name.replace("remaining", "reset"))?)?, now)
    };
    headers.iter().filter_map(of_pair).max()
}

/// The wait that a text stands for, in any form that servers write.
fn wait(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(number) = text.parse::<f64>() {
        let since = Duration::from_millis(u64::try_from(now.as_millisecond()).ok()?);
        let of = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        return match number {
            ms if ms >= EPOCH_MS => Some(of(ms / 1000.0)?.saturating_sub(since)),
            at if at >= EPOCH => Some(of(at)?.saturating_sub(since)),
            seconds => of(seconds),
        };
    }
    if let Ok(duration) = text.parse::<SignedDuration>() {
        return Duration::try_from(duration).ok();
    }
    let at = text.parse::<Timestamp>().ok().or_else(|| {
        let date = rfc2822::DateTimeParser::new().parse_timestamp(text);
        date.ok()
    })?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28T10:00:00Z.
    const NOW: u64 = 1_795_860_000;

    fn read(status: u16, lines: &[(&'static str, &str)]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let now = std::time::UNIX_EPOCH + Duration::from_secs(NOW);
        let wait = wait_of(StatusCode::from_u16(status).unwrap(), &headers, now);
        wait.map(|wait| u64::try_from(wait.as_millis()).unwrap())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_of_a_refusal() {
        assert_eq!(read(429, &[("retry-after", "7")]), Some(7_000));
        assert_eq!(read(503, &[("retry-after", "Sat, 28 Nov 2026 10:00:30 GMT")]), Some(30_000));
        assert_eq!(read(429, &[("retry-after", "Sat, 28 Nov 2026 09:59:30 GMT")]), None);
        assert_eq!(read(301, &[("retry-after", "7")]), None);
        assert_eq!(read(429, &[]), None);
    }

    #[test]
    fn nothing_left_is_a_wait_in_any_response() {
        for (lines, ms) in [
            (&[("ratelimit", r#""a";r=0;t=7, "b";r=0;t=90"#)][..], 90_000),
            (&[("ratelimit", r#""a";r=0;t=7"#), ("ratelimit", r#""b";r=3;t=90"#)], 7_000),
            (&[("ratelimit", "limit=10, remaining=0, reset=5")], 5_000),
            (&[("ratelimit-remaining", "0"), ("ratelimit-reset", "5")], 5_000),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1795860009")], 9_000),
            (&[("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "1795860000250")], 250),
            (
                &[
                    ("x-ratelimit-remaining-requests", "59"),
                    ("x-ratelimit-reset-requests", "1s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "6m0s"),
                ],
                360_000,
            ),
            (
                &[
                    ("anthropic-ratelimit-requests-remaining", "0"),
                    ("anthropic-ratelimit-requests-reset", "2026-11-28T10:00:02Z"),
                ],
                2_000,
            ),
        ] {
            assert_eq!(read(200, lines), Some(ms), "{lines:?}");
        }
    }

    #[test]
    fn what_is_left_or_cannot_be_read_asks_for_no_wait() {
        for lines in [
            &[("ratelimit", r#""a";r=1;t=7"#)][..],
            &[("ratelimit", r#""a";r=0"#)],
            &[("ratelimit", r#""a";r=0;t=-7"#)],
            &[("ratelimit", "\"")],
            &[("ratelimit-remaining", "0")],
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "soon")],
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "-1")],
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "NaN")],
            &[("x-ratelimit-remaining", "many"), ("x-ratelimit-reset", "7")],
            &[("retry-after", "")],
        ] {
            assert_eq!(read(429, lines), None, "{lines:?}");
        }
        let year = [("retry-after", "99999999")];
        assert_eq!(read(429, &year), Some(366 * 86_400_000));
        for endless in ["inf", "1e300", "PT9223372036854775807S"] {
            let read = read(429, &[("retry-after", endless)]);
            assert!(read.is_none_or(|ms| ms <= 366 * 86_400_000), "{endless}: {read:?}");
        }
    }
}
