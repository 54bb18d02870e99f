//! The rules in force.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::{Mutex, watch};
use tollgate_envoy::proto::rules::RateLimitConfig;
use tollgate_envoy::{Config, Counting, Rule, SameDomain};
use tollgate_tower::answer::HeaderTemplate;

use super::rule_files;
use super::xds::Xds;
use crate::envoy::{EnvoyOptions, EnvoyRules};
use crate::envoy_files::EnvoyFiles;
use crate::metrics::{Metrics, Reloaded, RuleCounts};
use crate::start_error::StartError;

/// The rules in force.
#[derive(Debug)]
pub(super) struct Rules {
    options: EnvoyOptions,
    source: Source,
    live: ArcSwap<Live>,
    /// The files that were tried last. It is locked while they are read and taken, so that older
    /// ones never come after newer ones.
    last: Mutex<Result<EnvoyFiles, String>>,
    /// Whether there are any yet: those of a control plane come later.
    are_known: watch::Sender<bool>,
    metrics: Metrics,
}

/// Where rules come from.
#[derive(Debug)]
enum Source {
    None,
    Files(PathBuf),
    Xds(Box<Xds>),
}

/// The rules as a source has them.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Found {
    Files(EnvoyFiles),
    Resources(Vec<RateLimitConfig>),
}

impl Default for Found {
    fn default() -> Self {
        Self::Resources(Vec::new())
    }
}

/// Rules, with the parts that are made once of each.
#[derive(Debug, Default)]
pub(super) struct Live {
    config: Config,
    templates: Vec<Option<HeaderTemplate>>,
    /// The names of rules in the log and in headers: their own, else their paths.
    names: Vec<String>,
    has_replaces: bool,
    /// The counters of each, if they are asked for.
    counts: Vec<Arc<RuleCounts>>,
    /// Their source's form.
    found: Found,
}

impl Live {
    fn new(found: Found, options: &EnvoyOptions, metrics: &Metrics) -> Result<Self, String> {
        let same_domain = match options.merges_domains {
            true => SameDomain::Merged,
            false => SameDomain::Refused,
        };
        let config = match &found {
            Found::Files(files) => {
                for warning in files.warnings() {
                    tracing::warn!(target: "tollgate", "{warning}");
                }
                let texts = files.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
                Config::read_with(same_domain, texts)
            }
            Found::Resources(resources) => Config::from_resources(same_domain, resources),
        };
        let config = config.map_err(|broken| {
            let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
            broken.join("\n")
        })?;
        for warnings in config.warnings() {
            tracing::warn!(target: "tollgate", "{warnings}");
        }
        let mut rules: Vec<_> = config.rules().map(|(_, rule)| rule).collect();
        rules.sort_unstable_by_key(|rule| rule.number());
        let with_metadata = rules.iter().find(|rule| !rule.metadata().is_empty());
        if let Some(rule) = with_metadata.filter(|_| !options.metadata) {
            tracing::warn!(
                target: "tollgate",
                "{}: its `metadata` is not sent to Envoy: set `--envoy-metadata`",
                rule.path()
            );
        }
        // As metrics name it: clients that track by name must not mix two rules.
        let name = |rule: &&Rule| match rule.name() {
            "" => rule.path(),
            name => name.to_owned(),
        };
        let names: Vec<String> = rules.iter().map(name).collect();
        let template = |(rule, name): (&&Rule, &String)| match rule.counting() {
            Counting::Limits(limits) => HeaderTemplate::new(name, limits).ok(),
            Counting::Unlimited | Counting::Ban => None,
        };
        let templates = rules.iter().zip(&names).map(template).collect();
        let has_replaces = rules.iter().any(|rule| rule.replaces().next().is_some());
        let counts = metrics.rules().map_or_else(Vec::new, |counts| {
            rules.iter().map(|rule| counts.of(rule.steps())).collect()
        });
        Ok(Self { config, templates, names, has_replaces, counts, found })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn has_replaces(&self) -> bool {
        self.has_replaces
    }

    /// The counters of a rule, if they are asked for.
    pub(super) fn counts(&self, rule: &Rule) -> Option<&Arc<RuleCounts>> {
        self.counts.get(rule.number())
    }

    /// The name of a rule: its own, else its path.
    pub(super) fn name(&self, rule: &Rule) -> Option<&str> {
        self.names.get(rule.number()).map(String::as_str)
    }

    pub(super) fn template(&self, rule: &Rule) -> Option<&HeaderTemplate> {
        self.templates.get(rule.number())?.as_ref()
    }
}

impl Rules {
    /// # Errors
    /// Files that cannot be read, or are broken.
    pub(super) fn load(options: &EnvoyOptions, metrics: Metrics) -> Result<Self, StartError> {
        let source = match &options.rules {
            EnvoyRules::None => Source::None,
            EnvoyRules::Files(path) => Source::Files(path.clone()),
            EnvoyRules::Xds(options) => {
                let xds = Xds::new(options.clone(), metrics.clone());
                Source::Xds(Box::new(xds.map_err(StartError::Options)?))
            }
        };
        let live = match &source {
            Source::Files(path) => {
                let found = EnvoyFiles::read(path).map(Found::Files);
                let live = found.and_then(|found| Live::new(found, options, &metrics));
                live.map_err(StartError::Options)?
            }
            Source::None | Source::Xds(_) => Live::default(),
        };
        let (are_known, _) = watch::channel(!matches!(source, Source::Xds(_)));
        let last = Mutex::new(Ok(match &live.found {
            Found::Files(files) => files.clone(),
            Found::Resources(_) => EnvoyFiles::default(),
        }));
        let live = ArcSwap::from_pointee(live);
        Ok(Self { options: options.clone(), source, live, last, are_known, metrics })
    }

