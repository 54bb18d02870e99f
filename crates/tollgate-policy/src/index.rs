//! Which of many lists of conditions hold: found by one value of each, then looked at in order.

use std::borrow::Cow;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::field::{Field, Fields, value};
use crate::pattern::{Condition, Pattern};

/// The numbers of lists that may hold: none is allocated for a few.
pub(crate) type Found = SmallVec<[u32; 16]>;

/// Many lists of conditions. Each is filed under that one of its conditions that the fewest share,
/// so that one value of a request leads to few.
#[derive(Debug)]
pub(crate) struct Index {
    lists: Vec<Vec<Condition>>,
    /// Those without a condition.
    always: Vec<u32>,
    fields: Vec<Filed>,
}

type Hash = foldhash::fast::RandomState;

/// What is filed under one field.
#[derive(Debug)]
struct Filed {
    field: Field,
    exact: HashMap<Box<str>, Vec<u32>, Hash>,
    begins: Prefixes,
    /// Hosts are filed from their ends.
    ends: Prefixes,
    any: Vec<u32>,
}

/// Texts that a value may begin with, in order, each with the longest of them that it begins with
/// itself. The last text that is not above a value is the longest one it begins with, or leads
/// there.
#[derive(Debug, Default)]
struct Prefixes(Vec<PrefixOf>);

#[derive(Debug)]
struct PrefixOf {
    text: Box<[u8]>,
    shorter: Option<u32>,
    lists: Vec<u32>,
}

impl Index {
    /// Files the lists under their numbers, which are their places.
    pub(crate) fn new(lists: Vec<Vec<Condition>>) -> Self {
        let anchors = anchors(&lists);
        let mut index = Self { lists: Vec::new(), always: Vec::new(), fields: Vec::new() };
        let mut begins: HashMap<(usize, Vec<u8>), Vec<u32>, Hash> = HashMap::default();
        let mut ends: HashMap<(usize, Vec<u8>), Vec<u32>, Hash> = HashMap::default();
        for ((number, list), anchor) in (0..).zip(&lists).zip(anchors) {
            let Some(anchor) = anchor.and_then(|at| list.get(at)) else {
                index.always.push(number);
                continue;
            };
            let at = index.filed(&anchor.field);
            for pattern in &anchor.any_of {
                match pattern {
                    Pattern::Exact(text) => {
                        let filed = index.fields[at].exact.entry(text.clone()).or_default();
                        push(filed, number);
                    }
                    Pattern::Prefix(text) => {
                        push(begins.entry((at, text.bytes().collect())).or_default(), number);
                    }
                    Pattern::Below(text) => {
                        push(ends.entry((at, text.bytes().rev().collect())).or_default(), number);
                    }
                    Pattern::Any => push(&mut index.fields[at].any, number),
                }
            }
        }
        for ((at, text), lists) in begins {
            index.fields[at].begins.0.push(PrefixOf { text: text.into(), shorter: None, lists });
        }
        for ((at, text), lists) in ends {
            index.fields[at].ends.0.push(PrefixOf { text: text.into(), shorter: None, lists });
        }
        for filed in &mut index.fields {
            filed.begins.link();
            filed.ends.link();
        }
        index.lists = lists;
        index
    }

    /// The conditions of a list.
    pub(crate) fn list(&self, number: u32) -> &[Condition] {
        usize::try_from(number).ok().and_then(|at| self.lists.get(at)).map_or(&[], Vec::as_slice)
    }

    fn filed(&mut self, field: &Field) -> usize {
        if let Some(at) = self.fields.iter().position(|filed| filed.field == *field) {
            return at;
        }
        self.fields.push(Filed {
            field: field.clone(),
            exact: HashMap::default(),
            begins: Prefixes::default(),
            ends: Prefixes::default(),
            any: Vec::new(),
        });
        self.fields.len() - 1
    }

    /// The numbers of the lists that may hold, in order; each is still to be looked at with
    /// [`Index::holds`]. They are put into `found` where they do not lie together anyway.
    #[inline]
    pub(crate) fn candidates<'f, F: Fields + ?Sized>(
        &'f self,
        fields: &F,
        found: &'f mut Found,
    ) -> &'f [u32] {
        if !self.fields.is_empty() {
            self.find(fields, found);
            return found;
        }
        &self.always
    }

    fn find<F: Fields + ?Sized>(&self, fields: &F, found: &mut Found) {
        found.extend_from_slice(&self.always);
        for filed in &self.fields {
            let Some(value) = value(fields, &filed.field) else { continue };
            let value = normal(&filed.field, value);
            if !filed.exact.is_empty()
                && let Some(lists) = filed.exact.get(&*value)
            {
                found.extend_from_slice(lists);
            }
            filed.begins.add(value.as_bytes(), found);
            if !filed.ends.0.is_empty() {
                let reversed: SmallVec<[u8; 64]> = value.bytes().rev().collect();
                filed.ends.add(&reversed, found);
            }
            found.extend_from_slice(&filed.any);
        }
        found.sort_unstable();
        found.dedup();
    }

    /// True when every condition of a list holds.
    #[inline]
    pub(crate) fn holds<F: Fields + ?Sized>(&self, number: u32, fields: &F) -> bool {
        self.list(number).iter().all(|condition| condition.holds(fields))
    }

    /// The first list that holds.
    #[inline]
    pub(crate) fn first<F: Fields + ?Sized>(&self, fields: &F) -> Option<u32> {
        let mut found = Found::new();
        let mut candidates = self.candidates(fields, &mut found).iter().copied();
        candidates.find(|number| self.holds(*number, fields))
    }
}

