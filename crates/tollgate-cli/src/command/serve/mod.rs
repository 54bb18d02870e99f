//! `serve`: runs the service.

mod options;
#[cfg(feature = "resp")]
mod resp;
mod signals;
mod traces;
mod waiting;
mod webhook;

use core::future::pending;
use core::pin::pin;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context as _, Result, anyhow, bail};
use sd_notify::NotifyState;
use tokio::runtime::{Builder, Handle, Runtime};
use tollgate_policy::{Format, Gate, Policies, Reload, Reread, Watcher};
use tollgate_service::{
    Address, CheckLog, Denials, Fullness, Metrics, Options, ReloadError, Server, Subjects,
};
use tollgate_stores::AnyStore;

use self::options::{options, threads};
use self::signals::{ServiceSignal, Signals};
use self::waiting::Waiting;
use crate::args::{LogDenials, LogForm, Serve, TlsFor};
use crate::input::{bytes, wait};
use crate::show::{self, Output, duration};
use crate::store::{service_queues, service_store};

/// The policies if no file is given.
const DEMO: &str = include_str!("../../../demo.toml");

/// The most denials that `--deny-cache` remembers, of about 300 bytes each.
const DENIALS: usize = 65_536;

/// How often a part of the memory store is swept for expired entries.
const SWEEP: Duration = Duration::from_millis(100);

/// How many ready connections are served before the runtime polls for others. With many
/// connections, one that is slightly late waits for a whole round of all. 16 instead of tokio's
/// 1,024 reduces the 99th percentile of latency by a third, at no measurable cost.
const EVENTS: usize = 16;

/// How long files that are being read at the end may still take.
const READERS_END: Duration = Duration::from_secs(1);

/// The exit code after a second signal.
const AT_ONCE: u8 = 130;

pub(crate) fn serve(args: &Serve, out: &mut Output) -> Result<u8> {
    let mut options = options(args)?;
    let denials = denials(args, &options)?;
    // Before the policies are read, since warnings about them are logged.
    log(args.log)?;
    let policies = match &args.config {
        Some(path) => Policies::load(path).map_err(|problems| anyhow!("{problems}"))?,
        None => Policies::parse_named("demo.toml", DEMO, Format::Toml)
            .map_err(|problems| anyhow!("{problems}"))?,
    };
    let checks = check_log(args)?;
    let runtime = runtime()?;
    let others = (1..threads(args.threads)).map(|_| serving_thread());
    options.runtimes = others.collect::<Result<_>>()?;
    options.runtimes.push(runtime.handle().clone());
    if !args.grpc.is_empty() {
        let own = (0..threads(args.threads)).map(|_| serving_thread());
        options.grpc_runtimes = own.collect::<Result<_>>()?;
    }
    let code = runtime.block_on(async {
        let (traces, exporter) = args.otlp.as_deref().map(traces::start).transpose()?.unzip();
        options.metrics = Metrics::with(denials, traces);
        options.webhook = webhook::webhook(args.webhook.as_deref(), &options)?;
        if let Some(log) = &checks {
            options.metrics.log_checks(log);
        }
        let code = run(args, options, policies, out).await;
        // After the last answer.
        if let Some(log) = checks {
            log.end();
        }
        match exporter {
            // Dropping the exporter would wait, but a second signal demands an immediate end.
            Some(exporter) if matches!(code, Ok(AT_ONCE)) => std::mem::forget(exporter),
            Some(exporter) => exporter.end().await,
            None => {}
        }
        code
    });
    // A file that is still being read, such as one of ten thousands of rules, keeps nobody waiting.
    runtime.shutdown_timeout(READERS_END);
    code
}

/// The runtime of one thread.
fn runtime() -> Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    builder.max_io_events_per_tick(EVENTS).enable_all().thread_name("tollgate");
    builder.build().context("no runtime can be started")
}

/// Starts a thread that serves connections until the process ends.
fn serving_thread() -> Result<Handle> {
    let runtime = runtime()?;
    let handle = runtime.handle().clone();
    let serves = move || runtime.block_on(pending::<()>());
    let thread = std::thread::Builder::new().name("tollgate".to_owned()).spawn(serves);
    thread.context("no thread can be started")?;
    Ok(handle)
}

