//! Reads a log into the requests that policies decide.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::path::Path;

use tollgate::Time;
use tollgate_policy::{Field, Policies};

use super::classes::Classes;
use super::layout::Layout;
use super::request::{Request, as_text};
use crate::error::Error;
use crate::event::{ClientId, Clients, Event};
use crate::order::Sorting;
use crate::parse::{By, Column, Hints, Parsed, Parser, parts};
use crate::read::{Progress, Summary, Traffic, read_with};
use crate::source::Lines;

/// The most different combinations of values without an option.
pub const MAX_COMBINATIONS: NonZeroUsize = NonZeroUsize::new(1_000_000).unwrap();

/// How a log is read for policies.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PolicyReading {
    /// The field that identifies clients in results, and by which limits without a file count.
    pub by: By,
    /// The field of the costs of limits without a file.
    pub cost: Option<By>,
    /// Fields of policies with the field of the log that has each; an empty name for a field that
    /// is absent on purpose.
    pub given: Vec<(Field, String)>,
    /// The most different combinations of the values that are needed. More are an error.
    pub max_combinations: NonZeroUsize,
    /// How requests are sorted.
    pub sorting: Sorting,
    /// The format of the log, and the names of its fields, as far as they are known.
    pub hints: Hints,
}

impl Default for PolicyReading {
    fn default() -> Self {
        Self {
            by: By::Ip,
            cost: None,
            given: Vec::new(),
            max_combinations: MAX_COMBINATIONS,
            sorting: Sorting::default(),
            hints: Hints::default(),
        }
    }
}

/// The requests of a log, in order.
pub struct Requests {
    /// A summary of the events; its clients are those of `--by`.
    pub summary: Summary,
    /// The events, whose clients are combinations of values.
    traffic: Traffic,
    layout: Layout,
    classes: Classes,
    /// The clients of `--by`.
    clients: Clients,
    /// The client of each combination.
    client_of: Vec<ClientId>,
    /// Whether each combination lacks its cost.
    lacks_cost: Vec<bool>,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").field("summary", &self.summary).finish_non_exhaustive()
    }
}

impl PolicyReading {
    /// Reads by this field, and with defaults otherwise.
    #[must_use]
    pub fn by(by: By) -> Self {
        Self { by, ..Self::default() }
    }

    /// Reads the log at `path` for these policies, as [`Self::read_lines`] does.
    ///
    /// # Errors
    /// As [`Self::read_lines`].
    pub fn read(
        &self,
        path: &Path,
        policies: &[&Policies],
        progress: impl FnMut(Progress),
    ) -> Result<Requests, Error> {
        self.read_lines(Lines::open(path)?, policies, progress)
    }

    /// Reads an open log for these policies.
    ///
    /// # Errors
    /// [`Error::Policies`] when the log has no field that the policies read, the policies read too
    /// many fields, or there are too many combinations of their values; and those of reading.
    pub fn read_lines(
        &self,
        lines: Lines,
        policies: &[&Policies],
        progress: impl FnMut(Progress),
    ) -> Result<Requests, Error> {
        let layout = Layout::new(&self.by, policies, &self.given, self.cost.as_ref())?;
        let mut columns: Vec<Column> = match &self.by {
            By::All => Vec::new(),
            by => by.fields().iter().map(Column::required).collect(),
        };
        columns.extend(layout.columns.iter().flatten().cloned());
        let has_one = columns.len() == 1 && self.by != By::All;
        let parser = Parser::of_columns(self.by.clone(), columns);
        let parser = parser.with_hints(self.hints.clone());
        let parser = match &layout.cost {
            None => parser,
            Some((_, column)) => parser.with_cost_column(column.clone()),
        };
        let mut keys = Keys::new(&layout, policies, self.max_combinations.get())?;
        let id_of =
            |table: &mut Clients, event: &Parsed<'_>| keys.id_of(table, event, has_one).map(Some);
        let traffic = read_with((parser, None), self.sorting.clone(), lines, id_of, progress)?;
        keys.check(&traffic.summary)?;
        let Keys { classes, clients, client_of, lacks_cost, .. } = keys;
        let summary = Summary { clients: clients.len(), ..traffic.summary.clone() };
        Ok(Requests { summary, traffic, layout, classes, clients, client_of, lacks_cost })
    }
}

