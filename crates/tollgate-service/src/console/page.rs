//! The files of the console, which are built into the program.
//!
//! They have nothing secret: their figures come from the admin API, under its token. A browser runs
//! no script but these, and connects to nobody but this service.

use bytes::Bytes;
use http::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
};
use http_body_util::Full;

use crate::http::Reply;

/// The address of the page, below which its other files are.
const PAGE: &str = "/console";

/// The place where the page reads whether requests must have a token.
const TOKEN_PLACE: &str = "{{token}}";

const INDEX: &str = include_str!("../../console/index.html");

/// The other files: the name, the type, the text.
const FILES: [(&str, &str, &str); 14] = {
    const JS: &str = "text/javascript; charset=utf-8";
    [
        ("style.css", "text/css; charset=utf-8", include_str!("../../console/style.css")),
        ("main.js", JS, include_str!("../../console/main.js")),
        ("api.js", JS, include_str!("../../console/api.js")),
        ("dom.js", JS, include_str!("../../console/dom.js")),
        ("chart.js", JS, include_str!("../../console/chart.js")),
        ("figures.js", JS, include_str!("../../console/figures.js")),
        ("subject.js", JS, include_str!("../../console/subject.js")),
        ("limits.js", JS, include_str!("../../console/limits.js")),
        ("explain.js", JS, include_str!("../../console/explain.js")),
        ("rulings.js", JS, include_str!("../../console/rulings.js")),
        ("peers.js", JS, include_str!("../../console/peers.js")),
        ("queues.js", JS, include_str!("../../console/queues.js")),
        ("trouble.js", JS, include_str!("../../console/trouble.js")),
        ("reloads.js", JS, include_str!("../../console/reloads.js")),
    ]
};

/// The permissions of the page. Forms are sent by its scripts, and nobody may put it into a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Whether this path is one of the console's.
pub(crate) fn is_page(path: &str) -> bool {
    path.strip_prefix(PAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The file at this path; `None` if there is none.
pub(crate) fn page(path: &str, needs_token: bool) -> Option<Reply> {
    let (kind, text) = match path.strip_prefix(PAGE)? {
        "" => {
            let token = if needs_token { "needed" } else { "none" };
            ("text/html; charset=utf-8", Bytes::from(INDEX.replacen(TOKEN_PLACE, token, 1)))
        }
        rest => {
            let name = rest.strip_prefix('/')?;
            let (_, kind, text) = FILES.iter().find(|(known, ..)| *known == name)?;
            (*kind, Bytes::from_static(text.as_bytes()))
        }
    };
    let mut reply = Response::new(Full::new(text));
    let headers = reply.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(CONTENT_TYPE, kind);
    // Another version of the service has other files.
    set(CACHE_CONTROL, "no-cache");
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_of_the_console_are_there() {
        for path in ["/console", "/console/style.css", "/console/main.js"] {
            assert!(is_page(path) && page(path, true).is_some(), "{path}");
        }
        for path in ["/console/", "/console/other.js", "/console/../metrics"] {
            assert!(is_page(path) && page(path, true).is_none(), "{path}");
        }
        assert!(!is_page("/consoles") && !is_page("/"));
    }

    #[test]
    fn the_files_name_no_other_host_and_have_no_code_in_html() {
        let files = FILES.iter().map(|(name, _, text)| (*name, *text));
        for (name, text) in files.chain([("index.html", INDEX)]) {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for outside in ["http:", "https:", "@import", "url(", "innerHTML", "eval("] {
                assert!(!text.contains(outside), "{name}: {outside}");
            }
        }
        assert!(INDEX.contains(TOKEN_PLACE));
        assert!(!INDEX.contains(" style=") && !INDEX.contains(" onclick="));
        assert_eq!(INDEX.matches("<script").count(), 1);
    }
}
