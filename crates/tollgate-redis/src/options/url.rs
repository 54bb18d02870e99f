//! Options as a URL says them.

use std::path::PathBuf;
use std::time::Duration;

use tollgate::{Period, StoreError, unescape_text};

use crate::key::KeyPrefix;

use super::{Address, DEFAULT_PORT, Endpoint, MAX_CONNECTIONS, Options, Sentinels, Target};

const SCHEMES: &str = "write `redis://HOST`, `rediss://HOST` (TLS), `redis+unix:///PATH`, \
                       `redis+cluster://HOST,HOST` or `redis+sentinel://HOST,HOST/NAME`";

/// The default port of a sentinel.
const SENTINEL_PORT: u16 = 26_379;
const ESCAPES: &str = "in a user or password write `%40` for `@`, `%3A` for `:`, `%2F` for `/`, \
                       `%3F` for `?`, `%23` for `#`, `%25` for `%`";
const NO_FRAGMENT: &str = "`#` means nothing here, and certificates are always checked, so there \
                           is no `#insecure`: SSL_CERT_FILE names an authority of your own";

impl Options {
    /// Reads a URL:
    ///
    /// | URL | means |
    /// | --- | --- |
    /// | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]` | plain text over TCP, port 6379 |
    /// | `rediss://...` | the same over TLS |
    /// | `redis+unix:///PATH`, `unix:///PATH` | a Unix socket; `?db=N` is the database |
    /// | `redis+cluster://[[USER]:PASSWORD@]HOST[:PORT],...` | a cluster, found by some of its nodes |
    /// | `redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT],.../NAME[/DB]` | the primary that sentinels name, port 26379 |
    /// | `rediss+cluster://...`, `rediss+sentinel://...` | the same with TLS to the servers |
    ///
    /// Options after `?`, joined by `&`: `deadline=50ms` and `breaker_timeout=50ms` (durations, as
    /// limits have them), `connections=1` (1 to 64, to each server), `scripts=1000`
    /// ([`Options::scripts`]) and `prefix=staging` ([`Options::prefix`]). With TLS, `cert=PATH` and
    /// `key=PATH` are the client's own certificate ([`Options::certificate`]). In user, password
    /// and path `%XX` is the byte XX. An IPv6 address is in brackets.
    ///
    /// On a cluster and with sentinels, `reach=10.0.0.5:6379>localhost:7001,...` says where
    /// announced addresses are reached ([`Options::reach`]). The login of the sentinels is
    /// `sentinel_user=...` and `sentinel_password=...`; `sentinel_tls=yes` is TLS to them.
    ///
    /// # Errors
    /// Another scheme, a part that is missing or cannot be read, an unknown option. The error
    /// never shows the password, nor a part that may belong to one.
    pub fn from_url(text: &str) -> Result<Self, StoreError> {
        read(text).map_err(|what| StoreError::permanent(format!("the URL of the store: {what}")))
    }
}

fn read(text: &str) -> Result<Options, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!("the scheme is missing: {SCHEMES}"));
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let mut options = match scheme {
        "redis" | "rediss" => tcp(scheme == "rediss", authority, path, query)?,
        "redis+unix" | "unix" => unix(authority, path, query)?,
        "redis+cluster" | "rediss+cluster" => {
            cluster(scheme == "rediss+cluster", authority, path, query)?
        }
        "redis+sentinel" | "rediss+sentinel" => {
            sentinel(scheme == "rediss+sentinel", authority, path, query)?
        }
        // A text that looks like a scheme may be anything when the URL is something else.
        _ => return Err(format!("the scheme is unknown: {SCHEMES}")),
    };
    let (mut chain, mut key_file) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (key, &mut options.target) {
            ("deadline", _) => options = options.deadline(time(key, value)?),
            ("breaker_timeout", _) => options.breaker_timeout = Some(time(key, value)?),
            ("connections", _) => {
                options.connections =
                    number(value)
                        .filter(|n| (1..=MAX_CONNECTIONS).contains(n))
                        .ok_or_else(|| format!("`connections` takes 1 to {MAX_CONNECTIONS}"))?;
            }
            ("scripts", _) => {
                options.scripts = number(value).ok_or_else(|| {
                    "`scripts` takes a whole number, as in `scripts=1000`".to_owned()
                })?;
            }
            ("prefix", _) if options.prefix.name().is_some() => {
                return Err("`prefix` stands there twice: leave one".to_owned());
            }
            ("prefix", _) => options.prefix = KeyPrefix::new(value)?,
            ("cert", target) => chain = Some(file(key, value, target)?),
            ("key", target) => key_file = Some(file(key, value, target)?),
            ("reach", Target::Cluster { .. } | Target::Sentinel(_)) => {
                options.reached_at = value.split(',').map(reached).collect::<Result<_, _>>()?;
            }
            ("sentinel_user", Target::Sentinel(sentinels)) => {
                sentinels.user = Some(unescape_text(value).ok_or_else(|| ESCAPES.to_owned())?);
            }
            ("sentinel_password", Target::Sentinel(sentinels)) => {
                sentinels.password = Some(unescape_text(value).ok_or_else(|| ESCAPES.to_owned())?);
            }
            ("sentinel_tls", Target::Sentinel(sentinels)) => {
                sentinels.tls = match value {
                    "yes" => true,
                    "no" => false,
                    _ => return Err("`sentinel_tls` is `yes` or `no`".to_owned()),
                };
            }
            ("db", Target::Server(Address::Unix(_))) => {
                options.database = number(value).ok_or_else(|| {
                    "`db` takes the number of a database, as in `db=1`".to_owned()
                })?;
            }
            ("db", _) => return Err("the database stands after the host: `/1`".to_owned()),
            _ => {
                return Err(format!(
                    "unknown option `{key}`: known are `deadline=50ms`, `breaker_timeout=50ms`, \
                     `connections=1`, `scripts=1000` and `prefix=staging`, `cert=FILE` and \
                     `key=FILE` with TLS, and `db=1` for a Unix socket; for a cluster \
                     or sentinels `reach=FROM>TO`, and for sentinels `sentinel_user`, \
                     `sentinel_password` and `sentinel_tls=yes`"
                ));
            }
        }
    }
    match (chain, key_file) {
        (None, None) => Ok(options),
        (Some(chain), Some(key)) => Ok(options.certificate(chain, key)),
        _ => {
            Err("a certificate has a private key, and both a file: `cert=FILE&key=FILE`".to_owned())
        }
    }
}

