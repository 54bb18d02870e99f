//! Envoy without a backend: alone, with its local rate limit, and asking the service.

use std::path::Path;

use anyhow::Result;
use tollgate_testbed::free_port;

use crate::service::{Door, Program, RowJson, Tollgate, Turns, Wrk};
use crate::show::note;

const PEER: &str = "TOLLGATE_PEER_ENVOY";

/// One request at a time, so that its time is the client's wait.
const CONNECTIONS: u32 = 1;

/// The filters before the route.
const ALONE: &str = "";
const OWN: &str = r#"
            - name: envoy.filters.http.local_ratelimit
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                stat_prefix: own
                token_bucket: { max_tokens: 4000000000, tokens_per_fill: 4000000000, fill_interval: 1s }
                filter_enabled: { default_value: { numerator: 100 } }
                filter_enforced: { default_value: { numerator: 100 } }"#;
const ASKED: &str = r#"
            - name: envoy.filters.http.ratelimit
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                domain: bench
                timeout: 1s
                failure_mode_deny: true
                rate_limit_service:
                  transport_api_version: V3
                  grpc_service: { envoy_grpc: { cluster_name: tollgate } }"#;

/// Where the routes lead.
const TO_PAGE: &str = "\
route: { cluster: page, rate_limits: [{ actions: [{ generic_key: { descriptor_key: user, \
descriptor_value: alice } }] }] }";
const PAGE: &str = "direct_response: { status: 200, body: { inline_string: ok } }";

/// The part of a cluster that speaks HTTP/2.
const HTTP2: &str = r#"
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }"#;

/// The rows of Envoy before a page; none where it is not named.
pub(super) fn before_a_page(
    tollgate: &Tollgate,
    turns: &Turns,
    seconds: u32,
    rules: &str,
    dir: &Path,
) -> Result<Vec<RowJson>> {
    let Some(program) = std::env::var_os(PEER) else {
        note(&format!("SKIPPED: {PEER} names no envoy"));
        return Ok(Vec::new());
    };
    let more = ["--envoy-config", rules, "--threads", "1"];
    let (_ours, address) = tollgate.serve_also(Door::Grpc, &more)?;
    let filters = [("alone", ALONE), ("local rate limit", OWN), ("tollgate", ASKED)];
    let mut ports = Vec::new();
    let mut listeners = String::new();
    for (_, filter) in filters {
        let port = free_port().port();
        listeners.push_str(&listener(port, filter, TO_PAGE));
        ports.push(port);
    }
    let page = free_port().port();
    listeners.push_str(&listener(page, ALONE, PAGE));
    let config = dir.join("envoy.yaml");
    let clusters = [("page", format!("127.0.0.1:{page}"), ""), ("tollgate", address, HTTP2)];
    let clusters = clusters.map(|(name, address, more)| cluster(name, &address, more)).concat();
    let text = format!("static_resources:\n  listeners:{listeners}\n  clusters:{clusters}\n");
    std::fs::write(&config, text)?;
    let config = config.display().to_string();
    let args = ["-c", &config, "--concurrency", "1", "--disable-hot-restart", "-l", "error"];
    let last = ports.last().copied().unwrap_or_default();
    let envoy = Program::start(program, &args, last)?;
    let wrk = Wrk::find(CONNECTIONS, seconds)?;
    let sides = filters.iter().zip(&ports).map(|((what, _), port)| {
        wrk.side(&format!("Envoy, {what}"), &format!("http://127.0.0.1:{port}/"), None)
    });
    let rows = turns.take(sides.collect(), None);
    drop(envoy);
    rows
}

fn listener(port: u16, filter: &str, route: &str) -> String {
    format!(
        r#"
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
      - filters:
        - name: envoy.filters.network.http_connection_manager
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
            stat_prefix: page
            route_config:
              virtual_hosts:
                - {{ name: page, domains: ["*"], routes: [{{ match: {{ prefix: / }}, {route} }}] }}
            http_filters:{filter}
            - name: envoy.filters.http.router
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"#
    )
}

fn cluster(name: &str, address: &str, more: &str) -> String {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    format!(
        "
  - name: {name}
    load_assignment:
      cluster_name: {name}
      endpoints:
        - lb_endpoints:
            - endpoint: {{ address: {{ socket_address: {{ address: {host}, port_value: {port} }} }} }}\
         {more}"
    )
}
