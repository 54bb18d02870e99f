//! Checks of conditions by the clock: their zone, and the minutes of a week that several of them
//! cover, or none.

use std::collections::{BTreeSet, HashMap};

use crate::clock::{ClockTime, MINUTES_OF_WEEK, Zone, local_text};
use crate::model::{Combine, Policy};
use crate::pattern::{Condition, Pattern};
use crate::problem::{Problem, Span};
use crate::spans::{FileSpans, PolicySpans};

/// The most spans of one group whose minutes are compared: a file must load quickly.
const MAX_COMPARED: usize = 5_000;

/// The most spans of minutes that a warning names.
const MAX_SHOWN: usize = 3;

/// Gives each `time` and `day` of a policy its zone: the one that is named beside it, else UTC.
pub(super) fn zones(policy: &mut Policy, place: &PolicySpans, problems: &mut Vec<Problem>) {
    zone(&mut policy.when, place.when.or(place.whole), problems);
    for (entry, at) in policy.entries.iter_mut().zip(&place.entries) {
        for (other, at) in entry.overrides.iter_mut().zip(&at.overrides) {
            zone(&mut other.when, at.whole, problems);
        }
    }
}

fn zone(when: &mut [Condition], at: Option<Span>, problems: &mut Vec<Problem>) {
    let patterns = when.iter_mut().flat_map(|condition| &mut condition.any_of);
    let mut times: Vec<_> = patterns
        .filter_map(|pattern| match pattern {
            Pattern::Recurring(when) => Some(when),
            _ => None,
        })
        .collect();
    let named: BTreeSet<Zone> = times.iter().filter_map(|when| when.zone().cloned()).collect();
    let mut named = named.into_iter();
    let zone = named.next();
    if let (Some(zone), Some(other)) = (&zone, named.next()) {
        problems.push(Problem::error(
            at,
            format!("`time` and `day` are in two zones, `{zone}` and `{other}`"),
            "one `when` has one zone: name it once, or write two policies or overrides",
        ));
    }
    let zone = zone.unwrap_or_else(Zone::utc);
    times.iter_mut().filter(|when| when.zone().is_none()).for_each(|when| {
        when.set_zone(zone.clone());
    });
}

/// Conditions of a group that differ only by times.
struct Timed<'p> {
    name: &'p str,
    when: &'p [Condition],
    at: Option<Span>,
}

/// The policies, or the overrides, with the same conditions apart from times.
#[derive(Default)]
struct Group<'p> {
    timed: Vec<Timed<'p>>,
    /// Whether one of them holds at all times.
    has_rest: bool,
}

/// Warns of minutes that two policies of the same conditions cover, or none.
pub(super) fn policies(
    combine: Combine,
    policies: &[Policy],
    places: &FileSpans,
    problems: &mut Vec<Problem>,
) {
    let each = policies.iter().zip(&places.policies).filter(|(policy, _)| !policy.shadow);
    let each = each.map(|(policy, at)| Timed {
        name: &policy.name,
        when: &policy.when,
        at: at.when.or(at.name),
    });
    let overlap = match combine {
        Combine::First => "the first of them counts then: let one end where the other begins",
        Combine::All => "both count then: let one end where the other begins",
    };
    for group in groups(each) {
        let Some(last) = group.timed.last() else { continue };
        group.overlaps("the policies", overlap, problems);
        if group.has_rest || group.timed.len() < 2 || group.has_zones() {
            continue;
        }
        let counts = group.counts();
        let none: Vec<u16> = minutes().filter(|at| counts[usize::from(*at)] == 0).collect();
        if !none.is_empty() {
            let names: Vec<_> = group.timed.iter().map(|one| format!("`{}`", one.name)).collect();
            let names = match &names[..] {
                [first, .., last] if names.len() > 4 => format!("{first} to {last}"),
                [before @ .., last] => format!("{} and {last}", before.join(", ")),
                [] => String::new(),
            };
            problems.push(Problem::warning(
                last.at,
                format!("none of the policies {names} applies {}", spans(&none)),
                "they differ only by times: let one end where the next begins, or add a policy with \
                 the same conditions and no time behind them",
            ));
        }
    }
}

/// Warns of minutes in which two overrides of the same conditions hold. In the minutes of none, the
/// limits of the entry count.
pub(super) fn overrides(policy: &Policy, place: &PolicySpans, problems: &mut Vec<Problem>) {
    for (entry, at) in policy.entries.iter().zip(&place.entries) {
        let each = entry.overrides.iter().zip(&at.overrides);
        let each = each.map(|(other, at)| Timed {
            name: &policy.name,
            when: &other.when,
            at: at.whole.or(place.whole),
        });
        for group in groups(each) {
            let remedy = "the first of them counts then: let one end where the other begins";
            group.overlaps("two overrides of", remedy, problems);
        }
    }
}

