//! A value that a parser takes from each line: where both formats have it, and whether a line
//! without it is an event.

use std::borrow::Cow;

use tollgate_policy::Field as PolicyField;

use super::by::{By, MAX_BY};
use super::clf;
use super::field_names::{JSON_HOST, JSON_METHOD, JSON_PATH, JSON_USER};

/// The most columns of a parser: those of the `--by` option, and the fields of policies.
pub(super) const MAX_COLUMNS: usize = MAX_BY + 12;

/// How a value is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An address, without a port. In JSON lines it is the client.
    Ip,
    /// A path, without its query.
    Path,
    /// As it is written.
    Plain,
}

/// A value of each line.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The name in messages.
    pub(super) by: By,
    pub(super) kind: Kind,
    /// `None` when common and combined logs have no such field.
    pub(super) clf: Option<clf::Field>,
    /// The names in JSON lines, best first.
    pub(super) json: Vec<Cow<'static, str>>,
    /// Whether a line without it is not an event.
    pub(super) is_required: bool,
}

impl Column {
    /// A field of the `--by` option, which is neither all nor several.
    pub(crate) fn required(by: &By) -> Self {
        Self { is_required: true, ..Self::optional(by) }
    }

    /// The same field, without which a line is an event all the same.
    pub(crate) fn optional(by: &By) -> Self {
        let known = |names: &'static [&'static str]| names.iter().copied().map(Cow::Borrowed);
        let (kind, clf, json) = match by {
            By::Path => (Kind::Path, Some(clf::Field::Path), known(&JSON_PATH).collect()),
            By::User => (Kind::Plain, Some(clf::Field::User), known(&JSON_USER).collect()),
            By::Field(name) => {
                (Kind::Plain, clf::Field::named(name), vec![Cow::Owned(name.clone())])
            }
            By::Ip | By::All | By::Several(_) => (Kind::Ip, Some(clf::Field::Ip), Vec::new()),
        };
        Self { by: by.clone(), kind, clf, json, is_required: false }
    }

    /// The field of a log that has a field of policies, under its usual names.
    pub(crate) fn of_policy(field: &PolicyField) -> Self {
        let plain = |name: &str, clf, json: Vec<Cow<'static, str>>| Self {
            by: By::Field(name.to_owned()),
            kind: Kind::Plain,
            clf,
            json,
            is_required: false,
        };
        let known = |names: &'static [&'static str]| names.iter().copied().map(Cow::Borrowed);
        match field {
            PolicyField::Ip => Self::optional(&By::Ip),
            PolicyField::User => Self::optional(&By::User),
            PolicyField::Path => Self::optional(&By::Path),
            PolicyField::Method => {
                plain("method", Some(clf::Field::Method), known(&JSON_METHOD).collect())
            }
            PolicyField::Host => {
                plain("host", Some(clf::Field::Vhost), known(&JSON_HOST).collect())
            }
            PolicyField::Header(name) => {
                let clf = match &**name {
                    "user-agent" => Some(clf::Field::Agent),
                    "referer" => Some(clf::Field::Referer),
                    _ => None,
                };
                let json = [
                    format!("http_{}", name.replace('-', "_")),
                    format!("headers.{name}"),
                    format!("header.{name}"),
                    name.to_string(),
                ];
                plain(&format!("header.{name}"), clf, json.map(Cow::Owned).into())
            }
            PolicyField::Custom(name) => Self::optional(&By::Field(name.to_string())),
            // `route`, `api_key`, and whatever policies may know later.
            other => {
                let name = other.to_string();
                plain(&name, None, vec![Cow::Owned(name.clone())])
            }
        }
    }
}
