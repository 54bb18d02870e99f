//! Who may administer and work: no web page, and whoever brings the token.

use std::net::{IpAddr, Ipv6Addr};

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{
    AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, StatusCode};
use sha2::Sha256;
use tollgate::{Limiter, MemoryStore, ParseError, Subject};
use tollgate_tower::answer::retry_seconds;
use tollgate_tower::identity::{ClientAddress, host_name};

use super::Reply;
use super::problem::Problem;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The fewest bytes of a token.
pub(crate) const MIN_TOKEN_BYTES: usize = 16;

/// How often one address may be refused before it has to wait.
const REFUSALS: &str = "10/1m via gcra";

/// What the counts of refusals may take.
const REFUSALS_BYTES: usize = 1_024 * 1_024;

/// Whether a page in a browser sent this. It can send questions to loopback, and a browser says
/// that it was a page; nobody else sends these headers.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    [ORIGIN, SEC_FETCH_SITE].iter().any(|name| headers.contains_key(name))
}

/// Lets in who brings the token, where there is one, and no page of a browser. Who is refused too
/// often waits, whatever it brings.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Who comes in here, for sentences.
    who: &'static str,
    /// The variable that has the token.
    variable: &'static str,
    token: Option<String>,
    /// The names that `Host` may have where nothing else keeps a page out: a name of its own that
    /// leads to this machine.
    names: Option<Vec<String>>,
    /// Refusals of each address.
    refusals: Limiter<MemoryStore>,
}

impl Guard {
    pub(crate) fn new(
        who: &'static str,
        variable: &'static str,
        token: Option<String>,
    ) -> Result<Self, ParseError> {
        let store = MemoryStore::builder().max_bytes(REFUSALS_BYTES).build();
        let refusals = Limiter::new(REFUSALS.parse()?, store);
        Ok(Self { who, variable, token, names: None, refusals })
    }

    /// Requires one of these names, `localhost` or an address as `Host`.
    pub(crate) fn with_names(self, names: Vec<String>) -> Self {
        Self { names: Some(names), ..self }
    }

    /// The refusal of who may not come in.
    pub(super) fn refuse(&self, headers: &HeaderMap, peer: IpAddr) -> Option<Reply> {
        let client = ClientAddress::peer().client(peer, &HeaderMap::new());
        let client = client.value();
        let Ok(subject) = Subject::new("ip", client.as_str()) else {
            return self.verify(headers).map(|(_, reply)| reply);
        };
        let before = self.refusals.peek_now(&subject);
        if let Some(wait) = before.ok().and_then(|it| it.retry_after()).filter(|it| !it.is_zero()) {
            let detail = "this address was refused too often: it waits, whatever it brings";
            let mut reply = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).response();
            reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_seconds(wait)));
            return Some(reply);
        }
        let (why, reply) = self.verify(headers)?;
        let left = self.refusals.check_now(&subject).map_or(0, |after| after.remaining());
        tracing::warn!(
            target: "tollgate",
            client = client.as_str(),
            "{} was refused: {why}{}", self.who,
            if left == 0 { "; it has to wait from here on" } else { "" }
        );
        Some(reply)
    }

    fn verify(&self, headers: &HeaderMap) -> Option<(&'static str, Reply)> {
        let who = self.who;
        let forbidden = |detail: String| Problem::new(StatusCode::FORBIDDEN, detail).response();
        if is_of_a_page(headers) {
            return Some((
                "a web page asks",
                forbidden(format!("{who} does not ask from web pages")),
            ));
        }
        match &self.token {
            Some(token) if !has_token(token, headers) => {
                Some(("the token is missing or another", missing(self.variable)))
            }
            None if !self.is_named(headers) => {
                let detail = format!(
                    "this `Host` is a name that anybody can let lead here: ask by address or as \
                     `localhost`, name it with --admin-host, or set {}",
                    self.variable
                );
                Some(("`Host` is another name", forbidden(detail)))
            }
            _ => None,
        }
    }

    /// Whether `Host` is an address, `localhost`, or a name that was given.
    fn is_named(&self, headers: &HeaderMap) -> bool {
        let Some(names) = &self.names else { return true };
        let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
            // Refused, or HTTP/1.0, which no browser speaks.
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

/// How many refused pages are lines of the log: whoever has many victims must not flood it.
const PAGE_LINES: &str = "10/1m via gcra";

/// Pages of browsers that may ask, by their origins.
#[derive(Debug)]
pub(crate) struct Origins {
    known: Vec<String>,
    lines: Limiter<MemoryStore>,
}

impl Origins {
    pub(crate) fn new(known: Vec<String>) -> Result<Self, ParseError> {
        Ok(Self { known, lines: Limiter::memory(PAGE_LINES.parse()?) })
    }

    /// Refuses a page: whoever looks at one would lend it the network that they are in, and spend
    /// counts. What a person typed is none.
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
        if self.lines.check_now("pages").is_ok_and(|line| line.is_allowed()) {
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
             may ask, as https://app.example",
        ))
    }
}

/// Whether a request brings this token: compared by keyed hashes, so that time tells nothing.
fn has_token(token: &str, headers: &HeaderMap) -> bool {
    let mut said = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (said.next(), said.next()) else { return false };
    let Some((scheme, said)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return false;
    };
    let Ok(key) = Hmac::<Sha256>::new_from_slice(token.as_bytes()) else { return false };
    let [mut mine, mut theirs] = [key.clone(), key];
    mine.update(token.as_bytes());
    theirs.update(said.trim_start().as_bytes());
    let mine = mine.finalize().into_bytes();
    scheme.eq_ignore_ascii_case("bearer") && theirs.verify_slice(&mine).is_ok()
}

/// 401: the token of this variable is missing, or is another one.
fn missing(variable: &str) -> Reply {
    let detail = format!("this takes `Authorization: Bearer TOKEN`, the token of {variable}");
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
