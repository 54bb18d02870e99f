//! Fields with invalid values.

use super::*;

#[tokio::test]
async fn a_malformed_field_is_refused_and_never_taken_as_absent() {
    let limits = r#"limits = [
        { subject = "user", limit = "1/h", absent = "skip" },
        { subject = "header.x-tenant", limit = "1/h", absent = "skip" },
    ]"#;
    let layer = builder(&policy(limits)).user(Identity::header("x-user").unwrap()).build().unwrap();
    let app = served(layer.clone());
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 200);
    for name in ["x-user", "x-tenant"] {
        let twice = send(&app, from("192.0.2.1", &[(name, "a"), (name, "b")])).await;
        assert_eq!(twice.status, StatusCode::BAD_REQUEST, "{name}");
        assert!(
            twice.body.contains(&format!("the header `{name}` is given several times")),
            "{}",
            twice.body
        );
        let long = "x".repeat(1_025);
        assert_eq!(status(&app, "192.0.2.1", &[(name, &long)]).await, 400);
        let mut latin = from("192.0.2.1", &[]);
        latin.headers_mut().insert(name, HeaderValue::from_bytes(b"\xe4").unwrap());
        assert_eq!(send(&app, latin).await.status, 400);
    }
    // None of these was counted.
    assert_eq!(status(&app, "192.0.2.1", &[("x-user", "a"), ("x-tenant", "t")]).await, 200);
    assert_eq!(status(&app, "192.0.2.1", &[("x-user", "a")]).await, 429);
    // A header that no policy looks at may be as it likes.
    assert_eq!(status(&app, "192.0.2.1", &[("x-other", "a"), ("x-other", "b")]).await, 200);
}

#[tokio::test]
async fn a_malformed_field_of_a_condition_is_no_way_around_the_policy() {
    let lines =
        "when = { header.x-tier = \"free\" }\nlimits = [{ subject = \"ip\", limit = \"1/h\" }]";
    let app = served(builder(&policy(lines)).build().unwrap());
    assert_eq!(status(&app, "192.0.2.1", &[("x-tier", "free")]).await, 200);
    assert_eq!(status(&app, "192.0.2.1", &[("x-tier", "free")]).await, 429);
    assert_eq!(status(&app, "192.0.2.1", &[("x-tier", "free"), ("x-tier", "gold")]).await, 400);
    assert_eq!(status(&app, "192.0.2.1", &[("x-tier", "gold")]).await, 200);
}

#[tokio::test]
async fn a_policy_in_shadow_refuses_nothing_for_what_is_malformed() {
    let lines = "shadow = true\nlimits = [{ subject = \"header.x-tenant\", limit = \"1/h\", absent = \"deny\" }]";
    let layer = builder(&policy(lines)).build().unwrap();
    let app = served(layer.clone());
    for headers in [
        &[][..],
        &[("x-tenant", "a"), ("x-tenant", "b")],
        &[("x-tenant", "a")],
        &[("x-tenant", "a")],
    ] {
        assert_eq!(status(&app, "192.0.2.1", headers).await, 200);
    }
    let counters = layer.gate().counters().policies();
    let of = |outcome| counters[0].1.get(outcome, Authority::Shadow);
    assert_eq!((of(Outcome::Missing), of(Outcome::Allowed), of(Outcome::Denied)), (2, 1, 1));

    // Also where another policy enforces the field, but not on this request.
    let toml = r#"
        match = "all"
        [[policies]]
        name = "tried"
        on_failure = "deny"
        shadow = true
        when = { path = "/" }
        limits = [{ subject = "header.x-tenant", limit = "9/h", absent = "deny" }]
        [[policies]]
        name = "real"
        on_failure = "deny"
        when = { path = "/other" }
        limits = [{ subject = "header.x-tenant", limit = "9/h", absent = "deny" }]
    "#;
    let layer = builder(toml).build().unwrap();
    let app = served(layer.clone()).route("/other", get(|| async { "other" }).layer(layer.clone()));
    let twice = [("x-tenant", "a"), ("x-tenant", "b")];
    assert_eq!(status(&app, "192.0.2.1", &twice).await, 200);
    let mut other = from("192.0.2.1", &twice);
    *other.uri_mut() = "/other".parse().unwrap();
    assert_eq!(send(&app, other).await.status, 400);
    // A refusal for this reason is counted, too.
    let real =
        layer.gate().counters().policies().into_iter().find(|(name, _)| name == "real").unwrap().1;
    assert_eq!(real.get(Outcome::Missing, Authority::Policy), 1);
}

