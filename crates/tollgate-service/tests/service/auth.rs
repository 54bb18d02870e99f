//! `/v1/auth`: the question of a proxy, and the peers that it trusts.

use http::StatusCode;
use tokio::net::UnixStream;
use tollgate::MemoryStore;
use tollgate_service::{AnyStore, Forwarded};
use tollgate_tower::answer::{Profile, Reset};

use crate::client::Client;
use crate::{Service, gate_of};

/// So many requests with these headers: how many went through.
async fn admitted(client: &mut Client, number: usize, headers: &[(&str, &str)]) -> usize {
    let mut admitted = 0;
    for _ in 0..number {
        admitted += usize::from(client.ask("GET", "/v1/auth", headers, "").await.status == 200);
    }
    admitted
}

const PAGE: (&str, &str) = ("x-original-uri", "/pages/1?q=2");

#[tokio::test]
async fn the_request_itself_is_judged_where_no_proxy_tells_another() {
    let file = r#"
        version = 1
        [[policies]]
        name = "hourly"
        on_failure = "allow"
        limits = [{ subject = "ip", limit = "3/1h via token_bucket" }]
    "#;
    let gate = gate_of(file, AnyStore::Memory(MemoryStore::new()));
    let service = Service::start_with(gate, |_| {}).await;
    let mut client = service.client().await;
    for (status, remaining) in [(200, 2), (200, 1), (200, 0), (429, 0), (429, 0)] {
        let reply = client.get("/v1/auth").await;
        assert_eq!(reply.status.as_u16(), status);
        let limit = reply.header("ratelimit").unwrap();
        assert!(limit.starts_with(&format!("\"hourly\";r={remaining};t=")), "{limit}");
        assert_eq!(reply.header("ratelimit-policy"), Some("\"hourly\";q=3;w=3600"));
        assert_eq!(reply.header("retry-after").is_some(), status == 429);
        // A proxy that does not read a body closes the connection that it came on.
        assert_eq!(reply.text.is_empty(), status == 200, "{}", reply.text);
    }
    let reply = client.get("/v1/auth?deny_status=403").await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    assert!(reply.header("retry-after").is_some());
    assert_eq!(client.get("/v1/auth?denystatus=403").await.status, StatusCode::BAD_REQUEST);
}

/// A proxy that only asks could never give a slot back.
#[tokio::test]
async fn slots_are_denied_whatever_the_failure_rule_says() {
    let file = r#"
        version = 1
        [[policies]]
        name = "jobs"
        on_failure = "allow"
        when = { method = "POST" }
        limits = [{ subject = "ip", limit = "2 at once" }]
    "#;
    let gate = gate_of(file, AnyStore::Memory(MemoryStore::new()));
    let service = Service::start_with(gate, |_| {}).await;
    let client = &mut service.client().await;
    for _ in 0..2 {
        let post = [PAGE, ("x-original-method", "POST"), ("x-forwarded-for", "192.0.2.7")];
        assert_eq!(admitted(client, 1, &post).await, 0);
        let get = [PAGE, ("x-original-method", "GET"), ("x-forwarded-for", "192.0.2.7")];
        assert_eq!(admitted(client, 1, &get).await, 1);
    }
    // None was taken.
    let peek = r#"{"fields": {"method": "POST", "ip": "192.0.2.7"}}"#;
    assert_eq!(client.post("/v1/peek", peek).await.json()["remaining"], 2);
}

#[tokio::test]
async fn either_family_of_headers_tells_the_request() {
    for family in
        [["x-original-uri", "x-original-method"], ["x-forwarded-uri", "x-forwarded-method"]]
    {
        let service = Service::start().await;
        let mut client = service.client().await;
        let [uri, method] = family;
        let login = [(uri, "/login"), (method, "POST"), ("x-forwarded-for", "192.0.2.7")];
        assert_eq!(admitted(&mut client, 4, &login).await, 2, "{uri}");
        // Another form of the path, another method, another client.
        let same = [(uri, "//login/?next=1"), (method, "POST"), ("x-forwarded-for", "192.0.2.7")];
        assert_eq!(admitted(&mut client, 1, &same).await, 0);
        let get = [(uri, "/login"), (method, "GET"), ("x-forwarded-for", "192.0.2.7")];
        assert_eq!(admitted(&mut client, 4, &get).await, 4);
        let other = [(uri, "/login"), (method, "POST"), ("x-forwarded-for", "192.0.2.8")];
        assert_eq!(admitted(&mut client, 4, &other).await, 2);
    }
}

