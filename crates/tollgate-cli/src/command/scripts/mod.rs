//! `scripts`: prints the Lua scripts for limits, or for an offer to a queue, for any Redis client.

mod field;
mod reach;
mod reply;
mod shell;

use std::fmt::Write as _;
use std::iter;

use anyhow::{Result, bail};
use serde::Serialize;
use tollgate::engine::Mode;
use tollgate::{LimitSet, MAX_PARTS, Subject};
use tollgate_redis::Keys;
use tollgate_redis::compose::{Check, Layout, Parts, ReplyFormat};

use tollgate_queue::{Job, OfferCall};

use self::field::{Field, field};
use self::reach::Reach;
use self::shell::{comment, shell_word};
use crate::args::{Reply, ScriptFormat, Scripts};
use crate::input;
use crate::show::{Output, note};
use crate::store::key_prefix;

/// The end marker of the here-document; no line of a script equals it.
const END: &str = "TOLLGATE";

/// The description of the nonce, which a script's reply begins with.
const WORD: &str = "any word: the answer begins with it, so that you can match answers to calls";

/// A script, with everything necessary to call it.
#[derive(Debug, Serialize)]
struct Call {
    sha1: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitsJson>,
    does: String,
    keys: Vec<Key>,
    argv: Vec<Argument>,
    reply: Vec<Field>,
    script: String,
    /// How `redis-cli` reaches the server.
    #[serde(skip)]
    reach: Reach,
}

/// The limits of one subject.
#[derive(Debug, Serialize)]
struct LimitsJson {
    subject: String,
    limits: Vec<String>,
}

/// A key of the script.
#[derive(Debug, Serialize)]
struct Key {
    /// With a placeholder in place of the subject.
    pattern: String,
    /// For the given subject.
    key: String,
}

#[derive(Debug, Serialize)]
struct Argument {
    value: String,
    means: String,
}

pub(crate) fn scripts(args: &Scripts, out: &mut Output) -> Result<u8> {
    let call = match &args.queue {
        Some(queue) => Call::for_offer(queue, args)?,
        None if args.producer.is_nothing() => Call::for_check(args)?,
        None => bail!(
            "--bound, --count, --per-client and --remember need a queue: name it with --queue NAME"
        ),
    };
    match args.format {
        ScriptFormat::Lua => out.exact(&call.script)?,
        ScriptFormat::Json => out.json(&call)?,
        ScriptFormat::RedisCli => out.exact(&call.text()?)?,
        ScriptFormat::Call => {
            call.reach.remarks().iter().for_each(|remark| note(&format!("server: {remark}")));
            out.exact(&format!("{}\n", call.evalsha()))?;
        }
    }
    Ok(0)
}

/// The subjects with their limits, in the order of the arguments.
fn subjects(args: &Scripts) -> Result<Vec<(Subject, LimitSet)>> {
    let strategy = args.strategy.as_deref().map(input::strategy).transpose()?;
    let mut parts = Vec::new();
    if !args.limits.is_empty() {
        let subject = input::subject(&args.subject, args.literal)?;
        parts.push((subject, input::limits(&args.limits, strategy)?));
    }
    for text in &args.on {
        parts.push(input::on(text, strategy, args.literal)?);
    }
    if args.arguments.is_some() {
        for (_, limits) in &mut parts {
            *limits = named(limits)?;
        }
    }
    if parts.is_empty() {
        bail!("no limit is given: write one, as in `tollgate scripts \"10/s via gcra\"`");
    }
    input::refuse_slots(&parts, "this script")?;
    let mut limits = parts.iter().flat_map(|(_, set)| set.limits());
    if let Some(limit) = limits.find(|limit| limit.quota().calendar.is_some()) {
        bail!(
            "`{limit}` is of a calendar, and a script knows only the windows around the time at which \
             it is made: ask by tollgate, or give a duration, such as `30d`"
        );
    }
    let mut limits = parts.iter().flat_map(|(_, set)| set.limits());
    if let Some(limit) = limits.find(|limit| !limit.counts_requests()) {
        bail!(
            "`{limit}` counts {}, and the cost of a script is of requests: leave `of {}` out, or ask by \
             tollgate",
            limit.unit(),
            limit.unit()
        );
    }
    if parts.len() > MAX_PARTS {
        bail!("{} subjects are more than one check takes: at most {MAX_PARTS}", parts.len());
    }
    for (i, (subject, limits)) in parts.iter().enumerate() {
        let same = |(other, under): &(Subject, LimitSet)| {
            other == subject && under.identity() == limits.identity()
        };
        if parts[..i].iter().any(same) {
            bail!("`{subject}` is asked twice under the same limits: ask once, with a larger cost");
        }
    }
    Ok(parts)
}

