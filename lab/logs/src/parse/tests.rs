//! Tests of the parser for all formats.

use proptest::prelude::*;

use super::line::path_of;
use super::*;

#[test]
fn by_is_a_word_or_a_field() {
    assert_eq!("ip".parse(), Ok(By::Ip));
    assert_eq!("a.b".parse(), Ok(By::Field("a.b".into())));
    assert_eq!("".parse::<By>(), Err(ByError::Empty));
    assert_eq!("x".repeat(257).parse::<By>(), Err(ByError::TooLong { len: 257 }));
    assert_eq!(By::default().to_string(), "ip");
    assert_eq!("all".parse(), Ok(By::All));
    let several = By::Several(vec![By::Ip, By::Field("a.b".into())]);
    assert_eq!("ip, a.b".parse(), Ok(several.clone()));
    assert_eq!(several.to_string(), "ip,a.b");
    assert_eq!("ip,".parse::<By>(), Err(ByError::Empty));
    for twice in ["ip,path,ip", "ip,all"] {
        assert!(matches!(twice.parse::<By>(), Err(ByError::Repeated { .. })), "{twice}");
    }
    let many: Vec<String> = (0..9).map(|n| format!("f{n}")).collect();
    assert_eq!(many.join(",").parse::<By>(), Err(ByError::TooMany { fields: 9 }));
}

#[test]
fn a_path_is_the_target_without_host_and_query() {
    for (target, path) in [
        ("/a/b?c=d", "/a/b"),
        ("/a#b", "/a"),
        ("http://x.org/a?b", "/a"),
        ("https://x.org", "/"),
        ("http://x.org?b=/c", "/"),
        ("*", "*"),
        ("x.org:443", "x.org:443"),
        ("/go?to=http://x.org/", "/go"),
        ("/a://b", "/a://b"),
        ("://b/c", "://b/c"),
    ] {
        assert_eq!(path_of(target.as_bytes()), path.as_bytes(), "{target}");
    }
}

#[test]
fn keys_of_several_fields_are_told_apart_and_come_back() {
    let mut parser = Parser::new("user,agent".parse().unwrap());
    let mut key = |user: &str, agent: &str| {
        let line = format!(r#"{{"ip":"::1","ts":1,"user":"{user}","agent":"{agent}"}}"#);
        parser.parse(line.as_bytes()).unwrap().unwrap().key.into_owned()
    };
    assert_eq!(key("a,b", "c"), b"a%2Cb,c");
    let one = key("a,b", "c");
    assert_ne!(one, key("a", "b,c"));
    for (user, agent) in [("a,b", "c"), ("%2C", "%25,%"), ("100%", "%2"), ("%252C", ",,")] {
        let key = key(user, agent);
        let found: Vec<Cow<'_, [u8]>> = parts(&key).collect();
        assert_eq!(found, [user.as_bytes(), agent.as_bytes()]);
    }
    let missing = parser.parse(br#"{"ip":"::1","ts":1,"user":"a"}"#);
    assert_eq!(missing, Err(Reason::NoField(By::Field("agent".into()))));
    let clf = b"::1 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 17";
    let mut all = Parser::new(By::All);
    assert_eq!(&*all.parse(clf).unwrap().unwrap().key, b"all");
    assert_eq!(&*all.parse(br#"{"ts":1}"#).unwrap().unwrap().key, b"all");
}

/// The header of one file is that of the next one, unless that has its own or another format.
#[test]
fn a_header_holds_for_the_next_file_of_the_same_format() {
    let mut parser = Parser::new(By::Ip);
    let mut client = |line: &str| {
        let parsed = parser.parse(line.as_bytes());
        let key = parsed.map(|parsed| parsed.map(|it| String::from_utf8(it.key.to_vec()).unwrap()));
        (key.unwrap_or_else(|reason| Some(reason.to_string())), parser.begin_file())
    };
    const CLF: &str = "::1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 17";
    for (line, key) in [
        ("time,ip,path", None),
        ("1431857103,::2,/", Some("::2")),
        ("ip;time", None),
        ("::3;1431857103", Some("::3")),
        (CLF, Some("::1")),
        ("#Fields: date time c-ip", None),
        ("2015-05-17 10:05:03 ::4", Some("::4")),
        ("2015-05-13T23:39:43.9Z lb [::5]:1 - 0 0 0 200 200 0 29 \"GET /\"", Some("::5")),
        ("{\"ip\":\"::6\",\"ts\":1}", Some("::6")),
        (CLF, Some("::1")),
    ] {
        assert_eq!(client(line).0.as_deref(), key, "{line}");
    }
}

#[test]
fn costs_are_whole_numbers_of_at_least_one() {
    let mut parser = Parser::new(By::Ip).with_cost(By::Field("n".into()));
    let mut cost = |text: &str| {
        let line = format!(r#"{{"ip":"::1","ts":1,"n":{text}}}"#);
        parser.parse(line.as_bytes()).map(|parsed| parsed.unwrap().cost)
    };
    for (text, found) in [
        ("17", Some(17)),
        ("\"17\"", Some(17)),
        ("4294967295", Some(u32::MAX)),
        ("0", None),
        ("-1", None),
        ("1.5", None),
        ("null", None),
        ("\"many\"", None),
    ] {
        assert_eq!(cost(text), Ok(found), "{text}");
    }
    assert_eq!(cost("4294967296"), Err(Reason::Cost));
    assert!(Reason::Cost.to_string().contains("4294967295"));
    let clf = b"::1 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 17";
    let mut parser = Parser::new(By::Ip).with_cost(By::Field("bytes".into()));
    assert_eq!(parser.parse(clf).unwrap().unwrap().cost, Some(17));
    assert_eq!(Parser::new(By::Ip).parse(clf).unwrap().unwrap().cost, Some(1));
}

const PIECES: [&str; 40] = [
    "\n",
    "time,ip,path\n",
    "#Fields: date time c-ip cs-uri-stem\n",
    "2015-05-17T10:05:03Z",
    "2015-05-17",
    " stdout F ",
    "web-1  | ",
    "May 17 10:05:03 web nginx[7]: ",
    "<34>1 ",
    "[pod/a/b] ",
    "https ",
    "\"log\":",
    "1.2.3.4, ",
    "10.0.0.1",
    "a/b",
    ";",
    "1.2.3.4",
    "::1",
    "-",
    " ",
    "  ",
    "[17/May/2015:10:05:03 +0000]",
    "[",
    "]",
    "\"",
    "\\",
    "\\\"",
    "GET /a?b HTTP/1.1",
    "200",
    "{",
    "}",
    "\"ip\":",
    "\"ts\":",
    "\"a\":",
    "{\"b\":",
    "1431857103",
    "1e9",
    ",",
    "null",
    "\u{e9}",
];

proptest! {
    #[test]
    fn no_bytes_make_it_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_line(&line);
    }

    #[test]
    fn no_pieces_of_lines_make_it_panic(
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..30),
    ) {
        fuzz_line(pieces.concat().as_bytes());
    }
}
