//! `config`: validates policy files, and prints the schema for editors.

mod envoy;
mod shared;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use tollgate::{Limit, Period};
use tollgate_policy::{
    Absent, Combine, DEFAULT_DEADLINE, Dimension, Entry, Level, Policies, Policy, Problems, Rule,
    Shard, schema,
};

use self::shared::{BROKEN, ProblemJson, WARNED, counted, printable};
use super::local_share::LocalShare;
use crate::args::ConfigCheck;
use crate::show::{Output, wrapped};
use crate::store::is_cluster;

/// A file that was checked.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Json {
    Policies(FileJson),
    Envoy(envoy::FileJson),
}

#[derive(Debug, Serialize)]
struct FileJson {
    file: String,
    fine: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    combine: Option<&'static str>,
    problems: Vec<ProblemJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problems_not_shown: Option<usize>,
    policies: Vec<PolicyJson>,
}

#[derive(Debug, Serialize)]
struct PolicyJson {
    name: String,
    when: Vec<String>,
    limits: Vec<EntryJson>,
    unlimited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tiers: Option<String>,
    on_failure: String,
    deadline: String,
    cost: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    shadow: bool,
}

#[derive(Debug, Serialize)]
struct EntryJson {
    subject: Vec<String>,
    limits: Vec<LimitJson>,
    absent: std::collections::BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notify: Vec<ThresholdJson>,
    overrides: Vec<OverrideJson>,
}

#[derive(Debug, Serialize)]
struct ThresholdJson {
    limit: String,
    at: String,
}

#[derive(Debug, Serialize)]
struct LimitJson {
    limit: String,
    worst_window: Option<u64>,
    window: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<LocalShare>,
}

#[derive(Debug, Serialize)]
struct OverrideJson {
    when: Vec<String>,
    limit: String,
}

/// Checks every file, whatever is wrong with the earlier ones.
pub(crate) fn check(args: &ConfigCheck, out: &mut Output) -> Result<u8> {
    let on_cluster = args.store.as_deref().map_or(Ok(false), is_cluster)?;
    let (rules, files): (Vec<_>, Vec<_>) =
        args.files.iter().partition(|path| args.envoy || envoy::is_rules(path));
    let (mut code, mut all) = (0, Vec::new());
    for (number, path) in files.iter().enumerate() {
        let read = Policies::load(path);
        let problems = problems(&read, on_cluster);
        let worst = match &read {
            Err(_) => BROKEN,
            Ok(_) if count_of(&problems) > 0 && args.deny_warnings => WARNED,
            Ok(_) => 0,
        };
        code = code.max(worst);
        if args.json {
            all.push(Json::Policies(FileJson::new(path, &read, &problems)));
            continue;
        }
        if number > 0 {
            out.line("")?;
        }
        for problems in problems.iter().filter(|problems| !problems.is_empty()) {
            out.line(problems.render(true))?;
            out.line("")?;
        }
        out.text(&text(path, &read, &problems, args.deny_warnings)?)?;
    }
    if !rules.is_empty() {
        if !args.json && !files.is_empty() {
            out.line("")?;
        }
        let (worst, checked) = envoy::check(args, &rules, out)?;
        code = code.max(worst);
        all.extend(checked.into_iter().map(Json::Envoy));
    }
    if args.json {
        out.json(&all)?;
    }
    Ok(code)
}

/// The errors and warnings of a file.
fn problems(read: &Result<Policies, Problems>, on_cluster: bool) -> Vec<&Problems> {
    match read {
        Ok(policies) if on_cluster => vec![policies.warnings(), policies.cluster_warnings()],
        Ok(policies) => vec![policies.warnings()],
        Err(problems) => vec![problems],
    }
}

fn count_of(problems: &[&Problems]) -> usize {
    problems.iter().map(|problems| problems.iter().count()).sum()
}

/// Prints the schema of policy files.
pub(crate) fn print_schema(out: &mut Output) -> Result<u8> {
    out.exact(&format!("{:#}\n", schema().as_value()))?;
    Ok(0)
}

