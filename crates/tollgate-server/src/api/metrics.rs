//! `/metrics`: numbers for Prometheus.

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tollgate_policy::Gate;

use super::problem::Problem;
use crate::store::AnyStore;

/// The numbers of a service.
#[derive(Debug, Default)]
pub(crate) struct Metrics {}

impl Metrics {
    pub(crate) fn respond(&self, _gate: &Gate<AnyStore>) -> Result<Response<Full<Bytes>>, Problem> {
        Ok(Response::new(Full::new(Bytes::new())))
    }
}