/// Makes keys of combinations.
struct Keys<'l> {
    layout: &'l Layout,
    classes: Classes,
    /// The fields that are read in conditions alone.
    classed: Vec<Field>,
    clients: Clients,
    client_of: Vec<ClientId>,
    lacks_cost: Vec<bool>,
    /// How many requests have each field.
    seen: Vec<u64>,
    max: usize,
    key: Vec<u8>,
}

impl<'l> Keys<'l> {
    fn new(layout: &'l Layout, policies: &[&Policies], max: usize) -> Result<Self, Error> {
        let each = layout.fields.iter().zip(&layout.is_only_condition);
        Ok(Self {
            classes: Classes::new(layout, policies)?,
            classed: each.filter(|(_, is_only)| **is_only).map(|(it, _)| it.clone()).collect(),
            clients: Clients::new(),
            client_of: Vec::new(),
            lacks_cost: Vec::new(),
            seen: vec![0; layout.fields.len()],
            layout,
            max,
            key: Vec::new(),
        })
    }

    /// The number of a request's combination. Its key is the client, the number of its class, the
    /// values of the other fields, and whether it has its cost.
    fn id_of(
        &mut self,
        table: &mut Clients,
        event: &Parsed<'_>,
        has_one: bool,
    ) -> Result<ClientId, Error> {
        let by_end = self.fill(event, has_one);
        let Self { clients, client_of, lacks_cost, key, .. } = self;
        let known = table.len();
        let id = table.intern(key)?;
        if table.len() > known {
            if table.len() > self.max {
                let why = format!(
                    "the log has more than {} different combinations of the values that the \
                     policies read: --max-clients allows more, each with about 150 bytes and its \
                     counts under every policy; or take a part of the log",
                    self.max
                );
                return Err(Error::Policies { why });
            }
            client_of.push(clients.intern(key.get(..by_end).unwrap_or_default())?);
            lacks_cost.push(event.cost.is_none());
        }
        Ok(id)
    }

    /// Makes the key of a request; returns the length of the client's name at its beginning.
    fn fill(&mut self, event: &Parsed<'_>, has_one: bool) -> usize {
        let Self { layout, classes, classed, seen, key, .. } = self;
        key.clear();
        // Without fields the parser's key is the client's name.
        if layout.fields.is_empty() {
            key.extend_from_slice(&event.key);
            let by_end = key.len();
            key.push(u8::from(event.cost.is_none()));
            push_tail(key, by_end);
            return by_end;
        }
        // A key with a single part is not escaped.
        let mut values: Box<dyn Iterator<Item = Cow<'_, [u8]>>> = if has_one {
            Box::new(std::iter::once(Cow::Borrowed(&*event.key)))
        } else {
            Box::new(parts(&event.key))
        };
        let by: Vec<Cow<'_, [u8]>> = values.by_ref().take(layout.by_len()).collect();
        key.extend_from_slice(&name_of(&by));
        let by_end = key.len();
        let mut of_class: Vec<Cow<'_, [u8]>> = Vec::with_capacity(classed.len());
        let each = layout.columns.iter().zip(&layout.is_only_condition).zip(seen);
        for ((column, is_only_condition), seen) in each {
            let value = column.as_ref().and_then(|_| values.next()).unwrap_or_default();
            *seen += u64::from(!value.is_empty());
            if *is_only_condition {
                of_class.push(value);
            } else {
                push_with_length(key, &value);
            }
        }
        if !classed.is_empty() {
            let class = classes.class(classed, &of_class);
            key.extend_from_slice(&(class as u64).to_le_bytes());
        }
        key.push(u8::from(event.cost.is_none()));
        push_tail(key, by_end);
        by_end
    }

    /// Whether each field is somewhere in the log.
    fn check(&self, summary: &Summary) -> Result<(), Error> {
        let Summary { events, without_cost, .. } = *summary;
        let each = self.layout.fields.iter().zip(&self.layout.columns).zip(&self.seen);
        let mut missing: Vec<String> = each
            .filter(|((_, column), seen)| events > 0 && column.is_some() && **seen == 0)
            .map(|((field, _), _)| field.to_string())
            .collect();
        if let Some((field, _)) = &self.layout.cost
            && events > 0
            && without_cost == events
        {
            missing.push(field.to_string());
        }
        let [first, ..] = missing.as_slice() else { return Ok(()) };
        let why = format!(
            "the policies read {}, which no line of the log has: `--field {first}=NAME` names the \
             field of the log, and `--field {first}=` says that it is absent",
            missing.join(" and ")
        );
        Err(Error::Policies { why })
    }
}