async fn run(
    args: &Serve,
    mut options: Options,
    policies: Policies,
    out: &mut Output,
) -> Result<u8> {
    // Before the service starts, so that no early signal is lost.
    let mut signals = Signals::new()?;
    let store =
        service_store(args.store.as_deref(), args.memory.as_deref(), args.snapshot.as_deref())?;
    let longest = wait(&args.store_wait).context("--store-wait")?;
    let waiting = Waiting { store: store.clone(), longest };
    let queues = service_queues(args.store.as_deref(), &args.queue, args.queue_form.into())?;
    let is_there = tokio::select! {
        is_there = waiting.first() => is_there?,
        () = signals.end() => return Ok(0),
    };
    let store = match args.deny_cache.as_deref() {
        Some(longest) => cache_denials(store, longest)?,
        None => store,
    };
    sweep(&store);
    let (served, is_there) = queues.serve(is_there).await?;
    options.queues = served;
    let gate = options.metrics.gate(policies, store)?;
    let server = Server::start(gate.clone(), options).await?;
    let _watcher = watch(&server)?;
    introduce(args, &gate, &server, out)?;
    tell_systemd(&[NotifyState::Ready]);
    let store_comes = async {
        match is_there {
            true => pending().await,
            false => waiting.follow(queues.store()).await,
        }
    };
    let refused = until_end(&server, &mut signals, store_comes).await;
    tell_systemd(&[NotifyState::Stopping]);
    // A second signal demands an immediate end.
    let stopping = tokio::select! {
        stopping = server.end() => stopping,
        () = signals.end() => {
            tracing::warn!(target: "tollgate", "a second signal ended it immediately");
            save(gate.store(), args)?;
            return Ok(AT_ONCE);
        }
    };
    // After the last answer, so that the file contains all charges.
    save(gate.store(), args)?;
    tracing::info!(
        target: "tollgate",
        cut = stopping.cut,
        "ended in {}",
        duration(Duration::from_millis(u64::try_from(stopping.took.as_millis())?))
    );
    match refused {
        Some(error) => Err(error.into()),
        None => Ok(0),
    }
}

/// Removes expired counts of a store in memory, from time to time.
fn sweep(store: &AnyStore) {
    let AnyStore::Memory(store) = store else { return };
    let store = store.clone();
    tokio::spawn(async move {
        let (mut ticks, mut fullness) = (tokio::time::interval(SWEEP), Fullness::default());
        loop {
            ticks.tick().await;
            store.sweep_some();
            fullness.check(&store);
        }
    });
}

/// Serves until a signal ends it, or until the store refuses: then its error.
async fn until_end<E>(
    server: &Server,
    signals: &mut Signals,
    store_comes: impl Future<Output = Result<(), E>>,
) -> Option<E> {
    let mut store_comes = pin!(store_comes);
    loop {
        let signal = tokio::select! {
            signal = signals.next() => signal,
            Err(error) = &mut store_comes => {
                tracing::error!(target: "tollgate", "the store refuses: ending");
                return Some(error);
            }
        };
        match signal {
            ServiceSignal::End(name) => {
                tracing::info!(target: "tollgate", "{name}: ending");
                return None;
            }
            // In a separate task, so that shutdown does not wait for a file.
            ServiceSignal::Reload => {
                drop(tokio::spawn(server.reread_certificate()));
                drop(tokio::spawn(server.reread_rules()));
                drop(tokio::spawn(tell_of(server.reload())));
            }
        }
    }
}

/// Saves the counts of the memory store, if configured.
fn save(store: &AnyStore, args: &Serve) -> Result<()> {
    if let (AnyStore::Memory(store), Some(path)) = (store, &args.snapshot) {
        let saved = tollgate_service::snapshot::save(store, path)?;
        tracing::info!(target: "tollgate", "{} counts in {}", saved.subjects, path.display());
    }
    Ok(())
}

/// Notifies systemd, if it supervises this process.
fn tell_systemd(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(target: "tollgate", "cannot notify systemd: {error}");
    }
}

/// The log of denials.
fn denials(args: &Serve, options: &Options) -> Result<Option<Denials>> {
    let subjects = match args.log_denials {
        LogDenials::Hashed => Subjects::Hashed,
        LogDenials::Plain => Subjects::Plain,
        LogDenials::Off => return Ok(None),
    };
    Ok(Some(Denials::new(subjects, options.key_secret.as_deref())?))
}

/// The log of checks.
fn check_log(args: &Serve) -> Result<Option<CheckLog>> {
    let Some(path) = &args.record else { return Ok(None) };
    let most = u64::try_from(bytes(&args.record_max).context("--record-max")?)?;
    let log = CheckLog::start(path, most);
    log.with_context(|| format!("--record: {} cannot be written", path.display())).map(Some)
}

fn log(form: LogForm) -> Result<()> {
    let colours = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    let level = if show::is_quiet() { tracing::Level::WARN } else { tracing::Level::INFO };
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        .with_max_level(level);
    let started = match form {
        LogForm::Text => builder.try_init(),
        LogForm::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow!("logs cannot be written: {error}"))
}

fn watch(server: &Server) -> Result<Option<Watcher>> {
    let watcher = server.watch(|reload| match reload {
        Reload::Replaced { .. } | Reload::Unchanged(_) => {
            tracing::info!(target: "tollgate", "{reload}");
        }
        Reload::Broken(_) => tracing::error!(target: "tollgate", "{reload}"),
        _ => tracing::warn!(target: "tollgate", "{reload}"),
    });
    watcher.map_err(|problems| anyhow!("{problems}"))
}

