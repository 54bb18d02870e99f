//! The list of limiters that are judged.

use anyhow::{Context as _, Result, bail};

use super::peers::Peer;
use crate::tree::Tree;

/// The list, and the versions of those that come from crates.io.
pub(super) const FILE: &str = "proof/field/limiters.toml";
const LOCK: &str = "proof/field/rust/Cargo.lock";

/// The units that each limiter has in its period.
pub(super) const UNITS: u32 = 10;

/// A limiter in one configuration.
#[derive(Debug, Clone)]
pub(super) struct Limiter {
    pub(super) package: String,
    /// Empty for a program of this machine, whose version is beside the table.
    pub(super) version: String,
    pub(super) from: From,
    /// Its strategy, where the package has several.
    pub(super) strategy: Option<String>,
    /// The name under which its driver knows it.
    pub(super) ask: String,
    /// Its promise, as a limit.
    pub(super) limit: String,
    /// Its promise, in words.
    pub(super) promises: String,
    /// Where its documentation has that.
    pub(super) source: String,
    /// Its bound alone, and not each of its answers.
    pub(super) is_bound: bool,
    /// One unit at a time.
    pub(super) is_single: bool,
    /// The seconds of its period, in which it has [`UNITS`].
    pub(super) period_s: u64,
    /// The step in which it counts time.
    pub(super) step_us: u64,
    /// How much too long its waits may be.
    pub(super) wait: Option<String>,
}

/// Where a package comes from, and how it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Crates,
    /// A middleware of Rust, behind a server.
    CratesHttp,
    PyPi,
    Npm,
    /// A program that is here, or that a variable names.
    Path(Peer),
}

impl Limiter {
    pub(super) fn name(&self) -> String {
        match &self.strategy {
            Some(strategy) => format!("{}, {strategy}", self.package),
            None => self.package.clone(),
        }
    }

    /// Its name and its version.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.name(), self.version).trim().to_owned()
    }

    /// Why it cannot be judged on this machine.
    pub(super) fn absent(&self) -> Option<String> {
        match self.from {
            From::Path(peer) => peer.absent(),
            _ => None,
        }
    }

    fn read(entry: &toml::Table) -> Result<Self> {
        const KEYS: [&str; 14] = [
            "package", "version", "from", "http", "strategy", "ask", "limit", "promise",
            "promises", "source", "single", "period_s", "step_us", "wait",
        ];
        if let Some(key) = entry.keys().find(|key| !KEYS.contains(&&***key)) {
            bail!("there is no key `{key}`");
        }
        let optional = |key: &str| entry.get(key).and_then(|it| it.as_str()).map(str::to_owned);
        let text = |key: &str| optional(key).with_context(|| format!("`{key}` is missing"));
        let is = |key: &str| match entry.get(key) {
            None => Ok(false),
            Some(value) => value.as_bool().with_context(|| format!("`{key}` is true or absent")),
        };
        let (origin, package) = (text("from")?, text("package")?);
        let from = match (&*origin, is("http")?) {
            ("crates.io", false) => From::Crates,
            ("crates.io", true) => From::CratesHttp,
            ("PyPI", false) => From::PyPi,
            ("npm", false) => From::Npm,
            ("path", false) => From::Path(Peer::of(&package)?),
            (other, _) => bail!("`from` is crates.io, PyPI, npm or path, and not {other}"),
        };
        let number = |key: &str, usual: u64| match entry.get(key) {
            None => Ok(usual),
            Some(value) => {
                let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
                number
                    .filter(|number| *number > 0)
                    .with_context(|| format!("`{key}` is a number above 0"))
            }
        };
        let is_bound = match optional("promise").as_deref() {
            None => false,
            Some("bound") => true,
            Some(other) => bail!("`promise` is bound or absent, and not {other}"),
        };
        let version = match from {
            From::Path(_) => optional("version").unwrap_or_default(),
            _ => text("version")?,
        };
        Ok(Self {
            version,
            from,
            strategy: optional("strategy"),
            ask: optional("ask").unwrap_or_else(|| package.clone()),
            limit: text("limit")?,
            promises: text("promises")?,
            source: text("source")?,
            is_bound,
            is_single: is("single")?,
            period_s: number("period_s", 10)?,
            step_us: number("step_us", 1)?,
            wait: optional("wait"),
            package,
        })
    }
}

/// All limiters of the list.
pub(super) fn read(tree: &Tree) -> Result<Vec<Limiter>> {
    let text = |path| {
        std::fs::read_to_string(tree.root.join(path)).with_context(|| format!("cannot read {path}"))
    };
    let table: toml::Table = text(FILE)?.parse().context(FILE)?;
    let entries = table.get("limiter").and_then(toml::Value::as_array).context(FILE)?;
    let lock = text(LOCK)?;
    let read = |(place, entry): (usize, &toml::Value)| {
        let entry = entry.as_table().context("it is no table")?;
        let limiter =
            Limiter::read(entry).with_context(|| format!("{FILE}, limiter {}", place + 1))?;
        let Limiter { package, version, from, .. } = &limiter;
        let locked = format!("name = \"{package}\"\nversion = \"{version}\"\n");
        if matches!(from, From::Crates | From::CratesHttp) && !lock.contains(&locked) {
            bail!("{LOCK} has another version of {package} than {version} of {FILE}");
        }
        Ok(limiter)
    };
    entries.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let limiters = read(&Tree::find().unwrap()).unwrap();
        assert!(limiters.len() >= 22);
        assert!(limiters.iter().all(|limiter| limiter.limit.contains(" via ")), "{limiters:?}");
    }

    #[test]
    fn a_mistake_is_named() {
        let said = |text: &str| {
            let error = Limiter::read(&text.parse().unwrap()).unwrap_err();
            error.to_string()
        };
        assert_eq!(said("packages = 'x'"), "there is no key `packages`");
        assert_eq!(said("package = 'x'"), "`from` is missing");
        assert!(said("package = 'x'\nfrom = 'Maven'").ends_with("not Maven"));
        assert!(said("package = 'x'\nfrom = 'path'").ends_with("and not x"));
        let single = "package = 'x'\nfrom = 'npm'\nversion = '1'\nlimit = ''\npromises = ''\n\
                      source = ''\nsingle = 1";
        assert_eq!(said(single), "`single` is true or absent");
    }
}
