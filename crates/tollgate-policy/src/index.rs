//! An index over many lists of conditions: it finds candidates by one value each, then tests them
//! in order.

use hashbrown::{HashMap, HashSet};
use ipnet::IpNet;
use smallvec::SmallVec;

use crate::field::{Field, Fields, value};
use crate::glob::Glob;
use crate::list::ValueList;
use crate::network::{NetworkMap, client_address, parse_client};
use crate::pattern::{Condition, Pattern, SHORT, normal};

/// The numbers of lists that may hold; a few need no allocation.
pub(crate) type Found = SmallVec<[u32; 16]>;

/// An index of many lists of conditions. Each list is filed under its condition that the fewest
/// lists share, so that one value of a request leads to few candidates.
#[derive(Debug)]
pub(crate) struct Index {
    /// The conditions of each list without the one that it is filed under.
    rests: Vec<Vec<Rest>>,
    /// The lists without a condition.
    always: Vec<u32>,
    fields: Vec<Filed>,
}

type Hash = foldhash::fast::RandomState;

/// A condition still to be tested when its list was found by another one.
#[derive(Debug)]
enum Rest {
    Few(Condition),
    /// A condition with many patterns, with a separate index, and whether it is negated.
    Many(Box<Filed>, bool),
}

/// The lists filed under one field.
#[derive(Debug)]
struct Filed {
    field: Field,
    exact: HashMap<Box<str>, Vec<u32>, Hash>,
    begins: Prefixes,
    /// Hosts are filed reversed, from their ends.
    ends: Prefixes,
    networks: NetworkMap<Vec<u32>>,
    /// Lists in files, each with its own look-up: when a file changes, only one of them does.
    listed: Vec<(ValueList, Vec<u32>)>,
    any: Vec<u32>,
}

/// Sorted prefixes, each with the longest other prefix that it begins with. The last prefix that is
/// not above a value is its longest prefix, or leads to it.
#[derive(Debug, Default)]
struct Prefixes {
    sorted: Vec<PrefixOf>,
    /// Where they have few lengths: the place of each by its text, and the lengths. A look-up for
    /// each length is less than the way through thousands.
    places: HashMap<Box<[u8]>, u32, Hash>,
    lengths: SmallVec<[usize; FEW_LENGTHS]>,
}

/// Up to so many lengths of prefixes are looked up one by one.
const FEW_LENGTHS: usize = 8;

#[derive(Debug)]
struct PrefixOf {
    text: Box<[u8]>,
    shorter: Option<u32>,
    lists: Vec<u32>,
}

impl Index {
    /// Builds the index. The number of a list is its position.
    pub(crate) fn new(lists: Vec<Vec<Condition>>) -> Self {
        let (anchors, by_end) = (anchors(&lists), by_end(&lists));
        let mut index = Self { rests: Vec::new(), always: Vec::new(), fields: Vec::new() };
        for ((number, mut list), anchor) in (0..).zip(lists).zip(anchors) {
            match anchor {
                Some(at) => {
                    // A part of a text finds more than the text does: the rest is still tested.
                    let is_whole = list[at].any_of.iter().all(|pattern| pattern.glob().is_none());
                    let anchor = if is_whole { list.remove(at) } else { list[at].clone() };
                    let filed = index.filed(&anchor.field);
                    for pattern in &anchor.any_of {
                        match pattern.glob().filter(|glob| by_end.contains(*glob)) {
                            None => filed.file(pattern, number),
                            Some(glob) => {
                                filed.ends.push(glob.ends().bytes().rev().collect(), number);
                            }
                        }
                    }
                }
                None => index.always.push(number),
            }
            index.rests.push(list.into_iter().map(Rest::new).collect());
        }
        index.fields.iter_mut().for_each(Filed::link);
        index
    }

    fn filed(&mut self, field: &Field) -> &mut Filed {
        let at = self.fields.iter().position(|filed| filed.field == *field);
        let at = at.unwrap_or_else(|| {
            self.fields.push(Filed::new(field.clone()));
            self.fields.len() - 1
        });
        &mut self.fields[at]
    }

