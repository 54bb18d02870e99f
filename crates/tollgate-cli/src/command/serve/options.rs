//! The settings of a service, from the arguments and the environment.

use anyhow::{Context as _, Result, bail};
use tollgate_service::{
    Address, AuthOptions, Bounds, CallerLimits, EnvoyRules, Forwarded, Options, TimeSeriesOptions,
    Tls, TlsProtocol,
};
use tollgate_tower::answer::{Profile, Reset};
use tollgate_tower::identity::{EscapedSlashes, Networks, PathParameters, PathReading};

#[cfg(feature = "resp")]
use super::resp;
use crate::args::{
    CallerLimitsArg, Family, HeadersArg, OnOff, Parameters, Serve, Slashes, TlsFor, Unknown,
};
use crate::input::{secret, wait};
use crate::store::time_series_options;

/// The files that the service needs besides those of connections, and those of a thread.
const OWN_FILES: u64 = 64;
const THREAD_FILES: u64 = 4;

/// The number of threads. One thread answers tens of thousands of requests a second, and the client
/// often runs on the same machine. With one thread per processor on two processors and a local
/// client, fewer requests are answered, and one in a hundred waits for a processor.
pub(super) fn threads(said: Option<u16>) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    said.map_or(processors.div_ceil(2), usize::from)
}

/// The settings from the arguments and the environment.
pub(super) fn options(args: &Serve) -> Result<Options> {
    let listen: Result<Vec<Address>, _> = args.listen.iter().map(|text| text.parse()).collect();
    let mut options = Options::new(listen?);
    #[cfg(feature = "resp")]
    resp::set(args, &mut options)?;
    let grpc: Result<Vec<Address>, _> = args.grpc.iter().map(|text| text.parse()).collect();
    options.grpc = grpc?;
    options.envoy.rules = match (&args.envoy_config, &args.envoy_xds) {
        (Some(path), _) => EnvoyRules::Files(path.clone()),
        (None, Some(xds)) => EnvoyRules::Xds(xds.clone()),
        (None, None) => EnvoyRules::None,
    };
    options.envoy.merges_domains = args.envoy_merge_domains;
    options.envoy.metadata = args.envoy_metadata;
    options.envoy.denies_unknown = args.envoy_unknown_domain == Unknown::Deny;
    options.envoy.metrics = args.envoy_metrics;
    options.headers = args.headers.map(|which| match which {
        HeadersArg::Draft => Profile::Draft,
        HeadersArg::Legacy => Profile::Legacy(Reset::Delta),
        HeadersArg::Both => Profile::Both(Reset::Delta),
        HeadersArg::Off => Profile::None,
    });
    options.envoy.max_age = wait(&args.grpc_max_age)?;
    set_admin(args, &mut options)?;
    options.origins = origins(&args.allow_origin)?;
    options.queue_workers = args.queue_workers;
    options.worker_token = secret("TOLLGATE_WORKER_TOKEN")?;
    options.receipt_key = secret("TOLLGATE_RECEIPT_KEY")?.map(String::into_bytes);
    options.key_secret = secret("TOLLGATE_KEY_SECRET")?.map(String::into_bytes);
    options.config.clone_from(&args.config);
    options.auth = auth(args)?;
    options.caller_limits = match args.caller_limits {
        CallerLimitsArg::Off => CallerLimits::Off,
        CallerLimitsArg::Single => CallerLimits::Single,
        CallerLimitsArg::Several => CallerLimits::Several { shapes: args.caller_shapes },
    };
    options.caller_waiting = args.caller_waiting == OnOff::On;
    options.paths = paths(args);
    options.tls = args.tls_cert.as_ref().zip(args.tls_key.as_ref()).map(|(c, k)| Tls::new(c, k));
    if let Some(tls) = &mut options.tls {
        tls.client_authorities.clone_from(&args.tls_client_ca);
        let is_heard = |protocol: &TlsFor| match protocol {
            TlsFor::Http | TlsFor::Admin => true,
            #[cfg(feature = "resp")]
            TlsFor::Resp => !args.resp.is_empty(),
            #[cfg(not(feature = "resp"))]
            TlsFor::Resp => false,
            TlsFor::Grpc => !args.grpc.is_empty(),
        };
        if !args.tls_for.is_empty() && !args.tls_for.iter().any(is_heard) {
            bail!(
                "`--tls-for` names no protocol that is served: give its address, or leave it out"
            );
        }
        tls.protocols.retain(|protocol| {
            let asked = match protocol {
                TlsProtocol::Resp => TlsFor::Resp,
                TlsProtocol::Grpc => TlsFor::Grpc,
                TlsProtocol::Admin => TlsFor::Admin,
                _ => TlsFor::Http,
            };
            args.has_tls(asked)
        });
    }
    let mut bounds = Bounds::default();
    bounds.idle = wait(&args.idle_timeout)?;
    let fronts = if args.grpc.is_empty() { 1 } else { 2 };
    let own_files = OWN_FILES + THREAD_FILES * u64::try_from(fronts * threads(args.threads))?;
    bounds.connections = connections(args.max_connections, own_files)?;
    let per_address = args.max_connections_per_address.map(usize::try_from);
    bounds.per_address = per_address.transpose()?;
    options.bounds = bounds;
    options.linger = wait(&args.linger)?;
    options.grace = wait(&args.grace)?;
    options.timeseries = timeseries(args)?;
    Ok(options)
}

