//! The response that an answer stands for, as a middleware in another language writes it.

use super::answer::Answer;
use super::value::{Fields, ToValue as _, Value, objects, written};

objects! {
    /// A response of HTTP.
    pub struct Response {
        /// The status; 200 where the request is admitted.
        status: u64,
        /// The headers, in the order in which they are written.
        headers: Vec<Header>,
        /// The body of a refusal; empty where the request is admitted.
        body: String,
    }

    /// A header of a response.
    pub struct Header {
        /// The name, in lower case.
        name: String,
        /// The value.
        value: String,
    }
}

impl Response {
    /// A response with these headers, each a name and a value.
    #[must_use]
    pub fn new(status: u16, headers: impl Iterator<Item = (String, String)>, body: String) -> Self {
        let headers = headers.map(|(name, value)| Header { name, value }).collect();
        Self { status: status.into(), headers, body }
    }
}

/// An answer, with the response that it stands for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Responded<'a> {
    /// The answer, whose fields come first.
    pub answer: Answer<'a>,
    /// The response.
    pub response: Response,
}

impl<'a> Responded<'a> {
    /// Both together.
    #[must_use]
    pub fn new(answer: Answer<'a>, response: Response) -> Self {
        Self { answer, response }
    }
}

impl Fields for Responded<'_> {
    fn count(&self) -> usize {
        self.answer.count() + 1
    }

    fn each<'s>(&'s self, to: &mut dyn FnMut(&'static str, Value<'s>)) {
        self.answer.each(to);
        to("response", self.response.to_value());
    }
}

written!(Responded<'a>);