/// For each list the place of the condition it is filed under: the one that the fewest share.
fn anchors(lists: &[Vec<Condition>]) -> Vec<Option<usize>> {
    let mut shared: HashMap<(&Field, &Pattern), u32, Hash> = HashMap::default();
    for condition in lists.iter().flatten() {
        for pattern in &condition.any_of {
            *shared.entry((&condition.field, pattern)).or_default() += 1;
        }
    }
    let rank = |condition: &Condition| {
        let weak = |pattern: &Pattern| match pattern {
            Pattern::Exact(_) => 0,
            Pattern::Prefix(_) | Pattern::Below(_) => 1,
            Pattern::Any => 2,
        };
        let worst = condition.any_of.iter().map(|pattern| {
            (shared.get(&(&condition.field, pattern)).copied().unwrap_or(0), weak(pattern))
        });
        // `Any` leads everywhere, however few write it.
        let any = condition.any_of.contains(&Pattern::Any);
        (any, worst.max(), condition.any_of.len())
    };
    lists
        .iter()
        .map(|list| {
            let each = list.iter().enumerate();
            each.min_by_key(|(_, condition)| rank(condition)).map(|(at, _)| at)
        })
        .collect()
}

/// A value as patterns are written: hosts in lower case.
#[inline]
fn normal<'v>(field: &Field, value: Cow<'v, str>) -> Cow<'v, str> {
    if *field == Field::Host && value.bytes().any(|b| b.is_ascii_uppercase()) {
        return Cow::Owned(value.to_ascii_lowercase());
    }
    value
}

/// Once, also for a condition that says the same twice.
fn push(lists: &mut Vec<u32>, number: u32) {
    if lists.last() != Some(&number) {
        lists.push(number);
    }
}

impl Prefixes {
    /// Brings them into order and links each to the longest that it begins with.
    fn link(&mut self) {
        self.0.sort_unstable_by(|a, b| a.text.cmp(&b.text));
        let mut open: Vec<u32> = Vec::new();
        for at in 0..self.0.len() {
            let is_open = |open: u32, all: &[PrefixOf]| {
                usize::try_from(open).is_ok_and(|open| all[at].text.starts_with(&all[open].text))
            };
            while open.last().is_some_and(|last| !is_open(*last, &self.0)) {
                open.pop();
            }
            self.0[at].shorter = open.last().copied();
            open.extend(u32::try_from(at));
        }
    }

    #[inline]
    fn add(&self, value: &[u8], found: &mut Found) {
        let above = self.0.partition_point(|prefix| *prefix.text <= *value);
        let mut at = above.checked_sub(1);
        while let Some(prefix) = at.and_then(|at| self.0.get(at)) {
            if value.starts_with(&prefix.text) {
                found.extend_from_slice(&prefix.lists);
            }
            at = prefix.shorter.and_then(|shorter| usize::try_from(shorter).ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn conditions() -> impl Strategy<Value = Vec<Condition>> {
        let field = prop_oneof![
            Just("host"),
            Just("path"),
            Just("method"),
            Just("header.a"),
            Just("field.b")
        ];
        let text = prop_oneof!["[ab./]{1,4}", "[ab./]{1,3}\\*", Just("*".to_owned()), "\\*\\.[ab]"];
        let texts = prop::collection::vec(text, 1..3);
        prop::collection::vec((field, texts), 0..3).prop_map(|list| {
            let mut conditions: Vec<Condition> = Vec::new();
            for (field, texts) in list {
                let field = Field::parse(field).unwrap();
                let parse = |text: &String| Pattern::parse(&field, text).ok();
                let any_of: Vec<_> = texts.iter().filter_map(parse).collect();
                if !any_of.is_empty() && conditions.iter().all(|c| c.field != field) {
                    conditions.push(Condition::new(field, any_of));
                }
            }
            conditions
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_index_finds_what_looking_at_each_finds(
            lists in prop::collection::vec(conditions(), 0..20),
            values in prop::collection::vec("[abAB./]{0,5}", 5),
        ) {
            let names = ["host", "path", "method", "header.a", "field.b"];
            let request: Vec<(&str, &str)> =
                names.into_iter().zip(values.iter().map(String::as_str)).collect();
            let index = Index::new(lists.clone());
            let slow: Vec<u32> = (0..)
                .zip(&lists)
                .filter(|(_, list)| list.iter().all(|c| c.holds(request.as_slice())))
                .map(|(number, _)| number)
                .collect();
            let mut found = Found::new();
            let candidates = index.candidates(request.as_slice(), &mut found);
            let holds = |number: &u32| index.holds(*number, request.as_slice());
            let fast: Vec<u32> = candidates.iter().copied().filter(holds).collect();
            prop_assert_eq!(&fast, &slow);
            prop_assert_eq!(index.first(request.as_slice()), slow.first().copied());
        }

        #[test]
        fn what_covers_and_excludes_tells_the_truth(
            one in conditions(),
            other in conditions(),
            values in prop::collection::vec("[ab./]{1,4}", 5),
        ) {
            let names = ["host", "path", "method", "header.a", "field.b"];
            let request: Vec<(&str, &str)> =
                names.into_iter().zip(values.iter().map(String::as_str)).collect();
            for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
                let (a_holds, b_holds) = (a.holds(request.as_slice()), b.holds(request.as_slice()));
                prop_assert!(!a.covers(b) || !b_holds || a_holds, "{a} covers {b}");
                prop_assert!(!(a.excludes(b) && a_holds && b_holds), "{a} excludes {b}");
            }
        }
    }
}
