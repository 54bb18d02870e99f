//! Times of day and days of the week in conditions: when they hold, in which zone, and what is
//! refused or warned of.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::borrow::Cow;

use futures_executor::block_on;
use tollgate::{MemoryStore, Time};
use tollgate_policy::{Field, Fields, Format, Gate, Outcome, Policies, Problems};

/// A request at a time, such as `2026-03-29T01:30:00Z`.
struct At(Time);

impl At {
    fn new(time: &str) -> Self {
        let time: jiff::Timestamp = time.parse().unwrap();
        Self(Time::from_micros(u64::try_from(time.as_microsecond()).unwrap()))
    }
}

impl Fields for At {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        match field {
            Field::Ip => Some("192.0.2.7".into()),
            Field::User => Some("ann".into()),
            _ => None,
        }
    }

    fn now(&self) -> Time {
        self.0
    }
}

fn read(text: &str) -> Result<Policies, Problems> {
    Policies::parse_named("p.toml", text, Format::Toml)
}

fn policy(name: &str, when: &str) -> String {
    let when = if when.is_empty() { String::new() } else { format!("when = {{ {when} }}\n") };
    format!(
        "[[policies]]\nname = \"{name}\"\non_failure = \"allow\"\n{when}\
         limits = [{{ subject = \"ip\", limit = \"9/s\" }}]\n"
    )
}

fn file(combine: &str, each: &[(&str, &str)]) -> String {
    let each: String = each.iter().map(|(name, when)| policy(name, when)).collect();
    format!("version = 1\nmatch = \"{combine}\"\n{each}")
}

fn applies(when: &str, time: &str) -> bool {
    let policies = read(&file("first", &[("p", when)])).unwrap_or_else(|why| panic!("{why}"));
    !policies.matching(&At::new(time)).is_empty()
}

#[test]
fn a_condition_holds_by_the_clock_of_its_zone() {
    for (when, times) in [
        // A night, by local time in winter and in summer; its end is not part of it.
        (
            r#"time = "22:00-06:00 Europe/Berlin""#,
            &[
                ("2026-01-14T20:59:59Z", false),
                ("2026-01-14T21:00:00Z", true),
                ("2026-01-15T04:59:59Z", true),
                ("2026-01-15T05:00:00Z", false),
                ("2026-07-14T19:59:59Z", false),
                ("2026-07-14T20:00:00Z", true),
                ("2026-07-15T04:00:00Z", false),
            ][..],
        ),
        (
            r#"time = "09:30-00:00""#,
            &[
                ("2026-01-14T09:29:59Z", false),
                ("2026-01-14T23:59:59Z", true),
                ("2026-01-15T00:00:00Z", false),
            ],
        ),
        // Each line is tested by itself: Monday 03:00 is a Monday, its night began on Sunday.
        (
            r#"time = "22:00-06:00 Europe/Berlin", day = "Mon-Fri""#,
            &[
                ("2026-01-12T02:00:00Z", true),
                ("2026-01-16T22:00:00Z", true),
                ("2026-01-16T23:00:00Z", false),
                ("2026-01-11T22:30:00Z", false),
            ],
        ),
        // The day begins where the zone of `time` has its midnight.
        (
            r#"time = "00:00-12:00 Asia/Tokyo", day = "Thu""#,
            &[("2026-01-14T14:59:59Z", false), ("2026-01-14T15:00:00Z", true)],
        ),
        (
            r#"day = "Sat-Mon UTC""#,
            &[("2026-01-12T12:00:00Z", true), ("2026-01-13T00:00:00Z", false)],
        ),
        (
            r#"day = ["Tue", "Thu"]"#,
            &[("2026-01-13T12:00:00Z", true), ("2026-01-14T00:00:00Z", false)],
        ),
        // The hour that clocks skip never holds, and the one that they repeat holds twice.
        (
            r#"time = "02:00-03:00 Europe/Berlin""#,
            &[
                ("2026-03-29T00:59:59Z", false),
                ("2026-03-29T01:00:00Z", false),
                ("2026-10-24T23:59:59Z", false),
                ("2026-10-25T00:00:00Z", true),
                ("2026-10-25T01:59:59Z", true),
                ("2026-10-25T02:00:00Z", false),
            ],
        ),
        // A Sunday of 23 hours, and one of 25.
        (
            r#"day = "Sun Europe/Berlin""#,
            &[
                ("2026-03-28T22:59:59Z", false),
                ("2026-03-28T23:00:00Z", true),
                ("2026-03-29T21:59:59Z", true),
                ("2026-03-29T22:00:00Z", false),
                ("2026-10-24T22:00:00Z", true),
                ("2026-10-25T22:59:59Z", true),
                ("2026-10-25T23:00:00Z", false),
            ],
        ),
        // Samoa skipped the Friday of 2011-12-30.
        (
            r#"day = "Fri Pacific/Apia""#,
            &[("2011-12-30T09:59:59Z", false), ("2011-12-30T10:00:00Z", false)],
        ),
    ] {
        for (time, holds) in times {
            assert_eq!(applies(when, time), *holds, "{when} at {time}");
            // The condition is also tested beside another one, and among many.
            assert_eq!(
                applies(&format!("{when}, user = \"ann\""), time),
                *holds,
                "{when} at {time}"
            );
        }
        assert!(!applies(&format!("{when}, user = \"bob\""), times[1].0), "{when}");
    }
}