/// The settings for administrators.
fn set_admin(args: &Serve, options: &mut Options) -> Result<()> {
    options.admin = match args.admin.as_str() {
        "off" => None,
        text => Some(text.parse()?),
    };
    options.admin_token = secret("TOLLGATE_ADMIN_TOKEN")?;
    options.admin_hosts.clone_from(&args.admin_host);
    options.peers.clone_from(&args.peers);
    Ok(())
}

/// Origins in the form of browsers: a scheme, a host, and a port other than the default.
fn origins(said: &[String]) -> Result<Vec<String>> {
    for origin in said {
        let host = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
        let is_one = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']);
        if !host.is_some_and(is_one) {
            bail!(
                "--allow-origin: `{origin}` is not an origin: write scheme and host, e.g. \
                 `https://app.example`, and the port if it is not the default"
            );
        }
    }
    Ok(said.iter().map(|origin| origin.to_ascii_lowercase()).collect())
}

/// The time series that also receive the counts of each second.
fn timeseries(args: &Serve) -> Result<Option<TimeSeriesOptions>> {
    let retention = wait(&args.timeseries_retention)?;
    let Some(url) = args.timeseries.as_deref().filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    let server = time_series_options(url).context("--timeseries")?;
    Ok(Some(TimeSeriesOptions::new(server, retention)?))
}

fn auth(args: &Serve) -> Result<AuthOptions> {
    let mut auth = AuthOptions::default();
    if !args.trust.is_empty() {
        let all = format!("127.0.0.0/8, ::1/128, {}", args.trust.join(", "));
        auth.trust = all.parse::<Networks>()?;
    }
    auth.client_header = args.client_header.parse()?;
    auth.forwarded = match args.forwarded {
        Family::Either => Forwarded::Either,
        Family::Original => Forwarded::Original,
        Family::Forwarded => Forwarded::Forwarded,
        Family::Nothing => Forwarded::Nothing,
    };
    auth.user_header.clone_from(&args.user_header);
    auth.field_headers.clone_from(&args.field_header);
    auth.api_key_header.clone_from(&args.api_key_header);
    auth.request_id_header.clone_from(&args.request_id_header);
    auth.request_id_for = wait(&args.request_id_for)?;
    Ok(auth)
}

fn paths(args: &Serve) -> PathReading {
    let slashes = match args.escaped_slashes {
        Slashes::Reject => EscapedSlashes::Reject,
        Slashes::Keep => EscapedSlashes::Keep,
        Slashes::Unescape => EscapedSlashes::Unescape,
    };
    let parameters = match args.path_parameters {
        Parameters::Reject => PathParameters::Reject,
        Parameters::Keep => PathParameters::Keep,
        Parameters::Strip => PathParameters::Strip,
    };
    PathReading::default().escaped_slashes(slashes).parameters(parameters)
}

/// The most connections: it raises the process's limit on open files as far as possible.
fn connections(wanted: u32, own_files: u64) -> Result<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let files = getrlimit(Resource::Nofile);
    let enough = u64::from(wanted) + own_files;
    if files.current.is_some_and(|current| current < enough) {
        let most = files.maximum.map_or(enough, |maximum| maximum.min(enough));
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: files.maximum })
            .context("the number of files that this process may open cannot be raised")?;
        let left = most.saturating_sub(own_files).clamp(1, u64::from(wanted));
        if left < u64::from(wanted) {
            tracing::warn!(
                target: "tollgate",
                "only {left} concurrent connections, not {wanted}: the system allows this process \
                 {most} files (`ulimit -Hn`; LimitNOFILE= in a unit)"
            );
        }
        return Ok(usize::try_from(left)?);
    }
    Ok(usize::try_from(wanted)?)
}
