//! The events of the bundled log in each format that is read, and in those that are refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod packed;
mod request;
mod text;

use std::io::Cursor;
use std::path::Path;

use tollgate_logs::describe::{Description, Kind};
use tollgate_logs::{Error, Event, Hints, Lines, Reading, Summary, Traffic};

use crate::request::{Request, bundled};

/// The parts that make an advice: times, clients and costs in order, and the busiest clients.
#[derive(PartialEq, Eq, Debug)]
struct Seen {
    events: Vec<Event>,
    clients: Vec<String>,
    described: Vec<(String, Description)>,
}

/// The fields that a format does not have, or not as they were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lacks {
    Nothing,
    Agent,
    StatusAndAgent,
    All,
}

fn read(log: impl Into<Vec<u8>>, hints: Hints) -> Result<Traffic, Error> {
    let lines = Lines::from_reader(Cursor::new(log.into()), Path::new("x.log"), None)?;
    Reading::default().with_hints(hints).with_descriptions().read_lines(lines, |_| ())
}

fn seen(traffic: &Traffic, lacks: Lacks) -> Seen {
    let name = |id| traffic.clients.printable(id).unwrap();
    let events = traffic.ordered.iter().unwrap().map(Result::unwrap);
    // The lines differ by those of a header.
    let events: Vec<Event> = events.map(|it| it.on_line(0)).collect();
    let clients: Vec<String> = traffic.clients.ids().map(name).collect();
    let busy = ["66.249.73.135", "46.105.14.53", "130.237.218.86", "75.97.9.59", "50.16.19.13"];
    let ids = traffic.clients.ids().zip(&clients).filter(|(_, name)| busy.contains(&&***name));
    let mut described: Vec<_> = ids
        .map(|(id, name)| {
            let mut it = traffic.descriptions.as_ref().unwrap().of(id);
            // An agent names a robot, and statuses show a scanner.
            let is_seen = match it.kind {
                Some(Kind::Robot) => lacks == Lacks::Nothing,
                _ => matches!(lacks, Lacks::Nothing | Lacks::Agent),
            };
            it.kind = it.kind.filter(|_| is_seen);
            match lacks {
                Lacks::Nothing => {}
                Lacks::Agent => it.agents.clear(),
                Lacks::StatusAndAgent => (it.statuses, it.agents) = Default::default(),
                Lacks::All => (it.statuses, it.agents, it.paths) = Default::default(),
            }
            (name.clone(), it)
        })
        .collect();
    described.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(described.len(), busy.len());
    Seen { events, clients, described }
}

fn hints(set: impl FnOnce(&mut Hints)) -> Hints {
    let mut hints = Hints::default();
    set(&mut hints);
    hints
}

/// Each format gives what the plain log gives, without a line that is left out.
#[test]
fn every_format_gives_the_events_of_the_plain_log() {
    let requests = bundled();
    let plain = read(text::plain(&requests), Hints::default()).unwrap();
    assert_eq!((plain.summary.events, plain.summary.clients), (10_000, 1_753));
    let mut formats = 0;
    let mut check = |name: &str, log: Vec<u8>, hints: Hints, lacks: Lacks| {
        let traffic = read(log, hints).unwrap_or_else(|error| panic!("{name}: {error}"));
        let Summary { events, unparsed, first_unparsed, .. } = &traffic.summary;
        assert_eq!((*events, *unparsed), (10_000, 0), "{name}: {first_unparsed:?}");
        let (found, expected) = (seen(&traffic, lacks), seen(&plain, lacks));
        let differs = found.events.iter().zip(&expected.events).find(|(one, other)| one != other);
        assert_eq!(differs, None, "{name}");
        assert_eq!(found.clients, expected.clients, "{name}");
        assert_eq!(found.described, expected.described, "{name}");
        formats += 1;
    };
    for (name, log) in packed::packed(&text::plain(&requests)) {
        check(name, log, Hints::default(), Lacks::Nothing);
    }
    for (name, lacks, hints, log) in text::formats(&requests) {
        check(name, log.into_bytes(), hints, lacks);
    }
    assert!(formats >= 60, "{formats}");
}

/// Two of the formats, whole: the advice itself.
#[test]
fn the_advice_is_the_same_byte_for_byte() {
    let requests = bundled();
    let advice = |log: String| {
        let traffic = read(log, Hints::default()).unwrap();
        let options = tollgate_logs::advise::Options::default();
        let advice = tollgate_logs::advise::advise(&traffic, &options, &mut |_| Ok(())).unwrap();
        serde_json::to_string(&advice).unwrap()
    };
    let plain = advice(text::plain(&requests));
    assert!(plain.contains("66.249.73.135"));
    for name in ["CRI", "ALB"] {
        let all = text::formats(&requests);
        let (.., log) = all.into_iter().find(|(it, ..)| *it == name).unwrap();
        assert_eq!(advice(log), plain, "{name}");
    }
}

