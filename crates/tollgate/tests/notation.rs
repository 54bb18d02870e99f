//! Limits as people bring them from other tools: a form that means one of ours is read as that, and
//! one that counts in another way is an error with the translation.
#![allow(clippy::unwrap_used)] // tests may unwrap

use proptest::prelude::*;
use tollgate::LimitSet;

fn full(text: &str) -> String {
    let read = text.parse::<LimitSet>().unwrap_or_else(|error| panic!("{text}: {error}"));
    read.full_text().to_owned()
}

#[test]
fn what_means_one_of_our_limits_is_read_as_that() {
    for (brought, ours) in [
        ("100/minute", "100/m"),
        ("100/sec", "100/s"),
        ("10 / s", "10/s"),
        ("10/ s", "10/s"),
        ("10 /s", "10/s"),
        ("100 per hour", "100/h"),
        ("100 per 15 minutes", "100/15m"),
        ("100/15 minutes", "100/15m"),
        ("100 / 15 minutes via gcra", "100/15m via gcra"),
        ("api: 100 per day", "api: 100/d"),
        ("1e3/s", "1000/s"),
        ("1.5e3/s via gcra", "1500/s via gcra"),
        ("10/s burst=20 via gcra", "10/s burst 20 via gcra"),
        ("10/s via=gcra, 1 per day", "10/s via gcra, 1/d"),
    ] {
        assert_eq!(full(brought), full(ours), "{brought}");
    }
}

#[test]
fn a_calendar_is_printed_whole_and_reads_back() {
    for (written, printed, identity) in [
        ("1000/month", "1000/month in UTC", "fixed_window/month"),
        ("1000 per year", "1000/year in UTC", "fixed_window/year"),
        ("5/d in Europe/Berlin", "5/day in Europe/Berlin", "fixed_window/day"),
        ("5/day from 06:00", "5/day in UTC from 06:00", "fixed_window/day"),
        (
            "10000/month from 15th in America/New_York",
            "10000/month in America/New_York from 15th",
            "fixed_window/month",
        ),
        (
            "200/w from Monday 06:00 in Asia/Tokyo",
            "200/week in Asia/Tokyo from Monday 06:00",
            "fixed_window/week",
        ),
        ("200/week in UTC from Monday 00:00", "200/week in UTC", "fixed_window/week"),
        ("1/year from 29th February", "1/year in UTC from 29th February", "fixed_window/year"),
        (
            "9/month of tokens from=31st debt=2",
            "9/month of tokens in UTC from 31st debt 2",
            "fixed_window/month/tokens",
        ),
        ("9/day debt 2 in Asia/Tokyo", "9/day in Asia/Tokyo debt 2", "fixed_window/day"),
        ("x: 9/week in UTC via fixed_window", "x: 9/week in UTC", "x"),
    ] {
        let printed = format!("{printed} via fixed_window");
        assert_eq!(full(written), printed, "{written}");
        assert_eq!(full(&printed), printed);
        assert_eq!(written.parse::<LimitSet>().unwrap().identity(), identity);
    }
    // A day and a week alone are durations.
    assert_eq!(full("5/day"), "5/d via sliding_log");
    assert_eq!(
        full("5/week, 5/w via fixed_window").split(", ").next(),
        Some("5/7d anchor epoch via fixed_window")
    );
}

#[test]
fn what_counts_in_another_way_is_translated() {
    for (brought, says) in [
        ("5r/s", "write `5/s via uniform`"),
        ("30r/m", "`30/m burst 21 via gcra`"),
        ("10-M", "write `10/m anchor first-hit via fixed_window`"),
        ("5-S", "`5/s` for at most 5 in any such time"),
        ("100;w=60", "write `100/60s` for at most 100 in any 60 s"),
        ("\"api\";q=100;w=60", "write `100/60s`"),
        ("10;w=1, 100;w=60", "write `10/1s`"),
        ("w=60", "write `N/60s`"),
        ("10/s via leaky_bucket", "`via gcra`, one that spaces events evenly `via uniform`"),
        ("10/s leaky-bucket", "`tollgate queue`"),
        ("10/s via fixed-window", "write `via fixed_window`"),
        ("10/s via moving_window", "write `via sliding_log`"),
        ("10/s via sliding_window_counter", "write `via sliding_window`"),
        ("10/s via tokenbucket", "write `via token_bucket`"),
        ("10 per", "a duration is missing"),
        ("10 per gcra", "unknown unit of time"),
        ("10/s burst=", "`burst` needs a value"),
        ("10/s burst= 20 via gcra", "`burst` needs a value"),
        ("1e-3/s", "this is not a whole number"),
        ("1.25e1/s", "this is not a whole number"),
        ("0e9/s", "would never admit anything"),
        ("1e13/s", "too large"),
    ] {
        let error = brought.parse::<LimitSet>().unwrap_err().to_string();
        assert!(error.contains(says), "{brought}: {error}");
    }
}

/// Every translation that an error offers is one that is read.
#[test]
fn translations_are_limits() {
    for brought in ["5r/s", "30r/m", "10-S", "10-M", "10-H", "10-D"] {
        let error = brought.parse::<LimitSet>().unwrap_err().remedy().to_owned();
        let texts: Vec<_> = error.split('`').skip(1).step_by(2).collect();
        let limits = texts.iter().filter(|text| text.contains('/'));
        assert_eq!(limits.clone().count(), 2, "{error}");
        limits.for_each(|text| drop(full(text)));
    }
}

proptest! {
    /// A text has one reading: its printed form reads back as the same limits.
    #[test]
    fn what_is_read_is_printed_as_what_is_read(
        text in "[0-9]{1,4}(e[0-3])?( ?/ ?| per )([0-9]{1,3} ?)?(s|min|minutes|hours|d)\
                 ( burst[ =][0-9]{1,3})?( via[ =](gcra|token_bucket))?"
    ) {
        if let Ok(read) = text.parse::<LimitSet>() {
            prop_assert_eq!(&read.full_text().parse::<LimitSet>().unwrap(), &read);
        }
    }
}
