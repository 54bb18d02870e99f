//! Bans, exemptions and limits that are set at run time, each with an end.

use core::fmt;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate::{MAX_NOTICE_NAME_BYTES, ParseError};

use crate::field::Field;
use crate::pattern::{Condition, Pattern};
use crate::ruled_limit::RuledLimit;

/// The most bytes of the limits of a ruling, as texts.
pub const MAX_RULED_BYTES: usize = 2_048;

/// The longest reason of a ruling, in bytes.
pub const MAX_REASON_BYTES: usize = 512;

/// The effect of a ruling on the requests that it matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Effect {
    /// The requests are denied.
    Ban,
    /// No limit applies to the requests.
    Exempt,
    /// Some limits of a policy have other numbers for the requests, or do not count.
    Set,
}

impl Effect {
    /// `ban`, `exempt` or `set`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ban => "ban",
            Self::Exempt => "exempt",
            Self::Set => "set",
        }
    }
}

/// A ruling of an administrator about some requests, for one policy or for all.
///
/// ```
/// use tollgate_policy::{Condition, Effect, Field, Ruling};
/// let from = Condition::parse("ip", ["203.0.113.0/24"])?;
/// let ban = Ruling::new(Effect::Ban, vec![from])?.in_policy("login").because("a scan")?;
/// assert_eq!(ban.to_string(), "ban ip = 203.0.113.0/24 in login");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Ruling {
    /// The effect on the requests.
    pub effect: Effect,
    /// The conditions: a request matches if all hold. At least one, and at most one per field.
    pub when: Vec<Condition>,
    /// The policy that it applies to; `None` for all policies.
    pub policy: Option<String>,
    /// The limits that it sets in the policy; empty for a ban and an exemption.
    pub limits: Vec<RuledLimit>,
    /// The reason, for humans.
    pub reason: Option<String>,
}

/// A ruling as stored in a store.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    effect: Effect,
    when: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Condition {
    /// Parses a condition in the terms of a policy file: `ip` with `203.0.113.0/24`.
    ///
    /// # Errors
    /// An invalid field, no pattern, or an invalid pattern for the field.
    pub fn parse<'t>(
        field: &str,
        any_of: impl IntoIterator<Item = &'t str>,
    ) -> Result<Self, ParseError> {
        let field = Field::parse_condition(field)?;
        let any_of = any_of.into_iter().map(|text| Pattern::parse(&field, text));
        let any_of = any_of.collect::<Result<Vec<_>, _>>()?;
        if any_of.is_empty() {
            let what = format!("the condition on `{field}` has no value");
            return Err(ParseError::whole("", what, "say what it must be, or `*` for any value"));
        }
        Ok(Self::new(field, any_of))
    }
}

impl Ruling {
    /// A ruling for all policies about the requests that match these conditions.
    ///
    /// # Errors
    /// No condition, two on one field, or conditions too long for a name of 1 KiB.
    pub fn new(effect: Effect, mut when: Vec<Condition>) -> Result<Self, ParseError> {
        // Sorted, so that equal conditions have one form.
        when.sort_by(|a, b| a.field.cmp(&b.field));
        for condition in &mut when {
            condition.any_of.sort();
            condition.any_of.dedup();
        }
        let refuse = |what: String, remedy: String| Err(ParseError::whole("", what, remedy));
        if when.is_empty() {
            return refuse(
                "a ruling has no condition, and would hold for every request".to_owned(),
                "say for whom, e.g. `ip=203.0.113.0/24` or `user=mallory`".to_owned(),
            );
        }
        if let Some(other) = when.iter().find(|condition| !condition.field.is_of_request()) {
            return refuse(
                format!("a ruling has no condition on `{}`", other.field),
                "it has an end of its own: for what recurs, write an override in the policies"
                    .to_owned(),
            );
        }
        if let Some(twice) = when.windows(2).find(|pair| pair[0].field == pair[1].field) {
            return refuse(
                format!("`{}` is given twice", twice[0].field),
                "give it once, with a list of what it may be".to_owned(),
            );
        }
        let ruling = Self { effect, when, policy: None, limits: Vec::new(), reason: None };
        let bytes = ruling.name().len();
        if bytes > MAX_NOTICE_NAME_BYTES / 2 {
            return refuse(
                format!("the conditions of this ruling take {bytes} bytes"),
                format!("{} is the most: make several rulings of it", MAX_NOTICE_NAME_BYTES / 2),
            );
        }
        Ok(ruling)
    }

    /// The same ruling for one policy.
    #[must_use]
    pub fn in_policy(self, policy: impl Into<String>) -> Self {
        Self { policy: Some(policy.into()), ..self }
    }