/// The verdict, and the meaning of each policy.
fn text(
    path: &Path,
    read: &Result<Policies, Problems>,
    problems: &[&Problems],
    deny_warnings: bool,
) -> Result<String> {
    let bold = anstyle::Style::new().bold();
    let file = printable(&path.display().to_string());
    let of = |problems: &Problems, level| problems.iter().filter(|p| p.level() == level).count();
    let policies = match read {
        Ok(policies) => policies,
        Err(problems) => {
            let errors = counted(of(problems, Level::Error), "error")?;
            return Ok(format!("{bold}{file} is broken{bold:#}: {errors}\n"));
        }
    };
    let list = policies.policies();
    let number = u64::try_from(list.len())?;
    let number = if number == 1 { "1 policy".to_owned() } else { format!("{number} policies") };
    let warnings = counted(count_of(problems), "warning")?;
    // With exit code 1 the text must not call the file fine.
    let denied = deny_warnings && count_of(problems) > 0;
    let verdict = if denied { "has warnings" } else { "is fine" };
    let mut text = format!("{bold}{file} {verdict}{bold:#}: {number}, {warnings}, ");
    text.push_str(&format!("hash {}", policies.hash()));
    if list.len() > 1 {
        text.push_str(match policies.combine() {
            Combine::First => ", only the first matching policy counts",
            Combine::All => ", every matching policy counts",
        });
    }
    text.push('\n');
    for policy in list {
        policy_text(policy, policies.nodes(), &mut text);
    }
    Ok(text)
}

/// The bound of this process for a limit while the store is away, where the policy names a share.
fn local_share(policy: &Policy, limit: &Limit, nodes: Option<u32>) -> Option<LocalShare> {
    // Slots and bans have no share that is a bound.
    limit.meaning().worst_window?;
    // Limits without such a share are errors of the file.
    LocalShare::new(limit, policy.on_failure.share()?, nodes).ok()
}

fn policy_text(policy: &Policy, nodes: Option<u32>, text: &mut String) {
    const INDENT: usize = 16;
    let shadow = if policy.shadow { " (shadow: counts, but denies nobody)" } else { "" };
    let (bold, name) = (anstyle::Style::new().bold(), &policy.name);
    text.push_str(&format!("  {:<12}  {bold}{name}{bold:#}{shadow}\n", "policy"));
    let mut row = |name: &str, what: &str| {
        text.push_str(&format!("  {name:<12}  {}\n", wrapped(&printable(what), INDENT)));
    };
    row("applies", &joined(&policy.when, " and ").unwrap_or_else(|| "to every request".to_owned()));
    if policy.unlimited {
        row("counts", "nothing: unlimited");
        // No cost is charged, and no store is asked.
        return;
    }
    if let Some(tiers) = &policy.tiers {
        row("tiers", &tiers.to_string());
    }
    for entry in &policy.entries {
        row("counts", &subject(entry));
        for limit in entry.limits.limits() {
            row("", &format!("{limit}: {}", limit.meaning().bound()));
            if let Some(local) = local_share(policy, limit, nodes) {
                row("", &format!("  store away: {}", local.text()));
            }
        }
        for (identity, at) in entry.notify.iter().filter(|_| !policy.shadow) {
            row("", &format!("reports {} of {identity}", at.percent()));
        }
        for (field, what) in &entry.absent {
            row("", &format!("without {field}: {}", without(what)));
        }
        for other in &entry.overrides {
            let when = joined(&other.when, " and ").unwrap_or_default();
            row("", &format!("where {when}: {}", other.rule));
            let Rule::Limits(set) = &other.rule else { continue };
            for local in set.limits().iter().filter_map(|limit| local_share(policy, limit, nodes)) {
                row("", &format!("  store away: {}", local.text()));
            }
        }
    }
    row("cost", &policy.cost.to_string());
    if let Some(headers) = policy.headers {
        row("headers", headers.name());
    }
    let failure = &policy.on_failure;
    // A policy file does not name the store, whose URL may set another deadline.
    let or_said = if policy.deadline.is_none() { ", or the deadline of its URL" } else { "" };
    let deadline = deadline(policy);
    row("on failure", &format!("{failure}, also when the store takes over {deadline}{or_said}"));
    match &policy.shard {
        Shard::By(field) => row("shard", &field.to_string()),
        Shard::Never => row("shard", "never: not for a cluster"),
        _ => {}
    }
}

