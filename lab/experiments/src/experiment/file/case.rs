//! The cases of a file: limits under one strategy or several, or a queue.

use tollgate::{LimitSet, ParseError, Strategy, Unit};
use toml::Spanned;

use super::raw::RawCase;
use super::reader::{FileError, FileReader, ReadResult};
use crate::experiment::queue::RawQueue;
use crate::experiment::{NodesCase, QueueCase};
use crate::figure::plural;
use tollgate_logs::decide::{Per, PerLimits};

impl FileReader<'_> {
    /// A case with a queue.
    pub(super) fn queue(
        &self,
        case: &Spanned<RawCase>,
        raw: &Spanned<RawQueue>,
    ) -> Result<(String, QueueCase), FileError> {
        let RawCase { name, limits, strategies, nodes, .. } = case.get_ref();
        let name = name.clone().unwrap_or_else(|| "queue".to_owned());
        let wrong = |span, what: String| self.at(span, format!("{name}: {what}"));
        let beside = [
            ("limits", limits.is_some()),
            ("strategies", strategies.is_some()),
            ("nodes", nodes.is_some()),
        ];
        if let Some((key, _)) = beside.iter().find(|(_, is_present)| *is_present) {
            let what = format!("a case has `limits` or a `queue`: leave `{key}` out");
            return Err(wrong(case.span(), what));
        }
        let queue = raw.get_ref().read();
        let queue =
            queue.map_err(|(span, what)| wrong(span.unwrap_or_else(|| raw.span()), what))?;
        Ok((name, queue))
    }
}

impl FileReader<'_> {
    /// Checks that a case in front of a backend has nothing beside limits.
    pub(super) fn can_have(
        &self,
        case: &Spanned<RawCase>,
        has_backend: bool,
    ) -> Result<(), FileError> {
        let RawCase { name, queue, nodes, .. } = case.get_ref();
        let other = match (has_backend, queue, nodes) {
            (true, Some(queue), _) => Some(("queue", "has its own workers", queue.span())),
            (true, None, Some(nodes)) => {
                Some(("nodes", "are simulated without a backend", nodes.span()))
            }
            _ => None,
        };
        let Some((key, why, span)) = other else { return Ok(()) };
        let name = name.as_deref().unwrap_or("case");
        let what = format!("{name}: `{key}` {why}: leave `{key}` or the [backend] out");
        Err(self.at(span, what))
    }
}

/// A case's name, with its nodes.
type NamedNodes = (String, Option<NodesCase>);

impl FileReader<'_> {
    /// The cases with these parts: one for each number of nodes.
    pub(super) fn nodes(
        &self,
        case: &Spanned<RawCase>,
        name: &str,
        parts: &[PerLimits],
    ) -> Result<Vec<NamedNodes>, FileError> {
        let Some(raw) = &case.get_ref().nodes else { return Ok(vec![(name.to_owned(), None)]) };
        let nodes = raw.get_ref().read(parts).map_err(|(span, what)| {
            self.at(span.unwrap_or_else(|| raw.span()), format!("{name}: {what}"))
        })?;
        let is_one = nodes.len() == 1;
        let named = |nodes: NodesCase| match is_one {
            true => (name.to_owned(), Some(nodes)),
            false => {
                let number = plural(u64::from(nodes.number), "node");
                (format!("{name}, {number}"), Some(nodes))
            }
        };
        Ok(nodes.into_iter().map(named).collect())
    }
}

/// The limits of a case, as they are written, by their subjects.
fn texts_of(raw: &RawCase) -> ReadResult<Vec<(Per, Vec<&str>)>> {
    let Some(limits) = &raw.limits else {
        return Err("a case has `limits`, e.g. [{ per = \"client\", limit = \"10/10s\" }], or a \
                    `queue`, e.g. { bound = 10, work = \"100ms\" }"
            .to_owned());
    };
    let mut texts: Vec<(Per, Vec<&str>)> = Vec::new();
    for part in limits {
        let named = |per: &&Per| per.name() == part.per;
        let per = *Per::ALL
            .iter()
            .find(named)
            .ok_or_else(|| format!("`per` is \"resource\" or \"client\", not \"{}\"", part.per))?;
        // Each limit is parsed alone: one may have its own `via` and the next not.
        let list = part.limit.list().iter().flat_map(|text| text.split(',')).map(str::trim);
        match texts.iter_mut().find(|(other, _)| *other == per) {
            Some((_, all)) => all.extend(list),
            None => texts.push((per, list.collect())),
        }
    }
    Ok(texts)
}

