//! Experiments in TOML. Every key is in `docs/lab.md`.

use core::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{Span, SpanRelativeTo};
use serde::Deserialize;
use tollgate::{LimitSet, ParseError, Strategy};
use toml::Spanned;

use super::arrivals::BEFORE_EDGE_US;
use super::queue::RawQueue;
use super::{
    Arrivals, Capacity, Case, Experiment, QueueCase, Rate, Retry, START_US, Workload, bucket_of,
};
use crate::decide::{Part, Per};
use crate::parse::By;
use crate::read::Reading;

const DAYS_ARE_24_HOURS: SpanRelativeTo<'static> = SpanRelativeTo::days_are_24_hours();

/// The most buckets of a series over time.
const MAX_BUCKETS: u64 = 100_000;

/// The most clients of a workload.
const MAX_CLIENTS: u32 = 10_000_000;

/// The most different clients of an experiment: each takes 16 bytes and more.
const MAX_ALL_CLIENTS: u64 = 50_000_000;

/// The most requests of one burst, one loop, or one client of a gang.
const MAX_REQUESTS: u64 = 1_000_000_000;

/// The most requests of a gang, which are made at once to be put in order.
const MAX_GANG: u64 = 10_000_000;

/// How often a request is tried again, where a file does not say it.
const TIMES: u32 = 10;

/// What is wrong with an experiment, and where.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {what}", line.map_or_else(String::new, |line| format!(":{line}")))]
#[non_exhaustive]
pub struct FileError {
    /// The file as it was named.
    pub file: String,
    /// The line, counted from 1, where it is one line's.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub what: String,
}

tollgate::debug_as_display!(FileError);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExperiment {
    version: Spanned<u64>,
    name: Option<String>,
    seed: Option<u64>,
    duration: Option<Spanned<String>>,
    bucket: Option<Spanned<String>>,
    capacity: Option<Spanned<String>>,
    operation: Option<Spanned<String>>,
    #[serde(default)]
    workload: Vec<Spanned<RawWorkload>>,
    #[serde(default)]
    case: Vec<Spanned<RawCase>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    name: Option<String>,
    arrivals: Option<String>,
    clients: Option<u32>,
    rate: Option<String>,
    size: Option<u64>,
    count: Option<u64>,
    every: Option<String>,
    each: Option<u64>,
    within: Option<String>,
    new: Option<bool>,
    window: Option<String>,
    before: Option<String>,
    day: Option<String>,
    log: Option<PathBuf>,
    by: Option<String>,
    zipf: Option<f64>,
    from: Option<String>,
    until: Option<String>,
    retry: Option<String>,
    times: Option<u32>,
    pause: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: Option<String>,
    limits: Option<Vec<RawPart>>,
    strategies: Option<OneOrMany>,
    queue: Option<Spanned<RawQueue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPart {
    per: String,
    limit: OneOrMany,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn list(&self) -> &[String] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// The keys that belong to each kind of arrivals, besides those of all; the first ones are needed.
const KINDS: [(&str, &[&str], &[&str]); 8] = [
    ("steady", &["rate"], &["zipf"]),
    ("poisson", &["rate"], &["zipf"]),
    ("bursts", &["size", "every"], &["zipf"]),
    ("loop", &["count", "every"], &["zipf"]),
    ("gang", &[], &["each", "within", "every", "new"]),
    ("edge", &["window", "size"], &["before", "zipf"]),
    ("diurnal", &["rate"], &["day", "zipf"]),
    ("log", &["log"], &["by"]),
];

impl RawWorkload {
    /// Which of the keys that belong to some kinds only are there.
    fn present_keys(&self) -> Vec<&'static str> {
        let present = [
            ("rate", self.rate.is_some()),
            ("size", self.size.is_some()),
            ("count", self.count.is_some()),
            ("every", self.every.is_some()),
            ("each", self.each.is_some()),
            ("within", self.within.is_some()),
            ("new", self.new.is_some()),
            ("window", self.window.is_some()),
            ("before", self.before.is_some()),
            ("day", self.day.is_some()),
            ("log", self.log.is_some()),
            ("by", self.by.is_some()),
            ("zipf", self.zipf.is_some()),
        ];
        present.into_iter().filter(|(_, is_present)| *is_present).map(|(key, _)| key).collect()
    }
}

impl Experiment {
    /// Reads an experiment file, and the logs that it names beside it.
    ///
    /// # Errors
    /// A file that cannot be read; the first thing that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| FileError {
            file: file.clone(),
            line: None,
            what: format!("the file cannot be read: {error}"),
        })?;
        FileReader { file, text: &text, folder: path.parent().map(Path::to_path_buf) }.experiment()
    }

    /// The same of a text; logs are looked for in the working folder. `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        FileReader { file: file.to_owned(), text, folder: None }.experiment()
    }
}

