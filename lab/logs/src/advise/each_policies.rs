//! A policy for each value of a field, of which the first one that matches counts.

use std::borrow::Cow;
use std::cmp::Reverse;

use tollgate_policy::{Field, Fields, Format, Policies};

use super::Options;
use super::policy::{NAME, comment, common, dimensions, limits};
use crate::parse::{By, parts};

/// A limit for a policy that only matches.
const ANY: &str = "1/s";

/// The policies of some values, in the order of the file.
pub(super) struct EachPolicies<'a> {
    options: &'a Options,
    each: &'a By,
    names: Vec<Vec<u8>>,
    fields: Vec<String>,
    policies: Option<Policies>,
}

impl<'a> EachPolicies<'a> {
    /// Policies for the first `most` of these values that a condition can name: a path that fronts
    /// refuse is in none.
    pub(super) fn new<'v>(
        options: &'a Options,
        each: &'a By,
        values: impl Iterator<Item = &'v [u8]>,
        most: usize,
    ) -> Self {
        let field = |by: &By| match by {
            By::Path => vec!["path".to_owned()],
            by => dimensions(by),
        };
        let fields = each.fields().iter().flat_map(field).collect();
        let mut all = Self { options, each, names: Vec::new(), fields, policies: None };
        let head = "version = 1\n";
        let is_sound = |name: &&[u8]| {
            let policy = all.policy(1, name, ANY);
            Policies::parse(&format!("{head}{policy}"), Format::Toml).is_ok()
        };
        let mut names: Vec<Vec<u8>> =
            values.filter(is_sound).take(most).map(<[u8]>::to_vec).collect();
        // What is more special comes first: a `*` stands for anything.
        let stars = |name: &[u8]| name.iter().filter(|byte| **byte == b'*').count();
        names.sort_by_key(|name| (Reverse(name.len() - stars(name)), stars(name)));
        all.names = names;
        all.policies = Policies::parse(&all.text(all.names.iter().map(|_| ANY)), Format::Toml).ok();
        all
    }

    /// The values, in the order of their policies.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &name[..])
    }

    /// The place of the policy that a request with this value gets.
    pub(super) fn of(&self, value: &[u8]) -> Option<usize> {
        let request = Request { fields: &self.fields, values: self.values(value) };
        let policy = self.policies.as_ref()?.matching(&request).into_iter().next()?;
        let number: usize = policy.name.strip_prefix(NAME)?.strip_prefix('-')?.parse().ok()?;
        number.checked_sub(1)
    }

    /// The file, with these limits in the order of the policies.
    pub(super) fn text<'l>(&self, limits: impl Iterator<Item = &'l str>) -> String {
        let mut text = String::new();
        let Self { options, each, names, .. } = self;
        let made = format!("Made by tollgate advise, by {} for each {each}.", options.by);
        comment(&mut text, &made);
        comment(
            &mut text,
            "The first policy that matches counts. Other requests have no limit here.",
        );
        text.push_str("version = 1\nmatch = \"first\"\n");
        for (number, (name, limit)) in (1..).zip(names.iter().zip(limits)) {
            text.push_str(&self.policy(number, name, limit));
        }
        text
    }

    fn policy(&self, number: usize, name: &[u8], limit: &str) -> String {
        let each = self.fields.iter().zip(self.values(name));
        // The escapes of JSON are those of a basic string of TOML.
        let quoted = |value: String| serde_json::Value::from(value).to_string();
        let conditions: Vec<String> =
            each.map(|(field, value)| format!("{field} = {}", quoted(value))).collect();
        format!(
            "\n[[policies]]\nname = \"{NAME}-{number}\"\nwhen = {{ {} }}\n{}\n{}",
            conditions.join(", "),
            common(self.options),
            limits(self.options, limit)
        )
    }

    /// The values of the fields.
    fn values(&self, name: &[u8]) -> Vec<String> {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        match self.fields.len() {
            1 => vec![text(name)],
            _ => parts(name).map(|value| text(&value)).collect(),
        }
    }
}

/// A request that has these fields alone.
struct Request<'r> {
    fields: &'r [String],
    values: Vec<String>,
}

impl Fields for Request<'_> {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        let name = field.to_string();
        let place = self.fields.iter().position(|it| *it == name)?;
        self.values.get(place).map(|value| Cow::Borrowed(&**value))
    }
}