/// A case's name, with its parts.
type NamedParts = (String, Vec<PerLimits>);

/// The cases of one table, and notes on the strategies that it cannot have. In front of a backend,
/// a case may have no limits; without one, it has no slots.
pub(super) fn cases_of(
    raw: &RawCase,
    has_backend: bool,
) -> ReadResult<(Vec<NamedParts>, Vec<String>)> {
    let texts = texts_of(raw)?;
    if texts.is_empty() && has_backend && raw.strategies.is_none() {
        let name = raw.name.clone().unwrap_or_else(|| "no limit".to_owned());
        return Ok((vec![(name, Vec::new())], Vec::new()));
    }
    if texts.is_empty() {
        return Err("`limits` has none: { per = \"client\", limit = \"10/10s\" }".to_owned());
    }
    let parts = |strategy: Option<Strategy>| -> ReadResult<Vec<PerLimits>> {
        let part = |(per, texts): &(Per, Vec<&str>)| {
            let read = |text: &&str| match strategy.filter(|_| !has_via(text)) {
                Some(strategy) => LimitSet::parse_with(text, strategy),
                None => text.parse(),
            };
            let sets: Result<Vec<LimitSet>, _> = texts.iter().map(read).collect();
            let limits = sets.and_then(|sets| LimitSet::of_all(&sets));
            let limits = limits.map_err(|error| error.to_string())?;
            let units = [Unit::REQUESTS, Unit::SLOTS];
            match limits.limits().iter().find(|limit| !units.contains(limit.unit())) {
                None => Ok(PerLimits::new(*per, limits)),
                Some(limit) => Err(format!(
                    "`{limit}` counts {}, and an attempt is one request: leave the unit out",
                    limit.unit()
                )),
            }
        };
        texts.iter().map(part).collect()
    };
    let named = |strategy: &str| match &raw.name {
        Some(name) => format!("{name}: {strategy}"),
        None => strategy.to_owned(),
    };
    let Some(strategies) = &raw.strategies else {
        let parts = parts(None)?;
        let slots = parts.iter().flat_map(|part| part.limits.limits());
        if let Some(slots) = slots.filter(|_| !has_backend).find(|limit| limit.needs_hold()) {
            return Err(format!(
                "`{slots}` counts work in progress, and nothing says how long work takes: \
                 add a backend, e.g. [backend], servers = 16, work = \"40ms\""
            ));
        }
        let limits = || parts.iter().flat_map(|part| part.limits.limits().iter());
        let own = || {
            let mut names: Vec<&str> = limits().map(|limit| limit.strategy().name()).collect();
            names.dedup();
            names.join(" and ")
        };
        return Ok((vec![(raw.name.clone().unwrap_or_else(own), parts)], Vec::new()));
    };
    if strategies.list().is_empty() {
        return Err("`strategies` has none: \"all\", or some by name".to_owned());
    }
    if texts.iter().all(|(_, texts)| texts.iter().all(|text| has_via(text))) {
        return Err("each limit has its own `via`: leave `strategies` out".to_owned());
    }
    if strategies.list() == ["all"] {
        // A strategy that does not support these limits is left out: the others can be compared.
        let taken = Strategy::RATES.iter().map(|strategy| (strategy, parts(Some(*strategy))));
        let (taken, refused): (Vec<_>, Vec<_>) = taken.partition(|(_, parts)| parts.is_ok());
        if let ([], [(_, Err(why)), ..]) = (&taken[..], &refused[..]) {
            return Err(why.clone());
        }
        let notes = refused.iter().filter_map(|(of, parts)| {
            let why = parts.as_ref().err()?.lines().next()?;
            Some(format!("{} is left out: {why}", named(of.name())))
        });
        let notes = notes.collect();
        let cases = taken.into_iter().map(|(of, parts)| Ok((named(of.name()), parts?)));
        return Ok((cases.collect::<ReadResult<_>>()?, notes));
    }
    let each = strategies.list().iter().map(|name| {
        let strategy: Strategy = name.parse().map_err(|error: ParseError| {
            format!("there is no strategy `{name}`: {}; \"all\" tries each", error.remedy())
        })?;
        Ok((named(name), parts(Some(strategy))?))
    });
    Ok((each.collect::<ReadResult<_>>()?, Vec::new()))
}

/// Whether a limit names its strategy.
fn has_via(text: &str) -> bool {
    text.contains(" via ")
}