/// Logs the outcome of a reload that a signal requested.
async fn tell_of(reading: impl Future<Output = Result<Reread, ReloadError>>) {
    match reading.await {
        Ok(Reread::Unchanged(_)) => {
            tracing::info!(target: "tollgate", "SIGHUP: the policies have not changed");
        }
        Ok(reread) => {
            let revision = reread.revision();
            tracing::info!(target: "tollgate", "SIGHUP: policies of revision {revision}");
        }
        Err(none @ ReloadError::NoFile) => tracing::warn!(target: "tollgate", "SIGHUP: {none}"),
        Err(broken) => tracing::error!(target: "tollgate", "SIGHUP: {broken}"),
    }
}

/// Prints the addresses of the service, and commands to try.
fn introduce(args: &Serve, gate: &Gate<AnyStore>, server: &Server, out: &mut Output) -> Result<()> {
    let scheme = |protocol| if args.has_tls(protocol) { "https" } else { "http" };
    let url_of = |scheme, address: &Address| match address {
        Address::Unix(_) => address.to_string(),
        other => format!("{scheme}://{other}"),
    };
    let url = |address| url_of(scheme(TlsFor::Http), address);
    // Before the policies are read, since warnings about them are logged.
    let policies = match &args.config {
        Some(path) => path.display().to_string(),
        None => "a demo: 10 requests in 10 s for each address (--config FILE for yours)".to_owned(),
    };
    let listening: Vec<String> = server.addresses().iter().map(url).collect();
    // On this machine administrators connect without TLS.
    let admin = server.admin().map_or("off".to_owned(), |address| {
        url_of(if address.is_local() { "http" } else { scheme(TlsFor::Admin) }, address)
    });
    out.line(format!("listening  {}", listening.join(", ")))?;
    #[cfg(feature = "resp")]
    resp::introduce(server, out)?;
    if !server.grpc().is_empty() {
        let grpc: Vec<String> = server.grpc().iter().map(ToString::to_string).collect();
        out.line(format!("grpc       {}", grpc.join(", ")))?;
    }
    out.line(format!("admin      {admin}"))?;
    // A browser opens no socket in a folder.
    if let Some(Address::Tcp(_)) = server.admin() {
        out.line(format!("console    {admin}/console"))?;
    }
    let comes = if gate.store().has_connected() { "" } else { " (away, connects when it comes)" };
    out.line(format!("store      {}{comes}", gate.store().kind()))?;
    out.line(format!("policies   {policies}"))?;
    if let Some(path) = &args.envoy_config {
        out.line(format!("envoy      {}", path.display()))?;
    }
    if let Some(xds) = &args.envoy_xds {
        out.line(format!("envoy      rules of the control plane {}", xds.address))?;
    }
    let mut tries: Vec<String> = Vec::new();
    #[cfg(feature = "resp")]
    tries.extend(server.resp().first().map(resp::redis_cli(args)));
    if let Some(Address::Tcp(_)) = server.addresses().first() {
        let first = &listening[0];
        let curl = if args.has_tls(TlsFor::Http) { "curl -k" } else { "curl" };
        if !server.grpc().is_empty() || args.envoy_config.is_some() || args.envoy_xds.is_some() {
            tries.push(format!("{curl} -s {first}/json -d '{}'", envoy_question(server)));
        }
        tries.extend([
            format!(
                "{curl} -s {first}/v1/check -d '{{\"subject\": \"user:42\", \"limit\": \"3/10s\"}}'"
            ),
            format!("{curl} -s {first}/v1/check -d '{{\"fields\": {{\"ip\": \"192.0.2.7\"}}}}'"),
            format!("{curl} -si {first}/v1/auth"),
            format!("{curl} -s {first}/"),
        ]);
    }
    if tries.is_empty() {
        return Ok(());
    }
    out.line("\ntry")?;
    // Not wrapped: they are copied into a shell.
    tries.iter().try_for_each(|line| out.exact(&format!("  {line}\n")))
}

/// Envoy's question about an address, in a domain that has rules, quoted for a shell.
fn envoy_question(server: &Server) -> String {
    let question = serde_json::json!({
        "domain": server.envoy_domain().unwrap_or_else(|| "shop".to_owned()),
        "descriptors": [{ "entries": [{ "key": "remote_address", "value": "192.0.2.7" }] }],
    });
    question.to_string().replace('\'', "\\u0027")
}

/// The store of `--deny-cache`.
fn cache_denials(store: AnyStore, longest: &str) -> Result<AnyStore> {
    if matches!(store, AnyStore::Memory(_)) {
        bail!(
            "`--deny-cache` is for a store that has to be asked: one in memory answers \
             immediately, so leave it out"
        );
    }
    let longest = wait(longest).map_err(|error| anyhow!("`--deny-cache`: {error}"))?;
    if longest.is_zero() {
        bail!(
            "`--deny-cache` of no time remembers nothing: give a time, e.g. `1s`, or leave it \
               out"
        );
    }
    Ok(store.caching_denials(DENIALS, longest))
}
