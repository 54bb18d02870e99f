//! Unpacks logs: gzip, zstd, bzip2, xz, and UTF-16. Each is recognized by its first bytes, not by a
//! file name.

use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use bzip2::read::MultiBzDecoder;
use encoding_rs::Encoding;
use encoding_rs_io::DecodeReaderBytesBuilder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::BUFFER;
use crate::error::Error;

/// A source of bytes.
pub(super) type Input = Box<dyn Read + Send>;

/// The packing of a log. Each may have several members, as in the output of `cat a.gz b.gz`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packing {
    Gzip,
    Zstd,
    Bzip2,
    Xz,
}

impl Packing {
    const ALL: [(&'static [u8], Self); 4] = [
        (b"\x1f\x8b", Self::Gzip),
        (b"\x28\xb5\x2f\xfd", Self::Zstd),
        (b"BZh", Self::Bzip2),
        (b"\xfd7zXZ\0", Self::Xz),
    ];

    fn of(head: &[u8]) -> Option<Self> {
        let found = Self::ALL.iter().find(|(magic, _)| head.starts_with(magic));
        found.map(|(_, packing)| *packing)
    }

    /// The name of the program that packs so.
    const fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
        }
    }

    fn open(self, input: Input) -> io::Result<Input> {
        let input = BufReader::with_capacity(BUFFER, input);
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(input)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(input)?),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(input)),
            Self::Xz => Box::new(XzReader::new(input, true)),
        })
    }
}

/// The formats that are not read as lines, with the command that unpacks each.
const REFUSED: [(&[u8], &str, &str); 2] =
    [(b"PK\x03\x04", "a zip archive", "unzip -p"), (b"\x04\x22\x4d\x18", "lz4 data", "lz4 -dc")];

/// The bytes that are looked at: the header of a tar archive.
const HEAD: usize = 512;

/// The text of a log, and the packing that was taken off.
///
/// # Errors
/// It cannot be read, is packed twice, or has a format that is not read.
pub(super) fn unpack(input: Input, path: &Path) -> Result<(Input, Option<Packing>), Error> {
    let (mut head, mut input) = peek(input).map_err(|error| Error::reading(path, error))?;
    let refused = |format, command: &str| Error::Compressed {
        path: path.to_path_buf(),
        format,
        command: command.to_owned(),
    };
    let packing = Packing::of(&head);
    if let Some(packing) = packing {
        let unpacked = packing.open(input).and_then(peek);
        (head, input) = unpacked.map_err(|error| failed(path, Some(packing), 0, error))?;
        // One layer of a double compression is removed; the error names the inner one.
        if let Some(inner) = Packing::of(&head) {
            return Err(refused("packed twice", &format!("{} -dc", inner.program())));
        }
    }
    if let Some((_, format, command)) = REFUSED.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Err(refused(format, command));
    }
    if is_tar(&head) {
        return Err(refused("a tar archive", "tar -xOf"));
    }
    if let Some(encoding) = utf_16(&head) {
        let mut decoder = DecodeReaderBytesBuilder::new();
        input = Box::new(decoder.encoding(Some(encoding)).build(input));
    }
    Ok((input, packing))
}

/// The error of a log that was packed so and of which this many bytes were unpacked.
pub(super) fn failed(
    path: &Path,
    packing: Option<Packing>,
    unpacked_bytes: u64,
    source: io::Error,
) -> Error {
    let Some(program) = packing.map(Packing::program) else { return Error::reading(path, source) };
    let path = path.to_path_buf();
    match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::Truncated { path, program, unpacked_bytes },
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other => {
            Error::Damaged { path, program, unpacked_bytes, source }
        }
        _ => Error::reading(&path, source),
    }
}

/// The first bytes, and all of them again.
fn peek(mut input: Input) -> io::Result<(Vec<u8>, Input)> {
    let mut head = Vec::with_capacity(HEAD);
    input.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    let all = Cursor::new(head.clone()).chain(input);
    Ok((head, Box::new(all)))
}

/// Whether this is the header of a tar archive: its checksum is the sum of its bytes, in which the
/// checksum itself counts as blanks.
fn is_tar(head: &[u8]) -> bool {
    const CHECKSUM: std::ops::Range<usize> = 148..156;
    let Some(text) = head.get(CHECKSUM).filter(|_| head.len() == HEAD) else { return false };
    let digits: String =
        text.iter().filter(|b| b.is_ascii_digit()).map(|b| char::from(*b)).collect();
    let byte =
        |(at, byte): (usize, &u8)| u32::from(if CHECKSUM.contains(&at) { b' ' } else { *byte });
    let sum: u32 = head.iter().enumerate().map(byte).sum();
    u32::from_str_radix(&digits, 8) == Ok(sum)
}

/// The encoding of UTF-16, by its mark, or by four characters of ASCII in a row.
fn utf_16(head: &[u8]) -> Option<&'static Encoding> {
    let is_ascii = |byte: u8| byte != 0 && byte.is_ascii();
    match head {
        [0xff, 0xfe, ..] => Some(encoding_rs::UTF_16LE),
        [0xfe, 0xff, ..] => Some(encoding_rs::UTF_16BE),
        [a, 0, b, 0, c, 0, d, 0, ..] if [*a, *b, *c, *d].into_iter().all(is_ascii) => {
            Some(encoding_rs::UTF_16LE)
        }
        [0, a, 0, b, 0, c, 0, d, ..] if [*a, *b, *c, *d].into_iter().all(is_ascii) => {
            Some(encoding_rs::UTF_16BE)
        }
        _ => None,
    }
}