/// A file of the client's certificate, for a target with TLS.
fn file(key: &str, value: &str, target: &Target) -> Result<PathBuf, String> {
    let is_secure = match target {
        Target::Server(Address::Tcp { tls, .. }) | Target::Cluster { tls, .. } => *tls,
        // Options come in any order, so TLS to the sentinels may follow.
        Target::Sentinel(_) => true,
        Target::Server(Address::Unix(_)) => false,
    };
    if !is_secure {
        return Err(format!("`{key}` is for TLS: write `rediss` in place of `redis`"));
    }
    let path = unescape_text(value).filter(|path| !path.is_empty());
    path.map(PathBuf::from).ok_or_else(|| format!("`{key}` takes the path of a file in PEM"))
}

fn time(key: &str, value: &str) -> Result<Duration, String> {
    let period = value.parse::<Period>();
    let period =
        period.map_err(|_| format!("`{key}` takes a duration above 0, as in `{key}=50ms`"))?;
    Ok(period.as_duration())
}

/// The login and the hosts of a URL that has both, and no `#`.
fn login_and_hosts<'u>(
    authority: &'u str,
    path: &str,
    query: &str,
) -> Result<(Login, &'u str), String> {
    // A password with a bare `/` or `?` ends there; no part of it may be shown.
    if path.contains('@') || query.contains('@') {
        return Err(format!("there is an `@` after the host: {ESCAPES}"));
    }
    let (login, hosts) = login(authority)?;
    if [hosts, path, query].iter().any(|part| part.contains('#')) {
        return Err(NO_FRAGMENT.to_owned());
    }
    Ok((login, hosts))
}

/// Reads `HOST[:PORT]`.
fn endpoint(place: &str, default_port: u16) -> Result<Endpoint, String> {
    let (host, port) = if let Some(v6) = place.strip_prefix('[') {
        let (host, port) = v6
            .split_once(']')
            .ok_or_else(|| "an IPv6 address ends with `]`, as in `[::1]:6379`".to_owned())?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err("between `[` and `]` stands an IPv6 address, as in `[::1]`".to_owned());
        }
        (host, port)
    } else {
        place.find(':').map_or((place, ""), |colon| place.split_at(colon))
    };
    if host.is_empty() {
        return Err("the host is missing: write `redis://HOST` or `redis://HOST:6379`".to_owned());
    }
    if host.contains('%') || host.contains(char::is_whitespace) {
        return Err("the host is a name or an IP address, as in `redis://10.0.0.7:6379`".to_owned());
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => default_port,
        digits => digits.and_then(number).filter(|port| *port > 0).ok_or_else(|| {
            "the port is a number from 1 to 65535, as in `redis://HOST:6379`; an IPv6 address \
             stands in brackets"
                .to_owned()
        })?,
    };
    Ok(Endpoint::new(host, port))
}