    /// The numbers of the lists that may hold, in order; each must still be tested with
    /// [`Index::holds`]. They are collected in `found` unless they are already contiguous.
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
            filed.find(fields, found);
        }
        found.sort_unstable();
        found.dedup();
    }

    /// True when every condition of a candidate holds.
    #[inline]
    pub(crate) fn holds<F: Fields + ?Sized>(&self, candidate: u32, fields: &F) -> bool {
        let rest = usize::try_from(candidate).ok().and_then(|at| self.rests.get(at));
        rest.is_some_and(|rest| rest.iter().all(|condition| condition.holds(fields)))
    }

    /// The first list that holds.
    #[inline]
    pub(crate) fn first<F: Fields + ?Sized>(&self, fields: &F) -> Option<u32> {
        let mut found = Found::new();
        let mut candidates = self.candidates(fields, &mut found).iter().copied();
        candidates.find(|number| self.holds(*number, fields))
    }
}

impl Rest {
    fn new(condition: Condition) -> Self {
        let has_glob = condition.any_of.iter().any(|pattern| pattern.glob().is_some());
        if condition.any_of.len() <= SHORT || condition.field.is_clock() || has_glob {
            return Self::Few(condition);
        }
        let negated = condition.negated;
        let mut filed = Filed::new(condition.field);
        condition.any_of.iter().for_each(|pattern| filed.file(pattern, 0));
        filed.link();
        Self::Many(Box::new(filed), negated)
    }

    #[inline]
    fn holds<F: Fields + ?Sized>(&self, fields: &F) -> bool {
        match self {
            Self::Few(condition) => condition.holds(fields),
            Self::Many(filed, negated) => {
                let mut found = Found::new();
                filed.find(fields, &mut found);
                found.is_empty() == *negated
            }
        }
    }
}

impl Filed {
    fn new(field: Field) -> Self {
        Self {
            field,
            exact: HashMap::default(),
            begins: Prefixes::default(),
            ends: Prefixes::default(),
            networks: NetworkMap::default(),
            listed: Vec::new(),
            any: Vec::new(),
        }
    }

    /// Files a list under this pattern.
    fn file(&mut self, pattern: &Pattern, number: u32) {
        match pattern {
            Pattern::Exact(text) | Pattern::Hashed(text) => {
                push(self.exact.entry(text.clone()).or_default(), number);
            }
            Pattern::Prefix(text) => self.begins.push(text.bytes().collect(), number),
            Pattern::Glob(glob) => self.begins.push(glob.begins().bytes().collect(), number),
            Pattern::Below(text) => self.ends.push(text.bytes().rev().collect(), number),
            Pattern::Network(net) => push(self.networks.entry(*net), number),
            Pattern::Listed(list) => match self.listed.iter_mut().find(|(of, _)| of == list) {
                Some((_, lists)) => push(lists, number),
                None => self.listed.push((list.clone(), vec![number])),
            },
            // A list is never filed under a time, which no value leads to.
            Pattern::Recurring(_) => {}
            Pattern::Any => push(&mut self.any, number),
        }
    }

    /// Finishes the index for lookups.
    fn link(&mut self) {
        self.begins.link();
        self.ends.link();
    }

    /// Adds the lists that a request's value leads to.
    fn find<F: Fields + ?Sized>(&self, fields: &F, found: &mut Found) {
        let Some(value) = value(fields, &self.field) else { return };
        let value = normal(&self.field, value);
        if !self.exact.is_empty()
            && let Some(lists) = self.exact.get(&*value)
        {
            found.extend_from_slice(lists);
        }
        self.begins.add(value.as_bytes(), found);
        if !self.ends.sorted.is_empty() {
            // There must be at least one byte before the dot.
            let reversed: SmallVec<[u8; 64]> = value.bytes().skip(1).rev().collect();
            self.ends.add(&reversed, found);
        }
        let address = if self.field == Field::Ip { client_address(fields, &value) } else { None };
        if let Some(address) = address.filter(|_| !self.exact.is_empty())
            && let Some(lists) = self.exact.get(&*address.to_string())
        {
            found.extend_from_slice(lists);
        }
        if self.field != Field::Ip {
            for (_, lists) in self.listed.iter().filter(|(list, _)| list.holds(&value)) {
                found.extend_from_slice(lists);
            }
        } else if !(self.networks.is_empty() && self.listed.is_empty())
            && let Some(told) = address.map(IpNet::from).or_else(|| parse_client(&value))
        {
            self.networks.around(told, |lists| found.extend_from_slice(lists));
            for (_, lists) in self.listed.iter().filter(|(list, _)| list.covers(told)) {
                found.extend_from_slice(lists);
            }
        }
        found.extend_from_slice(&self.any);
    }
}