    /// A ruling that sets limits of a policy, as [`Policies::ruled_limit`] reads them.
    ///
    /// # Errors
    /// No limit, one twice, or limits of more than [`MAX_RULED_BYTES`].
    ///
    /// [`Policies::ruled_limit`]: crate::Policies::ruled_limit
    pub fn with_limits(self, mut limits: Vec<RuledLimit>) -> Result<Self, ParseError> {
        limits.sort_by(|a, b| a.name.cmp(&b.name));
        let refuse = |what: String, remedy: &str| Err(ParseError::whole("", what, remedy));
        if limits.is_empty() {
            let remedy = "say which, e.g. `minute=500/m`, or `minute=unlimited`";
            return refuse("no limit is set".to_owned(), remedy);
        }
        if let Some(twice) = limits.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let remedy = "set each limit once";
            return refuse(format!("the limit `{}` is given twice", twice[0].name), remedy);
        }
        let bytes: usize = limits.iter().map(|it| it.name.len() + it.text().len()).sum();
        if bytes > MAX_RULED_BYTES {
            let remedy = "set the limits of fewer at a time";
            return refuse(
                format!("the limits take {bytes} bytes, and {MAX_RULED_BYTES} are the most"),
                remedy,
            );
        }
        Ok(Self { limits, ..self })
    }

    /// The same ruling with a reason.
    ///
    /// # Errors
    /// A reason longer than [`MAX_REASON_BYTES`].
    pub fn because(self, reason: impl Into<String>) -> Result<Self, ParseError> {
        let reason = reason.into();
        if reason.len() > MAX_REASON_BYTES {
            let what = format!("the reason has {} bytes", reason.len());
            return Err(ParseError::whole("", what, format!("at most {MAX_REASON_BYTES}")));
        }
        Ok(Self { reason: Some(reason), ..self })
    }

    /// The unique name: a new ruling about the same requests replaces this one, whatever its
    /// effect.
    pub(crate) fn name(&self) -> String {
        // Cannot fail: texts can always be serialized.
        serde_json::to_string(&(&self.policy, conditions(&self.when))).unwrap_or_default()
    }

    /// The form stored in a store.
    pub(crate) fn written(&self) -> String {
        let Self { effect, when, policy, limits, reason } = self.clone();
        let limits = limits.iter().map(|it| (it.name.clone(), it.text().to_owned())).collect();
        let written = Written { effect, when: conditions(&when), policy, limits, reason };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Parses the stored form; `None` for one that a newer version wrote.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let Written { effect, when, policy, limits, reason } = serde_json::from_str(text).ok()?;
        let when = when
            .iter()
            .map(|(field, any_of)| Condition::parse(field, any_of.iter().map(String::as_str)).ok());
        let ruling = Self::new(effect, when.collect::<Option<Vec<_>>>()?).ok()?;
        let limits = limits.into_iter().map(|(name, text)| RuledLimit::stored(name, &text));
        let limits = limits.collect::<Result<Vec<_>, _>>().ok()?;
        Some(Self { policy, limits, reason, ..ruling }).filter(Self::is_whole)
    }

    /// Whether it sets limits of a policy, or is of another effect and sets none.
    pub(crate) fn is_whole(&self) -> bool {
        match self.effect {
            Effect::Set => self.policy.is_some() && !self.limits.is_empty(),
            Effect::Ban | Effect::Exempt => self.limits.is_empty(),
        }
    }
}

/// Conditions as texts.
fn conditions(when: &[Condition]) -> BTreeMap<String, Vec<String>> {
    let texts = |condition: &Condition| condition.any_of.iter().map(Pattern::to_string).collect();
    when.iter().map(|condition| (condition.field.to_string(), texts(condition))).collect()
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.effect.name())?;
        for (i, condition) in self.when.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{condition}")?;
        }
        if let Some(policy) = &self.policy {
            write!(f, " in {policy}")?;
        }
        for (i, limit) in self.limits.iter().enumerate() {
            write!(f, "{} {limit}", if i == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruling(effect: Effect, when: &[(&str, &[&str])]) -> Ruling {
        let when = when.iter().map(|(field, any_of)| {
            Condition::parse(field, any_of.iter().copied()).expect("a condition")
        });
        Ruling::new(effect, when.collect()).expect("a ruling")
    }

    #[test]
    fn a_ruling_is_read_back_as_it_was_written() {
        let many = ruling(
            Effect::Exempt,
            &[("path", &["/api/*"]), ("ip", &["10.0.0.0/8", "::1"]), ("header.x-a", &["\"b\"*"])],
        );
        let many = many.in_policy("login").because("tests \u{1f980}").expect("short");
        for ruling in [many, ruling(Effect::Ban, &[("user", &["*"])])] {
            assert_eq!(Ruling::read(&ruling.written()), Some(ruling));
        }
    }

    #[test]
    fn the_same_requests_have_one_name() {
        let ban = ruling(Effect::Ban, &[("ip", &["10.0.0.0/8", "::1"]), ("user", &["a"])]);
        let exempt = ruling(Effect::Exempt, &[("user", &["a"]), ("ip", &["::1", "10.0.0.0/8"])]);
        assert_eq!(ban.name(), exempt.name());
        assert_ne!(ban.name(), ban.clone().in_policy("a").name());
        assert_ne!(ban.name(), ruling(Effect::Ban, &[("ip", &["10.0.0.0/8"])]).name());
    }

    #[test]
    fn what_a_newer_version_wrote_is_left_out_whole() {
        for text in [
            r#"{"effect":"slow","when":{"ip":["::1"]}}"#,
            r#"{"effect":"ban","when":{"asn":["AS1"]}}"#,
            r#"{"effect":"ban","when":{"ip":["::1"]},"unless":{"user":["a"]}}"#,
            r#"{"effect":"ban","when":{}}"#,
            r#"{"effect":"ban","when":{"ip":[]}}"#,
            "ban",
        ] {
            assert_eq!(Ruling::read(text), None, "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Ruling::new(Effect::Ban, vec![]).is_err());
        let twice = || Condition::parse("user", ["a"]).expect("a condition");
        assert!(Ruling::new(Effect::Ban, vec![twice(), twice()]).is_err());
        let long = "a".repeat(MAX_NOTICE_NAME_BYTES / 2);
        let long = Condition::parse("user", [long.as_str()]).expect("a condition");
        assert!(Ruling::new(Effect::Ban, vec![long]).is_err());
        assert!(Condition::parse("ip", ["10.0.0.1/8"]).is_err());
        assert!(Condition::parse("user", []).is_err());
        let ban = ruling(Effect::Ban, &[("user", &["a"])]);
        assert!(ban.because("a".repeat(MAX_REASON_BYTES + 1)).is_err());
    }
}
