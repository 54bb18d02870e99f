//! How the limits of all policies are shown, made once for each revision.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate_policy::{AnswerView, Dimension, Entry, Part, Policies, Policy, Rule};

use crate::answer::Card;

/// The cards of one revision: for each policy those of its entries.
#[derive(Debug)]
pub(super) struct Deck {
    revision: u64,
    policies: Vec<Vec<EntryCards>>,
}

/// Of the entry's own limits, and of each override's.
#[derive(Debug)]
struct EntryCards {
    own: Option<Card>,
    rules: Vec<Option<Card>>,
}

/// The deck of the newest revision that was seen.
#[derive(Debug, Default)]
pub(super) struct Cards {
    newest: ArcSwapOption<Deck>,
    making: Mutex<()>,
}

/// A deck that is held.
pub(super) enum Held {
    Newest(Guard<Option<Arc<Deck>>>),
    /// Of a request that began before the policies were replaced: its own, and no others.
    Own(Vec<Card>),
}

impl Held {
    /// The cards of these parts, in order; fewer when one cannot be shown.
    #[inline]
    pub(super) fn of(&self, parts: &[Part]) -> SmallVec<[&Card; 2]> {
        let deck = match self {
            Self::Newest(guard) => guard.as_deref(),
            Self::Own(cards) => return cards.iter().collect(),
        };
        let mut cards = SmallVec::new();
        for part in parts {
            let entry = deck
                .and_then(|deck| deck.policies.get(part.policy))
                .and_then(|entries| entries.get(part.entry));
            let Some(card) = entry.and_then(|entry| entry.of(part.rule)) else {
                return SmallVec::new();
            };
            cards.push(card);
        }
        cards
    }
}

impl EntryCards {
    fn of(&self, rule: Option<usize>) -> Option<&Card> {
        match rule {
            None => self.own.as_ref(),
            Some(rule) => self.rules.get(rule)?.as_ref(),
        }
    }
}

impl Cards {
    /// The deck of an answer's revision.
    #[inline]
    pub(super) fn of(&self, answer: AnswerView<'_>) -> Held {
        let wanted = answer.revision().number;
        let guard = self.newest.load();
        if guard.as_ref().is_some_and(|deck| deck.revision == wanted) {
            return Held::Newest(guard);
        }
        match guard.as_ref() {
            Some(deck) if deck.revision > wanted => Held::Own(own(answer)),
            _ => {
                drop(guard);
                self.make(answer.policies(), wanted);
                let guard = self.newest.load();
                match guard.as_ref().is_some_and(|deck| deck.revision == wanted) {
                    true => Held::Newest(guard),
                    false => Held::Own(own(answer)),
                }
            }
        }
    }

    /// Makes the cards of policies, unless newer ones are there.
    #[cold]
    pub(super) fn make(&self, policies: &Policies, revision: u64) {
        // One makes them, the others wait: it takes some milliseconds for thousands of policies.
        let _making = self.making.lock();
        if self.newest.load().as_ref().is_none_or(|deck| deck.revision < revision) {
            self.newest.store(Some(Arc::new(Deck::new(policies, revision))));
        }
    }
}

/// The cards of one answer; none when one of them cannot be made.
#[cold]
fn own(answer: AnswerView<'_>) -> Vec<Card> {
    let policies = answer.policies().policies();
    let cards =
        answer.parts().iter().map(|part| card(policies.get(part.policy)?, part.entry, part.rule));
    cards.collect::<Option<_>>().unwrap_or_default()
}

impl Deck {
    fn new(policies: &Policies, revision: u64) -> Self {
        let policies = policies.policies().iter().map(entries).collect();
        Self { revision, policies }
    }
}

fn entries(policy: &Policy) -> Vec<EntryCards> {
    let made = |(number, entry): (usize, &Entry)| EntryCards {
        own: card(policy, number, None),
        rules: (0..entry.overrides.len()).map(|rule| card(policy, number, Some(rule))).collect(),
    };
    policy.entries.iter().enumerate().map(made).collect()
}

/// The card of an entry's own limits, or of those of one of its overrides.
fn card(policy: &Policy, number: usize, rule: Option<usize>) -> Option<Card> {
    let entry = policy.entries.get(number)?;
    let limits = match rule {
        None => &entry.limits,
        Some(rule) => match &entry.overrides.get(rule)?.rule {
            Rule::Limits(limits) => limits,
            _ => return None,
        },
    };
    Card::new(&name(policy, number, entry), limits).ok()
}

/// The longest name of subjects in a header; a longer one is a number.
const MAX_SUBJECT_BYTES: usize = 24;

/// The policy's name; where it has several entries, with the entry's subject, of which no other has
/// the same: `api/user`. A subject that would be long is the entry's number, from 1.
fn name(policy: &Policy, number: usize, entry: &Entry) -> String {
    if policy.entries.len() == 1 {
        return policy.name.clone();
    }
    let names: Vec<String> = entry.subject.iter().map(Dimension::name).collect();
    let subject = names.join("+");
    if subject.len() > MAX_SUBJECT_BYTES {
        return format!("{}/{}", policy.name, number + 1);
    }
    format!("{}/{subject}", policy.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_policy::Format;

    /// What is written on a card must fit for every policy that can be written.
    #[test]
    fn the_longest_names_fit_on_a_card() {
        let (policy, limit) = ("p".repeat(64), "l".repeat(64));
        for subject in ["a".repeat(MAX_SUBJECT_BYTES - 7), "a".repeat(60)] {
            let text = format!(
                "version = 1\n[[policies]]\nname = \"{policy}\"\non_failure = \"deny\"\n\
                 shard = \"never\"\n[[policies.limits]]\nsubject = \"header.{subject}\"\n\
                 absent = \"deny\"\nlimit = \"{limit}: 1/s via gcra, other: 2/s via gcra\"\n\
                 [[policies.limits]]\nsubject = \"ip\"\nlimit = \"1/s via gcra\"\n"
            );
            let policies = Policies::parse(&text, Format::Toml).unwrap();
            let deck = Deck::new(&policies, 1);
            let cards = deck.policies[0].iter().map(|entry| entry.of(None).unwrap().policy());
            let cards: Vec<&str> = cards.collect();
            let name =
                if subject.len() < 20 { format!("header.{subject}") } else { "1".to_owned() };
            assert!(cards[0].starts_with(&format!("\"{policy}/{name}/{limit}\";q=1")), "{cards:?}");
            assert!(cards[1].starts_with(&format!("\"{policy}/ip\"")), "{cards:?}");
        }
    }
}
