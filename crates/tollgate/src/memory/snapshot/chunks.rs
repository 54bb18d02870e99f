//! The framing of a snapshot: a header, then chunks, each with a checksum of everything before.
//!
//! Bytes are interpreted only after the checksum of their chunk has been verified. An error found
//! after that was in the data when it was written.

use std::io::{self, Read, Write};

use super::crc::Crc;
use super::error::{SnapshotError, SnapshotFault};

/// The first bytes, modelled on PNG: no text begins like this. They detect a copy that changed line
/// ends, stopped at the end-of-file mark of DOS, or dropped the eighth bit.
const MAGIC: [u8; 8] = *b"\x89TGS\r\n\x1a\n";

/// The version of the format that this build writes. It reads the versions before it too.
const VERSION: u32 = 2;

/// The most bytes in a chunk. It bounds the memory used to read a snapshot, whatever the snapshot
/// claims.
pub(super) const CHUNK_BYTES: usize = 1 << 16;

/// The bytes of the length in front of each chunk.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Writes a snapshot.
#[derive(Debug)]
pub(in crate::memory) struct ChunkWriter<W> {
    to: W,
    /// The current chunk: room for its length, and its bytes so far.
    chunk: Vec<u8>,
    crc: Crc,
    written: u64,
}

impl<W: Write> ChunkWriter<W> {
    /// Starts a snapshot with its header.
    pub(super) fn begin(to: W) -> Result<Self, SnapshotError> {
        let mut chunk = Vec::with_capacity(LENGTH_BYTES + CHUNK_BYTES + size_of::<u64>());
        chunk.extend_from_slice(&[0; LENGTH_BYTES]);
        let mut writer = Self { to, chunk, crc: Crc::new(), written: 0 };
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        writer.crc.add(&head);
        let done = writer.to.write_all(&head);
        writer.done(done, head.len())?;
        Ok(writer)
    }

    pub(in crate::memory) fn put(&mut self, mut bytes: &[u8]) -> Result<(), SnapshotError> {
        loop {
            let room = LENGTH_BYTES + CHUNK_BYTES - self.chunk.len();
            if bytes.len() <= room {
                self.chunk.extend_from_slice(bytes);
                return Ok(());
            }
            let (fits, rest) = bytes.split_at(room);
            self.chunk.extend_from_slice(fits);
            self.close_chunk()?;
            bytes = rest;
        }
    }

    /// Ends the snapshot with an empty chunk. Returns the total number of bytes.
    pub(super) fn end(mut self) -> Result<u64, SnapshotError> {
        if self.chunk.len() > LENGTH_BYTES {
            self.close_chunk()?;
        }
        self.close_chunk()?;
        let done = self.to.flush();
        self.done(done, 0)?;
        Ok(self.written)
    }

    fn close_chunk(&mut self) -> Result<(), SnapshotError> {
        // Cannot overflow: at most CHUNK_BYTES.
        let length = u32::try_from(self.chunk.len() - LENGTH_BYTES).unwrap_or(u32::MAX);
        self.chunk[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        self.crc.add(&self.chunk);
        // The checksum is not part of the next checksum: the CRC of any data followed by its own
        // CRC is a constant, so the next chunk would no longer depend on what came before.
        self.chunk.extend_from_slice(&self.crc.value().to_le_bytes());
        let done = self.to.write_all(&self.chunk);
        self.done(done, self.chunk.len())?;
        self.chunk.truncate(LENGTH_BYTES);
        Ok(())
    }

    fn done(&mut self, done: io::Result<()>, bytes: usize) -> Result<(), SnapshotError> {
        done.map_err(|error| SnapshotError::io(self.written, "written", error))?;
        self.written += bytes as u64;
        Ok(())
    }
}

/// Reads a snapshot.
#[derive(Debug)]
pub(in crate::memory) struct ChunkReader<R> {
    from: R,
    chunk: Vec<u8>,
    /// The position of the next byte in the chunk.
    next: usize,
    /// The position of the chunk in the snapshot.
    start: u64,
    /// The number of bytes read.
    read: u64,
    crc: Crc,
}

impl<R: Read> ChunkReader<R> {
    pub(super) fn begin(from: R) -> Result<Self, SnapshotError> {
        let mut reader =
            Self { from, chunk: Vec::new(), next: 0, start: 0, read: 0, crc: Crc::new() };
        let mut magic = [0; MAGIC.len()];
        let got = reader.read_some(&mut magic)?;
        if magic[..got] != MAGIC[..got] {
            let remedy = "give the file that `MemoryStore::save` wrote, byte for byte, or start \
                          with an empty store";
            let what = "this is not a snapshot of a memory store";
            return Err(SnapshotError::new(SnapshotFault::Foreign, 0, what, remedy));
        }
        let version_at = MAGIC.len() as u64;
        let mut version = [0; size_of::<u32>()];
        if got < magic.len() || reader.read_some(&mut version)? < version.len() {
            return Err(reader.truncated());
        }
        let said = u32::from_le_bytes(version);
        if !(1..=VERSION).contains(&said) {
            let what =
                format!("the snapshot has version {said}, and this build reads 1 to {VERSION}");
            let remedy = "read it with the version of Tollgate that wrote it";
            return Err(SnapshotError::new(SnapshotFault::Version, version_at, what, remedy));
        }
        reader.crc.add(&magic);
        reader.crc.add(&version);
        reader.start = reader.read;
        Ok(reader)
    }

