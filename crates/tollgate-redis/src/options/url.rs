//! Parses options from a URL.

use std::path::PathBuf;
use std::time::Duration;

use tollgate::{StoreError, unescape_text};

use super::{Address, DEFAULT_PORT, MAX_CONNECTIONS, Options};

const SCHEMES: &str = "write `redis://HOST`, `rediss://HOST` (TLS) or `redis+unix:///PATH`";
const ESCAPES: &str = "in a user or password write `%40` for `@`, `%3A` for `:`, `%2F` for `/`, \
                       `%3F` for `?`, `%23` for `#`, `%25` for `%`";
const NO_FRAGMENT: &str = "`#` means nothing here, and certificates are always checked, so there \
                           is no `#insecure`: SSL_CERT_FILE names an authority of your own";

impl Options {
    /// Parses a URL:
    ///
    /// | URL | meaning |
    /// | --- | --- |
    /// | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]` | plain text over TCP, port 6379 |
    /// | `rediss://...` | the same over TLS |
    /// | `redis+unix:///PATH`, `unix:///PATH` | a unix socket; `?db=N` is the database |
    ///
    /// Options follow `?`, separated by `&`: `deadline=50ms` and `breaker_timeout=50ms` (an integer
    /// and us, ms or s), `connections=1` (1 to 64) and `scripts=1000` ([`Options::scripts`]). In
    /// the user, the password and the path, `%XX` is the byte XX. Write an IPv6 address in
    /// brackets.
    ///
    /// # Errors
    /// The scheme is unknown, a part is missing or invalid, or an option is unknown. The error
    /// never contains the password, nor a part that may belong to one.
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
        // The scheme is not quoted: in a malformed URL it may be part of a password.
        _ => return Err(format!("the scheme is unknown: {SCHEMES}")),
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (key, &options.address) {
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
            ("db", Address::Unix(_)) => {
                options.database = number(value).ok_or_else(|| {
                    "`db` takes the number of a database, as in `db=1`".to_owned()
                })?;
            }
            ("db", _) => return Err("the database stands after the host: `/1`".to_owned()),
            _ => {
                return Err(format!(
                    "unknown option `{key}`: known are `deadline=50ms`, `breaker_timeout=50ms`, \
                     `connections=1` and `scripts=1000`, and `db=1` for a Unix socket"
                ));
            }
        }
    }
    Ok(options)
}

fn time(key: &str, value: &str) -> Result<Duration, String> {
    duration(value).ok_or_else(|| {
        format!("`{key}` takes a whole number above 0 and one of us, ms, s, as in `{key}=50ms`")
    })
}

fn tcp(tls: bool, authority: &str, path: &str, query: &str) -> Result<Options, String> {
    // A password with an unescaped `/` or `?` ends here, so the error must not quote any of it.
    if path.contains('@') || query.contains('@') {
        return Err(format!("there is an `@` after the host: {ESCAPES}"));
    }
    let (login, place) = login(authority)?;
    if [place, path, query].iter().any(|part| part.contains('#')) {
        return Err(NO_FRAGMENT.to_owned());
    }
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
        None if port.is_empty() => DEFAULT_PORT,
        digits => digits.and_then(number).filter(|port| *port > 0).ok_or_else(|| {
            "the port is a number from 1 to 65535, as in `redis://HOST:6379`; an IPv6 address \
             stands in brackets"
                .to_owned()
        })?,
    };
    let database = match path.trim_start_matches('/') {
        "" => 0,
        digits => number(digits).ok_or_else(|| {
            "after the host stands the number of a database, as in `redis://HOST/1`".to_owned()
        })?,
    };
    let address = Address::Tcp { host: host.to_owned(), port, tls };
    Ok(Options { database, ..login.apply(Options::new(address)) })
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
    let path = unescape_text(path).ok_or("`%` begins a byte in hexadecimal, as `%3F` for `?`")?;
    Ok(login.apply(Options::new(Address::Unix(PathBuf::from(path)))))
}

/// The user and the password, where given.
struct Login {
    user: Option<String>,
    password: Option<String>,
}

impl Login {
    fn apply(self, options: Options) -> Options {
        Options { user: self.user, password: self.password, ..options }
    }
}

/// Splits `[[USER]:PASSWORD@]PLACE` at the last `@`: an unescaped `@` belongs to the password.
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

/// Parses an unsigned integer: digits only, without sign or blanks.
fn number<T: core::str::FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let us: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return None,
    };
    let us = number::<u64>(count)?.checked_mul(us)?;
    (us > 0).then(|| Duration::from_micros(us))
}
