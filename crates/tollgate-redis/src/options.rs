//! What a store connects with, and how a URL says it.

use core::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tollgate::{StoreError, unescape_text};

/// How long a question may take when nothing else is said.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);

/// How long one attempt to connect may take when nothing else is said.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The port of Redis when a URL has none.
pub const DEFAULT_PORT: u16 = 6379;

/// The most connections of one store. One answers some 200,000 questions per second, which is
/// what one Redis can do.
pub const MAX_CONNECTIONS: usize = 64;

/// How many questions may be under way on one connection when nothing else is said.
pub const DEFAULT_IN_FLIGHT: usize = 4096;

/// How many failures in a row open the breaker when nothing else is said.
pub const DEFAULT_BREAKER_FAILURES: u32 = 5;

/// How long the open breaker lets nothing through when nothing else is said.
pub const DEFAULT_BREAKER_PAUSE: Duration = Duration::from_millis(500);

/// How many scripts have numbers in them when nothing else is said: some 15 MB of a server, and as
/// much again where questions come together.
pub const DEFAULT_SCRIPTS: usize = 1_000;

/// Where the server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    /// A name or an IP address, with a port.
    Tcp { host: String, port: u16, tls: bool },
    /// A socket of this machine.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Which Redis, and how it is talked to. Its texts never show the password.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::Options;
/// let options = Options::from_url("rediss://limiter:s%40fe@redis.example/3?deadline=20ms")?
///     .connections(2);
/// assert_eq!(options.to_string(), "rediss://limiter@redis.example:6379/3");
/// # Ok::<(), tollgate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    pub(crate) address: Address,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    pub(crate) deadline: Duration,
    /// Whether that was said.
    has_deadline: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    pub(crate) breaker_failures: u32,
    pub(crate) breaker_pause: Duration,
    pub(crate) breaker_timeout: Option<Duration>,
    pub(crate) scripts: usize,
    pub(crate) authorities: Option<Vec<u8>>,
}

impl Options {
    fn new(address: Address) -> Self {
        Self {
            address,
            user: None,
            password: None,
            database: 0,
            deadline: DEFAULT_DEADLINE,
            has_deadline: false,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            connections: 1,
            in_flight: DEFAULT_IN_FLIGHT,
            breaker_failures: DEFAULT_BREAKER_FAILURES,
            breaker_pause: DEFAULT_BREAKER_PAUSE,
            breaker_timeout: None,
            scripts: DEFAULT_SCRIPTS,
            authorities: None,
        }
    }

