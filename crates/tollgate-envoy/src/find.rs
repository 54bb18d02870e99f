//! The rule that a descriptor meets.

use smallvec::SmallVec;
use tollgate::{ParseError, Subject};

use crate::config::{Domain, Level, Node, Rule};
use crate::subject::subject;

/// A rule that a descriptor meets.
#[derive(Clone, Debug)]
pub struct Found<'c> {
    rule: &'c Rule,
    /// The entries whose values share a count, by their place, with the value that is counted in
    /// their stead.
    shared: SmallVec<[(usize, &'c str); 2]>,
}

impl Domain {
    /// The rule that these entries end at, if there is one.
    pub fn find<'e>(
        &self,
        entries: impl ExactSizeIterator<Item = (&'e str, &'e str)>,
    ) -> Option<Found<'_>> {
        let (mut level, mut shared, last) = (&self.level, SmallVec::new(), entries.len());
        for (place, (key, value)) in entries.enumerate() {
            let (node, is_wild) = level.meet(key, value)?;
            if let Some(pattern) = node.shared.as_deref().filter(|_| is_wild) {
                shared.push((place, pattern));
            }
            if place + 1 == last {
                return Some(Found { rule: node.rule.as_ref()?, shared });
            }
            level = &node.level;
        }
        None
    }
}

impl Level {
    /// The node that an entry matches, and whether by a `*`: an exact value goes first, then the
    /// first `*` of the file, and last the key alone.
    fn meet(&self, key: &str, value: &str) -> Option<(&Node, bool)> {
        if let Some(node) = self.exact.get(key).and_then(|values| values.get(value)) {
            return Some((node, false));
        }
        let is_met = |value_of: &Option<_>| match value_of {
            None => true,
            Some(pattern) => crate::pattern::Pattern::matches(pattern, value),
        };
        let wild = self.wild.iter().find(|wild| wild.key.matches(key) && is_met(&wild.value));
        match wild {
            Some(wild) => Some((&wild.node, true)),
            None => Some((self.bare.get(key)?, false)),
        }
    }
}

impl<'c> Found<'c> {
    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &'c Rule {
        self.rule
    }

    /// The parts of its path ([`Rule::steps`]) with the values of these entries, the entries that
    /// found it, where the file asks for them: `detailed_metric` has all of them, and
    /// `value_to_metric` that of its entry. Values that share a count are the pattern. `None` for a
    /// rule without.
    pub fn steps<'e>(
        &self,
        entries: impl Iterator<Item = (&'e str, &'e str)>,
    ) -> Option<Vec<String>> {
        if !self.rule.is_valued() {
            return None;
        }
        let mut steps = self.rule.steps();
        let mut all: Vec<String> = steps.by_ref().take(1).map(str::to_owned).collect();
        let written = self.rule.valued.iter().zip(steps);
        for (place, ((key, value), (is_valued, step))) in entries.zip(written).enumerate() {
            let shared = self.shared.iter().any(|(shared, _)| *shared == place);
            all.push(match *is_valued && !shared && !value.is_empty() {
                true => format!("{key}_{value}"),
                false => step.to_owned(),
            });
        }
        Some(all)
    }

    /// The subject for the entries that found this rule.
    ///
    /// # Errors
    /// As [`subject`].
    pub fn subject<'e>(
        &self,
        domain: &str,
        entries: impl Iterator<Item = (&'e str, &'e str)>,
    ) -> Result<Subject, ParseError>
    where
        'c: 'e,
    {
        let entries = entries.enumerate().map(|(place, (key, value))| {
            let shared = self.shared.iter().find(|(shared, _)| *shared == place);
            (key, shared.map_or(value, |(_, pattern)| *pattern))
        });
        subject(domain, entries)
    }
}
