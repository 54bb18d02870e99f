//! The words of a call of a script that takes its numbers: `n ms cost`, or the limits as JSON.
//!
//! A store computes the arguments of such a script. A program in another language has only the
//! numbers of a limit, so the script computes the same arguments from them first.

use std::fmt::Write as _;
use std::ops::Range;

use tollgate::strategy::LuaStep;
use tollgate::{Anchor, Limit, LimitKind, LimitSet, ParseError, Quota, Rounding};

use super::form::{in_state_order, part};
use super::parts::{Parts, distinct};

/// One word of a call. Limits are counted from 0, in the order of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    /// The units of a limit.
    Units(usize),
    /// The burst of a limit.
    Burst(usize),
    /// The time of limits, in a unit of so many microseconds.
    Time(Range<usize>, TimeUnit),
    /// The rows of all limits of a subject.
    Json,
    Cost,
    Nonce,
    /// Whatever the caller writes.
    Ignored,
}

/// A unit of time: its name, and how many microseconds it has.
type TimeUnit = (&'static str, u64);

const TIME_UNITS: [TimeUnit; 3] = [("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// The words that there are.
const KNOWN: &str = "the words are `n`, `burst`, `s`, `ms`, `us`, `json`, `cost`, `nonce` and `_`, as \
                     in `n ms cost`";

/// The words with which a script that takes its numbers is called, in their order.
///
/// ```
/// use tollgate::LimitSet;
/// use tollgate_redis::compose::Layout;
/// let (resource, consumer): (LimitSet, LimitSet) = ("5/10s".parse()?, "3/10s".parse()?);
/// let layout = Layout::parse("s n n", &[&resource, &consumer])?;
/// let values: Vec<String> = layout.arguments("1").into_iter().map(|it| it.value).collect();
/// assert_eq!(values, ["10", "5", "3"]);
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layout {
    words: Vec<Word>,
    text: String,
    limits: Vec<Limit>,
    /// How many limits each subject has.
    of_subject: Vec<usize>,
}

/// One argument of the call, for the limits that were given.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LayoutArgument {
    /// Its value for these limits.
    pub value: String,
    /// Its meaning, in words.
    pub means: String,
}

impl Layout {
    /// Reads the words of a layout: `n`, `burst`, `s`, `ms`, `us`, `json`, `cost`, `nonce` and `_`
    /// for a word that is ignored. Nothing is `n ms` for each limit, and `cost`.
    ///
    /// # Errors
    /// An unknown word, a number of words that does not fit the limits, or limits that have no such
    /// form: calendars, slots, bans and debts.
    pub fn parse(text: &str, subjects: &[&LimitSet]) -> Result<Self, ParseError> {
        let limits: Vec<Limit> = subjects.iter().flat_map(|set| set.limits()).cloned().collect();
        let of_subject = subjects.iter().map(|set| set.limits().len()).collect();
        let text = match text.trim() {
            "" => format!("{}cost", "n ms ".repeat(limits.len())),
            some => {
                some.split([' ', ',']).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ")
            }
        };
        let mut layout = Self { words: Vec::new(), text, limits, of_subject };
        layout.refuse_limits()?;
        layout.words = layout.read()?;
        Ok(layout)
    }

    /// The words as text, each once.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The arguments of the call for the given limits and this cost.
    #[must_use]
    pub fn arguments(&self, cost: &str) -> Vec<LayoutArgument> {
        self.words.iter().map(|word| self.argument(word, cost)).collect()
    }

    fn fail<T>(&self, what: impl Into<String>, remedy: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::whole(&self.text, what, remedy))
    }

    /// Limits without such a form are an error.
    fn refuse_limits(&self) -> Result<(), ParseError> {
        for limit in &self.limits {
            let quota = limit.quota();
            if limit.kind() != LimitKind::Rate || quota.calendar.is_some() {
                return self.fail(
                    format!("`{limit}` is not a rate over a time"),
                    "print it without `--arguments`, or ask by tollgate",
                );
            }
            if quota.debt.is_some() {
                return self.fail(format!("`{limit}` has a debt"), "leave `debt` out");
            }
        }
        Ok(())
    }

    fn read(&self) -> Result<Vec<Word>, ParseError> {
        let mut words = Vec::new();
        let names: Vec<&str> = self.text.split(' ').collect();
        let count = |name: &str| names.iter().filter(|word| **word == name).count();
        let limits = self.limits.len();
        let with_burst: Vec<usize> = (0..limits).filter(|i| self.takes_burst(*i)).collect();
        let is_time = |name: &&&str| TIME_UNITS.iter().any(|(unit, _)| *unit == **name);
        let times = names.iter().filter(is_time).count();
        // Before the times are looked at: one time beside `json` is no question of several.
        if count("json") > 0 && count("n") + times > 0 {
            return self.fail("`json` has units and times", "leave `n`, `s`, `ms`, `us` out");
        }
        let (mut units, mut bursts, mut time) = (0, with_burst.iter(), 0);
        for name in &names {
            words.push(match *name {
                "n" => {
                    units += 1;
                    Word::Units(units - 1)
                }
                "burst" => match bursts.next() {
                    Some(limit) => Word::Burst(*limit),
                    None => {
                        return self.fail(
                            "`burst` is written more often than limits have one",
                            "give it once for each token_bucket and gcra",
                        );
                    }
                },
                "json" => Word::Json,
                "cost" => Word::Cost,
                "nonce" => Word::Nonce,
                "_" => Word::Ignored,
                name => {
                    let Some(unit) = TIME_UNITS.into_iter().find(|(unit, _)| *unit == name) else {
                        return self.fail(format!("`{name}` is not a word of a call"), KNOWN);
                    };
                    time += 1;
                    let of = if times == 1 { 0..limits } else { time - 1..time };
                    self.check_time(of.clone(), unit)?;
                    Word::Time(of, unit)
                }
            });
        }
        for name in ["json", "cost", "nonce"] {
            if count(name) > 1 {
                return self.fail(format!("`{name}` is written twice"), "once is enough");
            }
        }
        let fits = |count: usize| count == 0 || count == limits;
        if !fits(units)
            || !(fits(times) || times == 1)
            || bursts.len() % with_burst.len().max(1) > 0
        {
            return self.fail(
                format!("there are {limits} limits, and as many words are needed of each kind"),
                "write `n` for each limit, `burst` for each that has one, and one time for all, or \
                 one for each",
            );
        }
        if count("json") > 0 {
            self.check_seconds()?;
        }
        if count("json") + times > 0 {
            self.check_names()?;
        }
        match (count("json") > 0, units + times > 0) {
            (false, false) => self.fail("no word is a number of a limit", KNOWN),
            (true, _) if self.of_subject.iter().any(|of| *of != self.of_subject[0]) => self.fail(
                "the subjects have different numbers of limits",
                "the rows of the JSON are for each subject: give all as many limits",
            ),
            _ => Ok(words),
        }
    }

    /// The limits of a time must have a whole one, and the same.
    fn check_time(&self, of: Range<usize>, unit: TimeUnit) -> Result<(), ParseError> {
        let (name, us) = unit;
        let Some(limits) = self.limits.get(of) else { return Ok(()) };
        let period = |limit: &Limit| limit.quota().period.as_micros();
        if let Some(limit) = limits.iter().find(|limit| !period(limit).is_multiple_of(us)) {
            return self.fail(
                format!("`{limit}` is not of a whole number of {name}"),
                "write a smaller unit: `ms` or `us`",
            );
        }
        if limits.iter().any(|limit| period(limit) != period(&limits[0])) {
            return self.fail(
                "the limits are of different times",
                format!("write `{name}` once for each limit"),
            );
        }
        Ok(())
    }

    /// The states of a set are ordered by identities, which have the times of limits without names.
    fn check_names(&self) -> Result<(), ParseError> {
        let mut limits = &self.limits[..];
        for count in &self.of_subject {
            let (own, rest) = limits.split_at(*count);
            limits = rest;
            if let Some(limit) = own.iter().find(|limit| own.len() > 1 && limit.name().is_none()) {
                return self.fail(
                    format!("`{limit}` has no name beside others of a subject"),
                    "name each, as in `short: 10/s, long: 240/h`: their times are in the call",
                );
            }
        }
        Ok(())
    }

    /// JSON has whole seconds alone.
    fn check_seconds(&self) -> Result<(), ParseError> {
        let is_whole = |limit: &&Limit| {
            let quota = limit.quota();
            let mut times = [Some(quota.period), quota.precision].into_iter().flatten();
            times.all(|time| time.as_micros().is_multiple_of(1_000_000))
        };
        match self.limits.iter().find(|limit| !is_whole(limit)) {
            None => Ok(()),
            Some(limit) => self.fail(
                format!("`{limit}` is not of whole seconds, as JSON has them"),
                "write `n us` for each limit in place of `json`, or another duration or precision",
            ),
        }
    }

    fn takes_burst(&self, limit: usize) -> bool {
        self.limits.get(limit).is_some_and(|it| it.strategy().options().contains(&"burst"))
    }

    fn quota(&self, limit: usize) -> Option<&Quota> {
        self.limits.get(limit).map(Limit::quota)
    }

    fn argument(&self, word: &Word, cost: &str) -> LayoutArgument {
        let of =
            |limit: &usize| self.limits.get(*limit).map_or_else(String::new, ToString::to_string);
        let number = |limit: &usize, burst: bool| {
            let quota = self.quota(*limit);
            let burst_of = |quota: &Quota| quota.burst.unwrap_or(quota.units);
            quota.map_or(0, |quota| if burst { burst_of(quota) } else { quota.units }).to_string()
        };
        let (value, means) = match word {
            Word::Units(limit) => (number(limit, false), format!("the units of `{}`", of(limit))),
            Word::Burst(limit) => (number(limit, true), format!("the burst of `{}`", of(limit))),
            Word::Time(limits, (name, us)) => {
                let period = self.quota(limits.start).map_or(0, |it| it.period.as_micros());
                let whose = match limits.len() == self.limits.len() {
                    true => "of every limit".to_owned(),
                    false => format!("of `{}`", of(&limits.start)),
                };
                ((period / us).to_string(), format!("the time {whose}, in {name}"))
            }
            Word::Json => (
                self.json(),
                "the limits, as rows of seconds, units and the seconds of a sub-bucket".to_owned(),
            ),
            Word::Cost => (cost.to_owned(), "the cost: a whole number, 1 to 2^40".to_owned()),
            Word::Nonce => (
                "0".to_owned(),
                "any word: the answer begins with it, so that you can match answers to calls"
                    .to_owned(),
            ),
            Word::Ignored => ("0".to_owned(), "anything: it is not read".to_owned()),
        };
        LayoutArgument { value, means }
    }

    /// The rows of the first subject.
    fn json(&self) -> String {
        let limits = &self.limits[..self.of_subject.first().copied().unwrap_or_default()];
        let row = |limit: &Limit| {
            let quota = limit.quota();
            let seconds = |us: u64| us / 1_000_000;
            let length = seconds(quota.period.as_micros());
            match quota.precision {
                None => format!("[{length},{}]", quota.units),
                Some(step) => {
                    format!("[{length},{},{}]", quota.units, seconds(step.as_micros()))
                }
            }
        };
        let rows: Vec<String> = limits.iter().map(row).collect();
        format!("[{}]", rows.join(","))
    }

    /// The lines of a script that make its arguments from the words of the call. The script takes
    /// this many keys; with `nonce` its second argument is one.
    pub(super) fn lines(
        &self,
        subjects: &[&LimitSet],
        keys: usize,
        nonce: bool,
        texts: &Parts,
    ) -> String {
        let place = |wanted: &Word| self.words.iter().position(|word| word == wanted);
        let given = |word: &Word, otherwise: &str| {
            place(word).map_or_else(|| otherwise.to_owned(), |at| format!("given[{}]", at + 1))
        };
        let mut first = given(&Word::Cost, "'1'");
        if nonce {
            first += &format!(", {}", given(&Word::Nonce, "'0'"));
        }
        let steps = self.limits.iter().filter_map(|limit| limit.lua_spec().step);
        let steps = indented(&self.steps(&distinct(steps), texts));
        let text = texts.driver("layout.lua").replace("$STEPS\n", &steps);
        let text = text.replace("$READ\n", &indented(&self.read_lines()));
        let text = text.replace("$SUBJECTS\n", &indented(&self.subject_lines(subjects)));
        let text = text.replace("$FIRST", &first).replace("$WORDS", &self.text);
        text.replace("$KEYS", &keys.to_string()).replace("$ARGS", &self.words.len().to_string())
    }

    /// The functions that compute the numbers of these steps.
    fn steps(&self, steps: &[&LuaStep], texts: &Parts) -> String {
        let mut text = String::new();
        for step in steps {
            let cold = texts.cold(step);
            let own = texts.driver("layout_steps.lua");
            if step.name == "greedy" {
                text.push_str(&texts.mul_div);
            }
            for (from, name) in [(cold, "times"), (cold, "numbers"), (own, "of")] {
                text.push_str(function(from, &format!("{}_{name}", step.name)).unwrap_or_default());
            }
        }
        text
    }

    /// The lines that read the numbers of the limits.
    fn read_lines(&self) -> String {
        let mut text = String::new();
        let of = |kind: fn(usize) -> Word, limit: usize| {
            self.words.iter().position(|word| *word == kind(limit)).map(|at| at + 1)
        };
        let time = |limit: usize| {
            self.words.iter().zip(1..).find_map(|(word, at)| match word {
                Word::Time(limits, (_, us)) if limits.contains(&limit) => Some((at, *us)),
                _ => None,
            })
        };
        if let Some(at) = self.words.iter().position(|word| *word == Word::Json) {
            text.push_str(&self.json_lines(at + 1));
        }
        let is_json = !text.is_empty();
        for (i, limit) in self.limits.iter().enumerate() {
            let (quota, number) = (limit.quota(), i + 1);
            // Writing to a string cannot fail.
            if !is_json {
                let _ = match of(Word::Units, i) {
                    Some(at) => {
                        writeln!(text, "n[{number}] = units(given[{at}], 'a number of units')")
                    }
                    None => writeln!(text, "n[{number}] = {}", quota.units),
                };
                let _ = match time(i) {
                    Some((at, us)) => writeln!(text, "d[{number}] = time(given[{at}], {us})"),
                    None => writeln!(text, "d[{number}] = {}", quota.period.as_micros()),
                };
            }
            let own = quota.burst.filter(|burst| *burst != quota.units);
            let _ = match (of(Word::Burst, i), own) {
                (Some(at), _) => writeln!(text, "burst[{number}] = units(given[{at}], 'a burst')"),
                (None, Some(burst)) => writeln!(text, "burst[{number}] = {burst}"),
                (None, None) => writeln!(text, "burst[{number}] = n[{number}]"),
            };
        }
        text
    }

    /// The lines that read the rows of the JSON at this argument.
    fn json_lines(&self, at: usize) -> String {
        let count = self.of_subject.first().copied().unwrap_or_default();
        let buckets = self.limits.iter().map(|limit| {
            let quota = limit.quota();
            quota
                .precision
                .map_or(0, |step| quota.period.as_micros() / step.as_micros())
                .to_string()
        });
        let buckets: Vec<String> = buckets.collect();
        format!(
            "local is_json, rows = pcall(cjson.decode, given[{at}])
if not is_json or type(rows) ~= 'table' or #rows ~= {count} then
  refuse('the limits must be JSON, as in [[1,10],[60,120]], with {count} rows')
  rows = {{}}
end
for i, buckets in ipairs({{{}}}) do
  local row = rows[1 + (i - 1) % {count}]
  row = type(row) == 'table' and row or {{}}
  n[i], d[i] = units(row[2], 'a number of units'), time(row[1], 1000000)
  local step = row[3] and time(row[3], 1000000) or d[i]
  if buckets == 0 and step < d[i] or buckets > 0 and step * buckets ~= d[i] then
    refuse('limit ' .. i .. ' of this script has ' .. buckets .. ' sub-buckets')
  end
end
",
            buckets.join(", ")
        )
    }

    /// The lines that name the limits of each subject.
    fn subject_lines(&self, subjects: &[&LimitSet]) -> String {
        let (mut text, mut before) = (String::new(), 1);
        for set in subjects {
            text.push_str("subject({\n");
            for (declared, limit) in in_state_order(set) {
                let (number, part) = (before + declared, part(limit));
                let Some(step) = limit.lua_spec().step else { continue };
                let head = part.split_once(':').map_or("", |(head, _)| head);
                let name = step.name;
                let more = constants(limit, number);
                let _ = writeln!(
                    text,
                    "  {{'{head}:', '{}', {name}_of(n[{number}], d[{number}]{more}), {name}_numbers}},",
                    limit.identity()
                );
            }
            text.push_str("})\n");
            before += set.limits().len();
        }
        text
    }
}

/// The further arguments of the function that computes the numbers of a limit.
fn constants(limit: &Limit, number: usize) -> String {
    let quota = limit.quota();
    let rounding = match quota.rounding.unwrap_or_default() {
        Rounding::Interpolate => 1,
        Rounding::Truncate => 2,
        _ => 0,
    };
    match limit.lua_spec().step.map(|step| step.name) {
        // A uniform gate is a bucket of one.
        Some("greedy") if !limit.strategy().options().contains(&"burst") => ", 1".to_owned(),
        Some("greedy" | "interval") => format!(", burst[{number}]"),
        Some("fixed") => format!(", {}", u8::from(quota.anchor == Some(Anchor::FirstHit))),
        Some("window") => {
            let step = quota.precision.map_or(1, tollgate::Period::as_micros);
            format!(", {}, {rounding}", quota.period.as_micros() / step)
        }
        _ => String::new(),
    }
}

/// The function of this name in a text.
fn function<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let from = text.find(&format!("local function {name}("))?;
    let rest = text.get(from..)?;
    let length = rest.find("\nend\n")? + "\nend\n".len();
    rest.get(..length)
}

fn indented(text: &str) -> String {
    text.lines().filter(|line| !line.is_empty()).map(|line| format!("  {line}\n")).collect()
}
