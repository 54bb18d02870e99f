//! The text form of a history: one line for each call and each fault.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use tollgate::LimitSet;

use super::holding;
use super::record::{
    Call, CallOutcome, Fault, FaultKind, History, QueueCall, QueueStep, RecordedCount,
};

/// Why a line of a history is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryError {
    line: usize,
    message: String,
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for HistoryError {}

/// Writes a value as it is, or in quotes when it has blanks or signs of the form.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain =
            |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '\\' | '#');
        if !self.0.is_empty() && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Writes ` key=value` when there is a value.
pub(super) fn optional(f: &mut fmt::Formatter<'_>, key: &str, value: Option<u64>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {key}={value}"))
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, client, invoked_us, returned_us, cost, .. } = self;
        write!(f, "call id={id} client={} invoked={invoked_us}", Quoted(client))?;
        optional(f, "returned", *returned_us)?;
        write_parts(f, &self.parts)?;
        write!(f, " cost={cost}")?;
        if let Some(request) = &self.request {
            write!(f, " request={}", Quoted(request))?;
        }
        optional(f, "now", self.decided_us)?;
        write_outcome(f, self.outcome)
    }
}

/// Writes the parts of a call: each subject with its limits.
pub(super) fn write_parts(f: &mut fmt::Formatter<'_>, parts: &[RecordedCount]) -> fmt::Result {
    for RecordedCount { subject, limits } in parts {
        write!(f, " subject={}", Quoted(subject))?;
        if let Some(policy) = limits.policy() {
            write!(f, " policy={}", Quoted(policy))?;
        }
        write!(f, " limits={}", Quoted(&limits.to_string()))?;
    }
    Ok(())
}

/// Writes what came back from a decision.
pub(super) fn write_outcome(f: &mut fmt::Formatter<'_>, outcome: CallOutcome) -> fmt::Result {
    match outcome {
        CallOutcome::Allowed { remaining } => {
            f.write_str(" outcome=allowed")?;
            optional(f, "remaining", remaining)
        }
        CallOutcome::Denied { retry_after_us, remaining } => {
            f.write_str(" outcome=denied")?;
            optional(f, "retry_after", retry_after_us)?;
            optional(f, "remaining", remaining)
        }
        CallOutcome::Never => f.write_str(" outcome=never"),
        CallOutcome::NotCharged => f.write_str(" outcome=not_charged"),
        CallOutcome::Unknown => f.write_str(" outcome=unknown"),
    }
}

impl fmt::Display for QueueCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, queue, invoked_us, .. } = self;
        write!(f, "queue id={id} queue={} invoked={invoked_us}", Quoted(queue))?;
        optional(f, "returned", self.returned_us)?;
        if !self.job.is_empty() {
            write!(f, " job={}", Quoted(&self.job))?;
        }
        match self.step {
            QueueStep::Accepted { depth } => {
                f.write_str(" step=accepted")?;
                optional(f, "depth", depth)
            }
            QueueStep::Refused => f.write_str(" step=refused"),
            QueueStep::Unanswered => f.write_str(" step=unanswered"),
            QueueStep::Delivered => f.write_str(" step=delivered"),
            QueueStep::Acknowledged => f.write_str(" step=acknowledged"),
            QueueStep::Empty => f.write_str(" step=empty"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, began_us, ended_us, target, lost_states } = self;
        let kind = kind.name();
        write!(f, "fault kind={kind} began={began_us} ended={ended_us} target={}", Quoted(target))?;
        write!(f, " lost_states={lost_states}")
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.faults {
            writeln!(f, "{fault}")?;
        }
        for call in &self.calls {
            writeln!(f, "{call}")?;
        }
        for call in &self.queue {
            writeln!(f, "{call}")?;
        }
        for call in &self.holds {
            writeln!(f, "{call}")?;
        }
        Ok(())
    }
}

/// The pairs of a line, in order; each is taken once.
pub(super) struct Pairs(Vec<(String, String)>);

impl Pairs {
    /// Reads `key=value key="value with blanks"`.
    fn read(text: &str) -> Result<Self, String> {
        let mut pairs = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (key, after) =
                rest.split_once('=').ok_or_else(|| format!("`{rest}` is not a key=value"))?;
            let (value, after) = value(after)?;
            pairs.push((key.to_owned(), value));
            rest = after.trim_start();
        }
        Ok(Self(pairs))
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let position = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(position).1)
    }

    pub(super) fn text(&mut self, key: &str) -> Result<String, String> {
        self.take(key).ok_or_else(|| format!("`{key}=` is missing"))
    }

    pub(super) fn number(&mut self, key: &str) -> Result<u64, String> {
        self.optional(key)?.ok_or_else(|| format!("`{key}=` is missing"))
    }

    pub(super) fn optional(&mut self, key: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.take(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("{key}={text} is not a whole number"))
    }

    fn done(self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some((key, _)) => Err(format!("`{key}=` is not known here, or is there twice")),
        }
    }
}

/// A value at the start of a text, and the rest.
fn value(text: &str) -> Result<(String, &str), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Ok((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, quoted.get(at + 1..).unwrap_or(""))),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, c)) => value.push(c),
                None => break,
            },
            c => value.push(c),
        }
    }
    Err("a quoted value does not end".to_owned())
}

/// Reads lines. A limit set that comes again is parsed once.
#[derive(Default)]
pub(super) struct Reader {
    sets: BTreeMap<(Option<String>, String), LimitSet>,
    history: History,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (kind, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let mut pairs = Pairs::read(rest)?;
        match kind {
            "call" => {
                let call = self.call(&mut pairs)?;
                self.history.calls.push(call);
            }
            "queue" => self.history.queue.push(queue_call(&mut pairs)?),
            "hold" => {
                let call = holding::read(self, &mut pairs)?;
                self.history.holds.push(call);
            }
            "fault" => self.history.faults.push(fault(&mut pairs)?),
            _ => return Err(format!("`{kind}` is not one of call, queue, hold, fault")),
        }
        pairs.done()
    }

