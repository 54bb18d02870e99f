//! The promises that every proxy's example keeps.

use super::{Client, Plan, Proxy, Setup};

/// The tests of a proxy: one for each promise.
macro_rules! promises {
    ($proxy:ty, $module:ident: $($promise:ident)*) => {
        $(#[test]
        fn $promise() {
            $crate::proxies::$module::$promise::<$proxy>();
        })*
    };
    ($proxy:ty) => {
        $crate::proxies::promises::promises! { $proxy, paths:
            a_path_that_flask_reads_as_the_login_does_not_get_past_its_limit
            a_path_that_django_reads_as_the_login_does_not_get_past_its_limit
            a_path_that_axum_reads_as_the_login_does_not_get_past_its_limit
            a_kept_slash_goes_to_a_backend_that_keeps_it
            an_unescaped_slash_counts_as_a_backend_reads_it
        }
        $crate::proxies::promises::promises! { $proxy, promises:
            the_limit_is_exact_and_shown
            old_headers_are_shown_where_they_are_wanted
            policies_see_the_request_of_the_client
            nothing_a_client_writes_changes_its_count
            the_host_is_the_one_that_pages_see
            spellings_of_a_path_are_one
            a_path_in_two_readings_is_refused
            connections_to_the_service_are_kept
            bodies_and_cookies_stay_away_from_the_service
            what_pages_say_is_left_as_it_is
            a_banned_client_is_told_so
            what_cannot_be_counted_is_no_429
            the_question_cannot_be_asked_by_clients
        }
        $crate::proxies::promises::promises! { $proxy, rolling:
            a_rolling_restart_of_two_replicas_fails_nobody
            a_silent_replica_fails_nobody
        }
    };
}
pub(super) use promises;

pub(super) fn the_limit_is_exact_and_shown<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    for left in (0..5).rev() {
        let answer = setup.ask(Client(1), "GET /");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.starts_with("the page\nGET / "), "{answer:?}");
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""pages";q=5;w=3600"#));
        let count = answer.header("ratelimit").unwrap();
        assert!(count.starts_with(&format!("\"pages\";r={left};t=")), "{answer:?}");
        assert_eq!(answer.header("retry-after"), None);
    }
    for content_type in ["text/plain", "application/grpc"] {
        let answer = setup.ask(Client(1), &format!("GET /\nContent-Type: {content_type}"));
        assert_eq!(answer.status, 429, "{answer:?}");
        let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!(wait >= 1);
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""pages";q=5;w=3600"#));
        assert_eq!(answer.header("ratelimit"), Some(&*format!("\"pages\";r=0;t={wait}")));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("grpc-status"), None);
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((&body["status"], &body["title"]), (&429.into(), &"Quota exceeded".into()));
        assert_eq!(body["detail"], format!("Ask again in {wait} s."));
    }
    assert_eq!(setup.pages.visits(), 5);
    assert_eq!(setup.ask(Client(2), "GET /").status, 200, "another client has its own count");
}

pub(super) fn old_headers_are_shown_where_they_are_wanted<P: Proxy>() {
    for (which, is_draft) in [("legacy", false), ("both", true)] {
        let flags = &["--headers", which];
        let Some(setup) = Setup::planned::<P>(&Plan { flags, ..Plan::default() }) else { return };
        for left in (-1..5).rev() {
            let answer = setup.ask(Client(1), "GET /");
            assert_eq!(answer.status, if left < 0 { 429 } else { 200 }, "{answer:?}");
            assert_eq!(answer.header("x-ratelimit-limit"), Some("5"), "{answer:?}");
            let remaining = left.max(0).to_string();
            assert_eq!(answer.header("x-ratelimit-remaining"), Some(&*remaining), "{answer:?}");
            let reset: u32 = answer.header("x-ratelimit-reset").unwrap().parse().unwrap();
            assert!((1..=3_600).contains(&reset), "{answer:?}");
            for name in ["ratelimit", "ratelimit-policy"] {
                assert_eq!(answer.header(name).is_some(), is_draft, "{answer:?}");
            }
        }
    }
}

pub(super) fn policies_see_the_request_of_the_client<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    for left in (0..5).rev() {
        let answer = setup.ask(Client(1), "POST /login?next=1\n\nname=a");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.starts_with("the page\nPOST /login?next=1 "), "{answer:?}");
        assert!(answer.body.ends_with("\r\n\r\nname=a"), "{answer:?}");
        let count = answer.header("ratelimit").unwrap();
        assert!(count.starts_with(&format!("\"login\";r={left};t=")), "{answer:?}");
    }
    let answer = setup.ask(Client(1), "POST /login\n\nname=a");
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(answer.header("ratelimit").unwrap().starts_with("\"login\";r=0;"), "{answer:?}");
    for other in ["GET /login", "POST /other\n\nname=a"] {
        let answer = setup.ask(Client(1), other);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.header("ratelimit").unwrap().starts_with("\"pages\";"), "{answer:?}");
    }
}

