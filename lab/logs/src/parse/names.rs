//! The names under which logs have the same field, best first: those of JSON lines and of columns.
//! `a.b` is `b` inside `a`. The page `docs/logs.md` lists them.

/// The fields of common and combined logs other than ip, path and user.
pub(super) const CLF_FIELDS: [&str; 8] =
    ["method", "status", "bytes", "referer", "agent", "host", "vhost", "x_forwarded_for"];

/// The client's address.
pub const CLIENT: [&str; 31] = [
    "remote_addr", // nginx
    "client_ip",
    "ip",
    "client",
    "remote_ip",
    "clientip",
    "clientIp",
    "client_addr",
    "remote_host",
    "request.client_ip",                // Caddy
    "request.remote_ip",                // Caddy
    "client.ip",                        // Elastic Common Schema
    "source.ip",                        // Elastic Common Schema
    "client.address",                   // OpenTelemetry
    "ClientHost",                       // Traefik
    "ClientIP",                         // Cloudflare
    "httpRequest.remoteIp",             // Google Cloud
    "jsonPayload.remoteIp",             // Google Cloud
    "requestContext.identity.sourceIp", // AWS API Gateway
    "identity.sourceIp",                // AWS API Gateway
    "requestContext.http.sourceIp",     // AWS API Gateway
    "sourceIp",                         // AWS API Gateway
    "source_ip",
    "sourceIPAddress",                        // AWS CloudTrail
    "httpRequest.clientIp",                   // AWS WAF
    "downstream_remote_address_without_port", // Envoy
    "downstream_remote_address",              // Envoy
    "c-ip",                                   // W3C: IIS, CloudFront
    "remote_address",
    "req.remoteAddress", // pino
    "id.orig_h",         // Zeek
];

/// The addresses that proxies saw, the nearest proxy's last.
pub const FORWARDED: [&str; 10] = [
    "x_forwarded_for", // Envoy
    "http_x_forwarded_for",
    "X-Forwarded-For",
    "x-forwarded-for",
    "xff",
    "forwarded_for",
    "headers.x-forwarded-for",
    "headers.X-Forwarded-For",
    "request.headers.X-Forwarded-For", // Caddy
    "req.headers.x-forwarded-for",     // pino
];

/// The time.
pub const TIME: [&str; 19] = [
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "time_local",
    "time_iso8601",
    "msec", // nginx
    "datetime",
    "StartUTC",           // Traefik
    "start_time",         // Envoy
    "EdgeStartTimestamp", // Cloudflare
    "requestTimeEpoch",   // AWS API Gateway
    "requestTime",        // AWS API Gateway
    "request_timestamp",
    "eventTime",
    "event_time",
    "date",
    "@t", // Serilog
    "t",
];

/// The target of the request. From the first line of a request (`GET /a HTTP/1.1`) it is taken.
pub const PATH: [&str; 23] = [
    "path",
    "uri",
    "request_uri",
    "request_path",
    "url.path",
    "request.uri",              // Caddy
    "RequestPath",              // Traefik
    "ClientRequestURI",         // Cloudflare
    "ClientRequestPath",        // Cloudflare
    "httpRequest.requestUrl",   // Google Cloud
    "httpRequest.uri",          // AWS WAF
    "requestContext.path",      // AWS API Gateway
    "requestContext.http.path", // AWS API Gateway
    "resourcePath",             // AWS API Gateway
    "x-envoy-original-path",
    "req.url", // pino
    "cs-uri-stem",
    "url.original",
    "http.target",
    "request_url",
    "url",
    "target",
    "request",
];

/// The authenticated user.
pub const USER: [&str; 7] = [
    "user",
    "remote_user",
    "user.name",
    "user_id",
    "ClientUsername", // Traefik
    "cs-username",
    "request.user_id", // Caddy
];

/// The method. From the first line of a request it is taken.
pub const METHOD: [&str; 14] = [
    "method",
    "request_method",
    "request.method",
    "http.request.method",
    "RequestMethod",             // Traefik
    "ClientRequestMethod",       // Cloudflare
    "httpRequest.requestMethod", // Google Cloud
    "httpRequest.httpMethod",    // AWS WAF
    "httpMethod",                // AWS API Gateway
    "req.method",                // pino
    "cs-method",
    "verb",
    "http.method",
    "request",
];

/// The virtual host.
pub const HOST: [&str; 9] = [
    "host",
    "http_host",
    "server_name",
    "vhost",
    "request.host",      // Caddy
    "RequestHost",       // Traefik
    "ClientRequestHost", // Cloudflare
    "authority",         // Envoy
    "cs(Host)",
];

/// The status of the answer.
pub const STATUS: [&str; 16] = [
    "status",
    "status_code",
    "statusCode",
    "response.status",
    "response_code", // Envoy
    "http.response.status_code",
    "DownstreamStatus",      // Traefik
    "EdgeResponseStatus",    // Cloudflare
    "httpRequest.status",    // Google Cloud
    "requestContext.status", // AWS API Gateway
    "elb_status_code",       // AWS load balancers
    "http_status",           // S3
    "res.statusCode",        // pino
    "http.status_code",
    "sc-status",
    "code",
];

/// The program of the client: `User-Agent`.
pub const AGENT: [&str; 15] = [
    "agent",
    "http_user_agent",
    "user_agent",
    "userAgent",
    "user_agent.original",
    "request.headers.User-Agent",        // Caddy
    "request_User-Agent",                // Traefik
    "ClientRequestUserAgent",            // Cloudflare
    "httpRequest.userAgent",             // Google Cloud
    "requestContext.identity.userAgent", // AWS API Gateway
    "req.headers.user-agent",            // pino
    "headers.user-agent",
    "headers.User-Agent",
    "cs(User-Agent)",
    "User-Agent",
];

/// The page that the request came from.
pub const REFERER: [&str; 9] = [
    "referer",
    "http_referer",
    "referrer",
    "request.headers.Referer",
    "ClientRequestReferer",
    "httpRequest.referer",
    "headers.referer",
    "cs(Referer)",
    "http.request.referrer",
];

/// The size of the answer.
pub const BYTES: [&str; 14] = [
    "bytes",
    "body_bytes_sent",
    "bytes_sent",
    "size",
    "response_size",
    "sent_bytes",
    "EdgeResponseBytes",
    "DownstreamContentSize",
    "httpRequest.responseSize",
    "http.response.bytes",
    "responseLength",
    "sc-bytes",
    "response_bytes",
    "response_body_len", // Zeek
];

/// A line of a log inside of another one: Docker, journald, shippers.
pub const MESSAGE: [&str; 6] = ["log", "MESSAGE", "message", "msg", "textPayload", "line"];