/// The same limits with names where there are several. Calls bring their times, and the names of
/// keys must not depend on them.
fn named(limits: &LimitSet) -> Result<LimitSet> {
    let each = limits.limits();
    if each.len() == 1 {
        return Ok(limits.clone());
    }
    let texts = each.iter().zip(1..).map(|(limit, number)| match limit.name() {
        Some(_) => limit.to_string(),
        None => format!("l{number}: {limit}"),
    });
    Ok(texts.collect::<Vec<_>>().join(", ").parse()?)
}

impl Call {
    fn for_check(args: &Scripts) -> Result<Self> {
        let cost = input::cost(&args.cost, args.peek)?;
        let parts = subjects(args)?;
        let mut names = Keys::new().within(&key_prefix(args.store.as_deref())?);
        if let Some(value) = &args.shard {
            input::shard(value)?;
            names = names.sharded(value);
        }
        let (mode, does) = match (args.peek, args.partial) {
            (true, false) => (Mode::Peek, "checks without charging"),
            (true, true) => (Mode::PeekPartial, "checks how much would be granted"),
            (false, true) => (Mode::Partial, "charges as much of the cost as remains"),
            (false, false) => (Mode::Whole, "charges when every limit admits, or nothing"),
        };
        let mut check = Check::new(mode);
        check.reply = match args.answer {
            Reply::Verbose => ReplyFormat::Verbose,
            Reply::Boolean => ReplyFormat::Boolean,
            Reply::Words => ReplyFormat::Words,
        };
        check.labels = reply::labels(&parts);
        let sets: Vec<&LimitSet> = parts.iter().map(|(_, limits)| limits).collect();
        let layout =
            args.arguments.as_deref().map(|words| Layout::parse(words, &sets)).transpose()?;
        let script = match &layout {
            None => check.compose(&sets, &Parts::default()),
            Some(layout) => check.compose_with_layout(&sets, &Parts::default(), layout),
        };
        let Some(script) = script else {
            bail!("a strategy of these limits has no script: see `tollgate explain`");
        };
        let mut keys = Vec::new();
        for (i, (subject, limits)) in parts.iter().enumerate() {
            let number = if parts.len() == 1 { String::new() } else { (i + 1).to_string() };
            let pattern = Subject::new("key", format!("SUBJECT{number}"))?;
            let of = |subject| {
                let state = names.state(subject, limits);
                Keys::for_check(&state, limits)
            };
            let each = of(&pattern).into_iter().zip(of(subject));
            keys.extend(each.map(|(pattern, key)| Key { pattern, key }));
        }
        let does = match &layout {
            None => does.to_owned(),
            Some(_) => format!(
                "{does}; the numbers are those of each call, so that one script serves all limits \
                 of these strategies"
            ),
        };
        Ok(Self {
            sha1: script.sha().to_owned(),
            limits: parts.iter().map(LimitsJson::new).collect(),
            does,
            keys,
            argv: argv(args, &cost.to_string(), layout.as_ref()),
            reply: reply::fields(args, &parts, layout.as_ref()),
            script: script.text().to_owned(),
            reach: Reach::new(args)?,
        })
    }

    /// An offer of a job to a queue.
    fn for_offer(queue: &str, args: &Scripts) -> Result<Self> {
        let mut job = Job::new().field("to", "ann").field("text", "hello");
        let settings = args.producer.merged_with(queue, None)?;
        if settings.max_per_client().is_some() {
            job = job.client("ann");
        }
        let OfferCall { script, sha1, keys, args: call_args, .. } =
            OfferCall::new(&key_prefix(args.store.as_deref())?, queue, &settings, &job)?;
        let with = |key: &String| Key {
            pattern: key.replace(&format!(":{queue}}}"), ":NAME}"),
            key: key.clone(),
        };
        let means = [
            "the settings of producers, which the queue keeps: the same for all producers",
            "how many jobs may wait",
            "1 when the bound counts the jobs in flight, too",
            "how long ids are remembered, in microseconds",
            "how many jobs of one client the bound counts at most, 0 for no such bound",
            "the number of words of the job; for a job that is accepted once, has a deadline or a \
             client, `WORDS KEY US CLIENT`: 1 where KEYS[7] is `once:ID` in place of `jobs`, else \
             0; the deadline in microseconds, or nothing; and the client with a blank before it, \
             or nothing",
            "a field's name",
            "and its value; more fields follow, and more jobs after them, each from its number of \
             words on",
        ];
        let mut argv = vec![Argument { value: "0".to_owned(), means: WORD.to_owned() }];
        let each = call_args.into_iter().zip(means.into_iter().chain(iter::repeat("")));
        argv.extend(each.map(|(value, means)| Argument { value, means: means.to_owned() }));
        Ok(Self {
            sha1,
            limits: Vec::new(),
            does: format!("offers a job to the queue `{queue}`"),
            keys: keys.iter().map(with).collect(),
            argv,
            reply: vec![
                field("ARGV[1] again"),
                field(
                    "if the queue is full, how long until a job leaves at the rate of the last \
                     seconds, in microseconds; -1 if none has left or the queue is not full; \
                     `settings` or `form` if those of the queue differ: they follow",
                ),
                field("how many jobs were counted before"),
                field(
                    "the job's id: accepted; `=` and its id: known; nothing: the queue is full; \
                     `!` and a number: its client has that many jobs, its maximum",
                ),
            ],
            script,
            reach: Reach::new(args)?,
        })
    }