#[tokio::test]
async fn a_forwarded_host_counts_beside_a_forwarded_uri_only() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let client_is = ("x-forwarded-for", "192.0.2.7");
    let told = [("x-forwarded-uri", "/"), ("x-forwarded-host", "dear.example:80"), client_is];
    assert_eq!(admitted(&mut client, 12, &told).await, 9);
    let own = [("x-original-uri", "/"), ("host", "dear.example"), client_is];
    assert_eq!(admitted(&mut client, 1, &own).await, 0);
    // nginx does not write this header over by custom: a client's own must not hide the host.
    let hidden = [("x-original-uri", "/"), ("x-forwarded-host", "b.example"), own[1], client_is];
    assert_eq!(admitted(&mut client, 1, &hidden).await, 0);
}

#[tokio::test]
async fn what_a_client_says_of_itself_is_believed_of_nobody_but_a_trusted_proxy() {
    // Only addresses of others are trusted beside this machine. A test has an option that removes
    // this machine: the networks themselves.
    let service = Service::with(|options| {
        options.auth.trust = "203.0.113.0/24".parse().unwrap();
    })
    .await;
    let mut client = service.client().await;
    let mut through = 0;
    for number in 0..8 {
        let address = format!("192.0.2.{number}");
        let told = [PAGE, ("x-forwarded-for", address.as_str()), ("x-real-ip", address.as_str())];
        through += admitted(&mut client, 1, &told).await;
    }
    // Judged itself: `/v1/auth` is not a page, and only the policy in shadow applies.
    assert_eq!(through, 8);
    let own = [("x-original-method", "POST")];
    assert_eq!(admitted(&mut client, 1, &own).await, 1);

    // From a proxy that is trusted, only what it added itself: the last address.
    let service = Service::start().await;
    let mut client = service.client().await;
    let mut through = 0;
    for number in 0..8 {
        let list = format!("198.51.100.{number}, 192.0.2.7");
        through += admitted(&mut client, 1, &[PAGE, ("x-forwarded-for", &list)]).await;
    }
    assert_eq!(through, 5);
}

#[tokio::test]
async fn two_tellers_of_one_request_are_refused() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let login = ("x-original-uri", "/login");
    for other in [("x-forwarded-uri", "/"), ("x-forwarded-method", "GET"), ("x-original-uri", "/")]
    {
        let reply = client.ask("GET", "/v1/auth", &[login, other], "").await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{other:?}");
    }
    // Said which of them it is, the other one is nothing.
    let service = Service::with(|options| options.auth.forwarded = Forwarded::Original).await;
    let mut client = service.client().await;
    let post = ("x-original-method", "POST");
    let hidden = [login, post, ("x-forwarded-uri", "/"), ("x-forwarded-method", "GET")];
    assert_eq!(admitted(&mut client, 4, &hidden).await, 2);
    let service = Service::with(|options| options.auth.forwarded = Forwarded::Nothing).await;
    let mut client = service.client().await;
    assert_eq!(admitted(&mut client, 4, &[login, post]).await, 4);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused() {
    let service = Service::start().await;
    let mut client = service.client().await;
    for header in [
        ("x-original-uri", "not a uri"),
        ("x-original-uri", ""),
        ("x-forwarded-uri", "http://"),
        ("x-original-method", "GE T"),
        ("x-forwarded-method", ""),
    ] {
        let reply = client.ask("GET", "/v1/auth", &[header], "").await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{header:?}: {}", reply.text);
        // nginx takes any other status than 401 and 403 for a fault of the service.
        let reply = client.ask("GET", "/v1/auth?deny_status=403", &[header], "").await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{header:?}: {}", reply.text);
    }
}

#[tokio::test]
async fn a_denial_of_a_grpc_request_is_no_200() {
    let service = Service::start().await;
    let mut client = service.client().await;
    for kind in ["application/grpc", "application/grpc-web+proto"] {
        let told = [PAGE, ("content-type", kind), ("x-forwarded-for", kind_address(kind))];
        assert_eq!(admitted(&mut client, 7, &told).await, 5, "{kind}");
    }
}

fn kind_address(kind: &str) -> &'static str {
    if kind.ends_with("grpc") { "192.0.2.1" } else { "192.0.2.2" }
}

