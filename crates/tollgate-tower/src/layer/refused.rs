//! The input of a function that customizes refusals.

use core::fmt;

use bytes::Bytes;
use http::{Extensions, HeaderMap, Method, Request, Response, Uri};
use tollgate::Decision;
use tollgate_policy::Outcome;

/// A request without its body.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RequestHead<'r> {
    /// The method.
    pub method: &'r Method,
    /// The path and the query; behind a nested router, the rest that the router leaves of them.
    pub uri: &'r Uri,
    /// The headers.
    pub headers: &'r HeaderMap,
    /// The values that outer layers attached.
    pub extensions: &'r Extensions,
}

impl<'r> RequestHead<'r> {
    pub(super) fn new<B>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

impl fmt::Debug for RequestHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestHead({} {})", self.method, self.uri.path())
    }
}

/// A request that was refused, for [`super::Builder::on_refused`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Refused<'r> {
    /// The request.
    pub request: RequestHead<'r>,
    /// The policy that refused; `None` if no policy did.
    pub policy: Option<&'r str>,
    /// The store's decision; `None` if the store was not called, or failed.
    pub decision: Option<&'r Decision<'r>>,
}

pub(super) type OnRefused =
    Box<dyn Fn(Outcome, &Refused<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync>;
