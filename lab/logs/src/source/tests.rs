//! Tests of the lines of files.

use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns its bytes in pieces of `step`, as a pipe may.
struct Steps(io::Cursor<Vec<u8>>, usize);

impl Read for Steps {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(self.1);
        self.0.read(&mut buffer[..len])
    }
}

fn lines_of(bytes: &[u8], step: usize) -> Result<Vec<(Vec<u8>, bool)>, Error> {
    let input = Steps(io::Cursor::new(bytes.to_vec()), step);
    let mut lines = Lines::from_reader(input, Path::new("test.log"), None)?;
    let mut all = Vec::new();
    while let Some(line) = lines.next_line()? {
        all.push((line.text.to_vec(), line.is_whole));
    }
    assert_eq!(lines.bytes_read(), bytes.len() as u64);
    Ok(all)
}

fn error_of(bytes: &[u8]) -> String {
    lines_of(bytes, 100).unwrap_err().to_string()
}

#[test]
fn line_ends_and_a_byte_order_mark_are_no_part_of_a_line() {
    let lines = lines_of(b"\xef\xbb\xbfa\r\n\nb\xff\r\r\nlast", 1).unwrap();
    let expected: [&[u8]; 4] = [b"a", b"", b"b\xff\r", b"last"];
    assert_eq!(lines.iter().map(|(l, _)| l.as_slice()).collect::<Vec<_>>(), expected);
    assert!(lines_of(b"", 1).unwrap().is_empty());
    assert_eq!(lines_of(b"\n", 1).unwrap().len(), 1);
}

#[test]
fn gzip_with_several_members_is_one_log() {
    let packed = [gzip(b"one\ntw"), gzip(b""), gzip(b"o\nthree")].concat();
    for step in [1, 7, 1_000_000] {
        let lines = lines_of(&packed, step).unwrap();
        let texts: Vec<&[u8]> = lines.iter().map(|(line, _)| line.as_slice()).collect();
        assert_eq!(texts, [&b"one"[..], b"two", b"three"]);
    }
}

#[test]
fn cut_or_damaged_gzip_is_an_error_that_says_so() {
    let text: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut packed = gzip(&text);
    assert!(error_of(&packed[..packed.len() / 2]).contains("ends too early"));
    assert!(error_of(&packed[..4]).contains("ends too early"));
    assert!(error_of(&[&packed[..], b"no gzip at all"].concat()).contains("damaged"));
    let middle = packed.len() / 2;
    packed[middle..middle + 64].fill(0xa5);
    assert!(error_of(&packed).contains("damaged"));
    assert!(error_of(&gzip(&gzip(b"x"))).contains("packed twice"));
    assert!(error_of(b"\x04\x22\x4d\x18...").contains("lz4 -dc test.log | tollgate replay -"));
}

#[test]
fn what_is_no_file_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let error = Lines::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::IsDirectory { .. }), "{error}");
    let error = Lines::open(&dir.path().join("none.log")).unwrap_err();
    assert!(error.to_string().contains("none.log: no such file"), "{error}");
}

#[test]
fn a_plain_file_says_how_much_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("named.gz"); // the name says gzip, the bytes do not
    fs::write(&path, b"a\nb\n").unwrap();
    let mut lines = Lines::open(&path).unwrap();
    assert_eq!(lines.total_bytes(), Some(4));
    assert_eq!(lines.next_line().unwrap().unwrap().text, b"a");
    assert_eq!(lines.next_line().unwrap().unwrap().text, b"b");
    assert_eq!(lines.next_line().unwrap(), None);
    assert_eq!((lines.bytes_read(), lines.unpacked_bytes()), (4, 4));
}

#[test]
fn a_longer_line_is_cut_and_the_next_one_is_whole() {
    for (len, whole) in [(MAX_LINE, true), (MAX_LINE + 1, false), (3 * BUFFER + 5, false)] {
        for end in ["\n", "\r\n"] {
            // A read that ends between \r and \n must not lengthen the line.
            for step in [1_000, MAX_LINE + 1, BUFFER, 10 * BUFFER] {
                let mut text: Vec<u8> = (b'a'..=b'z').cycle().take(len).collect();
                let expected = text[..len.min(MAX_LINE)].to_vec();
                text.extend_from_slice(end.as_bytes());
                text.extend_from_slice(b"next\n");
                let lines = lines_of(&text, step).unwrap();
                assert_eq!(lines.len(), 2);
                assert!(lines[0] == (expected, whole), "{len} {end:?} {step}");
                assert_eq!(lines[1], (b"next".to_vec(), true));
            }
        }
    }
    let endless = lines_of(&vec![b'x'; 5 * BUFFER], 1_000).unwrap();
    assert_eq!((endless.len(), endless[0].1), (1, false));
}

proptest! {
    #[test]
    fn lines_are_those_of_a_plain_split(
        bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..500),
        step in 1..600_usize,
    ) {
        let mut bytes = bytes;
        bytes.insert(0, b'-'); // not the beginning of a format
        let plain = lines_of(&bytes, step).unwrap();
        let body = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let expected: Vec<Vec<u8>> = body
            .split(|b| *b == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec())
            .collect();
        let texts: Vec<Vec<u8>> = plain.iter().map(|(line, _)| line.clone()).collect();
        prop_assert_eq!(texts, expected);
        prop_assert_eq!(lines_of(&gzip(&bytes), step).unwrap(), plain);
    }

    #[test]
    fn no_bytes_make_it_panic(
        gzip in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let head: &[u8] = if gzip { b"\x1f\x8b\x08\x00" } else { b"" };
        let _ = lines_of(&[head, &bytes].concat(), 50);
    }
}
