//! The files of an advice: the policy, the clients and the report; and the policy file in force.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tollgate::LimitSet;
use tollgate_experiments::report::advice_html;
use tollgate_logs::advise::{Advice, ClientRow, EachAdvice, NAME};
use tollgate_policy::{Combine, Format, Policies};

use crate::args::Advise;
use crate::command::log::Rules;
use crate::file::{beside, persist};

/// A policy file that gets the advised policies in shadow.
pub(super) struct Applied<'a> {
    path: &'a Path,
    /// The text before; empty for a new file.
    before: String,
    /// The line that says which policies count, if a file of one policy has none.
    combine: Option<&'static str>,
}

impl<'a> Applied<'a> {
    /// Reads the file, if there is one: it must be one that the policies can be added to.
    pub(super) fn new(path: &'a Path, is_each: bool) -> Result<Self> {
        let shown = path.display();
        if path.extension().is_none_or(|it| it != "toml") {
            bail!("--apply {shown}: policies are added to a TOML file, whose name ends in `.toml`");
        }
        beside(path)?;
        if !path.exists() {
            return Ok(Self { path, before: String::new(), combine: None });
        }
        let rules = Rules::load(path)?;
        if let Some(name) = advised(&rules.policies).next() {
            bail!(
                "--apply {shown}: the file has a policy `{name}` already: remove it, or rename it, \
                 which starts new counts"
            );
        }
        let before = std::fs::read_to_string(path).with_context(|| shown.to_string())?;
        // A file of one policy may leave out which of several count.
        let is_said = before.lines().any(|line| line.trim_start().starts_with("match"));
        let combine = match is_each {
            _ if is_said => None,
            true => Some("match = \"first\""),
            false => Some("match = \"all\""),
        };
        if is_each && combine.is_none() && rules.policies.combine() != Combine::First {
            bail!(
                "--apply {shown}: with --each the first policy that matches counts, and in this file \
                 all do: write `match = \"first\"` in it, or give a new file"
            );
        }
        Ok(Self { path, before, combine })
    }

    /// Adds the policies of this file.
    fn write(self, policy: &str) -> Result<String> {
        let Self { path, before, combine } = self;
        let text = match before.trim_end() {
            "" => policy.to_owned(),
            before => {
                // The version, and which policies count, are those of the file.
                let is_head =
                    |line: &&str| line.starts_with("version =") || line.starts_with("match =");
                let added = policy.lines().filter(|line| !is_head(line)).collect::<Vec<_>>();
                let (version, rest) = version(before);
                let combine = combine.map_or_else(String::new, |line| format!("{line}\n"));
                format!("{version}{combine}{rest}\n\n{}\n", added.join("\n"))
            }
        };
        let shown = path.display().to_string();
        let parsed = Policies::parse_named(&shown, &text, Format::Toml);
        parsed.with_context(|| format!("--apply {shown}: the policies cannot be added"))?;
        persist(beside(path)?, text.as_bytes(), path)?;
        Ok(shown)
    }
}

/// A file up to the end of its line with the version, and the rest.
fn version(text: &str) -> (&str, &str) {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if line.trim_start().starts_with("version") {
            return text.split_at(end);
        }
    }
    ("", text)
}

/// The names of the advised policies.
fn advised(policies: &Policies) -> impl Iterator<Item = &str> {
    let names = policies.policies().iter().map(|policy| policy.name.as_str());
    names.filter(|name| {
        name.strip_prefix(NAME).is_some_and(|it| it.is_empty() || it.starts_with('-'))
    })
}

/// The limit of the policy that an advice made, in this file.
pub(super) fn in_force(path: &Path) -> Result<LimitSet> {
    let rules = Rules::load(path)?;
    let shown = path.display();
    let policy = rules.policies.policies().iter().find(|policy| policy.name == NAME);
    let Some(policy) = policy else {
        bail!(
            "--check {shown}: the file has no policy `{NAME}`, as --apply writes it; `tollgate replay \
             --policy {shown}` replays other policies"
        );
    };
    match policy.entries.as_slice() {
        [entry] => Ok(entry.limits.clone()),
        entries => bail!(
            "--check {shown}: the policy `{NAME}` has {} entries in `limits`, and one is checked",
            entries.len()
        ),
    }
}

/// The next steps after `--apply`.
pub(super) fn next_steps(path: &Path) -> String {
    let file = path.display();
    format!(
        "\nThe policy is in shadow: it counts, and denies nobody. Next:\n\n  \
         tollgate serve --config {file} --record checks.jsonl\n  \
         tollgate advise checks.jsonl --check {file}     (after a day: did it hold?)\n\n\
         Then remove `shadow = true` from the file: the limit is in force."
    )
}

/// Writes the policies of an advice for each value.
pub(super) fn write_each(
    args: &Advise,
    applied: Option<Applied<'_>>,
    advice: &EachAdvice,
) -> Result<Vec<String>> {
    let mut written = Vec::new();
    if let Some(path) = &args.policy {
        persist(beside(path)?, advice.policy.as_bytes(), path)?;
        written.push(path.display().to_string());
    }
    written.extend(applied.map(|it| it.write(&advice.policy)).transpose()?);
    Ok(written)
}

/// Writes the files of an advice.
pub(super) fn write(
    args: &Advise,
    applied: Option<Applied<'_>>,
    advice: &Advice,
) -> Result<Vec<String>> {
    let mut written = Vec::new();
    let mut file = |path: &Path, text: &str| -> Result<()> {
        persist(beside(path)?, text.as_bytes(), path)?;
        written.push(path.display().to_string());
        Ok(())
    };
    if let Some(path) = &args.policy {
        file(path, &advice.recommended.policy)?;
    }
    if let Some(path) = &args.csv {
        let windows: Vec<&str> = advice.windows.iter().map(|it| it.window.as_str()).collect();
        let mut text = ClientRow::header(&windows);
        for row in &advice.rows {
            text.push('\n');
            text.push_str(&row.csv());
        }
        text.push('\n');
        file(path, &text)?;
    }
    if let Some(path) = &args.report {
        file(path, &advice_html(advice))?;
    }
    written.extend(applied.map(|it| it.write(&advice.recommended.policy)).transpose()?);
    Ok(written)
}
