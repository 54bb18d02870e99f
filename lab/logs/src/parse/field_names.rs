//! The names of fields in logs.

/// The fields other than ip, path and user.
pub(super) const CLF_FIELDS: [&str; 7] =
    ["method", "status", "bytes", "referer", "agent", "host", "vhost"];

/// The fields in which loggers store the client, best first. `a.b` is `b` inside `a`.
pub(super) const JSON_CLIENT: [&str; 14] = [
    "remote_addr",
    "client_ip",
    "ip",
    "client",
    "remote_ip",
    "clientip",
    "clientIp",
    "remote_host",
    "request.client_ip", // Caddy
    "request.remote_ip", // Caddy
    "client.ip",         // Elastic Common Schema
    "source.ip",         // Elastic Common Schema
    "ClientHost",        // Traefik
    "host",
];

/// The fields in which loggers store the time, best first.
pub(super) const JSON_TIME: [&str; 11] = [
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "time_local",
    "time_iso8601",
    "msec", // nginx
    "datetime",
    "StartUTC", // Traefik
    "date",
    "t",
];

/// The fields in which loggers store the request target, best first. From the first line of a
/// request (`GET /a HTTP/1.1`) the target is taken.
pub(super) const JSON_PATH: [&str; 10] = [
    "path",
    "uri",
    "request_uri",
    "request_path",
    "url.path",
    "request.uri",
    "RequestPath",
    "url",
    "target",
    "request",
];

/// The fields in which loggers store the authenticated user, best first.
pub(super) const JSON_USER: [&str; 3] = ["user", "remote_user", "user.name"];

/// The fields in which loggers store the method, best first.
pub(super) const JSON_METHOD: [&str; 5] =
    ["method", "request_method", "request.method", "http.request.method", "RequestMethod"];

/// The fields in which loggers store the virtual host, best first.
pub(super) const JSON_HOST: [&str; 5] =
    ["host", "http_host", "server_name", "vhost", "request.host"];
