//! Paths and logins in one form.

use super::*;

#[test]
fn path_variants_are_one_path() {
    let path = Identity::path(Case::Fold);
    for uri in [
        "/login",
        "//login",
        "/login/",
        "/Login",
        "/%6Cogin",
        "//login//",
        "/login?a=1",
        "http://example.org/login",
    ] {
        let request = Request::get(uri).body(()).unwrap();
        assert_eq!(value(&path, &request).as_deref(), Ok("/login"), "{uri}");
    }
    let request = Request::get("/Login").body(()).unwrap();
    assert_eq!(value(&Identity::path(Case::Keep), &request).as_deref(), Ok("/Login"));
    // A path that servers read differently is not a spelling of it.
    for (uri, why) in [
        ("/./login", Why::Dots),
        ("/x/../login", Why::Dots),
        ("/x/%2E%2e//login", Why::Dots),
        ("/%2flogin", Why::EscapedSlash),
        ("/%5clogin", Why::Backslash),
        ("/login;x", Why::Parameter),
        ("/login%00", Why::Nul),
    ] {
        let request = Request::get(uri).body(()).unwrap();
        let missing = path.value(&Head::new(&request)).unwrap_err();
        assert_eq!((missing.why(), missing.status()), (why, StatusCode::BAD_REQUEST), "{uri}");
        assert!(!missing.is_absent());
    }
    let long = Request::get(format!("/{}", "x".repeat(1_024))).body(()).unwrap();
    assert_eq!(value(&path, &long), Err(Why::TooLong { bytes: 1_025, most: 1_024 }));
    // Bounded as it is counted, too: escaping makes it longer.
    let long = Request::get(format!("/{}", "|".repeat(1_000))).body(()).unwrap();
    assert_eq!(value(&path, &long), Err(Why::TooLong { bytes: 3_001, most: 1_024 }));
}

#[test]
fn attacker_chosen_segments_make_no_new_count() {
    let limiter = Limiter::memory("10/m via gcra".parse().unwrap());
    let route = Identity::route();
    for id in 0..100 {
        let request = Request::get(format!("/users/{id}{{x}}")).body(());
        let request = request.unwrap_or_else(|_| Request::new(()));
        let head = Head::new(&request).with_route("/users/{id}");
        let value = route.value(&head).unwrap();
        let subject = Subject::new("route", value.as_str()).unwrap();
        let decision = limiter.check(subject).now().unwrap();
        assert_eq!(decision.is_allowed(), id < 10);
    }
    assert_eq!(limiter.store().subjects(), 1);
    assert_eq!(value(&route, &Request::new(())), Err(Why::NoRoute));
}

#[test]
fn a_login_is_one_in_any_case_and_with_blanks() {
    let login = Identity::header("x-login").unwrap().lowercase();
    for text in ["ann@example.org", " Ann@Example.ORG\t", "\u{a0}ANN@example.org\u{2003}"] {
        let request = request(&[("x-login", text)]);
        assert_eq!(value(&login, &request).as_deref(), Ok("ann@example.org"), "{text:?}");
    }
    assert_eq!(value(&login, &request(&[("x-login", "\u{a0}")])), Err(Why::Absent));
    let exact = Identity::header("x-login").unwrap();
    assert_eq!(value(&exact, &request(&[("x-login", " Ann ")])).as_deref(), Ok("Ann"));
}