/// Reads `HOST[:PORT],...`.
fn endpoints(hosts: &str, default_port: u16) -> Result<Vec<Endpoint>, String> {
    hosts.split(',').map(|place| endpoint(place, default_port)).collect()
}

/// Reads `ANNOUNCED>REACHED`.
fn reached(pair: &str) -> Result<(Endpoint, Endpoint), String> {
    let (from, to) = pair.split_once('>').ok_or_else(|| {
        "`reach` takes what is announced and where it is reached, as in \
         `reach=10.0.0.5:6379>localhost:7001,10.0.0.6:6379>localhost:7002`"
            .to_owned()
    })?;
    Ok((endpoint(from, DEFAULT_PORT)?, endpoint(to, DEFAULT_PORT)?))
}

fn cluster(tls: bool, authority: &str, path: &str, query: &str) -> Result<Options, String> {
    let (login, hosts) = login_and_hosts(authority, path, query)?;
    if !matches!(path, "" | "/" | "/0") {
        return Err("a cluster has only database 0, so nothing stands after its nodes".to_owned());
    }
    let seeds = endpoints(hosts, DEFAULT_PORT)?;
    Ok(login.apply(Options::new(Target::Cluster { seeds, tls })))
}

fn sentinel(server_tls: bool, authority: &str, path: &str, query: &str) -> Result<Options, String> {
    let (login, hosts) = login_and_hosts(authority, path, query)?;
    let (name, database) =
        path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), "0"));
    let name = unescape_text(name).filter(|name| !name.is_empty()).ok_or_else(|| {
        "the name that the sentinels know the primary by is missing: write \
         `redis+sentinel://HOST,HOST,HOST/NAME`"
            .to_owned()
    })?;
    let database = number(database).ok_or_else(|| {
        "after the name stands the number of a database, as in `redis+sentinel://HOST/NAME/1`"
            .to_owned()
    })?;
    let addresses = endpoints(hosts, SENTINEL_PORT)?;
    let target = Target::Sentinel(Sentinels {
        name,
        addresses,
        user: None,
        password: None,
        tls: false,
        server_tls,
    });
    Ok(Options { database, ..login.apply(Options::new(target)) })
}

fn tcp(tls: bool, authority: &str, path: &str, query: &str) -> Result<Options, String> {
    let (login, place) = login_and_hosts(authority, path, query)?;
    if place.contains(',') {
        return Err(
            "one server has one address; nodes of a cluster are `redis+cluster://HOST,HOST`, \
                    and sentinels are `redis+sentinel://HOST,HOST/NAME`"
                .to_owned(),
        );
    }
    let Endpoint { host, port } = endpoint(place, DEFAULT_PORT)?;
    let database = match path.trim_start_matches('/') {
        "" => 0,
        digits => number(digits).ok_or_else(|| {
            "after the host stands the number of a database, as in `redis://HOST/1`".to_owned()
        })?,
    };
    let target = Target::Server(Address::Tcp { host, port, tls });
    Ok(Options { database, ..login.apply(Options::new(target)) })
}

fn unix(authority: &str, path: &str, query: &str) -> Result<Options, String> {
    if path.contains('#') || query.contains('#') {
        return Err(NO_FRAGMENT.to_owned());
    }
    let (login, host) = login(authority)?;
    if !host.is_empty() || path.is_empty() || path == "/" {
        return Err("the path of the socket is absolute, so there are three slashes: \
                    `redis+unix:///run/redis.sock`"
            .to_owned());
    }
    let path = unescape_text(path).ok_or("`%` begins a byte in hexadecimal, e.g. `%3F` for `?`")?;
    Ok(login.apply(Options::new(Target::Server(Address::Unix(PathBuf::from(path))))))
}

/// A user and a password, as far as there are.
struct Login {
    user: Option<String>,
    password: Option<String>,
}

impl Login {
    fn apply(self, options: Options) -> Options {
        Options { user: self.user, password: self.password, ..options }
    }
}

/// Splits `[[USER]:PASSWORD@]PLACE`. The last `@` counts: an unescaped one is in the password.
fn login(authority: &str) -> Result<(Login, &str), String> {
    let Some((login, place)) = authority.rsplit_once('@') else {
        return Ok((Login { user: None, password: None }, authority));
    };
    let Some((user, password)) = login.split_once(':') else {
        return Err("a user needs a password: write `redis://USER:PASSWORD@HOST`, or \
                    `redis://:PASSWORD@HOST` for the user `default`"
            .to_owned());
    };
    let read = |part: &str| unescape_text(part).ok_or_else(|| ESCAPES.to_owned());
    let user = if user.is_empty() { None } else { Some(read(user)?) };
    Ok((Login { user, password: Some(read(password)?) }, place))
}

/// A whole number in digits alone: no sign, no blanks.
fn number<T: core::str::FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}