#[test]
fn the_zone_is_printed_and_is_utc_unless_it_is_named() {
    for (when, text) in [
        (r#"time = "22:00-06:00""#, "time = 22:00-06:00 UTC"),
        (r#"day = "Mon""#, "day = Mon UTC"),
        (
            r#"day = ["Sat-Sun", "Wed europe/berlin"]"#,
            "day = Sat-Sun Europe/Berlin | Wed Europe/Berlin",
        ),
        (
            r#"day = "Mon-Fri", time = "22:00-06:00 America/New_York""#,
            "time = 22:00-06:00 America/New_York, day = Mon-Fri America/New_York",
        ),
    ] {
        let policies = read(&file("first", &[("p", when)])).unwrap();
        let when: Vec<String> =
            policies.policies()[0].when.iter().map(ToString::to_string).collect();
        assert_eq!(when.join(", "), text);
        // A program may say the same.
        let again = Policies::new(policies.combine(), policies.policies().to_vec()).unwrap();
        assert_eq!(again.policies(), policies.policies());
        // No front is asked for them.
        assert!(!policies.fields().contains(&Field::Time));
    }
}

#[test]
fn what_no_clock_shows_is_an_error_with_its_place() {
    for (when, place, what, remedy) in [
        (r#"time = "22:00-24:00""#, "6:24", "`24:00` is not a time", "write `00:00`"),
        (r#"time = "25:00-06:00""#, "6:18", "`25:00` is not a time", "from `00:00` to `23:59`"),
        (r#"time = "6:00-07:60""#, "6:18", "`6:00` is not a time", "two digits each"),
        (r#"time = "06:00-07:60""#, "6:24", "`07:60` is not a time", "from `00:00` to `23:59`"),
        (r#"time = "06:00-06:00""#, "6:18", "the span `06:00-06:00` is empty", "for the whole day"),
        (r#"time = "06:00""#, "6:18", "`06:00` is not a span of time", "where it begins and ends"),
        (
            r#"time = "06:00-07:00 Europe/Belrin""#,
            "6:30",
            "`Europe/Belrin` is not a time zone",
            "did you mean `Europe/Berlin`?",
        ),
        (r#"time = "06:00-07:00 CEST""#, "6:30", "`CEST` is not a time zone", "the IANA database"),
        (r#"time = "06:00-07:00 ""#, "6:30", "`` is not a time zone", "the IANA database"),
        (r#"day = "Mon-Foo""#, "6:21", "`Foo` is not a day of the week", "the days are Mon, Tue"),
        (r#"day = "Monday""#, "6:17", "`Monday` is not a day", "did you mean `Mon`?"),
        (r#"day = "fri""#, "6:17", "`fri` is not a day", "did you mean `Fri`?"),
        (r#"day = 1"#, "6:16", "`day` is a whole number", "`\"Mon-Fri\"`"),
        (r#"tim = "22:00-06:00""#, "6:10", "`tim` is not a field", "did you mean `time`?"),
        (
            r#"time = "22:00-06:00 Asia/Tokyo", day = "Mon UTC""#,
            "6:1",
            "`time` and `day` are in two zones, `Asia/Tokyo` and `UTC`",
            "one `when` has one zone",
        ),
    ] {
        let problems = read(&file("first", &[("p", when)])).expect_err(when);
        let problem = problems.iter().next().unwrap();
        let (line, column) = problems.place(problem).unwrap();
        assert_eq!(format!("{line}:{column}"), place, "{problems}");
        assert!(problem.what().contains(what), "{problems}");
        assert!(problem.remedy().to_lowercase().contains(&remedy.to_lowercase()), "{problems}");
    }
    // A subject or a ruling by the time makes no sense.
    let subject = file("first", &[("p", "")]).replace("subject = \"ip\"", "subject = \"day\"");
    assert!(read(&subject).expect_err("a subject").to_string().contains("`day` is not a field"));
    let night = tollgate_policy::Condition::parse("time", ["22:00-06:00"]).unwrap();
    let ban = tollgate_policy::Ruling::new(tollgate_policy::Effect::Ban, vec![night]);
    assert!(ban.unwrap_err().to_string().contains("a ruling has no condition on `time`"));
}

fn warnings(text: &str) -> Vec<String> {
    let policies = read(text).unwrap_or_else(|problems| panic!("{problems}"));
    let all = policies.warnings();
    all.iter()
        .map(|one| {
            let (line, _) = all.place(one).unwrap();
            format!("{line}: {}", one.what())
        })
        .collect()
}

#[test]
fn minutes_of_the_week_that_two_policies_share_or_none_has_are_warned_of() {
    let night = ("night", r#"time = "22:00-06:00 Europe/Berlin""#);
    let day = ("day", r#"time = "06:00-22:00 Europe/Berlin""#);
    let late = ("late", r#"time = "07:30-22:00 Europe/Berlin""#);
    let early = ("early", r#"time = "05:00-22:00 Europe/Berlin""#);
    let none: &[&str] = &[];
    for combine in ["first", "all"] {
        for (each, warned) in [
            (&[night, day][..], none),
            // One alone says when it applies.
            (&[night], none),
            (
                &[night, late],
                &[
                    "11: none of the policies `night` and `late` applies in 630 minutes of the week: Mon \
                   06:00-07:30, Tue 06:00-07:30, Wed 06:00-07:30, and 4 more",
                ],
            ),
            // The rest has a policy.
            (&[night, late, ("rest", "")], none),
            (
                &[night, early],
                &["11: the policies `night` and `early` apply in 420 minutes of the week: Mon \
                   05:00-06:00, Tue 05:00-06:00, Wed 05:00-06:00, and 4 more"],
            ),
            // Of other requests, or in shadow elsewhere: not compared.
            (&[night, ("late", r#"time = "07:30-22:00", user = "ann""#)], none),
            (
                &[("work", r#"day = "Mon-Fri""#), ("rest", r#"day = "Sun""#)],
                &[
                    "11: none of the policies `work` and `rest` applies in 1440 minutes of the week: Sat \
                   00:00-00:00",
                ],
            ),
            (
                &[night, ("day", r#"time = "06:00-22:00 Europe/Paris""#)],
                &["11: the policies `night` differ only by times, in several zones"],
            ),
        ] {
            let all = warnings(&file(combine, each));
            assert_eq!(all, warned, "{each:?}");
        }
    }
    // One that another hides is never reached, whatever the time.
    let hidden = file("first", &[night, ("a", r#"time = "23:00-01:00 Europe/Berlin""#)]);
    assert!(warnings(&hidden)[0].contains("`a` is never reached"), "{:?}", warnings(&hidden));
    // Policies that never apply together may differ in cost.
    let text = file("all", &[night, day]).replacen("limits", "cost = 2\nlimits", 1);
    assert_eq!(warnings(&text), none);
    let text = file("all", &[night, early]).replacen("limits", "cost = 2\nlimits", 1);
    assert!(read(&text).unwrap_err().to_string().contains("can apply together and differ in cost"));
}

const NIGHTLY: &str = r#"
version = 1
[[policies]]
name = "api"
on_failure = "allow"
[[policies.limits]]
subject = "ip"
limit = "DAY"
[[policies.limits.overrides]]
when = { time = "22:00-06:00 Europe/Berlin" }
limit = "NIGHT"
[[policies.limits.overrides]]
when = { time = "06:00-08:00 Europe/Berlin", day = "Sat-Sun" }
limit = "unlimited"
"#;

#[test]
fn overrides_that_share_minutes_are_warned_of_and_gaps_between_them_are_not() {
    let text = NIGHTLY.replace("DAY", "9/h").replace("NIGHT", "99/h");
    assert_eq!(warnings(&text), Vec::<String>::new());
    let text = text.replace("06:00-08:00", "05:30-08:00");
    let what = "12: two overrides of `api` hold in 60 minutes of the week: Sat 05:30-06:00, Sun \
                05:30-06:00";
    assert_eq!(warnings(&text), [what]);
}

/// The count of a subject goes on from one set to the next where the limits have the same identity:
/// the same name, or without names the same strategy and period.
#[test]
fn counts_go_on_where_the_identities_of_the_limits_are_the_same() {
    let (day, night) = (At::new("2026-01-14T20:59:00Z"), At::new("2026-01-14T21:00:00Z"));
    for (by_day, by_night, admitted) in [
        ("3/d via fixed_window", "5/d via fixed_window", 2),
        ("calls: 3/d via fixed_window", "calls: 5/d via fixed_window", 2),
        // Another name, another period or another strategy is another count.
        ("calls: 3/d via fixed_window", "other: 5/d via fixed_window", 5),
        ("3/d via fixed_window", "5/2d via fixed_window", 5),
        ("3/d via fixed_window", "5/d via sliding_log", 5),
    ] {
        let text = NIGHTLY.replace("DAY", by_day).replace("NIGHT", by_night);
        let gate = Gate::new(read(&text).unwrap(), MemoryStore::new()).unwrap();
        let count = |request: &At| {
            let asked = (0..9).map(|_| block_on(gate.check(request)).outcome());
            asked.filter(|outcome| *outcome == Outcome::Allowed).count()
        };
        assert_eq!(count(&day), 3, "{by_day}");
        assert_eq!(count(&night), admitted, "{by_day}, then {by_night}");
    }
}

/// A request is decided at one moment: between two conditions the clock may pass an edge.
#[test]
fn a_request_at_an_edge_meets_exactly_one_of_two_policies() {
    struct Passing(std::cell::Cell<u64>);
    impl Fields for Passing {
        fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
            At(Time::from_micros(0)).field(field).map(|value| value.into_owned().into())
        }

        /// Each look at the clock is on the other side of the edge.
        fn now(&self) -> Time {
            let edge = At::new("2026-01-14T21:00:00Z").0.as_micros();
            Time::from_micros(edge - 1 + self.0.replace(1 - self.0.get()))
        }
    }
    // By day, then by night: asked one by one, the first is too late and the second too early.
    let each = [
        ("night", r#"time = "22:00-06:00 Europe/Berlin""#),
        ("day", r#"time = "06:00-22:00 Europe/Berlin""#),
    ];
    let policies = read(&file("all", &each)).unwrap();
    let gate = Gate::new(policies.clone(), MemoryStore::new()).unwrap();
    for begin in [0, 1] {
        let name = each[1 - begin].0;
        let request = || Passing(std::cell::Cell::new(begin as u64));
        let names: Vec<_> =
            policies.matching(&request()).iter().map(|it| it.name.clone()).collect();
        assert_eq!(names, [name]);
        let answer = block_on(gate.check(&request()));
        assert_eq!(answer.policy().map(|policy| policy.name.as_str()), Some(name));
        let standings = policies.standings(&request());
        let applying: Vec<_> = standings.iter().filter(|it| it.fails.is_none()).collect();
        assert_eq!(applying.len(), 1);
    }
}