/// For each list, the position of the condition it is filed under: the one that the fewest share.
fn anchors(lists: &[Vec<Condition>]) -> Vec<Option<usize>> {
    let mut shared: HashMap<(&Field, &Pattern), u32, Hash> = HashMap::default();
    for condition in lists.iter().flatten() {
        for pattern in &condition.any_of {
            *shared.entry((&condition.field, pattern)).or_default() += 1;
        }
    }
    let rank = |condition: &Condition| {
        let weak = |pattern: &Pattern| match pattern {
            Pattern::Exact(_) | Pattern::Hashed(_) => 0,
            Pattern::Prefix(_) | Pattern::Glob(_) | Pattern::Below(_) => 1,
            Pattern::Network(_) | Pattern::Listed(_) => 1,
            Pattern::Any | Pattern::Recurring(_) => 2,
        };
        let worst = condition.any_of.iter().map(|pattern| {
            (shared.get(&(&condition.field, pattern)).copied().unwrap_or(0), weak(pattern))
        });
        // `Any` matches every value, however few lists have it.
        let any = condition.any_of.contains(&Pattern::Any);
        (any, worst.max(), condition.any_of.len())
    };
    lists
        .iter()
        .map(|list| {
            // No value leads to a time, nor to what a value must not be.
            let each = list.iter().enumerate();
            let each = each.filter(|(_, it)| !it.field.is_clock() && !it.negated);
            each.min_by_key(|(_, condition)| rank(condition)).map(|(at, _)| at)
        })
        .collect()
}

/// The globs whose end fewer lists have than their beginning: they are filed under that.
fn by_end(lists: &[Vec<Condition>]) -> HashSet<Glob> {
    let mut begins: HashMap<&str, u32, Hash> = HashMap::default();
    let mut ends: HashMap<&str, u32, Hash> = HashMap::default();
    let globs = || {
        let patterns = lists.iter().flatten().flat_map(|condition| &condition.any_of);
        patterns.filter_map(Pattern::glob)
    };
    for glob in globs() {
        *begins.entry(glob.begins()).or_default() += 1;
        *ends.entry(glob.ends()).or_default() += 1;
    }
    // Without a text there, every value is like it.
    let count = |all: &HashMap<&str, u32, Hash>, part: &str| match part {
        "" => u32::MAX,
        _ => all.get(part).copied().unwrap_or_default(),
    };
    let is_rarer = |glob: &&Glob| count(&ends, glob.ends()) < count(&begins, glob.begins());
    globs().filter(is_rarer).cloned().collect()
}

/// Adds a number once, also if a condition has the same pattern twice.
fn push(lists: &mut Vec<u32>, number: u32) {
    if lists.last() != Some(&number) {
        lists.push(number);
    }
}

impl Prefixes {
    fn push(&mut self, text: Box<[u8]>, number: u32) {
        self.sorted.push(PrefixOf { text, shorter: None, lists: vec![number] });
    }

