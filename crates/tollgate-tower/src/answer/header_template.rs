//! The constant part of the headers for a set of limits: names, quotas, windows.

use core::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use sha2::{Digest as _, Sha256};
use tollgate::{Decision, Limit, LimitSet, ParseError, Report, Unit};

use super::numbers::Numbers;
use super::profile::Profile;
use super::rate::Rate;

/// The longest name in its written form, in bytes, including the quotes.
pub const MAX_NAME_BYTES: usize = 160;

/// The most limits that `RateLimit-Policy` lists; with more, it contains only the binding one.
pub const MAX_LISTED: usize = 16;

/// The bytes of a partition key: 8 characters of base64, without padding.
const PARTITION_KEY_BYTES: usize = 6;

/// The largest integer of a structured field (RFC 9651).
const MAX_INTEGER: u128 = 999_999_999_999_999;

const SECOND_US: u64 = 1_000_000;

/// The headers of a set of limits, built once per set.
///
/// A decision over several subjects has one template per subject, in the same order.
///
/// ```
/// use tollgate_tower::answer::HeaderTemplate;
/// let template = HeaderTemplate::new("api", &"10/s, 240/h".parse()?)?;
/// assert_eq!(template.policy(), r#""api/1s";q=10;w=1, "api/1h";q=240;w=3600"#);
/// let tokens = HeaderTemplate::new("api", &"1000/m of tokens via gcra".parse()?)?;
/// assert_eq!(tokens.policy(), r#""api";q=1000;w=60;qu="tokens""#);
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HeaderTemplate {
    items: Vec<Item>,
    policy: HeaderValue,
}

/// One limit of a template.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// The name as a string of a structured field, which is also valid JSON: `"api"`.
    pub(super) name: String,
    /// `"api";q=10;w=1`.
    pub(super) policy: HeaderValue,
    /// The rate of a bucket that refills continuously, in units per period. For such a bucket,
    /// `r/t` could promise more than the rate.
    pub(super) rate: Option<Rate>,
    /// Its headers, where they are not those of the front.
    pub(super) profile: Option<Profile>,
    /// Whether it is in `RateLimit-Policy`: a ban has no units for a window, and a limit that
    /// counts nothing has no numbers.
    is_listed: bool,
}

impl Item {
    /// The value of `RateLimit`, built in place with a single allocation.
    #[inline]
    pub(super) fn rate_limit(&self, numbers: Numbers) -> Option<HeaderValue> {
        let (mut remaining, mut seconds) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (r, t) = (remaining.format(numbers.remaining), seconds.format(numbers.seconds()));
        let mut line = Vec::with_capacity(self.name.len() + r.len() + t.len() + 6);
        line.extend_from_slice(self.name.as_bytes());
        line.extend_from_slice(b";r=");
        line.extend_from_slice(r.as_bytes());
        line.extend_from_slice(b";t=");
        line.extend_from_slice(t.as_bytes());
        HeaderValue::from_maybe_shared(bytes::Bytes::from(line)).ok()
    }
}

impl HeaderTemplate {
    /// The template of `limits` under the name of their policy. Templates in one response need
    /// different names, such as `api/ip` and `api/user`.
    ///
    /// # Errors
    /// An empty name, or one longer than [`MAX_NAME_BYTES`] including the suffixes that distinguish
    /// its limits.
    pub fn new(name: &str, limits: &LimitSet) -> Result<Self, ParseError> {
        if name.is_empty() {
            return Err(ParseError::whole(
                "",
                "a policy needs a name to be shown under",
                "give one of letters and digits, e.g. `api`",
            ));
        }
        let set = limits.limits();
        let mut items = Vec::with_capacity(set.len());
        for limit in set {
            let name = quoted(&item_name(name, limit, set));
            if name.len() > MAX_NAME_BYTES {
                return Err(ParseError::whole(
                    &name,
                    format!("the name in `RateLimit-Policy` has {} bytes", name.len()),
                    format!("at most {MAX_NAME_BYTES}: shorten the name of the policy"),
                ));
            }
            // No month is as long as the next, and slots have no window: `w` is left out, and `t`
            // says when one ends.
            let numbers = if limit.quota().calendar.is_some() || limit.needs_hold() {
                format!("q={}", limit.quota().units)
            } else {
                let (quota, window) = quota_and_window(limit);
                format!("q={quota};w={window}")
            };
            let unit = match *limit.unit() {
                Unit::REQUESTS => String::new(),
                Unit::SLOTS => ";qu=\"concurrent-requests\"".to_owned(),
                unit => format!(";qu=\"{unit}\""),
            };
            let policy = value(format!("{name};{numbers}{unit}"))?;
            let is_listed = limit.has_capacity() && !limit.is_uncounted();
            items.push(Item { policy, rate: Rate::of(limit), name, profile: None, is_listed });
        }
        let whole = join(items.iter().filter(|item| item.is_listed).take(MAX_LISTED));
        Ok(Self { policy: value(whole)?, items })
    }