/// The forwarded headers and others that clients may write, each as lines of headers.
pub(super) const WRITTEN: [&str; 15] = [
    "X-Forwarded-For: 1.2.3.4",
    "X-Forwarded-For: 1.2.3.4\nX-Forwarded-For: 5.6.7.8",
    "Forwarded: for=1.2.3.4\nX-Real-IP: 1.2.3.4\nCF-Connecting-IP: 1.2.3.4",
    "X-Original-URI: /free/x",
    "X-Original-Method: GET",
    "X-Original-URI: /free/x\nX-Original-URI: /free/y\nX-Original-Method: GET",
    "X-Forwarded-Uri: /free/x",
    "X-Forwarded-Method: GET",
    "X-Forwarded-Host: other.example",
    "X-Original-URI: /free/x\nX-Forwarded-Uri: /free/x\nX-Forwarded-Method: GET",
    "X_Forwarded_For: 1.2.3.4\nX_Original_URI: /free/x\nX_Forwarded_Uri: /free/x",
    "X-HTTP-Method-Override: GET\nX-Original-URL: /free/x\nX-Rewrite-URL: /free/x",
    // A proxy takes out what this names, and must not take out what it wrote itself.
    "Connection: X-Forwarded-For, X-Original-URI, X-Original-Method, X-Forwarded-Uri, \
     X-Forwarded-Method, X-Forwarded-Host",
    "RateLimit: \"login\";r=100;t=1\nRetry-After: 1\nX-Accel-Redirect: /free/x",
    "Content-Type: application/grpc\nTE: trailers",
];

pub(super) fn nothing_a_client_writes_changes_its_count<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    for (client, written) in (1..).zip(WRITTEN) {
        let client = Client(client);
        for left in (0..5).rev() {
            let answer = setup.ask(client, &format!("POST /login\n{written}\n\nname=a"));
            assert_eq!(answer.status, 200, "{written}: {answer:?}");
            let count = answer.header("ratelimit").unwrap();
            let expected = format!("\"login\";r={left};t=");
            assert!(count.starts_with(&expected), "{written}: {answer:?}");
            let told = format!("\r\nx-forwarded-for: {}\r\n", client.address());
            assert!(answer.body.to_lowercase().contains(&told), "{written}: {answer:?}");
            assert_eq!(answer.body.to_lowercase().matches("\r\nx-forwarded-for:").count(), 1);
        }
        for written in WRITTEN {
            let answer = setup.ask(client, &format!("POST /login\n{written}\n\nname=a"));
            assert_eq!(answer.status, 429, "{written}: {answer:?}");
        }
        assert_eq!(setup.pages.visits(), 5 * usize::from(client.0));
    }
    // Of no use to anybody today, and still not passed on: the service believes it beside others.
    assert!(!setup.tap.asked().contains("x-forwarded-host: other.example"));
}

pub(super) fn the_host_is_the_one_that_pages_see<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    let others = [
        "GET /\nHost: other.example",
        "GET http://other.example/\nHost: pages.example",
        "GET /\nHost: OTHER.example:80\nX-Forwarded-Host: pages.example",
    ];
    for (client, other) in (1..).zip(others) {
        let client = Client(client);
        let answer = setup.ask(client, other);
        // HAProxy takes no request that names two hosts.
        if answer.status == 400 && other.contains("http://") {
            continue;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.header("ratelimit").unwrap().starts_with("\"host\";r=0;"), "{answer:?}");
        assert!(answer.body.to_lowercase().contains("host: other.example"), "{answer:?}");
        assert_eq!(setup.ask(client, other).status, 429);
    }
}

pub(super) fn spellings_of_a_path_are_one<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    let spellings = ["//login", "/login/", "/%6Cogin", "/login?a=1", "/login//", "/%6c%6Fgin/?"];
    for (client, first) in (1..).zip(spellings) {
        let client = Client(client);
        let answer = setup.ask(client, &format!("POST {first}"));
        assert!(answer.header("ratelimit").unwrap().starts_with("\"login\";r=4;"), "{answer:?}");
        let requests = spellings.map(|path| format!("POST {path}"));
        let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
        assert_eq!(setup.admitted(client, &requests), 4, "{first}");
        for request in &requests {
            assert_eq!(setup.ask(client, request).status, 429, "{request}");
        }
    }
}

