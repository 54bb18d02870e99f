//! gRPC in a build without it: asking for it is an error that says what to do.

use core::convert::Infallible;
use core::time::Duration;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use tollgate_tower::answer::Profile;

use crate::auth_options::AuthOptions;
use crate::envoy::{EnvoyOptions, EnvoyRules};
use crate::listen::{Bounds, Budget, Connection, Protocol, Transport};
use crate::metrics::Metrics;
use crate::service::Service;
use crate::start_error::StartError;
use crate::tls::HTTP2;

fn absent() -> StartError {
    let why = "this program was built without gRPC: leave out --grpc, --envoy-config and \
               --envoy-xds, or have it built with the feature `grpc` of the crate `tollgate-service`";
    StartError::Options(why.to_owned())
}

/// Envoy's rate limit service, which answers nothing.
#[derive(Debug)]
pub(crate) struct Rls;

impl Rls {
    pub(crate) fn new(
        options: &EnvoyOptions,
        _: Option<Profile>,
        _: &AuthOptions,
        _: Option<&PathBuf>,
        _: &Metrics,
    ) -> Result<Self, StartError> {
        if options.rules == EnvoyRules::None { Ok(Self) } else { Err(absent()) }
    }

    pub(crate) fn domain(&self) -> Option<String> {
        None
    }

    pub(crate) async fn follow(self: Arc<Self>) {}

    pub(crate) async fn reread(self: Arc<Self>) {}

    pub(crate) fn awaited(&self) -> Option<&str> {
        None
    }

    pub(crate) async fn json(
        &self,
        _: &Service,
        _: &[u8],
        _: IpAddr,
    ) -> Option<(StatusCode, Bytes)> {
        None
    }
}

/// The gate that the protocol would ask.
pub(crate) struct Front;

impl Front {
    pub(crate) fn new(_: Arc<Service>, _: Arc<Rls>, _: Metrics) -> Self {
        Self
    }
}

/// The protocol, which is never spoken.
#[derive(Clone, Debug)]
pub(crate) struct Grpc(Infallible);

impl Grpc {
    pub(crate) async fn new(
        _: Front,
        _: &Arc<Budget>,
        _: Bounds,
        _: Duration,
        _: Duration,
    ) -> Result<Self, StartError> {
        Err(absent())
    }

    pub(crate) async fn closes(&self) {
        match self.0 {}
    }

    pub(crate) async fn opens(self) {
        match self.0 {}
    }
}

impl Protocol for Grpc {
    const ALPN: &'static [u8] = HTTP2;

    async fn serve<T>(self, _: Connection<T>)
    where
        T: Transport,
    {
        match self.0 {}
    }
}
