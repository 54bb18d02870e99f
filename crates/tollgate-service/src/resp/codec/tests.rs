//! Tests of the codec: whole commands, every split, and bad input.

use proptest::collection;
use proptest::prelude::{any, prop_assert_eq, proptest};

use super::*;

/// A command as clients write it.
fn written(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Reads commands from a buffer that grows by one byte at a time, as a connection does.
fn by_bytes(sent: &[u8], bounds: &Bounds) -> (Vec<Vec<Vec<u8>>>, Option<Broken>) {
    let (mut found, mut begin) = (Vec::new(), 0);
    for end in 1..=sent.len() {
        loop {
            let mut words = Words::new();
            match read(&sent[begin..end], bounds, &mut words) {
                Ok(Found::Chunk) => break,
                Ok(Found::Command(size)) => {
                    found.push(words.iter().map(|word| word.to_vec()).collect());
                    begin += size;
                }
                Err(broken) => return (found, Some(broken)),
            }
        }
    }
    (found, None)
}

/// Reads all commands of a buffer.
fn at_once(sent: &[u8], bounds: &Bounds) -> (Vec<Vec<Vec<u8>>>, Option<Broken>) {
    let (mut found, mut rest) = (Vec::new(), sent);
    loop {
        let mut words = Words::new();
        match read(rest, bounds, &mut words) {
            Ok(Found::Chunk) => return (found, None),
            Ok(Found::Command(size)) => {
                found.push(words.iter().map(|word| word.to_vec()).collect());
                rest = &rest[size..];
            }
            Err(broken) => return (found, Some(broken)),
        }
    }
}

fn broken(sent: &[u8]) -> String {
    let (_, whole) = at_once(sent, &Bounds::USUAL);
    let (_, split) = by_bytes(sent, &Bounds::USUAL);
    assert_eq!(whole, split, "{}", sent.escape_ascii());
    whole.map_or_else(|| "nothing".to_owned(), |broken| broken.to_string())
}

#[test]
fn every_split_gives_the_same_commands() {
    let sent = [
        written(&[b"CL.THROTTLE", b"user123", b"15", b"30", b"60"]),
        b"\r\nping\r\nQuit\n*0\r\n*-1\r\n".to_vec(),
        written(&[b"ECHO", b"\r\n$3\r\n*1"]),
        written(&[b""]),
    ]
    .concat();
    let expected: Vec<Vec<Vec<u8>>> = [
        &[&b"CL.THROTTLE"[..], b"user123", b"15", b"30", b"60"][..],
        &[],
        &[b"ping"],
        &[b"Quit"],
        &[],
        &[],
        &[b"ECHO", b"\r\n$3\r\n*1"],
        &[b""],
    ]
    .into_iter()
    .map(|words| words.iter().map(|word| word.to_vec()).collect())
    .collect();
    assert_eq!(at_once(&sent, &Bounds::USUAL), (expected.clone(), None));
    assert_eq!(by_bytes(&sent, &Bounds::USUAL), (expected.clone(), None));
    for split in 0..sent.len() {
        let (mut found, none) = at_once(&sent[..split], &Bounds::USUAL);
        assert_eq!(none, None, "{split}");
        // Bytes that were not consumed are read again, with the rest.
        let again: usize = {
            let (mut rest, mut read_bytes) = (&sent[..split], 0);
            let mut words = Words::new();
            while let Ok(Found::Command(size)) = read(rest, &Bounds::USUAL, &mut words) {
                (rest, read_bytes) = (&rest[size..], read_bytes + size);
                words = Words::new();
            }
            read_bytes
        };
        found.extend(at_once(&sent[again..], &Bounds::USUAL).0);
        assert_eq!(found, expected, "{split}");
    }
}

#[test]
fn what_is_no_command_says_why() {
    for (sent, says) in [
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$03\r\n", "invalid bulk length"),
        ("*1\r\n$+3\r\n", "invalid bulk length"),
        ("*1\r\n$65537\r\n", "invalid bulk length"),
        ("*1\r\n$99999999999999999999\r\n", "too big bulk count string"),
        ("*x\r\n", "invalid multibulk length"),
        ("*65\r\n", "invalid multibulk length"),
        ("*1\rx", "invalid multibulk length"),
        ("*9223372036854775808\r\n", "too big mbulk count string"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*2\r\n$1\r\na\r\n\n", "expected '$', got '\\n'"),
        ("*1\r\n$1\r\nabc\r\n", "a bulk string ends with CR LF"),
        ("*1\r\n$1\r\na\rb", "a bulk string ends with CR LF"),
        ("SET a b\r\n", "a line is PING or QUIT here"),
        ("PING a\r\n", "a line is PING or QUIT here"),
        ("\u{0}\u{1}\r\n", "a line is PING or QUIT here"),
    ] {
        let said = broken(sent.as_bytes());
        assert!(said.starts_with("ERR Protocol error: ") && said.contains(says), "{sent}: {said}");
    }
    assert!(broken("a".repeat(64).as_bytes()).contains("too big inline request"));
    let long = written(&[&[b'a'; 65_536], &[b'a'; 65_536]]);
    assert!(broken(&long).contains("the command is too long"));
    assert_eq!(broken(&written(&[&[b'a'; 65_536]])), "nothing");
    assert_eq!(broken(&written(&[&b"a"[..]; MAX_WORDS])), "nothing");
}

#[test]
fn a_request_of_http_ends_it() {
    for sent in
        ["POST / HTTP/1.1\r\n", "post /", "GET / HTTP/1.1", "Host: a\r\n", "\r\nhost:", "PUT /a "]
    {
        assert_eq!(by_bytes(sent.as_bytes(), &Bounds::USUAL).1, Some(Broken::Http), "{sent}");
    }
    // A browser sends no command after a line that is one.
    assert_eq!(by_bytes(b"PING\r\nHost: a\r\n", &Bounds::USUAL).1, Some(Broken::Http));
}

#[test]
fn a_stranger_has_smaller_bounds() {
    let said = |sent: &[u8]| at_once(sent, &Bounds::STRANGER).1.map(|broken| broken.to_string());
    assert_eq!(said(&written(&[&b"a"[..]; 16])), None);
    assert!(said(b"*17\r\n").unwrap().ends_with("unauthenticated invalid multibulk length"));
    assert_eq!(said(&written(&[&[b'a'; 1_024]])), None);
    assert!(said(b"*1\r\n$1025\r\n").unwrap().ends_with("unauthenticated invalid bulk length"));
    let long = written(&[&[b'a'; 1_024][..]; 4]);
    assert!(said(&long).unwrap().ends_with("the command is too long"));
}

#[test]
fn numbers_have_one_form() {
    for text in ["0", "1", "-1", "10", "9223372036854775807", "-9223372036854775808"] {
        assert_eq!(whole_number(text.as_bytes()), text.parse().ok(), "{text}");
    }
    for text in ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "9223372036854775808", "0x1", "e"] {
        assert_eq!(whole_number(text.as_bytes()), None, "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        commands in collection::vec(
            collection::vec(collection::vec(any::<u8>(), 0..20), 1..8), 0..6)
    ) {
        let sent: Vec<u8> = commands.iter().flat_map(|words| {
            written(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
        }).collect();
        prop_assert_eq!(by_bytes(&sent, &Bounds::USUAL), (commands, None));
    }

    /// Whatever comes, each split finds the same, and nothing panics.
    #[test]
    fn no_input_depends_on_its_splits(
        sent in collection::vec(
            proptest::sample::select(&b"*$\r\n0123-+PINGpingHost: ax"[..]), 0..60)
    ) {
        prop_assert_eq!(by_bytes(&sent, &Bounds::USUAL), at_once(&sent, &Bounds::USUAL));
    }
}
