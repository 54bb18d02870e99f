//! Checks of subjects: substitutes for absent dimensions, and whether two subjects can be equal.

use std::collections::{BTreeSet, HashSet};

use tollgate::{LimitSet, MAX_DIMENSIONS};

use crate::field::Field;
use crate::model::{Absent, Dimension, Entry, Policy};
use crate::problem::Problem;
use crate::read::MAX_ABSENT;
use crate::spans::{EntrySpans, PolicySpans};

/// The most variants of an entry's subject: each dimension that can be absent doubles them.
const MAX_WAYS: usize = 1_024;

pub(super) fn check(policy: &Policy, place: &PolicySpans, problems: &mut Vec<Problem>) {
    let mut all = Vec::new();
    for (entry, at) in policy.entries.iter().zip(&place.entries) {
        if !sound_dimensions(entry) {
            problems.push(Problem::error(
                at.subject,
                "this subject cannot be made",
                "a subject has 1 to 16 dimensions, each of another name",
            ));
            continue;
        }
        // A program may pass any number, and substitutes are followed to the end.
        if entry.absent.len() > MAX_ABSENT {
            let what = format!("`absent` names {} fields", entry.absent.len());
            let remedy = format!("at most {MAX_ABSENT}: name only what the subject needs");
            problems.push(Problem::error(at.absent, what, remedy));
            continue;
        }
        let before = problems.len();
        absences(entry, at, problems);
        if problems.len() > before {
            continue;
        }
        match ways(entry) {
            Some(ways) => {
                twice_named(&ways, at, problems);
                let identities: HashSet<&str> = entry.sets().map(LimitSet::identity).collect();
                all.push((entry, at, ways, identities));
            }
            None => problems.push(Problem::error(
                at.absent.or(at.subject),
                format!("this subject can be made up in more than {MAX_WAYS} ways"),
                "let fewer dimensions be stood in for: `skip` or `deny`",
            )),
        }
    }
    for (i, (_, at, ways, identities)) in all.iter().enumerate() {
        let clash = all[..i].iter().find(|(_, _, theirs, others)| {
            ways.intersection(theirs).next().is_some() && !identities.is_disjoint(others)
        });
        if let Some((other, ..)) = clash {
            problems.push(Problem::error(
                at.subject,
                format!(
                    "this subject can be the same as `{}`, under limits of the same identity",
                    named(&other.subject)
                ),
                "a request would be counted twice in one count: name the limits, e.g. `anon: 10/s`, \
                 or let something else stand in",
            ));
        }
    }
}

/// True when the dimensions of a subject are within the bound and differ.
fn sound_dimensions(entry: &Entry) -> bool {
    let twice = |(i, d): (usize, &Dimension)| {
        entry.subject[..i].iter().any(|other| other.name() == d.name())
    };
    (1..=MAX_DIMENSIONS).contains(&entry.subject.len())
        && !entry.subject.iter().enumerate().any(twice)
}

fn named(subject: &[Dimension]) -> String {
    subject.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Checks that every dimension that can be absent has an `absent` rule, and so does its substitute.
fn absences(entry: &Entry, at: &EntrySpans, problems: &mut Vec<Problem>) {
    let place = at.absent.or(at.subject);
    let mut reached: BTreeSet<&Field> = BTreeSet::new();
    for start in entry.subject.iter().filter_map(Dimension::field) {
        let mut chain: Vec<&Field> = Vec::new();
        let mut field = start;
        while !field.is_always_there() || field.may_be_absent() && entry.absent.contains_key(field)
        {
            if chain.contains(&field) {
                chain.push(field);
                let circle: Vec<_> = chain.iter().map(|field| format!("`{field}`")).collect();
                problems.push(Problem::error(
                    place,
                    format!("what stands in goes in a circle: {}", circle.join(", then ")),
                    "end it with `skip`, `deny`, a constant, or a field that is always there (ip, \
                     host, method)",
                ));
                return;
            }
            chain.push(field);
            reached.insert(field);
            match entry.absent.get(field) {
                Some(Absent::Instead(Dimension::Field(next))) => field = next,
                Some(_) => break,
                None => {
                    let remedy = if chain.len() > 1 {
                        format!(
                            "it stands in, and can be absent too: write a table, e.g. `absent = {{ \
                             {start} = \"{field}\", {field} = \"skip\" }}` with quotes around names \
                             with a dot"
                        )
                    } else {
                        "write `absent = \"skip\"` (this limit does not apply), `\"deny\"`, or what \
                         stands in, e.g. `\"ip\"`"
                            .to_owned()
                    };
                    problems.push(Problem::error(
                        place,
                        format!("nothing says what happens when `{field}` is absent"),
                        remedy,
                    ));
                    break;
                }
            }
        }
    }
    for field in entry.absent.keys().filter(|field| !reached.contains(field)) {
        let what = if !field.may_be_absent() {
            format!("`{field}` is always there")
        } else {
            format!("`{field}` is not in this subject")
        };
        problems.push(Problem::error(place, what, "leave it out of `absent`"));
    }
}

/// The sets of dimensions that the subject may be built from.
fn ways(entry: &Entry) -> Option<BTreeSet<BTreeSet<Dimension>>> {
    let mut ways = BTreeSet::from([BTreeSet::new()]);
    for dimension in &entry.subject {
        let mut choices = vec![dimension];
        let mut last = dimension.field();
        // Terminates: cycles were reported as errors before.
        while let Some(Absent::Instead(next)) = last.and_then(|field| entry.absent.get(field)) {
            choices.push(next);
            last = next.field();
        }
        let mut more = BTreeSet::new();
        for way in &ways {
            for choice in &choices {
                let mut way: BTreeSet<Dimension> = way.clone();
                way.insert((*choice).clone());
                more.insert(way);
            }
        }
        if more.len() > MAX_WAYS {
            return None;
        }
        ways = more;
    }
    Some(ways)
}

/// Reports two constants with one name and different values: they cannot be in one subject.
fn twice_named(ways: &BTreeSet<BTreeSet<Dimension>>, at: &EntrySpans, problems: &mut Vec<Problem>) {
    let clash = ways.iter().find_map(|way| {
        let names: Vec<String> = way.iter().map(Dimension::name).collect();
        names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
    });
    if let Some(name) = clash {
        problems.push(Problem::error(
            at.absent.or(at.subject),
            format!("the subject can have `{name}` twice, with different values"),
            "give the constants different names",
        ));
    }
}
