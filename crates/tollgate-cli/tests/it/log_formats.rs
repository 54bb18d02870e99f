//! Which logs are read, and what is said of them.

use std::fmt::Write as _;

use crate::Place;
use crate::replaying::{BUNDLED, copies};

fn write(place: &Place, name: &str, text: &str) -> String {
    let path = place.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Twelve requests of three clients in a minute; `line` gets the second and the client.
fn log(line: impl Fn(u32, &str) -> String) -> String {
    let mut log = String::new();
    for second in 0..12 {
        let client = format!("192.0.2.{}", second % 3);
        writeln!(log, "{}", line(10 + second * 4, &client)).unwrap();
    }
    log
}

#[test]
fn the_busiest_clients_are_shown_with_what_they_are() {
    let place = Place::new();
    let (code, out, err) = place.run(&["advise", BUNDLED]);
    assert_eq!((code, err.as_str()), (0, ""));
    for says in [
        "\nThe busiest clients\n  66.249.73.135: 482 requests, a robot; status 200 (420), 304 (47), 404 (8)\n",
        "\n       217  Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bo...\n",
        "\n        91  /\n",
        "\n  75.97.9.59: 273 requests; status 304 (174), 200 (93), 404 (6)\n",
    ] {
        assert!(out.contains(says), "{says} is not in\n{out}");
    }
    let busiest = place.json(&["advise", BUNDLED, "--json"])["busiest"].clone();
    assert_eq!(busiest.as_array().unwrap().len(), 5);
    assert_eq!(
        (&busiest[0]["client"], &busiest[0]["looked_at"]),
        (&"66.249.73.135".into(), &482.into())
    );
    assert_eq!(busiest[0]["statuses"][0], serde_json::json!(["200", 420]));
}

#[test]
fn a_log_whose_clients_are_no_addresses_is_refused_with_what_to_write() {
    let place = Place::new();
    let named = log(|second, _| {
        format!("web{}.example - - [17/May/2015:10:05:{second} +0000] \"GET /\" 200 1", second % 3)
    });
    let named = write(&place, "named.log", &named);
    let users = log(|second, client| format!("{{\"ts\":{second},\"client\":\"user:{client}\"}}"));
    let users = write(&place, "users.log", &users);
    let servers = log(|second, client| format!("{{\"ts\":{second},\"host\":\"{client}\"}}"));
    let servers = write(&place, "servers.log", &servers);
    for command in [&["advise"][..], &["replay", "-l", "5/s"], &["diff", "5/s", "6/s", "--log"]] {
        for (log, says) in [
            (
                &named,
                "the clients of 12 lines are no addresses: `host` is `web1.example`, `web2.example`, \
                 `web0.example`\n`--by host` counts by these values, and `--client-field`",
            ),
            (&users, "`client` is `user:192.0.2.0`, "),
            (&servers, "no field with the client's address, such as remote_addr"),
        ] {
            let (code, out, err) = place.run(&[command, &[log]].concat());
            assert_eq!((code, out.as_str()), (2, ""), "{err}");
            assert!(err.contains(says), "{command:?}: {err}");
        }
    }
    for (log, by) in [(&named, "host"), (&users, "client"), (&servers, "host")] {
        let json = place.json(&["replay", log, "-l", "1/h", "--by", by, "--json"]);
        assert_eq!(json["strategies"][0]["clients_denied"], 3, "{by}");
    }
}

#[test]
fn a_log_with_own_names_is_read_by_options() {
    let place = Place::new();
    let own = log(|second, client| {
        format!("{{\"when\":{second},\"edge\":{{\"peer\":\"{client}\"}},\"time\":\"soon\"}}")
    });
    let own = write(&place, "own.log", &own);
    let options = ["--time-field", "when", "--client-field", "edge.peer"];
    let json = place.json(&[&["replay", &own, "-l", "1/h", "--json"], &options[..]].concat());
    assert_eq!(json["strategies"][0]["clients_denied"], 3);
    // A field of its own needs no client.
    let by = ["replay", &own, "-l", "1/h", "--json", "--time-field", "when", "--by", "edge.peer"];
    assert_eq!(place.json(&by)["strategies"][0]["clients_denied"], 3);
    let (code, _, err) = place.run(&["replay", &own, "-l", "5/s", "--format", "csv"]);
    assert!(code == 2 && err.contains("the line is not of --format csv"), "{err}");
    let (code, _, err) = place.run(&["replay", &own, "-l", "5/s", "--format", "xml"]);
    assert!(code == 2 && err.contains("[possible values: combined, json, csv, w3c,"), "{err}");
    let policy = "version = 1\n[[policies]]\nname = \"all\"\non_failure = \"deny\"\n\
                  limits = [{ subject = \"ip\", limit = \"1/h\" }]\n";
    let policy = write(&place, "p.toml", policy);
    let replay = [&["replay", &own, "--policy", &policy, "--json"], &options[..]].concat();
    assert_eq!(place.json(&replay)["clients_denied"], 3);
    let diff = [&["diff", &policy, "9/h", "--log", &own, "--json"], &options[..]].concat();
    let (code, out, err) = place.run(&diff);
    assert!(code == 1 && out.contains("\"to_admitted\""), "{out}{err}");
}

#[test]
fn what_is_assumed_of_a_log_is_noted() {
    let place = Place::new();
    let proxied = log(|second, client| {
        format!(
            "10.0.0.7 - - [17/May/2015:10:05:{second}] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" \"{client}\""
        )
    });
    let proxied = write(&place, "proxied.log", &proxied);
    let (code, out, err) = place.run(&["replay", &proxied, "-l", "5/s"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("12 events of 3 clients by ip"), "{out}");
    assert!(out.contains("note: 12 lines are from a proxy of a private network"), "{out}");
    assert!(out.contains("note: 12 lines are without a time zone"), "{out}");
    let (_, out, _) = place.run(&["replay", &proxied, "-l", "5/s", "--client-field", "host"]);
    assert!(out.starts_with("12 events of 1 client by ip") && !out.contains("proxy"), "{out}");
}

#[test]
fn a_log_that_is_read_twice_is_told() {
    let place = Place::new();
    let copies = copies(&place, 2);
    let link = place.path().join("current.log");
    std::os::unix::fs::symlink(&copies[0], &link).unwrap();
    let link = link.to_str().unwrap();
    let (code, _, err) = place.run(&["replay", &copies[0], link, "-l", "5/s"]);
    let says = format!("{} and {link} are one file: leave one out", copies[0]);
    assert!(code == 2 && err.contains(&says), "{err}");
    let (code, out, _) = place.run(&["replay", &copies[0], &copies[1], "-l", "5/s"]);
    let says =
        format!("note: 100 % of the lines of {} are in {}, too: each counts", copies[1], copies[0]);
    assert!(code == 0 && out.contains(&says), "{out}");
    let (code, _, err) = place.run(&["replay", &copies[0], "-", "-l", "5/s"]);
    assert!(code == 2 && err.contains("standard input cannot be one of several logs"), "{err}");
    let (code, _, err) = place.run(&["replay", &copies[0], "absent.log", "-l", "5/s"]);
    assert!(code == 2 && err.contains("absent.log: no such file"), "{err}");
}
