//! Paths in two readings, before real backends: a path that any of them reads as the login must not
//! get past the login's limit.

use super::backend::Backend;
use super::{Answer, Client, Plan, Proxy, Setup};

/// Spellings that some server reads as `/login`.
pub(super) const SPELLINGS: [&str; 20] = [
    "/%2flogin",
    "/%2Flogin",
    "//login",
    "/login%2f",
    "/.%2flogin",
    "/%2e%2Flogin",
    "/x%2f..%2flogin",
    "/x%2F%2e%2e/login",
    "/x/..%2flogin",
    "/x/../login",
    "/%5clogin",
    "/x%5C..%5clogin",
    "/\\login",
    "/login;x=1",
    "/login%3bx",
    "/;x/login",
    "/x/..;/login",
    "/login%00",
    "/login/",
    "/%6cogin",
];

/// Spends the limit of the login; then none of its spellings is admitted.
pub(super) fn spent_for_each_spelling(setup: &Setup) {
    let login = "POST /login\n\nname=a";
    for _ in 0..5 {
        let answer = setup.ask(Client(1), login);
        assert_eq!((answer.status, &*answer.body), (200, "the login"), "{answer:?}");
    }
    assert_eq!(setup.ask(Client(1), login).status, 429);
    for path in SPELLINGS {
        let answer = setup.ask(Client(1), &format!("POST {path}\n\nname=a"));
        assert!(is_refused(&answer), "{path}: {answer:?}");
    }
}

/// The login to nginx and to Caddy: they decode, merge slashes and resolve dots.
const RESOLVED: [&str; 10] = [
    "/%2flogin",
    "/%2Flogin",
    "//login",
    "/.%2flogin",
    "/%2e%2Flogin",
    "/x%2f..%2flogin",
    "/x%2F%2e%2e/login",
    "/x/..%2flogin",
    "/x/../login",
    "/%6cogin",
];

/// Where no policy looks at the path, just those spellings are the proxy's own login: the reason
/// why they are refused where one does.
pub(super) fn resolved_spellings_are_the_login(setup: &Setup) {
    let is_login = |path: &&str| setup.ask(Client(1), &format!("GET {path}")).body == "the login";
    let found: Vec<&str> = SPELLINGS.into_iter().filter(is_login).collect();
    assert_eq!(found, RESOLVED);
}

/// Policies that look at no path.
pub(super) const PATHLESS: &str = "version = 1\n[[policies]]\nname = \"all\"\n\
    on_failure = \"deny\"\nlimits = [{ subject = \"ip\", limit = \"1000/1h\" }]\n";

/// By the service or by the proxy, and not by the backend.
fn is_refused(answer: &Answer) -> bool {
    matches!(answer.status, 400 | 403 | 429)
}

fn none_gets_past<P: Proxy>(backend: &Backend) {
    let plan = Plan { backend: Some(backend.address), ..Plan::default() };
    let Some(setup) = Setup::planned::<P>(&plan) else { return };
    spent_for_each_spelling(&setup);
    // A path that looks like any other page to one of them is refused before both.
    for path in ["/admin%2f", "/a%2fb", "/a;b"] {
        let answer = setup.ask(Client(2), &format!("GET {path}"));
        assert!(matches!(answer.status, 400 | 403), "{path}: {answer:?}");
    }
}

pub(super) fn a_path_that_flask_reads_as_the_login_does_not_get_past_its_limit<P: Proxy>() {
    let Some(backend) = Backend::flask() else { return };
    none_gets_past::<P>(&backend);
}

pub(super) fn a_path_that_django_reads_as_the_login_does_not_get_past_its_limit<P: Proxy>() {
    let Some(backend) = Backend::django() else { return };
    none_gets_past::<P>(&backend);
}

pub(super) fn a_path_that_axum_reads_as_the_login_does_not_get_past_its_limit<P: Proxy>() {
    none_gets_past::<P>(&Backend::axum());
}

pub(super) fn a_kept_slash_goes_to_a_backend_that_keeps_it<P: Proxy>() {
    let backend = Backend::axum();
    let flags = &["--escaped-slashes", "keep", "--path-parameters", "keep"];
    let plan = Plan { flags, backend: Some(backend.address), ..Plan::default() };
    let Some(setup) = Setup::planned::<P>(&plan) else { return };
    for (path, page) in [
        ("/a%2fb", "other: a/b"),
        ("/a%5Cb", "other: a\\b"),
        ("/%2flogin", "other: /login"),
        ("/login;x=1", "other: login;x=1"),
    ] {
        let answer = setup.ask(Client(1), &format!("GET {path}"));
        assert_eq!((answer.status, &*answer.body), (200, page), "{path}: {answer:?}");
        assert!(answer.header("ratelimit").unwrap().starts_with("\"pages\";"), "{answer:?}");
    }
    for path in ["/x%2f..%2flogin", "/.%2flogin", "/x/..;/login", "/a%00"] {
        let answer = setup.ask(Client(1), &format!("GET {path}"));
        assert!(matches!(answer.status, 400 | 403), "{path}: {answer:?}");
    }
}

pub(super) fn an_unescaped_slash_counts_as_a_backend_reads_it<P: Proxy>() {
    let Some(backend) = Backend::flask() else { return };
    let flags = &["--escaped-slashes", "unescape"];
    let plan = Plan { flags, backend: Some(backend.address), ..Plan::default() };
    let Some(setup) = Setup::planned::<P>(&plan) else { return };
    let answer = setup.ask(Client(2), "GET /a%2fb");
    assert_eq!((answer.status, &*answer.body), (200, "other: a/b"), "{answer:?}");
    let answer = setup.ask(Client(1), "POST /%2flogin\n\nname=a");
    assert!(answer.header("ratelimit").unwrap().starts_with("\"login\";r=4;"), "{answer:?}");
    let login = ["POST /login", "POST /%2flogin", "POST /login%2F"];
    assert_eq!(setup.admitted(Client(1), &["POST /login"]), 4);
    for request in login {
        assert_eq!(setup.ask(Client(1), request).status, 429, "{request}");
    }
    for path in ["/x%2f..%2flogin", "/.%2flogin", "/%5clogin"] {
        let answer = setup.ask(Client(1), &format!("POST {path}"));
        assert!(matches!(answer.status, 400 | 403), "{path}: {answer:?}");
    }
}

/// The page's statements about the backends that it names, asked without a proxy.
#[test]
fn backends_read_paths_as_the_page_says() {
    let axum = Some(Backend::axum());
    let backends = [("flask", Backend::flask()), ("django", Backend::django()), ("axum", axum)];
    for (name, backend) in backends {
        let Some(backend) = backend else { continue };
        let ask = |path: &str| Client(1).ask(backend.address, &format!("GET {path}")).body;
        let (login, admin) = match name {
            "flask" => ("the login", "the admin"),
            "django" => ("other: /login", "the admin"),
            _ => ("other: /login", "other: admin/"),
        };
        assert_eq!(ask("/%2flogin"), login, "{name}");
        assert_eq!(ask("/admin%2f"), admin, "{name}");
        for other in ["login;x", "login%3bx", "%5clogin", "LOGIN", "login%20"] {
            assert!(ask(&format!("/{other}")).starts_with("other: "), "{name} {other}");
        }
    }
}
