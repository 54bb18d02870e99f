//! Several logs read as one, in order, each plain or gzip.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use flate2::bufread::MultiGzDecoder;
use tollgate_logs::Lines;

/// The first bytes of gzip data.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The unpacked bytes of several logs. A last line without a line end gets one.
pub(super) struct Joined {
    waiting: VecDeque<PathBuf>,
    open: Option<(PathBuf, Box<dyn Read + Send>)>,
    last: u8,
}

impl Joined {
    /// Joins these logs. It opens each first, so that a wrong path is reported before an hour of
    /// reading.
    pub(super) fn new(paths: &[PathBuf]) -> Result<Self> {
        for path in paths {
            if path.as_os_str() == "-" {
                bail!("standard input cannot be one of several logs: pipe all of them, or none");
            }
            Lines::open(path)?;
        }
        Ok(Self { waiting: paths.iter().cloned().collect(), open: None, last: b'\n' })
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let mut file = BufReader::new(File::open(path)?);
    Ok(if file.fill_buf()?.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    })
}

impl Read for Joined {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let Some((path, log)) = &mut self.open else {
                let Some(path) = self.waiting.pop_front() else { return Ok(0) };
                let log = open(&path).map_err(|error| about(&path, &error))?;
                self.open = Some((path, log));
                continue;
            };
            let count = log.read(buffer).map_err(|error| about(path, &error))?;
            if let Some(last) = buffer[..count].last() {
                self.last = *last;
                return Ok(count);
            }
            self.open = None;
            if self.last != b'\n' {
                self.last = b'\n';
                buffer[0] = b'\n';
                return Ok(1);
            }
        }
    }
}

/// The same error, with the path of the log.
fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn logs_are_joined_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["a", "b.gz", "empty", "c"].map(|name| dir.path().join(name));
        std::fs::write(&paths[0], "one\ntwo").unwrap();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"three\n").unwrap();
        std::fs::write(&paths[1], gzip.finish().unwrap()).unwrap();
        std::fs::write(&paths[2], "").unwrap();
        std::fs::write(&paths[3], "four").unwrap();
        let mut text = String::new();
        Joined::new(&paths).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\nthree\nfour\n");
    }

    #[test]
    fn errors_name_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["a", "cut.gz"].map(|name| dir.path().join(name));
        std::fs::write(&paths[0], "one\n").unwrap();
        assert!(Joined::new(&paths).err().unwrap().to_string().contains("cut.gz: no such file"));
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        for line in 0..100_000 {
            writeln!(gzip, "{line}").unwrap();
        }
        let whole = gzip.finish().unwrap();
        std::fs::write(&paths[1], &whole[..whole.len() / 2]).unwrap();
        let error = Joined::new(&paths).unwrap().read_to_string(&mut String::new()).unwrap_err();
        assert!(error.to_string().contains("cut.gz: "), "{error}");
        let stdin = [paths[0].clone(), PathBuf::from("-")];
        assert!(Joined::new(&stdin).err().unwrap().to_string().contains("standard input"));
    }
}
