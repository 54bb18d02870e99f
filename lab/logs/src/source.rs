//! Lines of bytes from a file or standard input, plain or gzip, in constant memory.
//!
//! Gzip is recognized by its first bytes, not by a file name, and may have several members
//! (`cat a.gz b.gz`). Lines need not be UTF-8.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::error::Error;

/// The most bytes of a line (without its end) that are read. The rest of a longer line is skipped.
/// The longest request line that servers accept is far below this.
pub const MAX_LINE: usize = 64 * 1024;

/// Bytes per read. It exceeds [`MAX_LINE`], so that every line that is parsed fits.
const BUFFER: usize = 256 * 1024;

/// One line without its end (`\n` or `\r\n`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Line<'a> {
    /// The whole line.
    Whole(&'a [u8]),
    /// The first [`MAX_LINE`] bytes of a longer line.
    TooLong(&'a [u8]),
}

/// An open log.
pub struct Lines {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    gzip: bool,
    bytes_read: Arc<AtomicU64>,
    total_bytes: Option<u64>,
    buffer: Vec<u8>,
    /// The part of the buffer that was read and not yet returned.
    start: usize,
    end: usize,
    /// How much of that part is known to contain no line end.
    searched: usize,
    unpacked_bytes: u64,
    at_end: bool,
    first: bool,
}

impl Lines {
    /// Opens the file at `path`; `-` is standard input (`./-` is a file of that name).
    ///
    /// # Errors
    /// The file does not exist, is a directory, or may not be read; or its data is compressed with
    /// a format other than gzip. Each error contains the path and the remedy.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path.as_os_str() == "-" {
            return Self::from_reader(io::stdin(), path, None);
        }
        let failed = |error| Error::reading(path, error);
        // A pipe can be opened only once, so read the metadata from the open file.
        let file = File::open(path).map_err(failed)?;
        let metadata: fs::Metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Error::IsDirectory { path: path.to_path_buf() });
        }
        let total_bytes = metadata.is_file().then_some(metadata.len());
        Self::from_reader(file, path, total_bytes)
    }

    /// Reads from any reader. Errors contain `path` as its name; `total_bytes` is its compressed
    /// size, if known.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_reader(
        input: impl Read + Send + 'static,
        path: &Path,
        total_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = Counted { input, bytes_read: Arc::clone(&bytes_read) };
        let mut lines = Self {
            path: path.to_path_buf(),
            input: Box::new(counted),
            gzip: false,
            bytes_read,
            total_bytes,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            searched: 0,
            unpacked_bytes: 0,
            at_end: false,
            first: true,
        };
        lines.detect()?;
        Ok(lines)
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The source cannot be read, or its gzip data is incomplete or damaged.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, Error> {
        loop {
            let pending = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &pending[self.searched..]) {
                let len = self.searched + at;
                let range = self.take(len, len + 1);
                return Ok(Some(self.line(range)));
            }
            self.searched = pending.len();
            if self.searched > MAX_LINE + 1 {
                let range = self.take(MAX_LINE, self.searched);
                // Move the beginning to where further reads do not overwrite it.
                self.buffer.copy_within(range.0..range.1, 0);
                (self.start, self.end) = (range.1 - range.0, range.1 - range.0);
                self.skip_line()?;
                return Ok(Some(Line::TooLong(&self.buffer[..MAX_LINE])));
            }
            if self.at_end {
                if self.searched == 0 {
                    return Ok(None);
                }
                let range = self.take(self.searched, self.searched);
                return Ok(Some(self.line(range)));
            }
            self.fill(0)?;
        }
    }

    /// The compressed bytes of the source that were read so far: compare with
    /// [`Self::total_bytes`].
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// The compressed size of the source; `None` for a pipe.
    #[must_use]
    pub const fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// The unpacked bytes of the log so far.
    #[must_use]
    pub const fn unpacked_bytes(&self) -> u64 {
        self.unpacked_bytes
    }

    /// Inspects the first bytes, and inserts the gzip decoder if they require it.
    fn detect(&mut self) -> Result<(), Error> {
        while self.end < MAGIC_BYTES && !self.at_end {
            self.fill(0)?;
        }
        if self.buffer[..self.end].starts_with(GZIP) {
            let head = io::Cursor::new(self.buffer[..self.end].to_vec());
            let rest = std::mem::replace(&mut self.input, Box::new(io::empty()));
            let packed = BufReader::with_capacity(BUFFER, head.chain(rest));
            self.input = Box::new(MultiGzDecoder::new(packed));
            self.gzip = true;
            (self.end, self.unpacked_bytes, self.at_end) = (0, 0, false);
            while self.end < MAGIC_BYTES && !self.at_end {
                self.fill(0)?;
            }
        }
        let found = FORMATS.iter().find(|(magic, ..)| self.buffer[..self.end].starts_with(magic));
        let Some(&(_, format, command)) = found else { return Ok(()) };
        // One layer of a double compression is removed; the error names the inner one.
        let (format, command) =
            if self.gzip { ("packed twice", "gzip -dc") } else { (format, command) };
        Err(Error::Compressed { path: self.path.clone(), format, command })
    }

    /// Returns the range of the first `len` pending bytes, and advances by `skip`.
    const fn take(&mut self, len: usize, skip: usize) -> (usize, usize) {
        let start = self.start;
        self.start += skip;
        self.searched = 0;
        (start, start + len)
    }

    fn line(&mut self, (mut start, end): (usize, usize)) -> Line<'_> {
        if std::mem::take(&mut self.first) && self.buffer[start..end].starts_with(UTF8_BOM) {
            start += UTF8_BOM.len();
        }
        let line = &self.buffer[start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > MAX_LINE { Line::TooLong(&line[..MAX_LINE]) } else { Line::Whole(line) }
    }

    /// Reads and discards everything up to the next line end. The first [`MAX_LINE`] bytes of the
    /// buffer stay.
    fn skip_line(&mut self) -> Result<(), Error> {
        self.first = false;
        loop {
            let pending = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', pending) {
                self.start += at + 1;
                return Ok(());
            }
            self.start = self.end;
            if self.at_end {
                return Ok(());
            }
            self.fill(MAX_LINE)?;
        }
    }

    /// Reads more bytes after the pending ones, which are moved down to `floor` first.
    fn fill(&mut self, floor: usize) -> Result<(), Error> {
        if self.start > floor {
            self.buffer.copy_within(self.start..self.end, floor);
            (self.start, self.end) = (floor, floor + self.end - self.start);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => {
                    self.end += n;
                    self.unpacked_bytes += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.failed(error)),
            }
            return Ok(());
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        let (path, unpacked_bytes) = (self.path.clone(), self.unpacked_bytes);
        match source.kind() {
            io::ErrorKind::UnexpectedEof if self.gzip => {
                Error::GzipTruncated { path, unpacked_bytes }
            }
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if self.gzip => {
                Error::GzipDamaged { path, unpacked_bytes, source }
            }
            _ => Error::reading(&path, source),
        }
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("path", &self.path)
            .field("gzip", &self.gzip)
            .field("bytes_read", &self.bytes_read())
            .field("total_bytes", &self.total_bytes)
            .finish_non_exhaustive()
    }
}

const GZIP: &[u8] = b"\x1f\x8b";
const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

/// The length of the longest signature.
const MAGIC_BYTES: usize = 7;

/// The formats that are not read as lines, with the command that unpacks each. Gzip is among them
/// for gzip inside gzip.
const FORMATS: [(&[u8], &str, &str); 6] = [
    (GZIP, "gzip data", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "zstd -dc"),
    (b"\xfd7zXZ\0", "xz data", "xz -dc"),
    (b"BZh91AY", "bzip2 data", "bzip2 -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
    (b"\x04\x22\x4d\x18", "lz4 data", "lz4 -dc"),
];

/// Counts the bytes read.
struct Counted<R> {
    input: R,
    bytes_read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buffer)?;
        self.bytes_read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

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
            all.push(match line {
                Line::Whole(line) => (line.to_vec(), true),
                Line::TooLong(line) => (line.to_vec(), false),
            });
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
        assert!(
            error_of(b"\x28\xb5\x2f\xfd....").contains("zstd -dc test.log | tollgate replay -")
        );
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
        assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"a")));
        assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"b")));
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
}