/// Routers and services differ in how they read `..`, and in which host they go by: no policy is
/// met by one reading while the handler is by the other.
#[tokio::test]
async fn two_readings_of_one_request_are_refused() {
    let toml = r#"
        match = "first"
        [[policies]]
        name = "free"
        on_failure = "deny"
        when = { host = "free.example", path = "/static/*" }
        limits = [{ subject = "ip", limit = "1000/h" }]
        [[policies]]
        name = "api"
        on_failure = "deny"
        when = { path = "/api/*" }
        limits = [{ subject = "ip", limit = "1/h" }]
    "#;
    let app = Router::new()
        .route("/api/", get(|| async { "api" }))
        .route("/api/{*rest}", get(|| async { "api" }))
        .layer(builder(toml).build().unwrap());
    let ask = async |uri: &str, headers: &[(&str, &str)]| {
        let mut request = from("192.0.2.1", headers);
        *request.uri_mut() = uri.parse().unwrap();
        send(&app, request).await.status.as_u16()
    };
    for dots in ["/api/../x", "/api/%2e%2E/x", "/api/a/../../static/z", "/api/./x", "/api/.."] {
        assert_eq!(ask(dots, &[]).await, 400, "{dots}");
    }
    for path in
        ["/%2fapi/x", "/x%2f..%2fapi/x", "/api%2fx", "/%5capi", "/api;x", "/api%3bx", "/a%00"]
    {
        assert_eq!(ask(path, &[]).await, 400, "{path}");
    }
    for (uri, host, status) in [
        ("http://free.example/api/x", "paid.example", 400),
        ("http://free.example:80/static/x", "free.example", 404),
        ("http://Free.example/static/x", "free.EXAMPLE.:443", 404),
    ] {
        assert_eq!(ask(uri, &[("host", host)]).await, status, "{uri} {host}");
    }
    let long = format!("http://{}/api/x", "h".repeat(1_025));
    assert_eq!(ask(&long, &[]).await, 400);
    assert_eq!(ask("http://a.example/api/x", &[("host", "a.example"), ("host", "b")]).await, 400);
    // A route that ends with a slash is under the policy, too.
    assert_eq!(ask("/api/", &[]).await, 200);
    assert_eq!(ask("/api/x", &[]).await, 429);
}

#[tokio::test]
async fn paths_are_read_as_the_builder_says() {
    use tollgate_tower::identity::{EscapedSlashes, PathParameters, PathReading};
    let toml = r#"
        [[policies]]
        name = "api"
        on_failure = "deny"
        when = { path = "/api/*" }
        limits = [{ subject = "ip", limit = "1/h" }]
    "#;
    let strict = PathReading::default();
    for (reading, path, statuses) in [
        (strict, "/api%2Fx", [400, 400]),
        (strict.escaped_slashes(EscapedSlashes::Unescape), "/%2Fapi%2Fx", [200, 429]),
        // Another path to this server, and of no policy.
        (strict.escaped_slashes(EscapedSlashes::Keep), "/api%2Fx", [200, 200]),
        (strict, "/api;x/y", [400, 400]),
        (strict.parameters(PathParameters::Strip), "/api;x/y", [200, 429]),
        (strict.parameters(PathParameters::Keep), "/api;x/y", [200, 200]),
    ] {
        let layer = builder(toml).paths(reading).build().unwrap();
        let app = Router::new().fallback(get(|| async { "page" })).layer(layer);
        for status in statuses {
            let mut request = from("192.0.2.1", &[]);
            *request.uri_mut() = path.parse().unwrap();
            let response = send(&app, request).await;
            assert_eq!(response.status, status, "{path} {reading:?}");
        }
    }
}