/// The name of a client: one value, or several joined as in the key of a parser.
fn name_of(by: &[Cow<'_, [u8]>]) -> Vec<u8> {
    match by {
        [] => b"all".to_vec(),
        [one] => one.to_vec(),
        several => crate::parse::joined(several.iter().map(|value| &**value)),
    }
}

fn push_with_length(key: &mut Vec<u8>, value: &[u8]) {
    key.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
    key.extend_from_slice(value);
}

/// The length of the client's name is at the end.
fn push_tail(key: &mut Vec<u8>, by_end: usize) {
    key.extend_from_slice(&u32::try_from(by_end).unwrap_or(u32::MAX).to_le_bytes());
}

/// The first bytes as a number, and the rest.
fn take_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_le_bytes(*length)).ok()?, rest))
}

impl Requests {
    /// The number of requests.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.traffic.ordered.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same requests with every one at a seeded position within its second, see
    /// [`Traffic::spread`].
    ///
    /// # Errors
    /// As [`Traffic::spread`].
    pub fn spread(self, seed: u64) -> Result<Self, Error> {
        Ok(Self { traffic: self.traffic.spread(seed)?, ..self })
    }

    pub(super) fn iter(&self) -> Result<crate::order::Iter<'_>, Error> {
        self.traffic.ordered.iter()
    }

    pub(super) fn clients(&self) -> &Clients {
        &self.clients
    }

    /// The client of an event.
    pub(super) fn client(&self, event: &Event) -> ClientId {
        let place = event.client.index() as usize;
        self.client_of.get(place).copied().unwrap_or(event.client)
    }

    /// An event as policies see it.
    pub(super) fn request(&self, event: &Event) -> Request<'_> {
        let key = self.traffic.clients.name(event.client).unwrap_or_default();
        let (key, by_end) = key.split_last_chunk::<4>().unwrap_or((key, &[0; 4]));
        let by_end = usize::try_from(u32::from_le_bytes(*by_end)).unwrap_or(0);
        let (by, mut rest) = key.split_at_checked(by_end).unwrap_or((key, &[]));
        let mut values: Vec<Cow<'_, str>> = Vec::with_capacity(self.layout.fields.len());
        for is_only_condition in &self.layout.is_only_condition {
            values.push(if *is_only_condition {
                Cow::Borrowed("")
            } else {
                let (length, tail) = take_length(rest).unwrap_or((0, &[]));
                let (value, tail) = tail.split_at_checked(length).unwrap_or((tail, &[]));
                rest = tail;
                as_text(Cow::Borrowed(value))
            });
        }
        if let Some((class, _)) = rest.split_first_chunk::<8>() {
            let class = usize::try_from(u64::from_le_bytes(*class)).unwrap_or(usize::MAX);
            let mut firsts = self.classes.values(class).iter();
            for (value, is_only) in values.iter_mut().zip(&self.layout.is_only_condition) {
                if *is_only && let Some(first) = firsts.next() {
                    *value = as_text(Cow::Borrowed(first));
                }
            }
        }
        let place = event.client.index() as usize;
        let lacks_cost = self.lacks_cost.get(place).copied().unwrap_or(false);
        Request {
            fields: &self.layout.fields,
            values,
            by: as_text(Cow::Borrowed(by)),
            cost: self
                .layout
                .cost
                .as_ref()
                .map(|(field, _)| (field, (!lacks_cost).then_some(event.cost))),
            now: Time::from_micros(event.at_us),
        }
    }
}