pub(super) fn a_path_in_two_readings_is_refused<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    for path in ["/./login", "/x/../login", "/x/%2e%2e/login", "/free/../login"] {
        let answer = setup.ask(Client(1), &format!("POST {path}"));
        assert!(matches!(answer.status, 400 | 403), "{path}: {answer:?}");
        assert_eq!(answer.header("retry-after"), None);
    }
    assert_eq!(setup.pages.visits(), 0);
    assert_eq!(setup.admitted(Client(1), &["POST /login"]), 5);
}

pub(super) fn connections_to_the_service_are_kept<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    let requests = ["GET /", "POST /free/a\n\nname=a", "GET /free/b", "GET /"];
    let requests: Vec<&str> = requests.into_iter().cycle().take(40).collect();
    let answers = Client(1).ask_all(setup.proxy, &requests);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    let count = |status| statuses.iter().filter(|known| **known == status).count();
    assert_eq!((count(200), count(429)), (20 + 5, 15), "{statuses:?}");
    let kept = setup.tap.connections();
    assert!((1..=P::KEPT).contains(&kept), "{kept} connections: {}", setup.tap.asked());
}

pub(super) fn bodies_and_cookies_stay_away_from_the_service<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    let request =
        "POST /login\nCookie: session=Secret1\nX-Tier: Gold\nX-Tier: Blue\n\npassword=Secret2";
    let answer = setup.ask(Client(1), request);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("Secret1") && answer.body.contains("Secret2"), "{answer:?}");
    let asked = setup.tap.asked();
    // Of two lines the service refuses to choose, so it must see both.
    assert!(asked.contains("x-tier: gold\r\n") && asked.contains("x-tier: blue\r\n"), "{asked}");
    assert!(asked.contains("/login"), "{asked}");
    assert!(!asked.contains("secret"), "{asked}");
    assert!(asked.ends_with("\r\n\r\n") && !asked.contains("transfer-encoding"), "{asked}");
}

pub(super) fn what_pages_say_is_left_as_it_is<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    for status in [201, 401, 403, 404, 429, 500, 502, 503] {
        let answer = setup.ask(Client(1), &format!("GET /free/status/{status}"));
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.body.starts_with("the page\n"), "{answer:?}");
        let ours = ["retry-after", "ratelimit"].map(|name| answer.header(name));
        assert_eq!(ours, [None, None], "{answer:?}");
    }
    // Counted, and still the page's own.
    let answer = setup.ask(Client(2), "GET /status/403");
    assert_eq!((answer.status, answer.header("retry-after")), (403, None));
    assert!(answer.body.starts_with("the page\n"), "{answer:?}");
    assert!(answer.header("ratelimit").unwrap().starts_with("\"pages\";r=4;"), "{answer:?}");
}

pub(super) fn a_banned_client_is_told_so<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    let answer = setup.ask(Client(66), "GET /");
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(setup.pages.visits(), 0);
}

pub(super) fn what_cannot_be_counted_is_no_429<P: Proxy>() {
    // More subjects than one check has, which is seen when a request meets all of them: a 503 of
    // the service, as when its store is gone.
    let policies: String = (0..17)
        .map(|number| {
            format!(
                "[[policies]]\nname = \"p{number}\"\nwhen = {{ method = \"GET\" }}\n\
                 on_failure = \"deny\"\nlimits = [{{ subject = [\"ip\", \"n={number}\"], limit = \"5/1h\" }}]\n"
            )
        })
        .collect();
    let policies = format!("version = 1\nmatch = \"all\"\n{policies}");
    let plan = Plan { policies: &policies, ..Plan::default() };
    let Some(setup) = Setup::planned::<P>(&plan) else { return };
    let answer = setup.ask(Client(1), "GET /");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    assert_eq!(answer.header("ratelimit"), None);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["status"], 503);
    assert_eq!(setup.pages.visits(), 0);
}

pub(super) fn the_question_cannot_be_asked_by_clients<P: Proxy>() {
    let Some(setup) = Setup::unchanged::<P>() else { return };
    // The path that the configuration uses internally is no way past the limit.
    for path in ["/_tollgate", "/v1/auth", "/v1/check", "/v1/auth?deny_status=403"] {
        let answer = setup.ask(Client(1), &format!("GET {path}"));
        let is_page = answer.body.starts_with("the page\n") && answer.header("ratelimit").is_some();
        assert!(is_page || answer.status == 404, "{path}: {answer:?}");
    }
}