    /// The same, with these headers where one of its limits binds, whatever the front has.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        for item in &mut self.items {
            item.profile = Some(profile);
            // One that no client hears of is not in a list with others either.
            item.is_listed &= profile != Profile::None;
        }
        if profile == Profile::None {
            self.policy = HeaderValue::from_static("");
        }
        self
    }

    /// The only item, if there is exactly one.
    #[inline]
    pub(super) fn only(&self) -> Option<&Item> {
        let [item] = &self.items[..] else { return None };
        Some(item)
    }

    /// The entries of `RateLimit-Policy`, each for one limit.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        let listed = self.items.iter().filter(|item| item.is_listed);
        listed.map(|item| item.policy.to_str().unwrap_or_default())
    }

    /// The headers that it has for itself.
    #[must_use]
    pub fn own_profile(&self) -> Option<Profile> {
        self.items.first().and_then(|item| item.profile)
    }

    /// The value of `RateLimit-Policy` for this template alone.
    #[must_use]
    pub fn policy(&self) -> &str {
        self.policy.to_str().unwrap_or_default()
    }
}

/// Joins all items into a list, in order.
fn join<'c>(items: impl Iterator<Item = &'c Item>) -> String {
    let mut out = String::new();
    for item in items {
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(item.policy.to_str().unwrap_or_default());
    }
    out
}

fn value(text: String) -> Result<HeaderValue, ParseError> {
    HeaderValue::from_maybe_shared(bytes::Bytes::from(text)).map_err(|_| {
        ParseError::whole("", "this name cannot be in a header", "use printable ASCII")
    })
}

/// The policy's name alone, or with a suffix that distinguishes the limit from the others of its
/// set.
fn item_name(policy: &str, limit: &Limit, set: &[Limit]) -> String {
    if set.len() == 1 {
        return policy.to_owned();
    }
    if let Some(name) = limit.name() {
        return format!("{policy}/{name}");
    }
    let window = limit.quota().window();
    let same = |other: &&Limit| other.name().is_none() && other.quota().window() == window;
    if set.iter().filter(same).count() == 1 {
        return format!("{policy}/{window}");
    }
    format!("{policy}/{}", limit.identity())
}

/// A name as a string of RFC 9651. Characters that such a string cannot contain are
/// percent-encoded; so is `%`, so that different names stay different.
pub(super) fn quoted(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push('"');
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out.push('"');
    out
}

/// `q` and `w`. `w` is the window, or for a bucket the time until its burst is replenished, rounded
/// up to seconds. `q` is the units replenished in that time, rounded down.
fn quota_and_window(limit: &Limit) -> (u128, u128) {
    let quota = limit.quota();
    let (units, period_us) = (u128::from(quota.units.max(1)), u128::from(quota.period.as_micros()));
    let whole = u128::from(quota.burst.unwrap_or(quota.units));
    let second_us = u128::from(SECOND_US);
    let window = (whole * period_us).div_ceil(units * second_us).max(1);
    let quota = window * second_us * units / period_us;
    (quota.min(MAX_INTEGER), window)
}

/// The binding limit, with its item.
pub(super) struct Bound<'d> {
    pub(super) item: &'d Item,
    pub(super) report: Report<'d>,
}

/// The binding limit of a decision; `None` when the templates do not belong to the decision.
pub(super) fn bound<'d>(
    templates: &'d [&HeaderTemplate],
    decision: &'d Decision<'_>,
) -> Option<Bound<'d>> {
    let place = decision.binding_place();
    let (item, report) = (items(templates).nth(place)?, decision.reports().nth(place)?);
    Some(Bound { item, report })
}

/// The items of all templates, in the order of a decision's reports.
pub(super) fn items<'c>(templates: &'c [&HeaderTemplate]) -> impl Iterator<Item = &'c Item> {
    templates.iter().flat_map(|template| &template.items)
}

/// The value of `RateLimit-Policy`.
#[inline]
pub(super) fn policy(templates: &[&HeaderTemplate], bound: &Item) -> Option<HeaderValue> {
    if let [template] = templates
        && template.items.len() <= MAX_LISTED
    {
        return Some(template.policy.clone());
    }
    policy_of_all(templates, bound)
}

/// The value of `RateLimit-Policy` with the partition key of each limit: that of its subject.
pub(super) fn policy_with_keys(
    templates: &[&HeaderTemplate],
    bound: &Item,
    decision: &Decision<'_>,
) -> Option<HeaderValue> {
    let is_long = items(templates).count() > MAX_LISTED;
    let mut out = String::new();
    for (item, report) in items(templates).zip(decision.reports()) {
        let is_shown = if is_long { core::ptr::eq(item, bound) } else { item.is_listed };
        if is_shown {
            let separator = if out.is_empty() { "" } else { ", " };
            let (policy, key) = (item.policy.to_str().ok()?, partition_key(report.subject()));
            // Writing to a string cannot fail.
            let _ = write!(out, "{separator}{policy};pk=:{key}:");
        }
    }
    HeaderValue::from_maybe_shared(bytes::Bytes::from(out)).ok()
}

/// The first 6 bytes of the SHA-256 of a subject, in base64.
fn partition_key(subject: &str) -> String {
    let digest = Sha256::digest(subject);
    STANDARD.encode(digest.get(..PARTITION_KEY_BYTES).unwrap_or_default())
}

fn policy_of_all(templates: &[&HeaderTemplate], bound: &Item) -> Option<HeaderValue> {
    if items(templates).count() > MAX_LISTED {
        return Some(bound.policy.clone());
    }
    let length: usize = items(templates).map(|item| item.policy.len() + 2).sum();
    let mut out = Vec::with_capacity(length.saturating_sub(2));
    for template in templates.iter().filter(|template| !template.policy.is_empty()) {
        if !out.is_empty() {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(template.policy.as_bytes());
    }
    HeaderValue::from_maybe_shared(bytes::Bytes::from(out)).ok()
}
