//! `health`: whether a running service is ready, for probes that run a command.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use tollgate_service::Operation;

use crate::args::Health;
use crate::client::{Service, Wanted};
use crate::input::wait;
use crate::show::Output;

/// The address that is asked.
const LISTENING: Wanted = Wanted { line: "listening", example: "127.0.0.1:8700" };

/// The result as JSON.
#[derive(Debug, Serialize)]
struct HealthJson<'a> {
    healthy: bool,
    address: &'a str,
    path: &'a str,
    /// Absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    answer: String,
}

pub(crate) fn health(args: &Health, out: &mut Output) -> Result<u8> {
    let service = Service::parse(&args.address, LISTENING)?;
    let path = match (args.ready, args.store) {
        (_, true) => &format!("{}?store=1", Operation::Readyz.path()),
        (true, false) => Operation::Readyz.path(),
        (false, false) => Operation::Healthz.path(),
    };
    let request = Request::get(path)
        .header("host", "localhost")
        .body(Full::<Bytes>::default())
        .context("cannot build the request")?;
    let (status, answer) = match service.ask(request, wait(&args.timeout)?) {
        Ok(answer) => {
            let text = String::from_utf8_lossy(answer.body()).trim().to_owned();
            (Some(answer.status()), text)
        }
        Err(error) => (None, format!("{error:#}")),
    };
    let found = HealthJson {
        healthy: status == Some(StatusCode::OK),
        address: &args.address,
        path,
        status: status.map(|status| status.as_u16()),
        answer,
    };
    if args.json {
        out.json(&found)?;
    } else {
        let status = found.status.map(|status| format!("{status}: ")).unwrap_or_default();
        out.line(format!("{}{path}: {status}{}", found.address, found.answer))?;
    }
    Ok(u8::from(!found.healthy))
}
