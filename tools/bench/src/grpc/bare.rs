//! The least that a service of tonic can do: it reads each request, and says OK.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use tollgate_envoy::proto::service::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use tollgate_envoy::proto::service::{RateLimitRequest, RateLimitResponse, rate_limit_response};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

struct Bare;

#[tonic::async_trait]
impl RateLimitService for Bare {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let code = rate_limit_response::Code::Ok.into();
        let status = rate_limit_response::DescriptorStatus { code, ..Default::default() };
        Ok(Response::new(RateLimitResponse {
            overall_code: code,
            statuses: vec![status; request.get_ref().descriptors.len()],
            ..RateLimitResponse::default()
        }))
    }
}

/// Serves until the process is killed.
pub(crate) fn serve(port: u16, threads: u16) -> Result<u8> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(usize::from(threads)).enable_all().build()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let serves = Server::builder().add_service(RateLimitServiceServer::new(Bare)).serve(address);
    runtime.block_on(serves)?;
    Ok(0)
}
