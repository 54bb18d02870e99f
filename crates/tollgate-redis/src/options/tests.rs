//! URLs and their options, and the errors of others.

use proptest::prelude::*;

use super::*;

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
            local.clone().deadline(Duration::from_millis(20)).connections(64),
        ),
        ("redis://localhost?prefix=a.B_9-", local.clone().prefix(prefix("a.B_9-"))),
        ("unix:///a%3Fb", Options::unix("/a?b")),
        ("redis+unix:///run/r.sock?db=3", Options::unix("/run/r.sock").database(3)),
        ("unix://u:p@/run/r.sock", Options::unix("/run/r.sock").user("u").password("p")),
    ] {
        assert_eq!(Options::from_url(url).unwrap(), options, "{url}");
    }
}

fn prefix(name: &str) -> KeyPrefix {
    KeyPrefix::new(name).unwrap()
}

#[test]
fn a_prefix_is_shown_and_bounded() {
    for url in [
        "redis://h:1/2?prefix=staging",
        "redis+unix:///r?db=3&prefix=staging",
        "redis+unix:///r?prefix=staging",
        "redis+cluster://a:1,b:1?prefix=staging",
        "redis+sentinel://a:1/main?prefix=staging",
    ] {
        assert_eq!(Options::from_url(url).unwrap().to_string(), url);
    }
    for good in ["a", "tg", "tg-1", "TG1", "tgv", "tgq", "tgqa1", "atg1", "-", &"p".repeat(64)] {
        assert_eq!(prefix(good).to_string(), format!("{good}:"));
    }
    let long = "p".repeat(65);
    for bad in ["", "{a}", "a b", "a~", "~*", "a:b", "a*", "ä", "%7B", "a\n", "[a]", &long] {
        let error = KeyPrefix::new(bad).unwrap_err();
        assert!(error.contains("takes 1 to 64 letters (a-z, A-Z), digits, `.`, `_` and `-`"));
    }
    // These begin keys without a prefix, of this version or another.
    for bad in ["tg1", "tg1-run", "tgq1", "tg2", "tg9x", "tgq25"] {
        assert!(KeyPrefix::new(bad).unwrap_err().contains("does not begin with `tg1`"), "{bad}");
    }
}

#[test]
fn a_deadline_that_was_said_stays() {
    let second = Duration::from_secs(1);
    let of = |url| Options::from_url(url).unwrap().deadline_or(second).deadline;
    assert_eq!(of("redis://h"), second);
    assert_eq!(of("redis://h?connections=2&deadline=500ms"), DEFAULT_DEADLINE);
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
        ("redis://h?prefix", "`prefix` takes 1 to 64 letters"),
        ("redis://h?prefix={a}", "as in `prefix=staging`"),
        ("unix:///r?prefix=a b", "as in `prefix=staging`"),
        ("redis+cluster://h?prefix=tg1", "write another one, e.g. `prefix=staging`"),
        ("redis://h?prefix=a&prefix=b", "`prefix` stands there twice"),
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