/// Reads one file.
struct FileReader<'t> {
    file: String,
    text: &'t str,
    folder: Option<PathBuf>,
}

/// What is wrong with one table, without its place.
type ReadResult<T> = Result<T, String>;

impl FileReader<'_> {
    fn at(&self, span: Range<usize>, what: impl Into<String>) -> FileError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = Some(before.matches('\n').count() + 1);
        FileError { file: self.file.clone(), line, what: what.into() }
    }

    fn whole(&self, what: impl Into<String>) -> FileError {
        FileError { file: self.file.clone(), line: None, what: what.into() }
    }

    fn experiment(&self) -> Result<Experiment, FileError> {
        let raw: RawExperiment = toml::from_str(self.text).map_err(|error| match error.span() {
            Some(span) => {
                let key = key_before(self.text.get(..span.start).unwrap_or_default());
                self.at(span, in_words(error.message(), key))
            }
            None => self.whole(in_words(error.message(), None)),
        })?;
        if *raw.version.get_ref() != 1 {
            return Err(self.at(raw.version.span(), "this is for version = 1"));
        }
        if raw.workload.is_empty() {
            let what = "there is no [[workload]]: say who asks when, as arrivals = \"poisson\", \
                        rate = \"10/s\"";
            return Err(self.whole(what));
        }
        if raw.case.is_empty() {
            let what = "there is no [[case]]: say what is tried, as limits = [{ per = \
                        \"client\", limit = \"10/10s\" }], or queue = { bound = 10, work = \
                        \"100ms\" }";
            return Err(self.whole(what));
        }
        let spanned = |text: &Option<Spanned<String>>| match text {
            None => Ok(None),
            Some(text) => match duration(text.get_ref()) {
                Ok(0) => Err(self.at(text.span(), "this is no time at all: 1us at least")),
                Ok(us) => Ok(Some(us)),
                Err(what) => Err(self.at(text.span(), what)),
            },
        };
        let duration_us = spanned(&raw.duration)?;
        let mut workloads = Vec::with_capacity(raw.workload.len());
        for (place, table) in raw.workload.iter().enumerate() {
            let read = self.workload(table.get_ref(), place, duration_us);
            let workload = read.map_err(|what| {
                let name = table.get_ref().name.as_deref().unwrap_or("workload");
                self.at(table.span(), format!("{name}: {what}"))
            })?;
            workloads.push(workload);
        }
        // A log tells when it begins, and how long it is.
        let spans = workloads.iter().filter_map(|workload| match &workload.arrivals {
            Arrivals::Log(traffic) => {
                let (first, last) = traffic.summary.first_last_us?;
                Some((first, last.saturating_add(workload.from_us)))
            }
            _ => None,
        });
        let (start_us, last_us) = spans
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
            .unwrap_or((START_US, START_US));
        let duration_us = match duration_us {
            Some(duration_us) => duration_us,
            None if last_us > start_us => last_us - start_us + 1,
            None => return Err(self.whole("`duration` is missing, as duration = \"60s\"")),
        };
        for (workload, table) in workloads.iter_mut().zip(&raw.workload) {
            workload.until_us = workload.until_us.min(duration_us);
            if workload.from_us >= workload.until_us {
                let what = format!("{}: `from` is not before the end", workload.name);
                return Err(self.at(table.span(), what));
            }
        }
        let clients = workloads.iter().map(Workload::all_clients).fold(0, u64::saturating_add);
        if clients > MAX_ALL_CLIENTS {
            let what = format!(
                "there are {clients} different clients in all, and at most {MAX_ALL_CLIENTS}: a \
                 gang with new = true brings others each time"
            );
            return Err(self.whole(what));
        }
        let mut notes: Vec<String> = workloads.iter().filter_map(unread).collect();
        let bucket_us = spanned(&raw.bucket)?.unwrap_or_else(|| bucket_of(duration_us));
        if duration_us / bucket_us > MAX_BUCKETS {
            let what = format!("these are more than {MAX_BUCKETS} buckets: make them longer");
            let span = raw.bucket.as_ref().map_or(0..0, Spanned::span);
            return Err(self.at(span, what));
        }
        let capacity = match &raw.capacity {
            None => None,
            Some(text) => {
                Some(capacity(text.get_ref()).map_err(|what| self.at(text.span(), what))?)
            }
        };
        let mut cases = Vec::new();
        for table in &raw.case {
            let all: Vec<usize> = (0..workloads.len()).collect();
            if let Some(queue) = &table.get_ref().queue {
                let (name, queue) = self.queue(table, queue)?;
                cases.push(Case { name, parts: Vec::new(), queue: Some(queue), workloads: all });
                continue;
            }
            let (of, more) =
                cases_of(table.get_ref()).map_err(|what| self.at(table.span(), what))?;
            notes.extend(more);
            cases.extend(of.into_iter().map(|(name, parts)| Case {
                name,
                parts,
                queue: None,
                workloads: all.clone(),
            }));
        }
        let name = raw.name.unwrap_or_else(|| self.file.clone());
        let seed = raw.seed.unwrap_or(1);
        Ok(Experiment {
            name,
            seed,
            start_us,
            duration_us,
            bucket_us,
            capacity,
            operation_us: spanned(&raw.operation)?,
            workloads,
            cases,
            notes,
            keeps_counts: false,
        })
    }

    fn workload(
        &self,
        raw: &RawWorkload,
        place: usize,
        duration_us: Option<u64>,
    ) -> ReadResult<Workload> {
        let kind = match (&raw.arrivals, &raw.log) {
            (Some(kind), _) => kind.as_str(),
            (None, Some(_)) => "log",
            (None, None) => return Err(format!("`arrivals` is missing: {}", kinds())),
        };
        let Some((kind, needed, others)) = KINDS.iter().find(|(name, ..)| *name == kind) else {
            return Err(format!("there are no arrivals `{kind}`: {}", kinds()));
        };
        let present = raw.present_keys();
        if let Some(missing) = needed.iter().find(|key| !present.contains(*key)) {
            return Err(format!("{kind} needs `{missing}`"));
        }
        if let Some(odd) =
            present.iter().find(|key| !needed.contains(*key) && !others.contains(*key))
        {
            let known: Vec<&str> = needed.iter().chain(others.iter()).copied().collect();
            return Err(format!("`{odd}` says nothing of {kind}, which has {}", known.join(", ")));
        }
        let from_us = optional(raw.from.as_deref(), "from")?.unwrap_or(0);
        let until_us = optional(raw.until.as_deref(), "until")?.or(duration_us);
        let until_us = until_us.unwrap_or(u64::MAX);
        if until_us <= from_us {
            return Err("`until` is not after `from`".to_owned());
        }
        let rate_of = || rate(raw.rate.as_deref().unwrap_or_default());
        let time_of = |text: &Option<String>, key| optional(text.as_deref(), key);
        let positive = |time: Option<u64>, key: &str| match time {
            Some(0) => Err(format!("`{key}` is more than 0")),
            other => Ok(other),
        };
        let every_us = positive(time_of(&raw.every, "every")?, "every")?;
        for (key, number) in [("size", raw.size), ("each", raw.each), ("count", raw.count)] {
            if number.is_some_and(|number| number == 0 || number > MAX_REQUESTS) {
                return Err(format!("`{key}` is 1 to {MAX_REQUESTS}"));
            }
        }
        let within_us = time_of(&raw.within, "within")?.unwrap_or(0);
        if every_us.is_some_and(|every_us| within_us > every_us) {
            return Err("`within` is longer than `every`: gangs do not overlap".to_owned());
        }
        let mut clients = raw.clients.unwrap_or(1);
        let arrivals = match *kind {
            "steady" => Arrivals::Steady(rate_of()?),
            "poisson" => Arrivals::Poisson(rate_of()?),
            "diurnal" => {
                let day_us = positive(time_of(&raw.day, "day")?, "day")?;
                Arrivals::Diurnal { rate: rate_of()?, day_us: day_us.unwrap_or(86_400_000_000) }
            }
            "bursts" => {
                Arrivals::Bursts { size: raw.size.unwrap_or(1), every_us: every_us.unwrap_or(1) }
            }
            "loop" => {
                Arrivals::Loop { count: raw.count.unwrap_or(1), every_us: every_us.unwrap_or(1) }
            }
            "edge" => {
                let window_us = positive(time_of(&raw.window, "window")?, "window")?.unwrap_or(1);
                let before_us = positive(time_of(&raw.before, "before")?, "before")?;
                if before_us.is_some_and(|before_us| before_us > window_us / 2) {
                    return Err("`before` is at most half of the `window`".to_owned());
                }
                let before_us = before_us.unwrap_or(BEFORE_EDGE_US);
                Arrivals::Edge { window_us, size: raw.size.unwrap_or(1), before_us }
            }
            "gang" => Arrivals::Gang {
                each: raw.each.unwrap_or(1),
                within_us,
                every_us,
                is_new: raw.new.unwrap_or(false),
            },
            _ => {
                if raw.clients.is_some() {
                    return Err("the log says how many `clients` there are".to_owned());
                }
                let traffic = self.log(raw)?;
                clients = u32::try_from(traffic.clients.len()).unwrap_or(u32::MAX);
                Arrivals::Log(Arc::new(traffic))
            }
        };
        if clients == 0 || clients > MAX_CLIENTS && !matches!(arrivals, Arrivals::Log(_)) {
            return Err(format!("`clients` is 1 to {MAX_CLIENTS}"));
        }
        if matches!(arrivals, Arrivals::Gang { each, .. } if u64::from(clients) * each > MAX_GANG) {
            return Err(format!(
                "a gang makes at most {MAX_GANG} requests: `clients` times `each`"
            ));
        }
        if let Some(zipf) = raw.zipf.filter(|zipf| !(0.0..=10.0).contains(zipf)) {
            return Err(format!("`zipf` is an exponent from 0 to 10, not {zipf}"));
        }
        let retry = retry(raw)?;
        let name = raw.name.clone().unwrap_or_else(|| format!("{kind} {}", place + 1));
        Ok(Workload { name, clients, arrivals, from_us, until_us, retry, zipf: raw.zipf })
    }

    /// A case that is a queue.
    fn queue(
        &self,
        case: &Spanned<RawCase>,
        raw: &Spanned<RawQueue>,
    ) -> Result<(String, QueueCase), FileError> {
        let RawCase { name, limits, strategies, .. } = case.get_ref();
        let name = name.clone().unwrap_or_else(|| "queue".to_owned());
        let wrong = |span, what: String| self.at(span, format!("{name}: {what}"));
        let beside = [("limits", limits.is_some()), ("strategies", strategies.is_some())];
        if let Some((key, _)) = beside.iter().find(|(_, is_present)| *is_present) {
            let what = format!("a case has `limits` or a `queue`: leave `{key}` out");
            return Err(wrong(case.span(), what));
        }
        let queue = raw.get_ref().read();
        let queue =
            queue.map_err(|(span, what)| wrong(span.unwrap_or_else(|| raw.span()), what))?;
        Ok((name, queue))
    }

    fn log(&self, raw: &RawWorkload) -> ReadResult<crate::read::Traffic> {
        let named = raw.log.clone().unwrap_or_default();
        let path = match &self.folder {
            Some(folder) => folder.join(&named),
            None => named,
        };
        let by: By = match &raw.by {
            Some(by) => by.parse().map_err(|error| format!("`by`: {error}"))?,
            None => By::default(),
        };
        let traffic = Reading { by, ..Reading::default() }.read(&path, |_| ());
        let traffic = traffic.map_err(|error| error.to_string())?;
        if traffic.summary.events == 0 {
            let lines = traffic.summary.lines;
            return Err(format!(
                "{}: none of its {lines} lines could be read as a line of an access log",
                path.display()
            ));
        }
        Ok(traffic)
    }
}