    /// The position of the next byte in the snapshot.
    pub(in crate::memory) fn at(&self) -> u64 {
        self.start + self.next as u64
    }

    pub(in crate::memory) fn fill(&mut self, mut out: &mut [u8]) -> Result<(), SnapshotError> {
        loop {
            let rest = &self.chunk[self.next..];
            let fits = rest.len().min(out.len());
            let (now, later) = out.split_at_mut(fits);
            now.copy_from_slice(&rest[..fits]);
            self.next += fits;
            if later.is_empty() {
                return Ok(());
            }
            out = later;
            if !self.open_chunk()? {
                return Err(SnapshotError::damaged(self.at(), "the last chunk ends too early"));
            }
        }
    }

    pub(in crate::memory) fn byte(&mut self) -> Result<u8, SnapshotError> {
        let mut byte = [0];
        self.fill(&mut byte)?;
        Ok(byte[0])
    }

    pub(in crate::memory) fn u32(&mut self) -> Result<u32, SnapshotError> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub(in crate::memory) fn u64(&mut self) -> Result<u64, SnapshotError> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Verifies that the last chunk, the list of chunks and the input end here. Returns the total
    /// number of bytes.
    pub(super) fn end(mut self) -> Result<u64, SnapshotError> {
        if self.next < self.chunk.len() || self.open_chunk()? {
            return Err(SnapshotError::damaged(self.at(), "something follows the last part"));
        }
        let at = self.read;
        if self.read_some(&mut [0])? > 0 {
            return Err(SnapshotError::damaged(at, "something follows the end"));
        }
        Ok(at)
    }

    /// Reads the next chunk and verifies its checksum. False for the empty chunk, the last one.
    fn open_chunk(&mut self) -> Result<bool, SnapshotError> {
        let length_at = self.read;
        let mut length = [0; LENGTH_BYTES];
        self.read_all(&mut length)?;
        let said = u32::from_le_bytes(length);
        let bytes = usize::try_from(said).unwrap_or(usize::MAX);
        if bytes > CHUNK_BYTES {
            let what = format!("a chunk of {said} bytes, where {CHUNK_BYTES} are the most");
            return Err(SnapshotError::damaged(length_at, what));
        }
        self.start = self.read;
        self.next = 0;
        let mut chunk = core::mem::take(&mut self.chunk);
        chunk.resize(bytes, 0);
        self.read_all(&mut chunk)?;
        let crc_at = self.read;
        let mut crc = [0; size_of::<u64>()];
        self.read_all(&mut crc)?;
        self.crc.add(&length);
        self.crc.add(&chunk);
        if self.crc.value() != u64::from_le_bytes(crc) {
            let what = format!(
                "the checksum at byte {crc_at} does not fit what stands before it; the chunk \
                 begins"
            );
            return Err(SnapshotError::damaged(length_at, what));
        }
        self.chunk = chunk;
        Ok(bytes > 0)
    }

    fn read_all(&mut self, out: &mut [u8]) -> Result<(), SnapshotError> {
        if self.read_some(out)? == out.len() { Ok(()) } else { Err(self.truncated()) }
    }

    /// Reads until `out` is full or the input ends.
    fn read_some(&mut self, out: &mut [u8]) -> Result<usize, SnapshotError> {
        let mut got = 0;
        while got < out.len() {
            match self.from.read(&mut out[got..]) {
                Ok(0) => break,
                // Guards against a reader that reports more bytes than the buffer holds.
                Ok(more) => got = (got + more).min(out.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(SnapshotError::io(self.read + got as u64, "read", error));
                }
            }
        }
        self.read += got as u64;
        Ok(got)
    }

    fn truncated(&self) -> SnapshotError {
        SnapshotError::new(
            SnapshotFault::Truncated,
            self.read,
            "the snapshot stops before its end",
            "it was not written or not copied as a whole: read another copy, or start with an \
             empty store",
        )
    }
}
