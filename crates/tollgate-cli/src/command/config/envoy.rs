//! `config check` of the rules of envoyproxy/ratelimit.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use serde::Serialize;
use tollgate_envoy::{Config, Counting, Domain, Meaning, OnFailure, Rule, SameDomain};
use tollgate_policy::tree::{Value, parse};
use tollgate_policy::{Format, Level, Problems};
use tollgate_service::EnvoyFiles;

use super::shared::{BROKEN, ProblemJson, WARNED, counted, printable};
use crate::args::ConfigCheck;
use crate::show::{Output, note, wrapped};

#[derive(Debug, Serialize)]
pub(super) struct FileJson {
    file: String,
    fine: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_failure: Option<String>,
    problems: Vec<ProblemJson>,
    rules: Vec<RuleJson>,
}

#[derive(Debug, Serialize)]
struct RuleJson {
    path: String,
    limit: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: String,
    shadow_mode: bool,
    quota_mode: bool,
}

/// Whether a path has such rules: a folder, or YAML with the keys of Envoy and without a version.
pub(super) fn is_rules(path: &Path) -> bool {
    if path.is_dir() {
        return true;
    }
    if Format::from_path(path) == Some(Format::Toml) {
        return false;
    }
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    let root = parse(&text, Format::Yaml, &mut Vec::new());
    let Some(Value::Table(pairs)) = root.map(|root| root.value) else { return false };
    let has = |name: &str| pairs.iter().any(|(key, _)| key.text == name);
    (has("domain") || has("descriptors")) && !has("version") && !has("policies")
}

/// Checks all of them together, as the service would read them.
pub(super) fn check(
    args: &ConfigCheck,
    paths: &[&PathBuf],
    out: &mut Output,
) -> Result<(u8, Vec<FileJson>)> {
    let mut files = Vec::new();
    for path in paths {
        let found = EnvoyFiles::read(path).map_err(|why| anyhow!(why))?;
        for warning in found.warnings() {
            note(&warning);
        }
        files.extend(found.texts);
    }
    let same = if args.merge_domains { SameDomain::Merged } else { SameDomain::Refused };
    let texts = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let read = Config::read_with(same, texts);
    let problems = match &read {
        Ok(config) => config.warnings(),
        Err(broken) => broken,
    };
    let (mut code, mut all) = (0, Vec::new());
    for (number, (name, text)) in files.iter().enumerate() {
        let problems = problems.iter().find(|problems| problems.file() == name);
        let is_broken = problems.is_some_and(Problems::has_errors);
        let is_warned = problems.is_some_and(|problems| !problems.is_empty());
        code = code.max(match (is_broken, is_warned && args.deny_warnings) {
            (true, _) => BROKEN,
            (false, true) => WARNED,
            (false, false) => 0,
        });
        // In a set with a broken file no domain is known.
        let domain = domain_of(text).filter(|_| !is_broken);
        let known = domain.and_then(|name| Some((read.as_ref().ok()?.domain(&name)?, name)));
        if args.json {
            all.push(json(name, is_broken, problems, known));
            continue;
        }
        if number > 0 {
            out.line("")?;
        }
        if let Some(problems) = problems {
            out.line(problems.render(true))?;
            out.line("")?;
        }
        out.text(&written(name, problems, args.deny_warnings, known)?)?;
    }
    Ok((code, all))
}

fn domain_of(text: &str) -> Option<String> {
    let Value::Table(pairs) = parse(text, Format::Yaml, &mut Vec::new())?.value else {
        return None;
    };
    pairs.into_iter().find_map(|(key, node)| match node.value {
        Value::Text(name) if key.text == "domain" => Some(name),
        _ => None,
    })
}

/// The rules of a domain in the order of the files.
fn rules(domain: &Domain) -> Vec<&Rule> {
    let mut rules: Vec<_> = domain.rules().collect();
    rules.sort_unstable_by_key(|rule| rule.number());
    rules
}

fn limit(rule: &Rule) -> String {
    match (rule.counting(), rule.unit()) {
        (Counting::Unlimited, _) => "unlimited".to_owned(),
        (Counting::Ban, _) => "nobody".to_owned(),
        (Counting::Limits(_), Some(unit)) if rule.window().is_some() => {
            format!("{} per {}", rule.requests_per_unit(), unit.name().to_lowercase())
        }
        (Counting::Limits(limits), _) => limits.to_string(),
    }
}

fn meaning(domain: &Domain) -> &'static str {
    match domain.meaning() {
        Meaning::Envoy => "envoy",
        Meaning::Tollgate => "tollgate",
    }
}

fn on_failure(domain: &Domain) -> String {
    match domain.on_failure() {
        OnFailure::Error => "error".to_owned(),
        OnFailure::Allow => "allow".to_owned(),
        OnFailure::Deny => "deny".to_owned(),
        OnFailure::Local(share) => format!("local {share}"),
    }
}

fn json(
    name: &str,
    is_broken: bool,
    problems: Option<&Problems>,
    known: Option<(&Domain, String)>,
) -> FileJson {
    let each = problems.into_iter();
    let each = each.flat_map(|list| list.iter().map(|one| ProblemJson::new(one, list)));
    let domain = known.as_ref().map(|(domain, _)| *domain);
    let rule = |rule: &Rule| RuleJson {
        path: rule.path(),
        limit: limit(rule),
        name: rule.name().to_owned(),
        shadow_mode: rule.is_shadow(),
        quota_mode: rule.is_quota(),
    };
    FileJson {
        file: name.to_owned(),
        fine: !is_broken,
        meaning: domain.map(meaning),
        on_failure: domain.map(on_failure),
        problems: each.collect(),
        rules: domain.map_or_else(Vec::new, |domain| rules(domain).into_iter().map(rule).collect()),
        domain: known.map(|(_, name)| name),
    }
}

/// The verdict, and the rules of the domain.
fn written(
    name: &str,
    problems: Option<&Problems>,
    deny_warnings: bool,
    known: Option<(&Domain, String)>,
) -> Result<String> {
    const INDENT: usize = 16;
    let bold = anstyle::Style::new().bold();
    let file = printable(name);
    let of = |level| problems.map_or(0, |all| all.iter().filter(|p| p.level() == level).count());
    if problems.is_some_and(Problems::has_errors) {
        let errors = counted(of(Level::Error), "error")?;
        return Ok(format!("{bold}{file} is broken{bold:#}: {errors}\n"));
    }
    let denied = deny_warnings && of(Level::Warning) > 0;
    let verdict = if denied { "has warnings" } else { "is fine" };
    let warnings = counted(of(Level::Warning), "warning")?;
    let Some((domain, name)) = known else {
        return Ok(format!("{bold}{file} {verdict}{bold:#}: {warnings}\n"));
    };
    let rules = rules(domain);
    let number = counted(rules.len(), "rule")?;
    let mut text = format!("{bold}{file} {verdict}{bold:#}: {number}, {warnings}\n");
    let mut row = |name: &str, what: &str| {
        text.push_str(&format!("  {name:<12}  {}\n", wrapped(&printable(what), INDENT)));
    };
    row("domain", &format!("{name}, in the meaning {}", meaning(domain)));
    for rule in rules {
        let mode = match (rule.is_shadow(), rule.is_quota()) {
            (true, _) => " (shadow mode: counts, but denies nobody)",
            (false, true) => " (quota mode: denies together with the others)",
            (false, false) => "",
        };
        row("rule", &format!("{}: {}{mode}", rule.path(), limit(rule)));
    }
    row("on failure", &on_failure(domain));
    Ok(text)
}