/// The key whose value begins where this text ends.
fn key_before(text: &str) -> Option<&str> {
    let before = text.trim_end().strip_suffix('=')?.trim_end();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let key = before.rsplit(|c| !is_part(c)).next()?;
    (!key.is_empty()).then_some(key)
}

/// What the parser says of a value of the wrong kind, in the words of the file.
fn in_words(message: &str, key: Option<&str>) -> String {
    let kinds = ["invalid type: ", "invalid value: "];
    let told = kinds.iter().find_map(|kind| message.strip_prefix(kind)?.split_once(", expected "));
    let is = match told {
        Some((found, expected)) => format!("{}, not {}", wanted(expected), given(found)),
        None if message.contains("untagged enum OneOrMany") => {
            "a text in quotes, or a list of them".to_owned()
        }
        None => return message.to_owned(),
    };
    match key {
        Some(key) => format!("`{key}` is {is}"),
        None => format!("this is to be {is}"),
    }
}

fn wanted(expected: &str) -> String {
    match expected {
        "u64" | "i64" => "a whole number".to_owned(),
        "u32" => format!("a whole number up to {}", u32::MAX),
        "f64" => "a number".to_owned(),
        "a string" | "path string" => "a text in quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list in [ ]".to_owned(),
        table if table.starts_with("struct ") || table == "a map" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

fn given(found: &str) -> String {
    let of_kind = |kind: &str| found.strip_prefix(kind).map(|value| value.trim_matches('`'));
    match (found, found.strip_prefix("string ")) {
        (_, Some(text)) => format!("the text {text}"),
        ("map", _) => "a table".to_owned(),
        ("sequence", _) => "a list".to_owned(),
        _ => ["integer ", "floating point ", "boolean "]
            .iter()
            .find_map(|kind| of_kind(kind))
            .unwrap_or(found)
            .to_owned(),
    }
}

/// All kinds of arrivals, for an error.
fn kinds() -> String {
    let names: Vec<&str> = KINDS.iter().map(|(name, ..)| *name).collect();
    format!("one of {}", names.join(", "))
}

fn retry(raw: &RawWorkload) -> ReadResult<Retry> {
    let how = raw.retry.as_deref().unwrap_or("never");
    let times = raw.times.unwrap_or(TIMES);
    let pause = optional(raw.pause.as_deref(), "pause")?;
    let pause_us = pause.unwrap_or(100_000);
    if pause == Some(0) {
        return Err("`pause` is more than 0: an answer takes some time".to_owned());
    }
    if how == "never" && (raw.times.is_some() || pause.is_some())
        || how == "obey" && pause.is_some()
    {
        return Err(format!("retry = \"{how}\" has no such `times` or `pause`"));
    }
    match how {
        "never" => Ok(Retry::Never),
        "at_once" => Ok(Retry::AtOnce { pause_us, times }),
        "obey" => Ok(Retry::Obey { times }),
        "back_off" => {
            let most_us = pause_us.saturating_mul(1_024);
            Ok(Retry::BackOff { base_us: pause_us, most_us, times })
        }
        other => Err(format!("there is no retry `{other}`: one of never, at_once, obey, back_off")),
    }
}

/// A note on the lines of a log that are not part of the traffic.
fn unread(workload: &Workload) -> Option<String> {
    let Arrivals::Log(traffic) = &workload.arrivals else { return None };
    let (unparsed, lines) = (traffic.summary.unparsed, traffic.summary.lines);
    (unparsed > 0).then(|| {
        format!(
            "{}: {unparsed} of {lines} lines could not be read, and are left out.",
            workload.name
        )
    })
}

/// A case's name, with what it is made of.
type NamedParts = (String, Vec<Part>);

/// The cases of one table, and notes on what it asks for and cannot have.
fn cases_of(raw: &RawCase) -> ReadResult<(Vec<NamedParts>, Vec<String>)> {
    let Some(limits) = &raw.limits else {
        return Err("a case has `limits`, as [{ per = \"client\", limit = \"10/10s\" }], or a \
                    `queue`, as { bound = 10, work = \"100ms\" }"
            .to_owned());
    };
    let mut texts: Vec<(Per, Vec<&str>)> = Vec::new();
    for part in limits {
        let named = |per: &&Per| per.name() == part.per;
        let per = *Per::ALL
            .iter()
            .find(named)
            .ok_or_else(|| format!("`per` is \"resource\" or \"client\", not \"{}\"", part.per))?;
        // Each limit by itself: one may have its `via` and the next not.
        let list = part.limit.list().iter().flat_map(|text| text.split(',')).map(str::trim);
        match texts.iter_mut().find(|(other, _)| *other == per) {
            Some((_, all)) => all.extend(list),
            None => texts.push((per, list.collect())),
        }
    }
    if texts.is_empty() {
        return Err("`limits` has none: { per = \"client\", limit = \"10/10s\" }".to_owned());
    }
    let parts = |strategy: Option<Strategy>| -> ReadResult<Vec<Part>> {
        let part = |(per, texts): &(Per, Vec<&str>)| {
            let with_via = |text: &&str| match strategy.filter(|_| !has_via(text)) {
                Some(strategy) => format!("{text} via {strategy}"),
                None => (*text).to_owned(),
            };
            let text = texts.iter().map(with_via).collect::<Vec<_>>().join(", ");
            let limits: Result<LimitSet, _> = text.parse();
            Ok(Part { per: *per, limits: limits.map_err(|error| error.to_string())? })
        };
        texts.iter().map(part).collect()
    };
    let named = |strategy: &str| match &raw.name {
        Some(name) => format!("{name}: {strategy}"),
        None => strategy.to_owned(),
    };
    let Some(strategies) = &raw.strategies else {
        let parts = parts(None)?;
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
        // One that does not take these limits is left out: the others can be compared.
        let taken = Strategy::ALL.iter().map(|strategy| (strategy, parts(Some(*strategy))));
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

/// True when a limit names its strategy.
fn has_via(text: &str) -> bool {
    text.contains(" via ")
}

/// A duration in microseconds: `10s`, `1h 30m`, `500ms`.
pub(super) fn duration(text: &str) -> ReadResult<u64> {
    // A day has 24 hours here; a month has no length.
    let read = text.parse::<Span>().and_then(|span| span.to_duration(DAYS_ARE_24_HOURS));
    let micros = read.ok().and_then(|duration| u64::try_from(duration.as_micros()).ok());
    // A hundred years: everything beyond is a mistake.
    micros
        .filter(|micros| *micros <= 100 * 365 * 86_400_000_000)
        .ok_or_else(|| format!("`{text}` is no duration, as 10s, 500ms, 1h 30m or 7d"))
}

fn optional(text: Option<&str>, key: &str) -> ReadResult<Option<u64>> {
    text.map(duration).transpose().map_err(|what| format!("`{key}`: {what}"))
}

/// So many in so long, in the notation of limits.
fn quota(text: &str, what: &str) -> ReadResult<(u64, u64)> {
    let limits = LimitSet::parse_with(text, Strategy::FixedWindow);
    let limits = limits.map_err(|error| format!("{what}: {error}"))?;
    match limits.limits() {
        [limit] => Ok((limit.quota().units, limit.quota().period.as_micros())),
        _ => Err(format!("{what}: `{text}` is more than one")),
    }
}

pub(super) fn rate(text: &str) -> ReadResult<Rate> {
    let (units, period_us) = quota(text, "`rate` is so many in so long, as 10/s")?;
    Ok(Rate::new(units, period_us))
}

/// What a resource stands, as `300/10s`.
pub(super) fn capacity(text: &str) -> ReadResult<Capacity> {
    let (units, window_us) = quota(text, "`capacity` is so many in so long, as 300/10s")?;
    Ok(Capacity { text: text.to_owned(), units, window_us })
}