/// The groups with conditions on times. Without any, nothing is compared.
fn groups<'p>(each: impl Iterator<Item = Timed<'p>> + Clone) -> Vec<Group<'p>> {
    let is_timed = |one: &Timed<'_>| one.when.iter().any(|condition| condition.field.is_clock());
    if !each.clone().any(|one| is_timed(&one)) {
        return Vec::new();
    }
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Group<'p>> = Vec::new();
    for one in each {
        let others = one.when.iter().filter(|condition| !condition.field.is_clock());
        let scope = others.map(|condition| format!("{condition:?}\n")).collect();
        let place = *places.entry(scope).or_insert_with(|| {
            groups.push(Group::default());
            groups.len() - 1
        });
        match is_timed(&one) {
            true => groups[place].timed.push(one),
            false => groups[place].has_rest = true,
        }
    }
    groups.retain(|group| group.timed.iter().map(Timed::spans).sum::<usize>() <= MAX_COMPARED);
    groups
}

fn minutes() -> impl Iterator<Item = u16> {
    0..MINUTES_OF_WEEK
}

impl Timed<'_> {
    fn holds(&self, minute: u16) -> bool {
        let mut times = self.when.iter().filter(|condition| condition.field.is_clock());
        times.all(|condition| condition.holds_at(minute))
    }

    /// How many times and days it names.
    fn spans(&self) -> usize {
        let times = self.when.iter().filter(|condition| condition.field.is_clock());
        times.map(|condition| condition.any_of.len()).sum()
    }

    fn zone(&self) -> Option<&Zone> {
        self.when.iter().flat_map(|condition| &condition.any_of).find_map(|pattern| match pattern {
            Pattern::Recurring(when) => when.zone(),
            _ => None,
        })
    }
}

impl Group<'_> {
    /// Whether they go by several zones: then no minute of the week is the same for all.
    fn has_zones(&self) -> bool {
        self.timed.iter().any(|one| one.zone() != self.timed[0].zone())
    }

    /// For each minute of the week, how many hold.
    fn counts(&self) -> Vec<u16> {
        let count = |minute| self.timed.iter().map(|one| u16::from(one.holds(minute))).sum();
        minutes().map(count).collect()
    }

    /// Warns of the minutes in which several hold.
    fn overlaps(&self, of: &str, remedy: &str, problems: &mut Vec<Problem>) {
        if self.has_zones() {
            problems.push(Problem::warning(
                self.timed.last().and_then(|one| one.at),
                format!("{of} `{}` differ only by times, in several zones", self.timed[0].name),
                "nobody can see which minutes they share: write all of them in one zone",
            ));
            return;
        }
        let counts = self.counts();
        let several: Vec<u16> = minutes().filter(|at| counts[usize::from(*at)] > 1).collect();
        let Some(first) = several.first() else { return };
        let both: Vec<&Timed<'_>> =
            self.timed.iter().filter(|one| one.holds(*first)).take(2).collect();
        let [one, other] = &both[..] else { return };
        let names = match one.name == other.name {
            true => format!("`{}` hold", one.name),
            false => format!("`{}` and `{}` apply", one.name, other.name),
        };
        let what = format!("{of} {names} {}", spans(&several));
        problems.push(Problem::warning(other.at, what, remedy));
    }
}

/// Minutes of the week as text: how many, and the first spans of them.
fn spans(minutes: &[u16]) -> String {
    let mut spans: Vec<(u16, u16)> = Vec::new();
    for minute in minutes {
        match spans.last_mut() {
            Some((_, until)) if *until == *minute => *until += 1,
            _ => spans.push((*minute, minute + 1)),
        }
    }
    let text = |(from, until): &(u16, u16)| {
        // A span within a day needs no second day.
        let is_one_day = until - from <= 24 * 60 - from % (24 * 60);
        let until = if is_one_day { ClockTime(*until).to_string() } else { local_text(*until) };
        format!("{}-{until}", local_text(*from))
    };
    let mut texts: Vec<String> = spans.iter().take(MAX_SHOWN).map(text).collect();
    if let Some(more) = spans.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
        texts.push(format!("and {more} more"));
    }
    format!("in {} minutes of the week: {}", minutes.len(), texts.join(", "))
}
