//! The replies of a check's script, field by field, and the labels of limits in words.

use std::collections::HashMap;

use tollgate::{LimitSet, Subject};
use tollgate_redis::compose::Layout;

use super::field::{Field, field};
use crate::args::{Reply, Scripts};

/// The fields of the reply.
pub(super) fn fields(
    args: &Scripts,
    parts: &[(Subject, LimitSet)],
    layout: Option<&Layout>,
) -> Vec<Field> {
    match args.answer {
        Reply::Verbose => verbose(parts, args.peek, layout),
        Reply::Boolean => vec![boolean(args)],
        Reply::Words => vec![words(args, parts)],
    }
}

fn boolean(args: &Scripts) -> Field {
    let admitted = match (args.peek, args.partial) {
        (true, _) => "1 when it would be admitted",
        (false, true) => "1 when something was granted",
        (false, false) => "1 when it was admitted and charged",
    };
    field(format!("{admitted}, 0 when not"))
}

fn words(args: &Scripts, parts: &[(Subject, LimitSet)]) -> Field {
    let admitted = if args.partial { "OK: N with the units granted" } else { "OK" };
    let label = labels(parts).into_iter().next().unwrap_or_default();
    field(format!(
        "{admitted}; or the limit that denies, the one with the longest wait, and how much of it is \
         used: `{label} OVERLIMIT: N`; `{label} NEVER: N` is a cost above its capacity N, and \
         `{label} BANNED` a ban"
    ))
}

fn verbose(parts: &[(Subject, LimitSet)], peek: bool, layout: Option<&Layout>) -> Vec<Field> {
    let charged = if peek { "what would be charged" } else { "what was charged" };
    let nonce = match layout {
        None => "ARGV[2] again".to_owned(),
        Some(layout) => match layout.text().split(' ').position(|word| word == "nonce") {
            Some(at) => format!("ARGV[{}] again", at + 1),
            None => "0".to_owned(),
        },
    };
    let mut fields = vec![
        field(nonce),
        field(format!("{charged}: 0 is a denial")),
        field("the server's time, in microseconds since 1970"),
    ];
    for limit in parts.iter().flat_map(|(_, limits)| limits.limits()) {
        fields.push(field(format!("{limit}: what remains")));
        fields.push(field("how long to wait, in microseconds; 0 when it admits, -1 for never"));
        fields.push(field("how long until all of it is free, in microseconds"));
    }
    fields.push(field(
        "and later, rarely, two for each limit (after a clock's step back, or a change of the \
         limit): when it was recorded; and 0, or 1 if the count was carried over from other \
         numbers, or 2 if it started fresh",
    ));
    fields
}

/// A label for each limit: its name, else the first dimension of its subject, in capitals. Where
/// several limits would have one, it has the limit's identity or the subject's value, too.
pub(super) fn labels(parts: &[(Subject, LimitSet)]) -> Vec<String> {
    let mut all = Vec::new();
    for (subject, set) in parts {
        let text = subject.as_str();
        let dimension = text.split(':').next().unwrap_or(text).to_ascii_uppercase();
        for limit in set.limits() {
            let label = limit.name().map_or(dimension.clone(), str::to_ascii_uppercase);
            all.push((label, text, limit.identity(), set.limits().len()));
        }
    }
    let mut count: HashMap<String, usize> = HashMap::new();
    for (label, ..) in &all {
        *count.entry(label.clone()).or_default() += 1;
    }
    let label_of = |(label, subject, identity, limits): (String, &str, &str, usize)| match (
        count.get(&label),
        limits,
    ) {
        (None | Some(1), _) => label,
        (Some(_), 1) => subject.to_owned(),
        (Some(_), _) if parts.len() == 1 => format!("{label} {identity}"),
        (Some(_), _) => format!("{subject} {identity}"),
    };
    all.into_iter().map(label_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_label_of_its_own() {
        let of = |parts: &[(&str, &str)]| {
            let parts: Vec<_> = parts
                .iter()
                .map(|(subject, set)| (Subject::parse(subject).unwrap(), set.parse().unwrap()))
                .collect();
            labels(&parts)
        };
        assert_eq!(of(&[("resource:12", "5/s"), ("consumer:1", "3/s")]), ["RESOURCE", "CONSUMER"]);
        assert_eq!(of(&[("user:42", "short: 5/s, long: 9/m")]), ["SHORT", "LONG"]);
        assert_eq!(of(&[("bob", "5/s, 9/m")]), ["BOB sliding_log/1s", "BOB sliding_log/1m"]);
        assert_eq!(of(&[("user:1", "5/s"), ("user:2", "5/s")]), ["user:1", "user:2"]);
    }
}