    /// Plain text over TCP to `host`, a name or an IP address (without brackets).
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::new(Address::Tcp { host: host.into(), port, tls: false })
    }

    /// TLS over TCP to `host`, which the certificate must be for. It must be signed by an
    /// authority that this machine trusts (`SSL_CERT_FILE` can name others), or by one of
    /// [`Options::authorities`]. There is no way to leave that unchecked.
    pub fn tls(host: impl Into<String>, port: u16) -> Self {
        Self::new(Address::Tcp { host: host.into(), port, tls: true })
    }

    /// A Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Address::Unix(path.into()))
    }

    /// The user; without one it is the user `default`. It takes effect with a password.
    #[must_use]
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// The password.
    #[must_use]
    pub fn password(self, password: impl Into<String>) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// The number of the database; 0 unless set, and always on a cluster.
    #[must_use]
    pub fn database(self, database: u32) -> Self {
        Self { database, ..self }
    }

    /// How long a question may take, 50 ms unless set. After it the question fails.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, has_deadline: true, ..self }
    }

    /// The same deadline where one was said, by a URL or by [`Options::deadline`]; else this one.
    #[must_use]
    pub fn deadline_or(self, deadline: Duration) -> Self {
        if self.has_deadline { self } else { self.deadline(deadline) }
    }

    /// How long one attempt to connect may take, with TLS and password; 1 s unless set.
    #[must_use]
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// How many connections share the questions: from 1, which it is unless set, to 64; other
    /// numbers become the nearest of these.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self { connections: connections.clamp(1, MAX_CONNECTIONS), ..self }
    }

    /// How many questions may be under way on one connection, 4096 unless set, at least 1. One
    /// more is refused at once.
    #[must_use]
    pub fn in_flight(self, in_flight: usize) -> Self {
        // The upper bound is tokio's for a semaphore, far above what any server could answer.
        Self { in_flight: in_flight.clamp(1, 1 << 20), ..self }
    }

    /// After how many failures of the server in a row nothing is sent (5 unless set, at least 1),
    /// and for how long (500 ms unless set). Then one question is let through: an answer to it
    /// opens the way again, no answer is another pause.
    ///
    /// A failure is a connection that cannot be made, or a question without an answer within
    /// [`Options::breaker_timeout`].
    #[must_use]
    pub fn breaker(self, failures: u32, pause: Duration) -> Self {
        Self { breaker_failures: failures.max(1), breaker_pause: pause, ..self }
    }

    /// How long the server may take for an answer before that is a failure of the server. A
    /// question whose own deadline is shorter fails for whoever asked, and says nothing of the
    /// server before this time is over; one whose deadline is longer is waited for.
    ///
    /// Unless set it is the longest that callers wait: the deadline of these options, or what
    /// [`Store::will_wait`](tollgate::Store::will_wait) was told, if that is longer.
    #[must_use]
    pub fn breaker_timeout(self, timeout: Duration) -> Self {
        Self { breaker_timeout: Some(timeout), ..self }
    }

    /// How many scripts are made that have the numbers of their limits written in; 1,000 unless
    /// set. A set of limits has one for each way to ask (a check, a peek, a part, with a request
    /// id), and beside it one of several questions. Each is some 14 kB that the server keeps until
    /// it ends. Beyond it limits of one shape
    /// (the same strategies in the same order) share a script that takes their numbers as
    /// arguments: a little slower, and not asked together with others.
    ///
    /// Limits that are made up as they come, one for each tenant or by callers, so never fill a
    /// server.
    #[must_use]
    pub fn scripts(self, most: usize) -> Self {
        Self { scripts: most, ..self }
    }

    /// Certificates of authorities (PEM, one or several) that are trusted for TLS instead of
    /// this machine's.
    #[must_use]
    pub fn authorities(self, pem: impl Into<Vec<u8>>) -> Self {
        Self { authorities: Some(pem.into()), ..self }
    }

    /// Reads a URL:
    ///
    /// | URL | means |
    /// | --- | --- |
    /// | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]` | plain text over TCP, port 6379 |
    /// | `rediss://...` | the same over TLS |
    /// | `redis+unix:///PATH`, `unix:///PATH` | a Unix socket; `?db=N` is the database |
    ///
    /// Options after `?`, joined by `&`: `deadline=50ms` and `breaker_timeout=50ms` (a whole number
    /// and us, ms or s), `connections=1` (1 to 64) and `scripts=1000` ([`Options::scripts`]). In
    /// user, password and path `%XX` is the byte XX. An IPv6 address stands in brackets.
    ///
    /// # Errors
    /// Another scheme, a part that is missing or cannot be read, an unknown option. The error
    /// never shows the password, nor a part that may belong to one.
    pub fn from_url(text: &str) -> Result<Self, StoreError> {
        read(text).map_err(|what| StoreError::permanent(format!("the URL of the store: {what}")))
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.address {
            Address::Tcp { tls: false, .. } => "redis",
            Address::Tcp { tls: true, .. } => "rediss",
            Address::Unix(_) => "redis+unix",
        };
        write!(f, "{scheme}://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}", self.address)?;
        match (self.database, &self.address) {
            (0, _) => Ok(()),
            (database, Address::Tcp { .. }) => write!(f, "/{database}"),
            (database, Address::Unix(_)) => write!(f, "?db={database}"),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &self.to_string())
            .field("deadline", &self.deadline)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

const SCHEMES: &str = "write `redis://HOST`, `rediss://HOST` (TLS) or `redis+unix:///PATH`";
const ESCAPES: &str = "in a user or password write `%40` for `@`, `%3A` for `:`, `%2F` for `/`, \
                       `%3F` for `?`, `%23` for `#`, `%25` for `%`";
const NO_FRAGMENT: &str = "`#` means nothing here, and certificates are always checked, so there \
                           is no `#insecure`: SSL_CERT_FILE names an authority of your own";

fn read(text: &str) -> Result<Options, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!("the scheme is missing: {SCHEMES}"));
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let mut options = match scheme {
        "redis" | "rediss" => tcp(scheme == "rediss", authority, path, query)?,
        "redis+unix" | "unix" => unix(authority, path, query)?,
        // What looks like a scheme may be anything when the URL is something else.
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
    // A password with a bare `/` or `?` ends there; nothing of it may be shown.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_say_what_a_store_connects_with() {
        let local = Options::tcp("localhost", 6379);
        for (url, options) in [
            ("redis://localhost", local.clone()),
            ("redis://localhost/", local.clone()),
            ("redis://localhost:7000/2", Options::tcp("localhost", 7000).database(2)),
            ("rediss://r.example:1", Options::tls("r.example", 1)),
            ("redis://[::1]", Options::tcp("::1", 6379)),
            ("redis://[::1]:7000", Options::tcp("::1", 7000)),
            ("redis://:pw@localhost", local.clone().password("pw")),
            ("redis://u:p%3A%40w@localhost", local.clone().user("u").password("p:@w")),
            ("redis://u:p@w#@localhost", local.clone().user("u").password("p@w#")),
            ("redis://u:@localhost", local.clone().user("u").password("")),
            (
                "redis://localhost?deadline=20ms&connections=64",
                local.deadline(Duration::from_millis(20)).connections(64),
            ),
            ("unix:///a%3Fb", Options::unix("/a?b")),
            ("redis+unix:///run/r.sock?db=3", Options::unix("/run/r.sock").database(3)),
            ("unix://u:p@/run/r.sock", Options::unix("/run/r.sock").user("u").password("p")),
        ] {
            assert_eq!(Options::from_url(url).unwrap(), options, "{url}");
        }
    }

    #[test]
    fn a_deadline_that_was_said_stays() {
        let second = Duration::from_secs(1);
        let of = |url| Options::from_url(url).unwrap().deadline_or(second).deadline;
        assert_eq!(of("redis://h"), second);
        assert_eq!(of("redis://h?connections=2&deadline=50ms"), DEFAULT_DEADLINE);
        let said = Options::tcp("h", 1).deadline(DEFAULT_DEADLINE).deadline_or(second);
        assert_eq!(said.deadline, DEFAULT_DEADLINE);
    }

    #[test]
    fn wrong_urls_say_what_is_right() {
        for (url, said) in [
            ("", "the scheme is missing: write `redis://HOST`"),
            ("localhost:6379", "the scheme is missing"),
            ("http://localhost", "the scheme is unknown: write `redis://HOST`"),
            ("redis://", "the host is missing"),
            ("redis://:6379", "the host is missing"),
            ("redis://[::1", "ends with `]`"),
            ("redis://[x]", "stands an IPv6 address"),
            ("redis://::1", "the host is missing"),
            ("redis://fe80::1", "stands in brackets"),
            ("redis://h:", "the port is a number"),
            ("redis://h:0", "the port is a number"),
            ("redis://h:65536", "the port is a number"),
            ("redis://h:+1", "the port is a number"),
            ("redis://h/x", "the number of a database"),
            ("redis://h/-1", "the number of a database"),
            ("redis://h?db=1", "after the host"),
            ("redis://user@h", "a user needs a password"),
            ("redis://:p%zz@h", "write `%40` for `@`"),
            ("redis://:p/w@h", "there is an `@` after the host"),
            ("redis://:p?w@h", "there is an `@` after the host"),
            ("redis://h?deadline=5", "as in `deadline=50ms`"),
            ("redis://h?deadline=0ms", "above 0"),
            ("redis://h?breaker_timeout=1", "as in `breaker_timeout=50ms`"),
            ("redis://h?deadline=99999999999999999999s", "as in `deadline=50ms`"),
            ("redis://h?connections=0", "takes 1 to 64"),
            ("redis://h?connections=65", "takes 1 to 64"),
            ("redis://h?retries=3", "unknown option `retries`: known are"),
            ("rediss://h/0#insecure", "there is no `#insecure`"),
            ("rediss://h#insecure", "there is no `#insecure`"),
            ("unix:///r#insecure", "there is no `#insecure`"),
            ("redis://h%41", "the host is a name"),
            ("rediss://h/#insecure", "there is no `#insecure`"),
            ("unix://run/r.sock", "three slashes"),
            ("unix:///", "three slashes"),
            ("unix:///r?db=x", "as in `db=1`"),
        ] {
            let error = Options::from_url(url).unwrap_err();
            assert!(error.to_string().contains(said), "{url}: {error}");
            assert!(!error.is_transient(), "{url}");
        }
    }

    proptest! {
        #[test]
        fn no_url_panics(text in ".*", query in ".*") {
            let _ = Options::from_url(&text);
            let _ = Options::from_url(&format!("redis://{text}?{query}"));
            let _ = Options::from_url(&format!("unix:///{text}?deadline={query}"));
        }

        #[test]
        fn no_text_shows_the_password(
            before in "[/?#@:%&=.]{0,3}",
            after in "[/?#@:%&=.0-9]{0,3}",
        ) {
            let url = format!("redis://user:{before}hunter2{after}@localhost:6379/1");
            let shown = match Options::from_url(&url) {
                Ok(options) => format!("{options} {options:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            prop_assert!(!shown.contains("hunter2"), "{url}: {shown}");
        }
    }
}
