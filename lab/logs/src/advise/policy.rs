//! A policy file with the recommended limit.

use std::fmt::Write as _;

use tollgate::Unit;

use super::Options;
use super::scan::Profile;
use crate::parse::By;

/// The name of the policy.
pub const NAME: &str = "advised";

/// The constant that counts all requests together.
const EVERYBODY: &str = "everybody=all";

/// The width of a comment.
const WIDTH: usize = 76;

/// The dimensions of the subject in a policy file, for a `--by` option.
pub(super) fn dimensions(by: &By) -> Vec<String> {
    let mut all = Vec::new();
    for field in by.fields() {
        let dimension = match field {
            By::Ip => "ip".to_owned(),
            By::User => "user".to_owned(),
            // A caller chooses paths, so no subject has them.
            By::Path => "route".to_owned(),
            By::Field(name) => of_field(name),
            By::All | By::Several(_) => EVERYBODY.to_owned(),
        };
        if !all.contains(&dimension) {
            all.push(dimension);
        }
    }
    all
}

/// The field of policies for a field of a log.
fn of_field(name: &str) -> String {
    match name {
        "method" | "host" | "route" | "api_key" => name.to_owned(),
        "vhost" => "host".to_owned(),
        "agent" => "header.user-agent".to_owned(),
        "referer" => "header.referer".to_owned(),
        // A name in a policy file has 1 to 64 of these characters.
        name => {
            let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            let name = name.chars().take(64).map(|c| if sound(c) { c } else { '_' });
            format!("field.{}", name.collect::<String>())
        }
    }
}

/// The text of the file.
pub(super) fn text(
    options: &Options,
    (limit, reason): (&str, &str),
    ordinary: usize,
    profiles: &[Profile],
) -> String {
    let mut text = String::new();
    comment(
        &mut text,
        &format!("Made by tollgate advise from {ordinary} clients by {}.", options.by),
    );
    comment(&mut text, reason);
    if options.by.fields().contains(&By::Path) {
        comment(
            &mut text,
            "A path is not a subject, since a caller chooses it: your front gives routes.",
        );
    }
    text.push_str("version = 1\n\n[[policies]]\n");
    let _ = writeln!(text, "name = \"{NAME}\"\n{}", common(options));
    if let Some(cost) = &options.cost {
        comment(
            &mut text,
            "The cost must be known before the request is answered: your front gives this field.",
        );
        let max = profiles.iter().map(|profile| profile.largest).max().unwrap_or(1);
        let from = of_cost(cost);
        let amount = format!("{{ from = \"{from}\", max = {max}, otherwise = 1 }}");
        let _ = match options.unit {
            Unit::REQUESTS => writeln!(text, "cost = {amount}"),
            unit => writeln!(text, "cost = {{ {unit} = {amount} }}"),
        };
    }
    text.push_str(&limits(options, limit));
    text
}

/// The lines that all policies have.
pub(super) fn common(options: &Options) -> &'static str {
    if options.is_shadow {
        "on_failure = \"allow\"\nshadow = true"
    } else {
        "on_failure = \"allow\""
    }
}

/// The line with the limit.
pub(super) fn limits(options: &Options, limit: &str) -> String {
    let dimensions = dimensions(&options.by);
    let subject = match dimensions.as_slice() {
        [one] => format!("\"{one}\""),
        several => {
            let quoted: Vec<String> = several.iter().map(|it| format!("\"{it}\"")).collect();
            format!("[{}]", quoted.join(", "))
        }
    };
    let always = |dimension: &String| {
        matches!(&**dimension, "ip" | "method" | "host") || dimension == EVERYBODY
    };
    // A line of the log without the field was no event, so such a request is not limited either.
    let absent = if dimensions.iter().all(always) { "" } else { ", absent = \"skip\"" };
    format!("limits = [{{ subject = {subject}, limit = \"{limit}\"{absent} }}]\n")
}

/// The field of policies that a cost is read from: only headers and fields of a front are possible.
fn of_cost(cost: &By) -> String {
    match cost {
        By::Field(name) => match of_field(name) {
            field if field.contains('.') => field,
            field => format!("field.{field}"),
        },
        other => format!("field.{other}"),
    }
}

/// Words in lines of comments.
pub(super) fn comment(text: &mut String, words: &str) {
    let mut line = "#".to_owned();
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = "#".to_owned();
        }
        line.push(' ');
        // A name of the log could hold what no comment may.
        line.extend(word.chars().map(|c| if c.is_control() { '?' } else { c }));
    }
    let _ = writeln!(text, "{line}");
}
