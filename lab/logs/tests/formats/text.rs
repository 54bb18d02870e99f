//! The bundled log as other programs write it.

use serde_json::json;
use tollgate_logs::Hints;

use crate::Lacks::{self, Agent, All, Nothing, StatusAndAgent};
use crate::hints;
use crate::request::Request;

/// A format: its name, the fields that it does not have, what is said of it, and the log.
type Format = (&'static str, Lacks, Hints, String);

/// The log as it is.
pub(crate) fn plain(requests: &[Request]) -> String {
    lines(requests, |it| it.line.clone())
}

fn lines(requests: &[Request], line: impl Fn(&Request) -> String) -> String {
    requests.iter().map(|it| line(it) + "\n").collect()
}

/// All formats of text.
pub(crate) fn formats(requests: &[Request]) -> Vec<Format> {
    let each = |(name, lacks, line): (&'static str, Lacks, fn(&Request) -> String)| {
        (name, lacks, Hints::default(), lines(requests, line))
    };
    let mut all: Vec<Format> = Vec::new();
    all.extend(PREFIXED.into_iter().map(each));
    all.extend(INSIDE.into_iter().map(each));
    all.extend(COMBINED.into_iter().map(each));
    all.extend(JSON.into_iter().map(each));
    all.extend(FIXED.into_iter().map(each));
    let headed = |(name, lacks, header, line): (_, _, &str, fn(&Request) -> String)| {
        (name, lacks, Hints::default(), format!("{header}\n{}", lines(requests, line)))
    };
    all.extend(HEADED.into_iter().map(headed));
    all.extend(hinted(requests));
    all
}

type Line = (&'static str, Lacks, fn(&Request) -> String);

/// Lines with a prefix of the program that collected them.
const PREFIXED: [Line; 14] = [
    ("CRI", Nothing, |it| format!("2026-11-28T00:17:09.669794202Z stdout F {}", it.line)),
    ("CRI with an offset", Nothing, |it| {
        format!("2026-11-28T00:17:09.669794202+02:00 stderr F {}", it.line)
    }),
    ("docker logs --timestamps", Nothing, |it| {
        format!("2026-11-28T00:17:09.669794202Z {}", it.line)
    }),
    ("docker compose logs", Nothing, |it| format!("web-1    | {}", it.line)),
    ("docker compose logs, two services", Nothing, |it| {
        format!("{}  | {}", if it.bytes.len() > 4 { "web-1" } else { "shop_api.2" }, it.line)
    }),
    ("kubectl logs --prefix", Nothing, |it| format!("[pod/web-7c9f/nginx] {}", it.line)),
    ("kubectl logs --prefix --timestamps", Nothing, |it| {
        format!("[pod/web-7c9f/nginx] 2026-11-28T00:17:09.669794202Z {}", it.line)
    }),
    ("syslog, RFC 3164", Nothing, |it| format!("Nov 28 00:17:09 web nginx: {}", it.line)),
    ("syslog with a process and a day of one digit", Nothing, |it| {
        format!("Nov  8 00:17:09 web.example nginx[712]: {}", it.line)
    }),
    ("syslog with a priority", Nothing, |it| {
        format!("<190>Nov 28 00:17:09 web nginx: {}", it.line)
    }),
    ("syslog, RFC 5424", Nothing, |it| {
        format!("<190>1 2026-11-28T00:17:09.669Z web nginx 712 - - {}", it.line)
    }),
    ("syslog, RFC 5424 with data", Nothing, |it| {
        format!("<190>1 2026-11-28T00:17:09Z web nginx - ID [x@1 a=\"[b]\"] {}", it.line)
    }),
    ("rsyslog", Nothing, |it| format!("2026-11-28T00:17:09.669794+01:00 web nginx: {}", it.line)),
    ("journalctl -o short-iso", Nothing, |it| {
        format!("2026-11-28T00:17:09+0000 web nginx[712]: {}", it.line)
    }),
];

/// Lines inside of JSON.
const INSIDE: [Line; 8] = [
    ("docker, json-file", Nothing, |it| {
        let line = format!("{}\n", it.line);
        json!({"log": line, "stream": "stdout", "time": "2026-11-28T00:17:09Z"}).to_string()
    }),
    ("journalctl -o json", Nothing, |it| {
        json!({"MESSAGE": it.line, "_HOSTNAME": "web", "__REALTIME_TIMESTAMP": "1796045721147626"})
            .to_string()
    }),
    ("filebeat", Nothing, |it| {
        let host = json!({"name": "web", "ip": ["10.0.0.7"]});
        json!({"@timestamp": "2026-11-28T00:17:09Z", "message": it.line, "host": host}).to_string()
    }),
    ("Google Cloud, text", Nothing, |it| {
        json!({"textPayload": it.line, "timestamp": "2026-11-28T00:17:09Z"}).to_string()
    }),
    ("promtail", Nothing, |it| json!({"line": it.line, "labels": {"pod": "web"}}).to_string()),
    ("JSON in docker, json-file", Nothing, |it| {
        json!({"log": nginx(it) + "\n", "stream": "stdout", "time": "2026-11-28T00:17:09Z"})
            .to_string()
    }),
    ("JSON in CRI", Nothing, |it| format!("2026-11-28T00:17:09.6Z stdout F {}", nginx(it))),
    ("JSON in journald in syslog", Nothing, |it| {
        format!("Nov 28 00:17:09 web collector[7]: {}", json!({"MESSAGE": nginx(it)}))
    }),
];

/// Other common and combined logs.
const COMBINED: [Line; 9] = [
    ("common", Agent, |it| it.line.split(" \"").take(2).collect::<Vec<_>>().join(" \"")),
    ("a virtual host", Nothing, |it| format!("www.example {}", it.line)),
    ("a virtual host with a port", Nothing, |it| format!("www.example:443 {}", it.line)),
    ("a port behind the client", Nothing, |it| {
        it.line.replacen(' ', &format!(":{} ", 1_024 + it.line.len()), 1)
    }),
    ("RFC 3339 in brackets", Nothing, |it| it.line.replacen(&it.time, &it.rfc3339(), 1)),
    ("another zone", Nothing, |it| {
        let (hour, rest) = it.time_of_day().split_once(':').unwrap();
        let (day, hour): (u32, u32) = (it.time[..2].parse().unwrap(), hour.parse().unwrap());
        let (day, hour) = (day + (hour + 2) / 24, (hour + 2) % 24);
        it.line.replacen(&it.time, &format!("{day:02}/May/2015:{hour:02}:{rest} +0200"), 1)
    }),
    ("more behind the agent", Nothing, |it| format!("{} 0.012 \"-\" 200", closed(it))),
    ("trailing X-Forwarded-For", Nothing, |it| {
        let line = closed(it).replacen(&it.client, "10.0.0.7", 1);
        format!("{line} \"{}, 10.0.0.9\"", it.client)
    }),
    ("leading X-Forwarded-For", Nothing, |it| {
        it.line.replacen(&it.client, &format!("9.9.9.9, {}, 10.0.0.7", it.client), 1)
    }),
];

/// The line with an agent that has both quotes.
fn closed(it: &Request) -> String {
    let Request { client, time, request, status, bytes, referer, agent, .. } = it;
    format!("{client} - - [{time}] \"{request}\" {status} {bytes} \"{referer}\" \"{agent}\"")
}

fn nginx(it: &Request) -> String {
    json!({
        "time_local": it.time, "remote_addr": it.client, "request": it.request,
        "status": it.status, "body_bytes_sent": it.bytes, "http_user_agent": it.agent,
    })
    .to_string()
}

/// JSON lines.
const JSON: [Line; 14] = [
    ("nginx, JSON", Nothing, nginx),
    ("nginx with msec", Nothing, |it| {
        json!({
            "msec": format!("{}.000", it.epoch_s()), "remote_addr": it.client, "uri": it.target(),
            "status": it.status, "http_user_agent": it.agent,
        })
        .to_string()
    }),
    ("Caddy", Nothing, |it| {
        let headers = json!({"User-Agent": [it.agent], "Accept": ["*/*", "x"]});
        json!({
            "level": "info", "ts": it.epoch_s(), "msg": "handled request", "status": status(it),
            "request": {
                "remote_ip": it.client, "client_ip": it.client, "remote_port": "4711",
                "method": it.method(), "host": "www.example", "headers": headers,
                "uri": it.target(),
            },
        })
        .to_string()
    }),
    ("Traefik", Nothing, |it| {
        json!({
            "ClientHost": it.client, "ClientAddr": format!("{}:4711", it.client),
            "StartUTC": it.rfc3339(), "RequestPath": it.target(), "RequestMethod": it.method(),
            "DownstreamStatus": status(it), "request_User-Agent": it.agent, "level": "info",
            "RequestHost": "www.example", "Duration": 12, "time": it.rfc3339(),
        })
        .to_string()
    }),
    ("Envoy, JSON", Nothing, |it| {
        json!({
            "start_time": it.rfc3339(), "downstream_remote_address": format!("{}:4711", it.client),
            "path": it.target(), "method": it.method(), "response_code": status(it),
            "user_agent": it.agent, "x_forwarded_for": null, "authority": "www.example",
        })
        .to_string()
    }),
    ("Envoy behind a proxy, JSON", Nothing, |it| {
        json!({
            "start_time": it.rfc3339(), "downstream_remote_address": "10.0.0.7:4711",
            "x-envoy-original-path": it.target(), "response_code": status(it),
            "user_agent": it.agent, "x_forwarded_for": format!("{},10.1.1.1", it.client),
        })
        .to_string()
    }),
    ("Cloudflare Logpush", Nothing, |it| {
        json!({
            "ClientIP": it.client, "EdgeStartTimestamp": it.epoch_s() * 1_000_000_000,
            "ClientRequestHost": "www.example", "ClientRequestMethod": it.method(),
            "ClientRequestURI": it.target(), "EdgeResponseStatus": status(it),
            "ClientRequestUserAgent": it.agent, "EdgeEndTimestamp": 1,
        })
        .to_string()
    }),
    ("Google Cloud", Nothing, |it| {
        let request = json!({
            "remoteIp": it.client, "requestMethod": it.method(), "status": status(it),
            "requestUrl": format!("https://www.example{}", it.target()), "userAgent": it.agent,
            "serverIp": "10.0.0.7",
        });
        json!({"httpRequest": request, "timestamp": it.rfc3339(), "severity": "INFO"}).to_string()
    }),
    ("AWS API Gateway", Nothing, |it| {
        json!({
            "requestId": "a", "sourceIp": it.client, "requestTime": it.time, "status": it.status,
            "httpMethod": it.method(), "resourcePath": it.path(), "userAgent": it.agent,
        })
        .to_string()
    }),
    ("AWS WAF", Lacks::StatusAndAgent, |it| {
        let request = json!({"clientIp": it.client, "country": "NL", "uri": it.target()});
        json!({"timestamp": it.epoch_s() * 1_000, "action": "ALLOW", "httpRequest": request})
            .to_string()
    }),
    ("Elastic Common Schema", Nothing, |it| {
        json!({
            "@timestamp": it.rfc3339(), "client": {"ip": it.client, "port": 1}, "url": {"path":
            it.path()}, "http": {"response": {"status_code": status(it)}},
            "user_agent": {"original": it.agent},
        })
        .to_string()
    }),
    ("pino", Nothing, |it| {
        let headers = json!({"user-agent": it.agent, "host": "www.example"});
        json!({
            "level": 30, "time": it.epoch_s() * 1_000, "msg": "request completed",
            "req": {"method": it.method(), "url": it.target(), "remoteAddress": it.client,
            "headers": headers}, "res": {"statusCode": status(it)},
        })
        .to_string()
    }),
    ("names with dots", Nothing, |it| {
        json!({
            "client.address": it.client, "timestamp": it.rfc3339(), "url.path": it.path(),
            "http.response.status_code": status(it), "user_agent.original": it.agent,
        })
        .to_string()
    }),
    ("serve --record", All, |it| {
        json!({
            "time": format!("{}.000000", it.epoch_s()), "client": format!("ip:{}", it.client),
            "subject": format!("ip:{}", it.client), "policy": "all", "outcome": "allowed",
            "ip": it.client,
        })
        .to_string()
    }),
];

fn status(it: &Request) -> u32 {
    it.status.parse().unwrap()
}

/// Columns with fixed places.
const FIXED: [Line; 8] = [
    ("ALB", Nothing, |it| {
        format!(
            "https {} app/web/50dc6c495c0c9188 {}:2817 10.0.0.1:80 0.086 0.048 0.037 {} {} 0 57 \
             \"{} https://www.example:443{} HTTP/1.1\" \"{}\" ECDHE TLSv1.2 arn:aws:x \"Root=1\" \
             \"www.example\" \"arn:aws:y\" 1 2015-05-17T10:05:03.1Z \"forward\" \"-\" \"-\"",
            it.rfc3339(),
            it.client,
            it.status,
            it.status,
            it.method(),
            it.target(),
            it.agent
        )
    }),
    ("ELB", Nothing, |it| {
        format!(
            "{} web {}:2817 10.0.0.1:80 0.086 0.048 0.037 {} {} 0 57 \"{} http://www.example:80{} \
             HTTP/1.1\" \"{}\" - -",
            it.rfc3339(),
            it.client,
            it.status,
            it.status,
            it.method(),
            it.target(),
            it.agent
        )
    }),
    ("S3", Nothing, |it| {
        format!(
            "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be pages [{}] {} - \
             3E57427F3EXAMPLE REST.GET.OBJECT key \"{}\" {} - {} - 7 6 \"{}\" \"{}\" - host= SigV4",
            it.time, it.client, it.request, it.status, it.bytes, it.referer, it.agent
        )
    }),
    ("Envoy", Nothing, |it| {
        format!(
            "[{}] \"{}\" {} - 0 {} 226 100 \"{}\" \"{}\" \"cc21d9b0-cf5c\" \"www.example\" \
             \"10.0.2.1:80\"",
            it.rfc3339().replace('Z', ".310Z").replace(".310", ".000"),
            it.request,
            it.status,
            it.bytes,
            it.client,
            it.agent
        )
    }),
    ("Istio", Nothing, |it| {
        format!(
            "[{}] \"{}\" {} - via_upstream - \"-\" 0 {} 226 100 \"{}\" \"{}\" \"cc21d9b0-cf5c\" \
             \"www.example\" \"10.0.2.1:80\" inbound|80|| 127.0.0.6:1 10.0.2.1:80 10.0.0.9:4711 \
             outbound_.80 default",
            it.rfc3339(),
            it.request,
            it.status,
            it.bytes,
            it.client,
            it.agent
        )
    }),
    ("HAProxy", Agent, |it| {
        format!(
            "{}:33317 [{}.000] http-in static/srv1 10/0/30/69/109 {} {} - - ---- 1/1/1/1/0 0/0 \
             \"{}\"",
            it.client,
            it.time.split(' ').next().unwrap(),
            it.status,
            it.bytes,
            it.request
        )
    }),
    ("HAProxy with captured headers, from syslog", Agent, |it| {
        format!(
            "<134>Nov 28 00:17:09 lb haproxy[14389]: {}:33317 [{}.000] http-in~ static/srv1 \
             10/0/30/69/109 {} {} - - ---- 1/1/1/1/0 0/0 {{www.example|Mozilla (X11)}} {{}} \"{}\"",
            it.client,
            it.time.split(' ').next().unwrap(),
            it.status,
            it.bytes,
            it.request
        )
    }),
    ("HAProxy, option httplog clf", Agent, |it| {
        format!(
            "{} - - [{}] \"{}\" {} {} \"\" \"\" 33317 000 \"http-in\" \"static\" 10 0 30 69",
            it.client, it.time, it.request, it.status, it.bytes
        )
    }),
];

type Headed = (&'static str, Lacks, &'static str, fn(&Request) -> String);

/// Columns whose names are in the log.
const HEADED: [Headed; 10] = [
    ("IIS", Agent, IIS, |it| {
        format!(
            "{} {} 10.0.0.7 {} {} - 443 - {} {} {} 0 0 12",
            it.date(),
            it.time_of_day(),
            it.method(),
            it.path(),
            it.client,
            it.agent.replace(' ', "+"),
            it.status
        )
    }),
    ("CloudFront", Agent, CLOUDFRONT, |it| {
        [
            &it.date(),
            it.time_of_day(),
            "FRA2",
            &it.bytes,
            &it.client,
            it.method(),
            "d1.example",
            it.path(),
            &it.status,
            &it.referer,
            &it.agent.replace(' ', "%20"),
            "-",
        ]
        .join("\t")
    }),
    ("Zeek", Nothing, ZEEK, |it| {
        let time = format!("{}.000000", it.epoch_s());
        [&time, "CyIaMO7", &it.client, it.method(), it.target(), &it.agent, &it.status].join("\t")
    }),
    ("CSV", Nothing, "time,client_ip,method,path,status,user_agent", |it| {
        let agent = it.agent.replace('"', "\"\"");
        format!(
            "{},{},{},\"{}\",{},\"{agent}\"",
            it.rfc3339(),
            it.client,
            it.method(),
            it.target(),
            it.status
        )
    }),
    (
        "CSV with quotes",
        Nothing,
        "\"@timestamp\",\"clientip\",\"request\",\"status\",\"agent\"",
        |it| {
            format!(
                "\"{}\",\"{}\",\"{}\",\"{}\",\"{}\"",
                it.rfc3339(),
                it.client,
                it.request,
                it.status,
                it.agent
            )
        },
    ),
    ("CSV from Excel", Nothing, "Time;Client IP;URL;Status Code;User-Agent", |it| {
        let agent = it.agent.replace('"', "\"\"");
        format!("{};{};\"{}\";{};\"{agent}\"", it.rfc3339(), it.client, it.target(), it.status)
    }),
    ("columns with tabs", Nothing, "ts\tip\turi\tstatus\tagent", |it| {
        [&it.epoch_s().to_string(), &it.client, it.target(), &it.status, &it.agent].join("\t")
    }),
    ("Athena", Nothing, "time,client_ip,request_url,elb_status_code,user_agent", |it| {
        format!(
            "{} {} UTC,{},\"https://www.example{}\",{},\"{}\"",
            it.date(),
            it.time_of_day(),
            it.client,
            it.target(),
            it.status,
            it.agent
        )
    }),
    ("a date and a time", StatusAndAgent, "date,time,client,path", |it| {
        format!("{},{},{},{}", it.date(), it.time_of_day(), it.client, it.path())
    }),
    ("CSV without a zone", StatusAndAgent, "timestamp,src,remote_ip,path", |it| {
        format!("{} {},web,{},{}", it.date(), it.time_of_day(), it.client, it.path())
    }),
];

const IIS: &str = "#Software: Microsoft Internet Information Services\n#Version: 1.0\n#Fields: \
                   date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip \
                   cs(User-Agent) sc-status sc-substatus sc-win32-status time-taken";

const ZEEK: &str = "#separator \\x09\n#path\thttp\n#fields\tts\tuid\tid.orig_h\tmethod\turi\t\
                    user_agent\tstatus_code\n#types\ttime\tstring\taddr\tstring\tstring\tstring\tcount";

const CLOUDFRONT: &str = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip \
                          cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query";

/// Logs of which something has to be said.
fn hinted(requests: &[Request]) -> Vec<Format> {
    let client = |name: &str| hints(|hints| hints.client_field = Some(name.to_owned()));
    let behind = |it: &Request| {
        let line = closed(it).replacen(&it.client, "9.9.9.9", 1);
        format!("{line} \"{}\"", it.client)
    };
    let own = |it: &Request| {
        json!({
            "when": it.rfc3339(), "edge": {"addr": it.client}, "ip": "9.9.9.9", "path": it.path(),
            "status": it.status, "agent": it.agent, "time": 1,
        })
        .to_string()
    };
    vec![
        (
            "X-Forwarded-For of a public proxy",
            Nothing,
            client("x_forwarded_for"),
            lines(requests, behind),
        ),
        (
            "own names",
            Nothing,
            hints(|hints| {
                hints.client_field = Some("edge.addr".to_owned());
                hints.time_field = Some("when".to_owned());
            }),
            lines(requests, own),
        ),
        (
            "own columns",
            StatusAndAgent,
            hints(|hints| {
                hints.format = "csv".parse().ok();
                hints.client_field = Some("peer".to_owned());
                hints.time_field = Some("at".to_owned());
            }),
            "at,peer,path\n".to_owned()
                + &lines(requests, |it| format!("{},{},{}", it.rfc3339(), it.client, it.path())),
        ),
    ]
}