    pub(super) fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Whether there are rules yet, and each change of that.
    pub(super) fn are_known(&self) -> watch::Receiver<bool> {
        self.are_known.subscribe()
    }

    /// The address of the control plane that has not sent any rules yet.
    pub(super) fn awaited(&self) -> Option<&str> {
        match &self.source {
            Source::Xds(xds) if !*self.are_known.borrow() => Some(xds.address()),
            _ => None,
        }
    }

    /// Takes new rules whenever the source has some, until it is dropped.
    pub(super) async fn follow(self: Arc<Self>) {
        match &self.source {
            Source::None => {}
            Source::Files(path) => loop {
                tokio::time::sleep(rule_files::POLL).await;
                let mut last = self.last.lock().await;
                if let Some(found) = rule_files::other_than(path, &last).await {
                    // It was logged.
                    let _ = self.take_apart(found.clone().map(Found::Files)).await;
                    *last = found;
                }
            },
            Source::Xds(xds) => {
                let take = |resources| self.take_apart(Ok(Found::Resources(resources)));
                xds.follow(take).await;
            }
        }
    }

    /// Reads files again. A control plane sends changes by itself.
    pub(super) async fn reread(self: Arc<Self>) {
        if let Source::Files(path) = &self.source {
            let mut last = self.last.lock().await;
            let found = rule_files::read_apart(path).await;
            // It was logged.
            let _ = self.take_apart(found.clone().map(Found::Files)).await;
            *last = found;
        }
    }

    /// Puts rules in force on a blocking thread: ten thousands take a while.
    async fn take_apart(self: &Arc<Self>, found: Result<Found, String>) -> Result<(), String> {
        let this = Arc::clone(self);
        let taken = tokio::task::spawn_blocking(move || this.take(found)).await;
        taken.unwrap_or_else(|_| Err("the reading has ended without an answer".to_owned()))
    }

    /// Puts rules in force.
    ///
    /// # Errors
    /// They are broken: those before stay in force.
    fn take(&self, found: Result<Found, String>) -> Result<(), String> {
        let reloads = self.metrics.envoy_reloads();
        if *self.are_known.borrow() && found.as_ref().is_ok_and(|it| *it == self.live().found) {
            reloads.add(Reloaded::Unchanged);
            return Ok(());
        }
        match found.and_then(|found| Live::new(found, &self.options, &self.metrics)) {
            Ok(live) => {
                let (number, before) = (live.templates.len(), self.live().templates.len());
                self.live.store(Arc::new(live));
                self.are_known.send_replace(true);
                reloads.add(Reloaded::Taken);
                match number {
                    0 => tracing::warn!(
                        target: "tollgate",
                        "Envoy's rules replaced by none ({before} before): every domain is unknown"
                    ),
                    _ => tracing::info!(
                        target: "tollgate",
                        "Envoy's rules replaced: {number} in number"
                    ),
                }
                Ok(())
            }
            Err(why) => {
                reloads.add(Reloaded::Broken);
                tracing::error!(target: "tollgate", "Envoy's rules not replaced:\n{why}");
                Err(why)
            }
        }
    }
}
