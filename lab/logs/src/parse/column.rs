//! A value that a parser takes from each line: where each format has it, and whether a line without
//! it is an event.

use std::borrow::Cow;

use tollgate_policy::Field as PolicyField;

use super::by::{By, MAX_BY};
use super::line::{method_of, path_of};
use super::names::{AGENT, BYTES, HOST, METHOD, PATH, REFERER, STATUS, USER};
use super::{clf, endpoint, line};

/// The most columns of a parser: those of the `--by` option and the fields of policies, a cost, and
/// the two of signs.
pub(super) const MAX_COLUMNS: usize = MAX_BY + 14;

/// How a value is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The address of the client.
    Ip,
    /// A path, without its query.
    Path,
    /// A path in the form that fronts give to policies.
    Form,
    /// That form, in which `*` stands for numbers and identifiers.
    Endpoint,
    /// A method.
    Method,
    /// As it is written.
    Plain,
}

impl Kind {
    /// A value in the form that is compared.
    pub(super) fn formed<'a>(self, value: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        match self {
            Self::Form => endpoint::formed(value),
            Self::Endpoint => endpoint::endpoint(endpoint::formed(value)),
            Self::Ip | Self::Path | Self::Method | Self::Plain => value,
        }
    }

    /// The part of a value in JSON or in a column that counts: the value may be the first line of a
    /// request.
    pub(super) fn cut<'a>(self, value: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        let part: fn(&[u8]) -> &[u8] = match self {
            Self::Path | Self::Form | Self::Endpoint => |value| path_of(line::target(value)),
            Self::Method => method_of,
            Self::Ip | Self::Plain => return value,
        };
        match value {
            Cow::Borrowed(text) => Cow::Borrowed(part(text)),
            Cow::Owned(text) => Cow::Owned(part(&text).to_vec()),
        }
    }
}

/// A value of each line.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The name in messages.
    pub(super) by: By,
    pub(super) kind: Kind,
    /// `None` when common and combined logs have no such field.
    pub(super) clf: Option<clf::Field>,
    /// The names in JSON lines and of columns, best first.
    pub(super) names: Vec<Cow<'static, str>>,
    /// Whether a line without it is not an event.
    pub(super) is_required: bool,
}

fn known(names: &'static [&'static str]) -> Vec<Cow<'static, str>> {
    names.iter().copied().map(Cow::Borrowed).collect()
}

impl Column {
    /// A field of the `--by` option, which is neither all nor several.
    pub(crate) fn required(by: &By) -> Self {
        Self { is_required: true, ..Self::optional(by) }
    }

    /// A field of the `--each` option: of paths those of one endpoint are one value.
    pub(crate) fn each(by: &By) -> Self {
        let column = Self::required(by);
        let kind = if *by == By::Path { Kind::Endpoint } else { column.kind };
        Self { kind, ..column }
    }

    /// The same field, without which a line is an event all the same.
    pub(crate) fn optional(by: &By) -> Self {
        let (kind, clf, names) = match by {
            By::Path => (Kind::Path, Some(clf::Field::Path), known(&PATH)),
            By::User => (Kind::Plain, Some(clf::Field::User), known(&USER)),
            By::Field(name) => Self::named(name),
            By::Ip | By::All | By::Several(_) => (Kind::Ip, Some(clf::Field::Ip), Vec::new()),
        };
        Self { by: by.clone(), kind, clf, names, is_required: false }
    }

    /// A field by its name: the fields of common and combined logs are found under the names of
    /// other formats, too.
    fn named(name: &str) -> (Kind, Option<clf::Field>, Vec<Cow<'static, str>>) {
        let mut names = vec![Cow::Owned(name.to_owned())];
        let kind = if name == "method" { Kind::Method } else { Kind::Plain };
        names.extend(match name {
            "method" => known(&METHOD),
            "status" => known(&STATUS),
            "bytes" => known(&BYTES),
            "referer" => known(&REFERER),
            "agent" => known(&AGENT),
            _ => Vec::new(),
        });
        (kind, clf::Field::named(name), names)
    }

    /// The field of a log that has a field of policies, under its usual names.
    pub(crate) fn of_policy(field: &PolicyField) -> Self {
        let plain = |name: &str, clf, names: Vec<Cow<'static, str>>| Self {
            by: By::Field(name.to_owned()),
            kind: Kind::Plain,
            clf,
            names,
            is_required: false,
        };
        match field {
            PolicyField::Ip => Self::optional(&By::Ip),
            PolicyField::User => Self::optional(&By::User),
            PolicyField::Path => Self { kind: Kind::Form, ..Self::optional(&By::Path) },
            PolicyField::Method => Self::optional(&By::Field("method".to_owned())),
            PolicyField::Host => plain("host", Some(clf::Field::Vhost), known(&HOST)),
            PolicyField::Header(name) => {
                let (clf, more) = match &**name {
                    "user-agent" => (Some(clf::Field::Agent), known(&AGENT)),
                    "referer" => (Some(clf::Field::Referer), known(&REFERER)),
                    _ => (None, Vec::new()),
                };
                let names = [
                    format!("http_{}", name.replace('-', "_")),
                    format!("headers.{name}"),
                    format!("header.{name}"),
                    name.to_string(),
                ];
                let names = names.map(Cow::Owned).into_iter().chain(more);
                plain(&format!("header.{name}"), clf, names.collect())
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