    fn set(&mut self, policy: Option<String>, text: String) -> Result<LimitSet, String> {
        let key = (policy, text);
        if let Some(set) = self.sets.get(&key) {
            return Ok(set.clone());
        }
        let mut set: LimitSet = key.1.parse().map_err(|e| format!("limits={}: {e}", key.1))?;
        if let Some(policy) = &key.0 {
            set = set.in_policy(policy).map_err(|e| format!("policy={policy}: {e}"))?;
        }
        self.sets.insert(key, set.clone());
        Ok(set)
    }

    /// The parts in order: each `subject=` begins one.
    pub(super) fn parts(&mut self, pairs: &mut Pairs) -> Result<Vec<RecordedCount>, String> {
        let mut parts = Vec::new();
        while let Some(subject) = pairs.take("subject") {
            // The policy of a part is between its subject and its limits.
            let at = |key: &str| pairs.0.iter().position(|(k, _)| k == key);
            let own = at("policy").is_some_and(|policy| at("limits").is_some_and(|l| policy < l));
            let policy = if own { pairs.take("policy") } else { None };
            let limits = pairs.text("limits")?;
            parts.push(RecordedCount { subject, limits: self.set(policy, limits)? });
        }
        if parts.is_empty() { Err("`subject=` is missing".to_owned()) } else { Ok(parts) }
    }

    /// The answer of a decision.
    pub(super) fn outcome(pairs: &mut Pairs) -> Result<CallOutcome, String> {
        Ok(match pairs.text("outcome")?.as_str() {
            "allowed" => CallOutcome::Allowed { remaining: pairs.optional("remaining")? },
            "denied" => CallOutcome::Denied {
                retry_after_us: pairs.optional("retry_after")?,
                remaining: pairs.optional("remaining")?,
            },
            "never" => CallOutcome::Never,
            "not_charged" => CallOutcome::NotCharged,
            "unknown" => CallOutcome::Unknown,
            other => return Err(format!("outcome={other} is not known")),
        })
    }

    fn call(&mut self, pairs: &mut Pairs) -> Result<Call, String> {
        let outcome = Self::outcome(pairs)?;
        let call = Call {
            id: pairs.number("id")?,
            client: pairs.text("client")?,
            invoked_us: pairs.number("invoked")?,
            returned_us: pairs.optional("returned")?,
            parts: self.parts(pairs)?,
            cost: pairs.number("cost")?,
            request: pairs.take("request"),
            decided_us: pairs.optional("now")?,
            outcome,
        };
        if call.cost == 0 {
            return Err("cost=0 is not a check".to_owned());
        }
        within(call.invoked_us, call.returned_us)?;
        if outcome.is_decision() && call.returned_us.is_none() {
            return Err("a decision has no `returned=`".to_owned());
        }
        Ok(call)
    }
}

fn within(begin_us: u64, end_us: Option<u64>) -> Result<(), String> {
    match end_us {
        Some(end_us) if end_us < begin_us => Err("it ends before it begins".to_owned()),
        _ => Ok(()),
    }
}

fn queue_call(pairs: &mut Pairs) -> Result<QueueCall, String> {
    let step = match pairs.text("step")?.as_str() {
        "accepted" => QueueStep::Accepted { depth: pairs.optional("depth")? },
        "refused" => QueueStep::Refused,
        "unanswered" => QueueStep::Unanswered,
        "delivered" => QueueStep::Delivered,
        "acknowledged" => QueueStep::Acknowledged,
        "empty" => QueueStep::Empty,
        other => return Err(format!("step={other} is not known")),
    };
    let job = if step == QueueStep::Empty { String::new() } else { pairs.text("job")? };
    let call = QueueCall {
        id: pairs.number("id")?,
        queue: pairs.text("queue")?,
        invoked_us: pairs.number("invoked")?,
        returned_us: pairs.optional("returned")?,
        job,
        step,
    };
    within(call.invoked_us, call.returned_us)?;
    Ok(call)
}

fn fault(pairs: &mut Pairs) -> Result<Fault, String> {
    let kind = pairs.text("kind")?;
    let known = FaultKind::ALL.into_iter().find(|known| known.name() == kind);
    let fault = Fault {
        kind: known.ok_or_else(|| format!("kind={kind} is not known"))?,
        began_us: pairs.number("began")?,
        ended_us: pairs.number("ended")?,
        target: pairs.text("target")?,
        lost_states: u32::try_from(pairs.optional("lost_states")?.unwrap_or(0))
            .map_err(|_| "lost_states is above 2^32".to_owned())?,
    };
    within(fault.began_us, Some(fault.ended_us))?;
    Ok(fault)
}

impl FromStr for History {
    type Err = HistoryError;

    /// Reads the text form. Empty lines and lines that begin with `#` are skipped.
    fn from_str(text: &str) -> Result<Self, HistoryError> {
        let mut reader = Reader::default();
        let mut ids = std::collections::BTreeSet::new();
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refused = |message| HistoryError { line: number, message };
            reader.line(line).map_err(refused)?;
            let id = match line.split_whitespace().next() {
                Some("call") => reader.history.calls.last().map(|call| call.id),
                Some("hold") => reader.history.holds.last().map(|call| call.id),
                _ => None,
            };
            if id.is_some_and(|id| !ids.insert(id)) {
                return Err(refused("another call has this id".to_owned()));
            }
        }
        Ok(reader.history)
    }
}