#[tokio::test]
async fn users_and_keys_are_in_the_headers_that_were_named() {
    let file = r#"
        version = 1
        match = "all"
        [[policies]]
        name = "users"
        on_failure = "allow"
        limits = [{ subject = "user", limit = "2/h", absent = "skip" }]
        [[policies]]
        name = "keys"
        on_failure = "allow"
        limits = [{ subject = "api_key", limit = "3/h", absent = "skip" }]
        [[policies]]
        name = "free"
        on_failure = "allow"
        when = { field.plan = "free" }
        limits = [{ subject = "field.plan", limit = "1/h", absent = "skip" }]
    "#;
    let gate = gate_of(file, AnyStore::Memory(MemoryStore::new()));
    let service = Service::start_with(gate, |options| {
        options.auth.user_header = Some("X-User".to_owned());
        options.auth.api_key_header = Some("Authorization".to_owned());
        options.auth.field_headers = vec![("plan".to_owned(), "X-Plan".to_owned())];
    })
    .await;
    let mut client = service.client().await;
    assert_eq!(admitted(&mut client, 4, &[("x-user", "ann")]).await, 2);
    assert_eq!(admitted(&mut client, 4, &[("x-user", "bob")]).await, 2);
    let key = [("authorization", "Bearer 0123456789abcdef0123")];
    assert_eq!(admitted(&mut client, 4, &key).await, 3);
    assert_eq!(admitted(&mut client, 4, &[]).await, 4);
    assert_eq!(admitted(&mut client, 4, &[("x-plan", "gold")]).await, 4);
    assert_eq!(admitted(&mut client, 4, &[("x-plan", "free")]).await, 1);
}

/// `--headers` of the command line.
#[tokio::test]
async fn the_headers_of_answers_are_those_that_were_chosen() {
    let (draft, legacy) =
        ("ratelimit ratelimit-policy", "x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset");
    for (headers, own, names) in [
        (None, "", draft),
        (Some(Profile::Draft), "", draft),
        (Some(Profile::Legacy(Reset::Delta)), "", legacy),
        (Some(Profile::None), "", ""),
        // The policy's own choice goes before it.
        (None, "headers = \"legacy\"", legacy),
        (Some(Profile::None), "headers = \"draft\"", draft),
        (Some(Profile::Draft), "headers = \"off\"", ""),
    ] {
        let file = format!(
            "version = 1\n[[policies]]\nname = \"all\"\non_failure = \"deny\"\n{own}\n\
             limits = [{{ subject = \"ip\", limit = \"9/h\" }}]\n"
        );
        let gate = gate_of(&file, AnyStore::Memory(MemoryStore::new()));
        let service = Service::start_with(gate, |options| options.headers = headers).await;
        let answer = service.client().await.get("/v1/auth").await;
        let told = answer.headers.keys().map(http::HeaderName::as_str);
        let mut told: Vec<_> = told.filter(|name| name.contains("ratelimit")).collect();
        told.sort_unstable();
        assert_eq!(told.join(" "), names, "{headers:?} {own}");
    }
}

/// The effect of each setting on a login under another name, on every front that takes a path.
#[tokio::test]
async fn paths_are_read_as_the_service_is_told_wherever_a_request_is() {
    use tollgate_tower::identity::{EscapedSlashes, PathParameters, PathReading};
    let strict = PathReading::default();
    let keep = strict.escaped_slashes(EscapedSlashes::Keep).parameters(PathParameters::Keep);
    let read = strict.escaped_slashes(EscapedSlashes::Unescape).parameters(PathParameters::Strip);
    for (reading, path, policy) in [
        (strict, "/login", Some("login")),
        (strict, "/%2flogin", None),
        (strict, "/login;x", None),
        (strict, "/%5clogin", None),
        (keep, "/%2flogin", Some("trial")),
        (keep, "/login;x", Some("trial")),
        (keep, "/x%2f..%2flogin", None),
        (keep, "/login%00", None),
        (read, "/%2flogin", Some("login")),
        (read, "/login;x", Some("login")),
        (read, "/login%3bx", None),
        (read, "/x%2f..%2flogin", None),
        (read, "/..;/login", None),
        (read, "/%5clogin", None),
    ] {
        let about = format!("{path} {reading:?}");
        let service = Service::with(|options| options.paths = reading).await;
        let mut client = service.client().await;
        let told = [
            ("x-original-uri", path),
            ("x-original-method", "POST"),
            ("x-forwarded-for", "192.0.2.7"),
        ];
        let asked = client.ask("GET", "/v1/auth", &told, "").await;
        let fields =
            format!(r#"{{"fields": {{"path": "{path}", "method": "POST", "ip": "192.0.2.8"}}}}"#);
        let checked = client.ask("POST", "/v1/check", &[], &fields).await;
        let query: String = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("path", path), ("method", "POST"), ("ip", "192.0.2.9")])
            .finish();
        let explained = client.get(&format!("/v1/explain?{query}")).await;
        let statuses = [&asked, &checked, &explained].map(|reply| reply.status.as_u16());
        let Some(policy) = policy else {
            assert_eq!(statuses, [400; 3], "{about}: {} {}", checked.text, explained.text);
            continue;
        };
        assert_eq!(statuses, [200; 3], "{about}: {} {}", checked.text, explained.text);
        let counted = asked.header("ratelimit").is_some_and(|it| it.starts_with("\"login\""));
        assert_eq!(counted, policy == "login", "{about}");
        for (said, mut place) in [(checked.json(), "/policy"), (explained.json(), "/answer/policy")]
        {
            let is_shadow = said.pointer(place).is_none_or(serde_json::Value::is_null);
            if is_shadow {
                place = "none";
            }
            assert_eq!(!is_shadow, policy == "login", "{about} {place}: {said}");
        }
    }
}

