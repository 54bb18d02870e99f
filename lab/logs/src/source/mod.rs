//! Lines of bytes from files or standard input, plain or packed, in constant memory. Lines need not
//! be UTF-8.

#[cfg(test)]
mod tests;
mod unpack;

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::unpack::{Input, Packing, unpack};
use crate::error::Error;

/// The most bytes of a line (without its end) that are read. The rest of a longer line is skipped.
/// The longest request line that servers accept is far below this.
pub const MAX_LINE: usize = 64 * 1024;

/// Bytes per read. It exceeds [`MAX_LINE`], so that every line that is parsed fits.
const BUFFER: usize = 256 * 1024;

/// One line without its end (`\n` or `\r\n`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line<'a> {
    /// The whole line, or the first [`MAX_LINE`] bytes of a longer one.
    pub text: &'a [u8],
    /// Whether it is the whole line.
    pub is_whole: bool,
    /// The number of its file, from 0.
    pub file: u32,
}

/// An open log: a file, or several after each other.
pub struct Lines {
    /// The names of all files.
    paths: Vec<PathBuf>,
    /// The number of this one, from 0.
    file: u32,
    input: Input,
    packing: Option<Packing>,
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
    /// The file does not exist, is a directory, or may not be read; or its format is not read. Each
    /// error contains the path and the remedy.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path.as_os_str() == "-" {
            return Self::from_reader(io::stdin(), path, None);
        }
        let (file, metadata) = open(path)?;
        Self::from_reader(file, path, metadata.is_file().then_some(metadata.len()))
    }

    /// Opens several files, which are read as one log, in this order.
    ///
    /// # Errors
    /// As [`Self::open`], before the first line is read; and when one file is named twice, or
    /// standard input is among several.
    pub fn open_all(paths: &[PathBuf]) -> Result<Self, Error> {
        let [first, others @ ..] = paths else { return Err(Error::NoLog) };
        if others.is_empty() {
            return Self::open(first);
        }
        let mut known: HashMap<(u64, u64), &Path> = HashMap::new();
        let mut total_bytes = Some(0);
        for path in paths {
            if path.as_os_str() == "-" {
                return Err(Error::InputAmongSeveral);
            }
            let (_, metadata) = open(path)?;
            if let Some(other) = known.insert((metadata.dev(), metadata.ino()), path)
                && metadata.is_file()
            {
                return Err(Error::Twice { path: path.clone(), other: other.to_path_buf() });
            }
            let bytes = metadata.is_file().then_some(metadata.len());
            total_bytes = total_bytes.zip(bytes).map(|(total, bytes)| total + bytes);
        }
        let lines = Self::from_reader(open(first)?.0, first, total_bytes)?;
        Ok(Self { paths: paths.to_vec(), ..lines })
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
        let (input, packing) = unpack(Box::new(counted), path)?;
        Ok(Self {
            paths: vec![path.to_path_buf()],
            file: 0,
            input,
            packing,
            bytes_read,
            total_bytes,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            searched: 0,
            unpacked_bytes: 0,
            at_end: false,
            first: true,
        })
    }

    /// Goes on to the next file, if there is one.
    fn open_next(&mut self) -> Result<bool, Error> {
        let Some(path) = self.paths.get(self.file as usize + 1) else { return Ok(false) };
        let counted = Counted { input: open(path)?.0, bytes_read: Arc::clone(&self.bytes_read) };
        (self.input, self.packing) = unpack(Box::new(counted), path)?;
        self.file += 1;
        (self.start, self.end, self.searched) = (0, 0, 0);
        (self.at_end, self.first) = (false, true);
        Ok(true)
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
                let text = &self.buffer[..MAX_LINE];
                return Ok(Some(Line { text, is_whole: false, file: self.file }));
            }
            if self.at_end {
                if self.searched == 0 {
                    if self.open_next()? {
                        continue;
                    }
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

    /// The names of all files.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The name of this file.
    fn path(&self) -> &Path {
        self.paths.get(self.file as usize).map_or(Path::new(""), PathBuf::as_path)
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
        let text = &line[..line.len().min(MAX_LINE)];
        Line { text, is_whole: text.len() == line.len(), file: self.file }
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
        unpack::failed(self.path(), self.packing, self.unpacked_bytes, source)
    }
}

/// Opens a file that is no folder. A pipe can be opened only once, so the metadata is that of the
/// open file.
fn open(path: &Path) -> Result<(File, Metadata), Error> {
    let failed = |error| Error::reading(path, error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(Error::IsDirectory { path: path.to_path_buf() });
    }
    Ok((file, metadata))
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("paths", &self.paths)
            .field("packing", &self.packing)
            .field("bytes_read", &self.bytes_read())
            .field("total_bytes", &self.total_bytes)
            .finish_non_exhaustive()
    }
}

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

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