/// The behaviour without a dimension, in readable form; the file's own keywords are kept.
fn without(what: &Absent) -> String {
    match what {
        Absent::Skip => "skip (not limited here)".to_owned(),
        Absent::Instead(dimension) => format!("{dimension} in its place"),
        other => other.to_string(),
    }
}

/// The deadline in the file's notation, so that it can be copied.
fn deadline(policy: &Policy) -> String {
    let deadline = policy.deadline.unwrap_or(DEFAULT_DEADLINE);
    let micros = u64::try_from(deadline.as_micros()).ok();
    let period = micros.and_then(Period::from_micros);
    period.map_or_else(|| format!("{deadline:?}"), |period| period.to_string())
}

fn subject(entry: &Entry) -> String {
    joined(&entry.subject, " with ").unwrap_or_default()
}

fn joined<T: ToString>(all: &[T], between: &str) -> Option<String> {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    (!all.is_empty()).then(|| all.join(between))
}

impl FileJson {
    fn new(path: &Path, read: &Result<Policies, Problems>, problems: &[&Problems]) -> Self {
        let policies = read.as_ref().ok();
        let each =
            problems.iter().flat_map(|list| list.iter().map(|one| ProblemJson::new(one, list)));
        let more: usize = problems.iter().map(|list| list.more()).sum();
        let list = policies.map_or(&[][..], Policies::policies);
        let nodes = policies.and_then(Policies::nodes);
        Self {
            file: path.display().to_string(),
            fine: policies.is_some(),
            hash: policies.map(|policies| policies.hash().to_owned()),
            combine: policies.filter(|_| list.len() > 1).map(|p| p.combine().name()),
            problems: each.collect(),
            problems_not_shown: Some(more).filter(|more| *more > 0),
            policies: list.iter().map(|policy| PolicyJson::from_policy(policy, nodes)).collect(),
        }
    }
}

impl PolicyJson {
    fn from_policy(policy: &Policy, nodes: Option<u32>) -> Self {
        let texts =
            |all: &[tollgate_policy::Condition]| all.iter().map(ToString::to_string).collect();
        let entry = |entry: &Entry| EntryJson {
            subject: entry.subject.iter().map(Dimension::to_string).collect(),
            limits: entry
                .limits
                .limits()
                .iter()
                .map(|limit| LimitJson {
                    limit: limit.to_string(),
                    worst_window: limit.meaning().worst_window,
                    window: limit.quota().period.to_string(),
                    local: local_share(policy, limit, nodes),
                })
                .collect(),
            absent: entry.absent.iter().map(|(f, w)| (f.to_string(), w.to_string())).collect(),
            notify: entry
                .notify
                .iter()
                .map(|(limit, at)| ThresholdJson { limit: limit.clone(), at: at.percent() })
                .collect(),
            overrides: entry
                .overrides
                .iter()
                .map(|other| OverrideJson {
                    when: texts(&other.when),
                    limit: other.rule.to_string(),
                })
                .collect(),
        };
        Self {
            name: policy.name.clone(),
            when: texts(&policy.when),
            limits: policy.entries.iter().map(entry).collect(),
            unlimited: policy.unlimited,
            tiers: policy.tiers.as_ref().map(ToString::to_string),
            on_failure: policy.on_failure.to_string(),
            deadline: deadline(policy),
            cost: policy.cost.to_string(),
            shard: match &policy.shard {
                Shard::By(field) => Some(field.to_string()),
                Shard::Never => Some("never".to_owned()),
                _ => None,
            },
            shadow: policy.shadow,
        }
    }
}