/// The row of docs/proxies.md on paths in two readings.
#[tokio::test]
async fn a_path_is_refused_where_a_policy_must_read_it() {
    let policy = |name: &str, when: &str| {
        format!(
            "[[policies]]\nname = \"{name}\"\non_failure = \"deny\"\n{when}\n\
             limits = [{{ subject = \"ip\", limit = \"9/h\" }}]\n"
        )
    };
    let login = policy("login", r#"when = { method = "POST", path = "/login" }"#);
    let (all, paths) = (policy("all", ""), policy("paths", r#"when = { path = "/api/*" }"#));
    let shadow = paths.replace("when", "shadow = true\nwhen");
    for (policies, statuses) in [
        ([&login, &all], [200, 400]),
        ([&paths, &all], [400, 400]),
        // The first of them is enough.
        ([&all, &String::new()], [200, 200]),
        ([&shadow, &all], [200, 200]),
    ] {
        let file = format!("version = 1\nmatch = \"first\"\n{}{}", policies[0], policies[1]);
        let gate = gate_of(&file, AnyStore::Memory(MemoryStore::new()));
        let service = Service::start_with(gate, |_| {}).await;
        let mut client = service.client().await;
        for (method, status) in ["GET", "POST"].into_iter().zip(statuses) {
            for path in ["/a/../b", "/a%2fb", "/a;b", "/a%00"] {
                let told = [("x-original-uri", path), ("x-original-method", method)];
                let reply = client.ask("GET", "/v1/auth", &told, "").await;
                assert_eq!(reply.status.as_u16(), status, "{method} {path} {file}");
            }
        }
    }
}

/// A client at a Unix socket has no address: the header of its proxy identifies it, or a policy
/// covers its absence.
#[tokio::test]
async fn a_client_at_a_unix_socket_has_no_address() {
    let folder = tempfile::tempdir().unwrap();
    for (rule, trust, bare) in [
        ("", "127.0.0.0/8", [503, 503, 503]),
        (", absent = \"skip\"", "127.0.0.0/8", [200, 200, 200]),
        (", absent = \"deny\"", "127.0.0.0/8", [503, 503, 503]),
        (", absent = \"sockets=all\"", "127.0.0.0/8", [200, 200, 429]),
        ("", "192.0.2.0/24", [503, 503, 503]),
    ] {
        let file = format!(
            "version = 1\n[[policies]]\nname = \"hourly\"\non_failure = \"allow\"\n\
             limits = [{{ subject = \"ip\", limit = \"2/1h via token_bucket\"{rule} }}]"
        );
        let gate = gate_of(&file, AnyStore::Memory(MemoryStore::new()));
        let path = folder.path().join("service.sock");
        let service = Service::start_with(gate, |options| {
            options.listen.push(format!("unix:{}", path.display()).parse().unwrap());
            options.auth.trust = trust.parse().unwrap();
            options.auth.request_id_header = Some("X-Request-Id".to_owned());
        })
        .await;
        let mut client = Client::over(UnixStream::connect(&path).await.unwrap()).await;
        for status in bare {
            let reply = client.get("/v1/auth").await;
            assert_eq!(reply.status.as_u16(), status, "{rule}, {trust}: {}", reply.text);
        }
        // The proxy names its clients; also this host is one.
        let is_trusted = trust.starts_with("127");
        for address in ["192.0.2.7", "198.51.100.1", "127.0.0.1"] {
            let headers = [("x-forwarded-for", address)];
            let expected = if is_trusted { 2 } else { 0 };
            assert_eq!(admitted(&mut client, 4, &headers).await, expected, "{rule}, {address}");
        }
        let headers = [("x-forwarded-for", "192.0.2.8"), ("x-request-id", "an id")];
        let expected = if is_trusted { 8 } else { 0 };
        assert_eq!(admitted(&mut client, 8, &headers).await, expected, "{rule}, {trust}");
        // Over TCP the same host has an address.
        let mut client = service.client().await;
        assert_eq!(admitted(&mut client, 3, &[]).await, 2 - usize::from(is_trusted) * 2, "{rule}");
        service.server.end().await;
    }
}
