//! The fields of a request, and how a front provides them.

use core::fmt;
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::SystemTime;

use tollgate::{ParseError, Subject, SubjectPrefix, Time};

/// The longest name of a header or a field, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// One field of a request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Field {
    /// The client's address.
    Ip,
    /// The host name, without a port.
    Host,
    /// The method, such as `GET`.
    Method,
    /// The path; only for conditions.
    Path,
    /// The template of the route that matched.
    Route,
    /// The authenticated user.
    User,
    /// The API key, hashed by the front.
    ApiKey,
    /// A header, by its lower-case name.
    Header(Box<str>),
    /// Anything else, by name: a field of a JSON body, an entry of an Envoy descriptor.
    Custom(Box<str>),
    /// The time of day by the clock of the process; only for conditions.
    Time,
    /// The day of the week by the clock of the process; only for conditions.
    Day,
    /// The tier of the request's key in the policy's file of tiers; only for overrides.
    Tier,
}

/// The fields of a request, provided by a front.
///
/// A front returns the fields that it knows, and `None` for all others. `Ip`, `Host` and `Method`
/// are assumed to be always present. An empty value counts as absent. A value that is not UTF-8
/// must not be reported as absent, since that could mean "no limit": encode its bytes, for example
/// as `%XX`.
///
/// A map from names, as in a policy file, to values is a request too. It is meant for tests and for
/// programs without HTTP.
///
/// ```
/// use std::borrow::Cow;
/// use tollgate_policy::{Field, Fields};
///
/// struct Call { tenant: String }
/// impl Fields for Call {
///     fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
///         match field {
///             Field::Custom(name) if &**name == "tenant" => Some(Cow::Borrowed(&self.tenant)),
///             _ => None,
///         }
///     }
/// }
/// ```
pub trait Fields {
    /// The value of a field, borrowed if possible: the gate reads it on every request.
    fn field(&self, field: &Field) -> Option<Cow<'_, str>>;

    /// The client's full address, if `ip` is only the network that it is counted by, such as the
    /// `/64` of an IPv6 client. Conditions on `ip` apply to the full address.
    fn address(&self) -> Option<IpAddr> {
        None
    }

    /// The time by which conditions on `time` and `day` hold: that of the process's wall clock,
    /// unless the front knows better, as for a request of a log.
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Time::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl<F: Fields + ?Sized> Fields for &F {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        (**self).field(field)
    }

    fn address(&self) -> Option<IpAddr> {
        (**self).address()
    }

    fn now(&self) -> Time {
        (**self).now()
    }
}

/// Keys are the names of a policy file: `ip`, `header.x-tier`, `field.plan`.
impl<S: std::hash::BuildHasher> Fields for std::collections::HashMap<String, String, S> {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        self.get(field.to_string().as_str()).map(|value| Cow::Borrowed(value.as_str()))
    }
}

impl Fields for [(&str, &str)] {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        let found = self.iter().find(|(name, _)| field.is_written(name))?;
        Some(Cow::Borrowed(found.1))
    }
}

impl<const N: usize> Fields for [(&str, &str); N] {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        self.as_slice().field(field)
    }
}

/// The fields without a name part.
const PLAIN: [(&str, Field); 7] = [
    ("ip", Field::Ip),
    ("host", Field::Host),
    ("method", Field::Method),
    ("path", Field::Path),
    ("route", Field::Route),
    ("user", Field::User),
    ("api_key", Field::ApiKey),
];

/// The names that are fields in conditions alone.
const CONDITIONS: [(&str, Field); 3] =
    [("time", Field::Time), ("day", Field::Day), ("tier", Field::Tier)];

/// The field that another word means: names of other tools, and those of a program's own.
fn foreign(text: &str) -> Option<&'static str> {
    Some(match text.to_ascii_lowercase().as_str() {
        "client_ip" | "remote_addr" | "remote_address" | "binary_remote_addr" | "address"
        | "client" => "ip",
        "username" | "user_id" | "userid" | "account" | "sub" => "user",
        "apikey" | "api-key" | "key" => "api_key",
        "url" | "uri" | "request_uri" => "path",
        "server_name" | "hostname" | "domain" => "host",
        "tenant" | "tenant_id" => "field.tenant",
        "country" | "region" => "field.country",
        "plan" => "field.plan",
        _ => return None,
    })
}

impl Field {
    /// Parses the name of a condition: a field, `time`, `day` or `tier`.
    ///
    /// # Errors
    /// As [`Field::parse`].
    pub(crate) fn parse_condition(text: &str) -> Result<Self, ParseError> {
        let of_condition = |text: &str| CONDITIONS.iter().find(|(name, _)| *name == text);
        if let Some((_, field)) = of_condition(text) {
            return Ok(field.clone());
        }
        Self::parse(text).map_err(|error| {
            let words = Self::words().chain(CONDITIONS.iter().map(|(name, _)| *name));
            match closest(text, words).and_then(of_condition) {
                Some((near, _)) => {
                    ParseError::whole(text, error.what(), format!("did you mean `{near}`?"))
                }
                None => error,
            }
        })
    }

    /// True for a condition by the clock.
    pub(crate) fn is_clock(&self) -> bool {
        matches!(self, Self::Time | Self::Day)
    }

    /// True for the fields that a front provides.
    pub(crate) fn is_of_request(&self) -> bool {
        !matches!(self, Self::Time | Self::Day | Self::Tier)
    }