    /// Sorts the prefixes, merges equal ones, and links each to the longest other one that it
    /// begins with.
    fn link(&mut self) {
        self.sorted.sort_by(|a, b| a.text.cmp(&b.text));
        self.sorted.dedup_by(|next, first| {
            let same = next.text == first.text;
            if same {
                next.lists.iter().for_each(|number| push(&mut first.lists, *number));
            }
            same
        });
        let mut open: Vec<u32> = Vec::new();
        for at in 0..self.sorted.len() {
            let is_open = |open: u32, all: &[PrefixOf]| {
                usize::try_from(open).is_ok_and(|open| all[at].text.starts_with(&all[open].text))
            };
            while open.last().is_some_and(|last| !is_open(*last, &self.sorted)) {
                open.pop();
            }
            self.sorted[at].shorter = open.last().copied();
            open.extend(u32::try_from(at));
        }
        let mut lengths: Vec<usize> = self.sorted.iter().map(|prefix| prefix.text.len()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        if lengths.len() <= FEW_LENGTHS && self.sorted.len() > SHORT {
            self.lengths = lengths.into();
            let places = (0..).zip(&self.sorted);
            self.places = places.map(|(place, prefix)| (prefix.text.clone(), place)).collect();
        }
    }

    #[inline]
    fn add(&self, value: &[u8], found: &mut Found) {
        if !self.places.is_empty() {
            for text in self.lengths.iter().filter_map(|length| value.get(..*length)) {
                let place = self.places.get(text).and_then(|place| usize::try_from(*place).ok());
                if let Some(prefix) = place.and_then(|place| self.sorted.get(place)) {
                    found.extend_from_slice(&prefix.lists);
                }
            }
            return;
        }
        let above = self.sorted.partition_point(|prefix| *prefix.text <= *value);
        let mut at = above.checked_sub(1);
        while let Some(prefix) = at.and_then(|at| self.sorted.get(at)) {
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
            Just("field.b"),
            Just("ip")
        ];
        let text = prop_oneof![
            "[ab./]{1,4}",
            "[ab./]{1,3}\\*",
            "[ab./]{0,2}\\*[ab./]{1,2}\\*?",
            Just("*".to_owned()),
            "\\*\\.[ab]",
            "1\\.[0-3]\\.\\*",
            "1\\.[0-3]\\.[0-3]\\.[0-3]",
            "(0\\.0\\.0\\.0/0|1\\.0\\.0\\.0/(8|14|15)|1\\.[0-3]\\.0\\.0/16|1\\.2\\.[02]\\.0/23)",
            "2001:db8::(/(32|64|127)|1)?"
        ];
        // Some so long that a separate index finds them.
        let texts = prop_oneof![
            9 => prop::collection::vec(text.clone(), 1..3),
            1 => prop::collection::vec(text, 17..30),
        ];
        let each = (field, texts, any::<bool>(), prop::bool::weighted(0.2));
        prop::collection::vec(each, 0..3).prop_map(|list| {
            let mut conditions: Vec<Condition> = Vec::new();
            for (field, texts, listed, negated) in list {
                let field = Field::parse(field).unwrap();
                // The same networks, in a separate list.
                if listed && field == Field::Ip && conditions.iter().all(|c| c.field != field) {
                    let is_net = |text: &&String| crate::network::parse_network(text).is_ok();
                    let nets: Vec<&str> = texts.iter().filter(is_net).map(|it| &**it).collect();
                    let list = ValueList::parse(&Field::Ip, "list", &nets.join("\n")).unwrap();
                    conditions.push(Condition::new(field, vec![Pattern::Listed(list)]));
                    continue;
                }
                // In any form: no value is too odd to be found.
                let parse = |text: &String| Pattern::read(&field, text).ok();
                let any_of: Vec<_> = texts.iter().filter_map(parse).collect();
                if !any_of.is_empty() && conditions.iter().all(|c| c.field != field) {
                    let condition = Condition::new(field, any_of);
                    conditions.push(if negated { condition.negate() } else { condition });
                }
            }
            conditions
        })
    }

    /// A value for each field, and an address.
    fn values() -> impl Strategy<Value = Vec<String>> {
        let address =
            prop_oneof!["1\\.[0-3]\\.[0-3]\\.[0-3]", "2001:db8::(1|/64|/48)?", "[ab./]{0,5}"];
        (prop::collection::vec("[abAB./]{0,5}", 5), address).prop_map(|(mut values, address)| {
            values.push(address);
            values
        })
    }

    const NAMES: [&str; 6] = ["host", "path", "method", "header.a", "field.b", "ip"];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_index_finds_what_looking_at_each_finds(
            lists in prop::collection::vec(conditions(), 0..20),
            values in values(),
        ) {
            let request: Vec<(&str, &str)> =
                NAMES.into_iter().zip(values.iter().map(String::as_str)).collect();
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
            values in values(),
        ) {
            let request: Vec<(&str, &str)> =
                NAMES.into_iter().zip(values.iter().map(String::as_str)).collect();
            for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
                let (a_holds, b_holds) = (a.holds(request.as_slice()), b.holds(request.as_slice()));
                prop_assert!(!a.covers(b) || !b_holds || a_holds, "{a} covers {b}");
                prop_assert!(!(a.excludes(b) && a_holds && b_holds), "{a} excludes {b}");
            }
        }
    }
}
