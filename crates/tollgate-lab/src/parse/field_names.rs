//! The names of fields in logs.

/// The fields other than ip, path and user.
pub(super) const CLF_FIELDS: [&str; 6] = ["method", "status", "referer", "agent", "host", "vhost"];

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
