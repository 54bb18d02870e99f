//! The encoding of a job in the arguments and replies of scripts.

use std::str;

use tollgate_redis::ScriptReply;

use super::layout::Layout;
use super::value::unexpected_reply;
use crate::body::Body;
use crate::error::Error;
use crate::job::{Delivery, DeliveryTag, JobId};

/// The name of the field that contains bytes, and of the only field of an empty job.
const BYTES: &str = "@bytes";
const NOTHING: &str = "@";

/// Encodes a job as arguments: the name and the value of each field in turn. For a list all are
/// packed into one argument that no script parses, each with its length before it and a comma after
/// it. Returns the number of arguments.
pub(super) fn encode(layout: Layout, body: &Body, args: &mut Vec<Vec<u8>>) -> usize {
    let before = args.len();
    let mut list = Vec::new();
    let mut word = |word: &[u8]| match layout {
        Layout::Stream => args.push(word.to_vec()),
        Layout::List => {
            list.extend(word.len().to_string().into_bytes());
            list.push(b':');
            list.extend(word);
            list.push(b',');
        }
    };
    let mut field = |name: &str, value: &[u8]| {
        word(name.as_bytes());
        word(value);
    };
    match body {
        Body::Bytes(bytes) => field(BYTES, bytes),
        Body::Fields(fields) if fields.is_empty() => field(NOTHING, b""),
        Body::Fields(fields) => {
            for (name, value) in fields.iter() {
                field(name, value.as_bytes());
            }
        }
    }
    if layout == Layout::List {
        args.push(list);
    }
    args.len() - before
}

/// Decodes a job in a stream, as encoded by [`encode`].
fn parse_args(args: &[&[u8]]) -> Option<Body> {
    if let [name, bytes] = *args
        && name == BYTES.as_bytes()
    {
        return Some(Body::Bytes(bytes.into()));
    }
    if args.is_empty() {
        return None;
    }
    let text = |word: &[u8]| String::from_utf8(word.to_vec()).ok();
    let mut fields = Vec::with_capacity(args.len() / 2);
    for pair in args.chunks(2) {
        let [name, value] = *pair else { return None };
        if name != NOTHING.as_bytes() {
            fields.push((text(name)?, text(value)?));
        }
    }
    Some(Body::Fields(fields.into()))
}

/// The same for a job in a list.
fn parse_packed(mut list: &[u8]) -> Option<Body> {
    let mut args = Vec::new();
    while !list.is_empty() {
        let colon = list.iter().position(|byte| *byte == b':')?;
        let (length, rest) = list.split_at_checked(colon)?;
        let length = str::from_utf8(length).ok()?.parse().ok()?;
        let (word, rest) = rest.get(1..)?.split_at_checked(length)?;
        args.push(word);
        list = rest.strip_prefix(b",")?;
    }
    parse_args(&args)
}

/// The fields of a dead or a done job; the raw content if the entry is not a job.
pub(super) fn body(word: &ScriptReply) -> Result<Body, Error> {
    let body = match word {
        ScriptReply::Bytes(list) => parse_packed(list).or_else(|| Some(raw(&[list]))),
        ScriptReply::List(args) => {
            let bytes = |word: &'_ ScriptReply| match word {
                ScriptReply::Bytes(bytes) => Some(bytes.clone()),
                _ => None,
            };
            let args: Option<Vec<_>> = args.iter().map(bytes).collect();
            let args = args.ok_or_else(unexpected_reply)?;
            let args: Vec<_> = args.iter().map(Vec::as_slice).collect();
            parse_args(&args).or_else(|| Some(raw(&args)))
        }
        _ => None,
    };
    body.ok_or_else(unexpected_reply)
}

/// The raw content of an invalid entry: its words, separated by blanks.
fn raw(args: &[&[u8]]) -> Body {
    Body::Bytes(args.join(&b' ').into())
}

/// An entry in the reply of a take: a job, or an invalid entry of another program.
pub(super) type Entry = Result<Delivery, (DeliveryTag, String)>;

/// Parses the reply of a take.
pub(super) fn taken(packed: &[u8]) -> Result<Vec<Entry>, Error> {
    MessagePackReader(packed).jobs().ok_or_else(unexpected_reply)
}

/// The unread part of a MessagePack text, with the types that occur in the jobs of a take.
struct MessagePackReader<'a>(&'a [u8]);

impl<'a> MessagePackReader<'a> {
    fn jobs(&mut self) -> Option<Vec<Entry>> {
        let jobs = self.list()?;
        // Reserve no more than can be there, whatever the header claims.
        let mut all = Vec::with_capacity(jobs.min(self.0.len()));
        for _ in 0..jobs {
            let args = self.list()?;
            let id: JobId = str::from_utf8(self.word()?).ok()?.parse().ok()?;
            let body = match self.0.first()? {
                0x90..=0x9f | 0xdc | 0xdd => {
                    let args = self.list()?;
                    let args = (0..args).map(|_| self.word()).collect::<Option<Vec<_>>>()?;
                    parse_args(&args)
                }
                _ => parse_packed(self.word()?),
            };
            let attempt = match args {
                2 => 1,
                3 => self.number()?,
                _ => return None,
            };
            let read = body.ok_or_else(|| "it is not written as jobs are".to_owned());
            let read = read.and_then(|body| {
                body.check().map_err(|error| error.to_string())?;
                Ok(Delivery { id, attempt, body })
            });
            all.push(read.map_err(|reason| (DeliveryTag { id, attempt }, reason)));
        }
        self.0.is_empty().then_some(all)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A big-endian number of this many bytes.
    fn unsigned(&mut self, bytes: usize) -> Option<u32> {
        let bytes = self.bytes(bytes)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    fn number(&mut self) -> Option<u32> {
        match self.unsigned(1)? {
            number @ 0..=0x7f => Some(number),
            0xcc => self.unsigned(1),
            0xcd => self.unsigned(2),
            0xce => self.unsigned(4),
            _ => None,
        }
    }

    /// The number of elements in a list.
    fn list(&mut self) -> Option<usize> {
        let length = match self.unsigned(1)? {
            kind @ 0x90..=0x9f => kind - 0x90,
            0xdc => self.unsigned(2)?,
            0xdd => self.unsigned(4)?,
            _ => return None,
        };
        usize::try_from(length).ok()
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        let length = match self.unsigned(1)? {
            kind @ 0xa0..=0xbf => kind - 0xa0,
            0xd9 => self.unsigned(1)?,
            0xda => self.unsigned(2)?,
            0xdb => self.unsigned(4)?,
            _ => return None,
        };
        self.bytes(usize::try_from(length).ok()?)
    }
}