/// A text that is not a client is never taken for one.
#[test]
fn logs_without_an_address_are_refused_with_the_values() {
    let requests = bundled();
    let each = |line: fn(&Request) -> String| -> String { requests.iter().map(line).collect() };
    for (log, lines, field, value) in [
        (
            each(|it| format!("web.example - - [{}] \"GET /\"\n", it.time)),
            10_000,
            "host",
            "web.example",
        ),
        (
            each(|it| {
                format!("{{\"time\":\"{}\",\"client\":\"user:{}\"}}\n", it.rfc3339(), it.client)
            }),
            10_000,
            "client",
            "user:83.149.9.216",
        ),
        (
            each(|it| format!("{{\"time\":\"{}\",\"host\":\"{}\"}}\n", it.rfc3339(), it.client)),
            0,
            "",
            "",
        ),
        (each(|it| format!("Nov 17 10:05:03 web sshd[7]: {} logged in\n", it.client)), 0, "", ""),
        (each(|it| format!("{} stdout F hello\n", it.rfc3339())), 0, "", ""),
    ] {
        let summary = read(log.clone(), Hints::default()).unwrap().summary;
        assert_eq!((summary.events, summary.not_addresses), (0, lines), "{}", &log[..90]);
        assert_eq!(summary.not_address_field, field);
        assert_eq!(summary.first_not_addresses.first().map_or("", String::as_str), value);
    }
}

/// A message names what to write.
#[test]
fn what_is_missing_is_named_with_the_option() {
    let requests = bundled();
    let it = &requests[0];
    let row = format!("{},{},{}", it.rfc3339(), it.client, it.path());
    let json = format!("{{\"at\":\"{}\",\"peer\":\"{}\"}}", it.rfc3339(), it.client);
    let combined = |hints: &mut Hints| hints.format = "combined".parse().ok();
    for (log, set, says) in [
        (json.clone(), None, "no field with the time, such as time"),
        (json.clone(), Some("at"), "--client-field names it"),
        (format!("at,peer,path\n{row}"), None, "neither a common or combined log line nor JSON"),
        (
            format!("at,peer,path\n{row}"),
            Some("at"),
            "--client-field names it) among at, peer, path",
        ),
        (format!("time,peer\n{row}"), None, "--client-field names it) among time, peer"),
        (format!("a,time\n{}", it.client), None, "fewer columns than the header"),
    ] {
        let hints = hints(|hints| hints.time_field = set.map(str::to_owned));
        let summary = read(log.clone(), hints).unwrap().summary;
        let why = summary.first_unparsed.last().unwrap().reason.to_string();
        assert!(why.contains(says), "{log}: {why}");
    }
    let summary = read(json, hints(combined)).unwrap().summary;
    assert_eq!(
        summary.first_unparsed[0].reason.to_string(),
        "the line is not of --format combined"
    );
    for archive in [packed::tar(b"access.log"), packed::gzip(&packed::tar(b"access.log"))] {
        let error = read(archive, Hints::default()).unwrap_err().to_string();
        let says = "x.log: is a tar archive; unpack it on the way in: tar -xOf x.log";
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_note_knows_of_zones_proxies_and_headers() {
    let requests = bundled();
    let of = |name: &str| {
        let all = text::formats(&requests);
        let (.., hints, log) = all.into_iter().find(|(it, ..)| *it == name).unwrap();
        read(log, hints).unwrap().summary
    };
    assert_eq!(of("HAProxy").without_zone, 10_000);
    assert_eq!(of("trailing X-Forwarded-For").forwarded, 10_000);
    assert_eq!((of("IIS").headers, of("IIS").lines), (3, 10_003));
    assert_eq!((of("ALB").without_zone, of("ALB").forwarded), (0, 0));
}

/// The page lists all names under which fields are found.
#[test]
fn the_page_has_every_name() {
    use tollgate_logs::parse::{Format, names};
    let page = include_str!("../../../../docs/logs.md");
    let lists: [&[&str]; 12] = [
        &names::CLIENT,
        &names::FORWARDED,
        &names::TIME,
        &names::PATH,
        &names::USER,
        &names::METHOD,
        &names::HOST,
        &names::STATUS,
        &names::AGENT,
        &names::REFERER,
        &names::BYTES,
        &names::MESSAGE,
    ];
    for list in lists {
        let row: Vec<String> = list.iter().map(|name| format!("`{name}`")).collect();
        assert!(page.contains(&row.join(", ")), "{row:?}");
    }
    for format in Format::ALL {
        assert!(page.contains(&format!("`{format}`")), "{format}");
    }
}
