//! The rules in force, and the files that they are read from.

use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tollgate_envoy::{Config, Counting, Rule};
use tollgate_policy::MAX_FILE_BYTES;
use tollgate_tower::answer::HeaderTemplate;

use crate::metrics::{Metrics, Reloaded, RuleCounts};
use crate::start_error::StartError;

/// How often the files are read to see whether they have changed.
const POLL: Duration = Duration::from_secs(2);

/// How long files must stay as they are before they are taken: editors write in several steps.
const REST: Duration = Duration::from_millis(100);

/// The most bytes of all files together.
const MAX_BYTES: u64 = 4 * MAX_FILE_BYTES as u64;

/// The rules in force.
#[derive(Debug)]
pub(super) struct Rules {
    path: Option<PathBuf>,
    live: ArcSwap<Live>,
    metrics: Metrics,
}

/// Rules, with the parts that are made once of each.
#[derive(Debug, Default)]
pub(super) struct Live {
    config: Config,
    templates: Vec<Option<HeaderTemplate>>,
    has_replaces: bool,
    /// The counters of each, if they are asked for.
    counts: Vec<Arc<RuleCounts>>,
    /// The files that they were read from.
    files: Files,
}

/// Files: their names and their texts.
type Files = Vec<(String, String)>;

impl Live {
    fn new(files: Files, metrics: &Metrics) -> Result<Self, String> {
        let texts = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let config = Config::read(texts).map_err(|broken| {
            let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
            broken.join("\n")
        })?;
        for warnings in config.warnings() {
            tracing::warn!(target: "tollgate", "{warnings}");
        }
        let mut templates: Vec<_> = config.rules().map(|_| None).collect();
        for (domain, rule) in config.rules() {
            if let (Counting::Limits(limits), Some(place)) =
                (rule.counting(), templates.get_mut(rule.number()))
            {
                // Clients see it, and keys and values may say too much.
                let name = if rule.name().is_empty() { domain } else { rule.name() };
                *place = HeaderTemplate::new(name, limits).ok();
            }
        }
        let has_replaces = config.rules().any(|(_, rule)| rule.replaces().next().is_some());
        let counts = metrics.rules().map_or_else(Vec::new, |counts| {
            let mut rules: Vec<_> = config.rules().map(|(_, rule)| rule).collect();
            rules.sort_unstable_by_key(|rule| rule.number());
            rules.into_iter().map(|rule| counts.of(rule.steps())).collect()
        });
        Ok(Self { config, templates, has_replaces, counts, files })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn has_replaces(&self) -> bool {
        self.has_replaces
    }

    /// The counters of a rule, if they are asked for.
    pub(super) fn counts(&self, rule: &Rule) -> Option<&RuleCounts> {
        self.counts.get(rule.number()).map(|counts| &**counts)
    }

    pub(super) fn template(&self, rule: &Rule) -> Option<&HeaderTemplate> {
        self.templates.get(rule.number())?.as_ref()
    }
}

impl Rules {
    /// # Errors
    /// Files that cannot be read, or are broken.
    pub(super) fn load(path: Option<PathBuf>, metrics: Metrics) -> Result<Self, StartError> {
        let live = match &path {
            Some(path) => {
                let live = read(path).and_then(|files| Live::new(files, &metrics));
                live.map_err(StartError::Options)?
            }
            None => Live::default(),
        };
        Ok(Self { path, live: ArcSwap::from_pointee(live), metrics })
    }

    pub(super) fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    pub(super) async fn follow(&self) {
        let Some(path) = &self.path else { return };
        let mut refused = None;
        loop {
            tokio::time::sleep(POLL).await;
            let mut found = read_apart(path).await;
            if self.is_same(&found) {
                refused = None;
                continue;
            }
            loop {
                tokio::time::sleep(REST).await;
                let again = read_apart(path).await;
                let rests = again == found;
                found = again;
                if rests {
                    break;
                }
            }
            // A file that was refused is not reported again at each look.
            if refused.as_ref() != Some(&found) {
                refused = (!self.take(found.clone())).then_some(found);
            }
        }
    }

    pub(super) async fn reread(&self) {
        if let Some(path) = &self.path {
            self.take(read_apart(path).await);
        }
    }

    fn is_same(&self, found: &Result<Files, String>) -> bool {
        found.as_ref().is_ok_and(|files| *files == self.live.load().files)
    }

    /// Puts files in force, unless they are broken; whether they are.
    fn take(&self, found: Result<Files, String>) -> bool {
        let reloads = self.metrics.envoy_reloads();
        if self.is_same(&found) {
            reloads.add(Reloaded::Unchanged);
            return true;
        }
        match found.and_then(|files| Live::new(files, &self.metrics)) {
            Ok(live) => {
                let number = live.templates.len();
                self.live.store(Arc::new(live));
                reloads.add(Reloaded::Taken);
                tracing::info!(target: "tollgate", "Envoy's rules replaced: {number} in number");
                true
            }
            Err(why) => {
                reloads.add(Reloaded::Broken);
                tracing::error!(target: "tollgate", "Envoy's rules not replaced:\n{why}");
                false
            }
        }
    }
}

/// Reads files on a blocking thread: they may be on a network.
async fn read_apart(path: &Path) -> Result<Files, String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    read.unwrap_or_else(|_| Err("the reading has ended without an answer".to_owned()))
}

/// The file, or the `.yaml` and `.yml` files of a folder in the order of their names.
fn read(path: &Path) -> Result<Files, String> {
    let error = |path: &Path, why: io::Error| format!("{}: {why}", path.display());
    let is_folder = std::fs::metadata(path).map_err(|why| error(path, why))?.is_dir();
    let mut paths = vec![path.to_owned()];
    if is_folder {
        let entries = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|why| error(path, why))?;
        paths =
            entries.into_iter().map(|entry| entry.path()).filter(|path| is_rules(path)).collect();
        paths.sort_unstable();
        if paths.is_empty() {
            return Err(format!("{}: there is no .yaml and no .yml file in it", path.display()));
        }
    }
    let mut bytes = 0;
    let mut files = Files::new();
    for path in paths {
        let found = std::fs::metadata(&path).map_err(|why| error(&path, why))?;
        if !found.is_file() {
            return Err(format!("{}: this is not a plain file", path.display()));
        }
        bytes += found.len();
        if bytes > MAX_BYTES {
            return Err(format!("{}: the rules have over {MAX_BYTES} bytes", path.display()));
        }
        let text = std::fs::read_to_string(&path).map_err(|why| error(&path, why))?;
        files.push((path.display().to_string(), text));
    }
    Ok(files)
}

/// Whether this file of a folder is one of rules. Names that begin with a dot are those of editors
/// and of mounted volumes.
fn is_rules(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    let extension = path.extension().and_then(|extension| extension.to_str());
    !is_hidden && matches!(extension, Some("yaml" | "yml")) && path.is_file()
}
