//! Files: an invalid one is reported, and a log is a workload.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_is_wrong_with_a_file_is_told_with_its_line() {
    let case = "[[case]]\nlimits = [{ per = \"client\", limit = \"1/s\" }]\n";
    let head = "version = 1\nduration = \"1m\"\n";
    let steady = "[[workload]]\narrivals = \"steady\"\nrate = \"1/s\"\n";
    let works = format!("{head}{steady}{case}");
    assert!(Experiment::parse("x", &works).is_ok());
    for (text, says) in [
        (
            works.replace("steady", "stedy"),
            "x:3: workload: there are no arrivals `stedy`: one of steady, poisson",
        ),
        (works.replace("rate", "size"), "x:5: `size` is a whole number, not the text \"1/s\""),
        (
            works.replace("rate =", "clients = 5000000000\nrate ="),
            "x:5: `clients` is a whole number up to 4294967295, not 5000000000",
        ),
        (works.replace("rate =", "zipf = \"a\"\nrate ="), "x:5: `zipf` is a number, not the text"),
        (works.replace("\"1m\"", "60"), "x:2: `duration` is a text in quotes, not 60"),
        (works.replace("\"1/s\" }", "1 }"), "x:7: `limit` is a text in quotes, or a list of them"),
        (works.replace("limits = [{", "limits = \"1/s\" #"), "x:7: `limits` is a list in [ ], not"),
        (
            works.replace("rate =", "within = \"1s\"\nrate ="),
            "`within` does not apply to steady, which has rate, zipf",
        ),
        (works.replace("rate = \"1/s\"\n", ""), "x:3: workload: steady needs `rate`"),
        (works.replace("rate", "rat"), "unknown field `rat`"),
        (works.replace("\"1/s\"\n[", "\"1/parsec\"\n["), "`rate` is units per time, e.g. 10/s"),
        (works.replace("1m", "1 parsec"), "x:2: `1 parsec` is not a duration"),
        (works.replace("version = 1", "version = 2"), "x:1: this is for version = 1"),
        (works.replace("version = 1\n", ""), "missing field `version`"),
        (works.replace("client", "clients"), "x:6: `per` is \"resource\" or \"client\""),
        (works.replace("limit = \"1/s\"", "limit = \"1/x\""), "unit of time"),
        (
            format!("{works}strategies = [\"gcr\"]\n"),
            "there is no strategy `gcr`: did you mean `gcra`? The strategies are uniform, fixed",
        ),
        // Other names of algorithms, as `via` translates them in a limit.
        (
            format!("{works}strategies = [\"leaky_bucket\"]\n"),
            "there is no strategy `leaky_bucket`: a leaky bucket that meters is `gcra`, one that \
             spaces events evenly `uniform`",
        ),
        (
            format!("{works}strategies = [\"gcra\", \"moving_window\"]\n"),
            "there is no strategy `moving_window`: write `sliding_log`",
        ),
        (format!("{head}{case}"), "there is no [[workload]]"),
        (format!("{head}{steady}"), "there is no [[case]]"),
        (format!("version = 1\n{steady}{case}"), "`duration` is missing"),
        (
            works.replace("rate", "retry = \"later\"\nrate"),
            "there is no retry `later`: one of never",
        ),
        (works.replace("rate", "times = 3\nrate"), "retry = \"never\" has no such `times`"),
        (works.replace("rate", "from = \"2m\"\nrate"), "`until` is not after `from`"),
        (works.replace("rate", "zipf = -1.0\nrate"), "`zipf` is an exponent"),
        (works.replace("rate", "clients = 0\nrate"), "`clients` is 1 to"),
        (
            works.replace(
                "arrivals = \"steady\"\nrate = \"1/s\"",
                "arrivals = \"edge\"\nwindow = \"1s\"\nsize = 9000000000000000000",
            ),
            "`size` is 1 to 1000000000",
        ),
        (
            works.replace(
                "arrivals = \"steady\"\nrate = \"1/s\"",
                "arrivals = \"gang\"\nclients = 5000\neach = 5000",
            ),
            "a gang makes at most",
        ),
        (format!("bucket = \"1us\"\n{works}"), "more than 100000 buckets"),
        (format!("capacity = \"many\"\n{works}"), "x:1: `capacity` is units per time"),
        (
            works.replace("arrivals = \"steady\"\nrate = \"1/s\"", "log = \"/nowhere.log\""),
            "/nowhere.log: no such file",
        ),
        (
            works.replace("1/s\" }]", "1/s via gcra\" }]\nstrategies = \"all\""),
            "each limit has its own `via`",
        ),
    ] {
        let error = Experiment::parse("x", &text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}\n{error}");
    }
}

#[test]
fn a_log_is_a_workload_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let mut lines = String::new();
    for n in 0..60 {
        lines += &format!("{{\"ip\":\"192.0.2.{}\",\"ts\":{}}}\n", n % 3, 1_800_000_000 + n);
    }
    std::fs::write(&log, &lines).unwrap();
    let file = folder.path().join("e.toml");
    let text = "version = 1\nworkload = [{ log = \"access.log\" }, { arrivals = \"steady\", rate = \
                \"1/s\" }]\ncase = [{ limits = [{ per = \"client\", limit = \"1/3s via uniform\" \
                }] }]\n";
    std::fs::write(&file, text).unwrap();
    let experiment = Experiment::load(&file).unwrap();
    assert_eq!(experiment.duration_us, 59_000_001, "as long as the log");
    let results = run_of(&experiment);
    let case = &results.cases[0];
    assert_eq!((case.groups[0].requests, case.groups[0].admitted), (60, 60));
    assert_eq!((case.groups[1].requests, case.groups[1].admitted), (60, 20));
    assert!(case.raster.clients.contains(&"192.0.2.1".to_owned()), "{:?}", case.raster.clients);
    std::fs::write(&log, "nonsense\n").unwrap();
    let error = Experiment::load(&file).unwrap_err().to_string();
    assert!(error.contains("none of its 1 lines"), "{error}");
}