    /// Parses a field as in a policy file: `ip`, `header.x-tier`, `field.plan`.
    ///
    /// # Errors
    /// An unknown field; a name that is not 1 to 64 letters, digits, `_`, `-` or `.`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if let Some((_, field)) = PLAIN.iter().find(|(name, _)| *name == text) {
            return Ok(field.clone());
        }
        let (kind, name) = match text.split_once('.') {
            Some((kind @ ("header" | "field"), name)) => (kind, name),
            _ => {
                return Err(Self::unknown(text));
            }
        };
        let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(sound) {
            return Err(ParseError::at(
                text,
                kind.len() + 1..text.len(),
                format!("this is not the name of a {kind}"),
                format!("a name is 1 to {MAX_NAME_BYTES} letters, digits, `_`, `-` or `.`"),
            ));
        }
        Ok(match kind {
            "header" => Self::Header(name.to_ascii_lowercase().into()),
            _ => Self::Custom(name.into()),
        })
    }

    fn unknown(text: &str) -> ParseError {
        if let "header" | "field" = text {
            let what = format!("`{text}` alone is not a field");
            return ParseError::whole(text, what, format!("say which, e.g. `{text}.NAME`"));
        }
        let remedy = "the fields are ip, host, method, path, route, user, api_key, header.NAME and \
                      field.NAME";
        if text.is_empty() {
            return ParseError::whole(text, "an empty text is not a field", remedy);
        }
        // On the command line, a subject is one text with commas.
        if text.contains(',') {
            let remedy = "write several as a list, e.g. `[\"user\", \"field.resource\"]`";
            return ParseError::whole(text, format!("`{text}` is not a field"), remedy);
        }
        let advised = advice(text, Self::words(), remedy);
        let remedy = match foreign(text) {
            Some(right) => format!("write `{right}`; {remedy}"),
            None => advised,
        };
        ParseError::whole(text, format!("`{text}` is not a field"), remedy)
    }

    /// The words that begin a field, for suggestions.
    pub(crate) fn words() -> impl Iterator<Item = &'static str> {
        PLAIN.iter().map(|(name, _)| *name).chain(["header", "field"])
    }

    /// True for the fields that every request should have: no rule has to say what happens without
    /// them, and a request that lacks one is denied.
    #[must_use]
    pub fn is_always_there(&self) -> bool {
        matches!(self, Self::Ip | Self::Host | Self::Method)
    }

    /// True for the fields for which a rule may say what happens without them. An address is among
    /// them: over a unix socket a client has none.
    pub(crate) fn may_be_absent(&self) -> bool {
        !matches!(self, Self::Host | Self::Method)
    }

    /// True for headers that contain a secret: in a subject, it would appear in counts and logs.
    pub(crate) fn is_secret(&self) -> bool {
        let secret = ["authorization", "cookie", "proxy-authorization"];
        matches!(self, Self::Header(name) if secret.contains(&&**name))
    }

    /// True when `name` is how this field is written.
    fn is_written(&self, name: &str) -> bool {
        match self {
            Self::Header(header) => {
                let name = name.strip_prefix("header.");
                name.is_some_and(|name| name.eq_ignore_ascii_case(header))
            }
            Self::Custom(field) => name.strip_prefix("field.") == Some(field),
            plain => PLAIN.iter().any(|(word, field)| word == &name && field == plain),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Custom(name) => write!(f, "field.{name}"),
            plain => {
                let mut words = PLAIN.iter().chain(&CONDITIONS);
                let word = words.find(|(_, field)| field == plain);
                f.write_str(word.map_or("", |(word, _)| word))
            }
        }
    }
}

/// Advice about an unknown word: the most similar of these words, and then what is `right`.
pub fn advice<'n>(word: &str, words: impl IntoIterator<Item = &'n str>, right: &str) -> String {
    let Some(near) = closest(word, words) else { return right.to_owned() };
    let (first, rest) = right.split_at(right.chars().next().map_or(0, char::len_utf8));
    format!("did you mean `{near}`? {}{rest}", first.to_uppercase())
}

/// The most similar word, if one is close.
pub(crate) fn closest<'n>(word: &str, words: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = |known: &str| known.len().div_ceil(3);
    // The distance takes time and memory per letter; a much longer word is not similar.
    let alike = |known: &&str| word.len().abs_diff(known.len()) <= most(known);
    let lowered = if word.len() < 256 { word.to_lowercase() } else { String::new() };
    words
        .into_iter()
        .filter(alike)
        .map(|known| (strsim::damerau_levenshtein(&lowered, &known.to_lowercase()), known))
        .min()
        .filter(|(distance, known)| *distance <= most(known))
        .map(|(_, known)| known)
}

/// The value of a field that is present; an empty value counts as absent.
#[inline]
pub(crate) fn value<'f, F: Fields + ?Sized>(fields: &'f F, field: &Field) -> Option<Cow<'f, str>> {
    fields.field(field).filter(|value| !value.is_empty())
}

/// The subject of a field's value, such as `ip:192.0.2.7`, for [`Gate::check_at_once`]. `None` if
/// the field is absent, or its value is too long.
///
/// [`Gate::check_at_once`]: crate::Gate::check_at_once
#[inline]
pub fn subject_of<F: Fields + ?Sized>(
    fields: &F,
    field: &Field,
    prefix: &SubjectPrefix,
) -> Option<Subject> {
    prefix.with(&value(fields, field)?).ok()
}
