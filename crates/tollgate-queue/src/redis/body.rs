//! The words of a job, as scripts take and give them.

use std::str;

use super::{Form, Word, garbled};
use crate::body::Body;
use crate::error::Error;
use crate::job::{Held, JobId, TakenJob};

/// The field that has bytes, and the one of a job that has nothing.
const BYTES: &str = "@bytes";
const NOTHING: &str = "@";

/// Says a job: name and value of each field, one after the other; in a list, all within one word
/// that no script looks into, each with its length before and a comma behind it. How many words
/// they are.
pub(super) fn say(form: Form, body: &Body, words: &mut Vec<Vec<u8>>) -> usize {
    let before = words.len();
    let mut within = Vec::new();
    let mut word = |word: &[u8]| match form {
        Form::Stream => words.push(word.to_vec()),
        Form::List => {
            within.extend(word.len().to_string().into_bytes());
            within.push(b':');
            within.extend(word);
            within.push(b',');
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
    if form == Form::List {
        words.push(within);
    }
    words.len() - before
}

/// What [`say`] said of a job in a stream.
fn of_words(words: &[&[u8]]) -> Option<Body> {
    if let [name, bytes] = *words
        && name == BYTES.as_bytes()
    {
        return Some(Body::Bytes(bytes.into()));
    }
    if words.is_empty() {
        return None;
    }
    let text = |word: &[u8]| String::from_utf8(word.to_vec()).ok();
    let mut fields = Vec::with_capacity(words.len() / 2);
    for pair in words.chunks(2) {
        let [name, value] = *pair else { return None };
        if name != NOTHING.as_bytes() {
            fields.push((text(name)?, text(value)?));
        }
    }
    Some(Body::Fields(fields.into()))
}

/// The same of one in a list.
fn of_word(mut within: &[u8]) -> Option<Body> {
    let mut words = Vec::new();
    while !within.is_empty() {
        let colon = within.iter().position(|byte| *byte == b':')?;
        let (length, rest) = within.split_at_checked(colon)?;
        let length = str::from_utf8(length).ok()?.parse().ok()?;
        let (word, rest) = rest.get(1..)?.split_at_checked(length)?;
        words.push(word);
        within = rest.strip_prefix(b",")?;
    }
    of_words(&words)
}

/// The fields of a dead job, or of one that was done; of what is no job, what lies there.
pub(super) fn body(word: &Word) -> Result<Body, Error> {
    let body = match word {
        Word::Bytes(within) => of_word(within).or_else(|| Some(raw(&[within]))),
        Word::List(words) => {
            let bytes = |word: &'_ Word| match word {
                Word::Bytes(bytes) => Some(bytes.clone()),
                _ => None,
            };
            let words: Option<Vec<_>> = words.iter().map(bytes).collect();
            let words = words.ok_or_else(garbled)?;
            let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
            of_words(&words).or_else(|| Some(raw(&words)))
        }
        _ => None,
    };
    body.ok_or_else(garbled)
}

/// What lies where a job should, as bytes: its words, a blank between them.
fn raw(words: &[&[u8]]) -> Body {
    Body::Bytes(words.join(&b' ').into())
}

/// One of those that a take was answered with: a job, or what something else has put there.
pub(super) type Found = Result<TakenJob, (Held, String)>;

/// What a take was answered with.
pub(super) fn taken(packed: &[u8]) -> Result<Vec<Found>, Error> {
    Packed(packed).jobs().ok_or_else(garbled)
}

/// What is left to be read of MessagePack: as much of that as the jobs of a take have.
struct Packed<'a>(&'a [u8]);

impl<'a> Packed<'a> {
    fn jobs(&mut self) -> Option<Vec<Found>> {
        let jobs = self.list()?;
        // No more than there can be, whatever is said.
        let mut all = Vec::with_capacity(jobs.min(self.0.len()));
        for _ in 0..jobs {
            let words = self.list()?;
            let id: JobId = str::from_utf8(self.word()?).ok()?.parse().ok()?;
            let body = match self.0.first()? {
                0x90..=0x9f | 0xdc | 0xdd => {
                    let words = self.list()?;
                    let words = (0..words).map(|_| self.word()).collect::<Option<Vec<_>>>()?;
                    of_words(&words)
                }
                _ => of_word(self.word()?),
            };
            let delivery = match words {
                2 => 1,
                3 => self.number()?,
                _ => return None,
            };
            let read = body.ok_or_else(|| "it is not written as jobs are".to_owned());
            let read = read.and_then(|body| {
                body.check().map_err(|error| error.to_string())?;
                Ok(TakenJob { id, delivery, body })
            });
            all.push(read.map_err(|why| (Held { id, delivery }, why)));
        }
        self.0.is_empty().then_some(all)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A number of so many bytes, the highest first.
    fn whole(&mut self, bytes: usize) -> Option<u32> {
        let bytes = self.bytes(bytes)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    fn number(&mut self) -> Option<u32> {
        match self.whole(1)? {
            number @ 0..=0x7f => Some(number),
            0xcc => self.whole(1),
            0xcd => self.whole(2),
            0xce => self.whole(4),
            _ => None,
        }
    }

    /// How many there are in a list.
    fn list(&mut self) -> Option<usize> {
        let length = match self.whole(1)? {
            kind @ 0x90..=0x9f => kind - 0x90,
            0xdc => self.whole(2)?,
            0xdd => self.whole(4)?,
            _ => return None,
        };
        usize::try_from(length).ok()
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        let length = match self.whole(1)? {
            kind @ 0xa0..=0xbf => kind - 0xa0,
            0xd9 => self.whole(1)?,
            0xda => self.whole(2)?,
            0xdb => self.whole(4)?,
            _ => return None,
        };
        self.bytes(usize::try_from(length).ok()?)
    }
}
