//! Access for administrators and workers: requests with the token, and none from web pages.

use std::net::{IpAddr, Ipv6Addr};

use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use tollgate::{Limiter, MemoryStore, ParseError};
use tollgate_tower::identity::host_name;

use super::problem::Problem;
use crate::guesses::Guesses;
use crate::http::Reply;
use crate::secret::is_same;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a web page sent this request. A page can reach loopback services, but its browser adds
/// one of these headers; other clients do not send them.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    [ORIGIN, SEC_FETCH_SITE].iter().any(|name| headers.contains_key(name))
}

/// Whether a web page sent this request that did not come from the host that is asked. A URL that
/// a person types has `none` as its site.
fn is_of_another_page(headers: &HeaderMap) -> bool {
    let one = |name: HeaderName| {
        let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
        (values.next(), values.next().is_some())
    };
    let (site, more_sites) = one(SEC_FETCH_SITE);
    let (origin, more_origins) = one(ORIGIN);
    let is_own = |origin: &[u8]| {
        let host = [&b"http://"[..], b"https://"].iter().find_map(|it| origin.strip_prefix(*it));
        host.is_some() && host == headers.get(HOST).map(HeaderValue::as_bytes)
    };
    more_sites
        || more_origins
        || site.is_some_and(|site| site != b"same-origin" && site != b"none")
        || origin.is_some_and(|origin| !is_own(origin))
}

/// Admits requests with the token, where one is set, and rejects web pages. Wrong tokens wait, the
/// right one never does.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The role of the caller, for messages.
    who: &'static str,
    /// The environment variable that sets the token.
    variable: &'static str,
    token: Option<String>,
    /// The names allowed in `Host` where no token is set. Without this check a web page could reach
    /// the service through a host name that its owner points at this machine (DNS rebinding).
    names: Option<Vec<String>>,
    /// Whether pages that this listener serves may ask.
    has_pages: bool,
    /// The wrong tokens of each address.
    guesses: Guesses,
    /// The log lines for refused pages.
    lines: Limiter<MemoryStore>,
}

impl Guard {
    pub(crate) fn new(
        who: &'static str,
        variable: &'static str,
        token: Option<String>,
    ) -> Result<Self, ParseError> {
        let (guesses, lines) = (Guesses::new()?, Limiter::memory(PAGE_LINES.parse()?));
        Ok(Self { who, variable, token, names: None, has_pages: false, guesses, lines })
    }

    /// Requires one of these names, `localhost` or an address in `Host`.
    pub(crate) fn with_names(self, names: Vec<String>) -> Self {
        Self { names: Some(names), ..self }
    }

    /// Admits requests of pages that come from the host that is asked.
    pub(crate) fn with_own_pages(self) -> Self {
        Self { has_pages: true, ..self }
    }

    /// Whether requests must have a token.
    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The refusal of a request of another page or by another name, whatever its token. It guesses
    /// none, so it does not make its address wait: a page in the browser of an administrator would
    /// lock that out.
    pub(super) fn refuse_page(&self, headers: &HeaderMap, peer: IpAddr) -> Option<Reply> {
        let (why, reply) = self.verify_host(headers)?;
        if self.lines.check("pages").now().is_ok_and(|line| line.is_allowed()) {
            tracing::warn!(target: "tollgate", client = %peer, "{} was refused: {why}", self.who);
        }
        Some(reply)
    }

    /// The refusal of a request that is not admitted; `None` admits it.
    pub(super) async fn refuse(&self, headers: &HeaderMap, peer: IpAddr) -> Option<Reply> {
        if let Some(refused) = self.refuse_page(headers, peer) {
            return Some(refused);
        }
        let token = self.token.as_ref()?;
        if has_token(token, headers) {
            return None;
        }
        let what = format!("{} was refused: the token is missing or another", self.who);
        self.guesses.wrong(peer, &what).await;
        Some(missing(self.variable))
    }

    /// Checks the host of the request, and the name of its token.
    fn verify_host(&self, headers: &HeaderMap) -> Option<(&'static str, Reply)> {
        let who = self.who;
        let forbidden = |detail: String| Problem::new(StatusCode::FORBIDDEN, detail).response();
        let (is_refused, pages) = match self.has_pages {
            true => (is_of_another_page(headers), "web pages of another origin"),
            false => (is_of_a_page(headers), "web pages"),
        };
        if is_refused {
            return Some((
                "a web page asks",
                forbidden(format!("{who} does not ask from {pages}")),
            ));
        }
        match &self.token {
            None if !self.is_named(headers) => {
                let detail = format!(
                    "this `Host` is a name that anybody can point here: ask by address or as \
                     `localhost`, name it with --admin-host, or set {}",
                    self.variable
                );
                Some(("`Host` is another name", forbidden(detail)))
            }
            _ => None,
        }
    }

    /// Whether `Host` is an address, `localhost`, or one of the allowed names.
    fn is_named(&self, headers: &HeaderMap) -> bool {
        let Some(names) = &self.names else { return true };
        let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
            // No `Host`: such a request was refused before, or it is HTTP/1.0, which no browser
            // uses.
            return true;
        };
        let host = host_name(host);
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok()
            || bare.parse::<Ipv6Addr>().is_ok()
            || names.iter().any(|name| host.eq_ignore_ascii_case(name))
    }
}

/// The most log lines for refused pages: a page with many visitors must not flood the log.
const PAGE_LINES: &str = "10/1m via gcra";

/// The web pages that may call the service, by their origins.
#[derive(Debug)]
pub(crate) struct Origins {
    known: Vec<String>,
    lines: Limiter<MemoryStore>,
}

impl Origins {
    pub(crate) fn new(known: Vec<String>) -> Result<Self, ParseError> {
        Ok(Self { known, lines: Limiter::memory(PAGE_LINES.parse()?) })
    }

    /// Refuses requests of web pages with other origins. Such a page would use its visitor's
    /// network access, and spend counts. A URL typed by a person sends no origin.
    pub(super) fn check(&self, headers: &HeaderMap, peer: IpAddr) -> Result<(), Problem> {
        let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes);
        let is_of_a_page = match (origin, headers.get(SEC_FETCH_SITE)) {
            (Some(origin), _) => !self.known.iter().any(|known| known.as_bytes() == origin),
            (None, Some(site)) => site != "none",
            (None, None) => false,
        };
        if !is_of_a_page {
            return Ok(());
        }
        if self.lines.check("pages").now().is_ok_and(|line| line.is_allowed()) {
            tracing::warn!(
                target: "tollgate",
                client = %peer,
                origin = origin.map(|origin| String::from_utf8_lossy(origin).into_owned()),
                "a web page was refused"
            );
        }
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "a web page asks, and this service answers programs: --allow-origin names pages that \
             may ask, e.g. https://app.example",
        ))
    }
}

/// Whether a request has this token.
fn has_token(token: &str, headers: &HeaderMap) -> bool {
    let mut said = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (said.next(), said.next()) else { return false };
    let Some((scheme, said)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return false;
    };
    scheme.eq_ignore_ascii_case("bearer") && is_same(token, said.trim_start().as_bytes())
}

/// 401: the token of this variable is missing or wrong.
fn missing(variable: &str) -> Reply {
    let detail = format!("this takes `Authorization: Bearer TOKEN`, the token of {variable}");
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