    /// The key arguments that a Redis Cluster needs for this call.
    fn on_a_cluster(&self) -> &'static str {
        // The hash tag, by which a key has its slot.
        let tags = self.keys.iter().map(|key| key.key.split(['{', '}']).nth(1));
        let mut others = tags.clone().skip(1);
        if tags.clone().next().is_none_or(|first| others.all(|other| other == first)) {
            "redis-cli -c, with the script loaded into every node: `tollgate help clients`"
        } else {
            "refused there: the keys lie in several slots. Give the subjects a --shard"
        }
    }

    /// A text that a shell can run; explanations are comments.
    fn text(&self) -> Result<String> {
        let mut text = String::new();
        for LimitsJson { subject, limits } in &self.limits {
            comment(&mut text, "limits", &format!("{subject}: {}", limits.join(", ")));
        }
        comment(&mut text, "does", &self.does);
        comment(&mut text, "SHA1", &self.sha1);
        for (number, Key { pattern, .. }) in (1..).zip(&self.keys) {
            comment(&mut text, &format!("KEYS[{number}]"), pattern);
        }
        for (number, Argument { means, .. }) in (1..).zip(&self.argv) {
            if !means.is_empty() {
                comment(&mut text, &format!("ARGV[{number}]"), means);
            }
        }
        for (number, Field { means }) in (1..).zip(&self.reply) {
            let name = if self.reply.len() == 1 {
                "answer".to_owned()
            } else {
                format!("answer {number}")
            };
            comment(&mut text, &name, means);
        }
        comment(&mut text, "cluster", self.on_a_cluster());
        for remark in self.reach.remarks() {
            comment(&mut text, "server", remark);
        }
        if self.script.lines().any(|line| line == END) || !self.script.ends_with('\n') {
            bail!("this script cannot be printed for a shell: use `--format lua`");
        }
        let (Self { script, .. }, cli) = (self, self.reach.redis_cli());
        // The quoted marker prevents expansion: `$` and backquotes in the script have no meaning.
        let _ = write!(text, "\n# Load the script; load it again after a restart of the server.\n");
        let _ = write!(text, "{cli} -x SCRIPT LOAD <<'{END}'\n{script}{END}\n");
        // On a terminal the beginning has scrolled away, and the script is too long to be copied.
        let _ = write!(
            text,
            "\n# Call it, as often as you like. `--format call` prints the next line alone, and `| sh`\n\
             # behind this command loads the script without copying it.\n{}\n",
            self.evalsha()
        );
        let (keys, argv) = self.words();
        let _ = write!(
            text,
            "\n# Or send the script each time, from a file that `--format lua` wrote:\n# \
             {cli} --eval limit.lua {keys} , {argv}\n"
        );
        Ok(text)
    }

    /// The line that calls the script, once the server has it.
    fn evalsha(&self) -> String {
        let (cli, sha, count) = (self.reach.redis_cli(), &self.sha1, self.keys.len());
        let (keys, argv) = self.words();
        format!("{cli} EVALSHA {sha} {count} {keys} {argv}")
    }

    /// The keys and the arguments as words of a shell.
    fn words(&self) -> (String, String) {
        let keys: Vec<String> = self.keys.iter().map(|key| shell_word(&key.key)).collect();
        let argv: Vec<String> = self.argv.iter().map(Argument::shell_word).collect();
        (keys.join(" "), argv.join(" "))
    }
}

/// The arguments of a check's call.
fn argv(args: &Scripts, cost: &str, layout: Option<&Layout>) -> Vec<Argument> {
    if let Some(layout) = layout {
        let each = layout.arguments(cost).into_iter();
        return each.map(|it| Argument { value: it.value, means: it.means }).collect();
    }
    let means = "the cost: a whole number, 1 to 2^40".to_owned();
    let mut argv = vec![Argument { value: cost.to_owned(), means }];
    if args.answer == Reply::Verbose {
        argv.push(Argument { value: "0".to_owned(), means: WORD.to_owned() });
    }
    argv
}

impl Argument {
    /// The argument as a shell word; numbers and names need no quotes.
    fn shell_word(&self) -> String {
        let plain = !self.value.is_empty() && self.value.bytes().all(|b| b.is_ascii_alphanumeric());
        if plain { self.value.clone() } else { shell_word(&self.value) }
    }
}

impl LimitsJson {
    fn new((subject, limits): &(Subject, LimitSet)) -> Self {
        let limits = limits.limits().iter().map(ToString::to_string).collect();
        Self { subject: subject.to_string(), limits }
    }
}
