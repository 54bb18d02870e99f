//! Pictures of good and of awkward results.

use super::axis::Across;
use super::panel::Scale;
use super::*;
use crate::experiment::results::{Bucket, Results};
use crate::experiment::{Experiment, run};
use crate::fixture::{LONG_NAMES, bare, cell, edges, results};
use tollgate_logs::decide::InMemory;

const LOOKS: [Look; 4] = [
    Look { theme: Theme::Light, width: Width::Wide, heading: true },
    Look { theme: Theme::Dark, width: Width::Narrow, heading: true },
    Look { theme: Theme::Page, width: Width::Wide, heading: false },
    Look { theme: Theme::Page, width: Width::Narrow, heading: false },
];

fn charts(results: &Results) -> Vec<Chart> {
    let both = offers(results).zip(depth(results)).map(|(one, other)| one.above(other));
    let backend = in_flight(results).zip(service(results)).map(|(one, other)| one.above(other));
    all(results).into_iter().map(|(_, chart)| chart).chain(both).chain(backend).collect()
}

/// A backend that is slow for a while, behind a limit of slots and without a limit.
fn backend() -> Results {
    let text = "version = 1\nname = \"slow\"\nduration = \"20s\"\nbucket = \"1s\"\n\
                [backend]\nservers = 4\nwork = \"40ms\"\n\
                slow = [{ from = \"5s\", until = \"10s\", work = \"2s\" }]\n\
                [[workload]]\narrivals = \"poisson\"\nrate = \"50/s\"\n\
                [[case]]\nlimits = []\n\
                [[case]]\nname = \"slots\"\n\
                limits = [{ per = \"resource\", limit = \"8 at once\" }]\n";
    let experiment = Experiment::parse("backend.toml", text).unwrap();
    run(&experiment, &mut InMemory::default(), |_| ()).unwrap()
}

/// Four nodes in front of a store.
fn nodes(away: &str) -> Results {
    let text = format!(
        "version = 1\nname = \"nodes\"\nduration = \"4s\"\nbucket = \"100ms\"\n\
         [[workload]]\narrivals = \"poisson\"\nrate = \"100/s\"\n\
         [[case]]\nlimits = [{{ per = \"resource\", limit = \"50/s via gcra\" }}]\n\
         nodes = {{ number = 4, on_failure = \"allow\"{away} }}\n"
    );
    let experiment = Experiment::parse("nodes.toml", &text).unwrap();
    run(&experiment, &mut InMemory::default(), |_| ()).unwrap()
}

/// All text of a picture.
fn words(svg: &str) -> Vec<String> {
    let tree = roxmltree::Document::parse(svg).unwrap();
    let texts = tree.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|text| content(&text)).collect()
}

fn content(text: &roxmltree::Node<'_, '_>) -> String {
    let parts = text.descendants().filter(roxmltree::Node::is_text);
    parts.filter_map(|part| part.text()).collect()
}

/// Where a line of text is: its left and right end, and its baseline.
fn extent(text: &roxmltree::Node<'_, '_>) -> [f64; 3] {
    let number = |name| text.attribute(name).unwrap().parse::<f64>().unwrap();
    let wide = label::Font::plain(1).width(&content(text)) * number("font-size");
    let x = number("x");
    let left = match text.attribute("text-anchor") {
        Some("end") => x - wide,
        Some("middle") => x - wide / 2.0,
        _ => x,
    };
    [left, left + wide, number("y")]
}

#[test]
fn every_picture_is_well_formed_and_no_text_is_cut_or_hidden() {
    for (name, results) in
        edges().into_iter().chain([("fixture", results()), ("backend", backend())])
    {
        for (chart, look) in charts(&results).iter().flat_map(|chart| LOOKS.map(|l| (chart, l))) {
            let svg = chart.svg(look);
            let tree = roxmltree::Document::parse(&svg);
            let tree = tree.unwrap_or_else(|error| panic!("{name}: {error}"));
            let width = look.width.pixels();
            let texts = tree.descendants().filter(|node| node.has_tag_name("text"));
            let mut seen: Vec<[f64; 3]> = Vec::new();
            for text in texts {
                let [left, right, y] = extent(&text);
                let fits = left >= 0.0 && right <= width && y > 0.0;
                assert!(fits, "{name}: {left} to {right} of {width}: {text:?}");
                let hidden = |other: &&[f64; 3]| {
                    (other[2] - y).abs() < 9.0 && other[0] < right && left < other[1]
                };
                assert_eq!(seen.iter().find(hidden), None, "{name}: {left} {right} {y} {text:?}");
                seen.push([left, right, y]);
            }
            let is_cut = svg.contains('…');
            assert!(!is_cut || name == "huge names", "{name}: {:?}", words(&svg));
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{name}");
        }
    }
}

/// A page that is read on a phone has no pointer to ask for the rest with.
#[test]
fn clients_are_named_whole_at_every_width_and_absurd_names_are_titles() {
    let of = |wanted: &str| edges().into_iter().find(|(name, _)| *name == wanted).unwrap().1;
    let (long, huge) = (of("long names"), of("huge names"));
    for look in LOOKS {
        let svg = raster(&long).svg(look);
        let words = words(&svg).concat();
        for name in LONG_NAMES {
            assert!(words.contains(name), "{name}: {words}");
        }
        assert!(!svg.contains("<title>"));
        let svg = raster(&huge).svg(look);
        let tree = roxmltree::Document::parse(&svg).unwrap();
        let titles: Vec<_> = tree.descendants().filter(|it| it.has_tag_name("title")).collect();
        let [title] = &titles[..] else { panic!("{titles:?}") };
        assert_eq!(title.text().unwrap().trim(), huge.cases[0].raster.clients[0]);
    }
}

#[test]
fn latencies_have_a_row_for_each_case_and_simulated_time_has_none() {
    assert_eq!(latency(&results()), None);
    let (_, results) = edges().into_iter().find(|(name, _)| *name == "real time").unwrap();
    let chart = latency(&results).unwrap();
    assert_eq!(
        chart.says(),
        "99 of 100 answers took no more than 900 us with sliding_log, and 1 min 34 s with token_bucket."
    );
    assert_eq!(chart.across, Across::Durations { least_us: 10, most_us: 1_000_000_000 });
    let words = words(&chart.svg(LOOKS[0]));
    for word in ["sliding_log", "100 us", "1 s", "case"] {
        assert!(words.iter().any(|it| it == word), "{word}: {words:?}");
    }
}

#[test]
fn queues_have_pictures_of_their_own_and_stand_for_the_others_where_all_are() {
    let of = |wanted: &str| edges().into_iter().find(|(name, _)| *name == wanted).unwrap().1;
    let names = |results: &Results| all(results).iter().map(|(name, _)| *name).collect::<Vec<_>>();
    assert_eq!(names(&results()), ["over-time", "occupancy", "raster"]);
    assert_eq!(names(&of("queues")), ["offers", "depth", "waits", "raster"]);
    let mixed = of("a queue beside limits");
    assert_eq!(names(&mixed), ["over-time", "occupancy", "depth", "waits", "raster"]);
    // A case without a queue has no depth.
    assert_eq!(depth(&mixed).unwrap().panels.len(), 1);
    let (queue, says) = (&mixed.cases[1], depth(&mixed).unwrap().says);
    let most = queue.queue.as_ref().unwrap().depth_max;
    assert_eq!(
        says,
        format!(
            "uniform: 4.3 jobs on average, and at most {most} where {most} may be. The queue was \
             full for {} of {} offers: 3 workers do 90.0 jobs a second.",
            queue.denied, queue.attempts
        )
    );
    let all = of("queues");
    let offers = offers(&all).unwrap();
    let panel::Mark::Area { ink: look::Ink::Denied, series } = &offers.panels[0].marks[0] else {
        panic!("{:?}", offers.panels[0].marks)
    };
    let bucket =
        |place: usize| all.cases[0].buckets[place].admitted + all.cases[0].buckets[place].denied;
    assert_eq!(series.values[40], bucket(40), "what is refused is above what is accepted");
    let words = words(&offers.svg(LOOKS[0]));
    for word in ["accepted", "refused", "offers per 1 s"] {
        assert!(words.iter().any(|it| it == word), "{word}: {words:?}");
    }
    // Charts one above the other are one picture, and the text names both.
    let svg = offers.clone().above(depth(&all).unwrap()).svg(LOOKS[0]);
    for part in [offers.title(), depth(&all).unwrap().title()] {
        assert!(svg.contains(&format!(">{part}</tspan>")) && svg.contains(&format!("{part}: ")));
    }
}

#[test]
fn a_backend_has_pictures_of_its_own_with_the_slow_phase_behind_the_marks() {
    let results = backend();
    let names: Vec<_> = all(&results).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["in-flight", "service", "served", "raster"]);
    let chart = in_flight(&results).unwrap();
    let most = results.cases[0].backend.as_ref().unwrap().in_flight_max;
    assert!(most > 100, "{most}");
    assert_eq!(chart.says(), format!("Most in flight: 8 with slots, and {most} with no limit."));
    let band = panel::Mark::Band { from_us: 5_000_000, until_us: 10_000_000 };
    assert!(chart.panels.iter().all(|panel| panel.marks[0] == band), "{:?}", chart.panels);
    let svg = chart.svg(LOOKS[0]);
    let words = words(&svg);
    for word in ["4 servers", "work takes 2 s", "1", "10", "100", "at most 8"] {
        assert!(words.iter().any(|it| it == word), "{word}: {words:?}");
    }
    // Behind the grid, and so behind everything.
    let fill = |ink: look::Ink| format!("fill=\"{}\"", ink.colour(Theme::Light).to_svg_string());
    let last = |ink| svg.rfind(&fill(ink)).unwrap();
    assert!(last(look::Ink::Band) < last(look::Ink::Grid), "{svg}");
    let service = service(&results).unwrap();
    let labels = self::words(&service.svg(LOOKS[0]));
    for word in ["10 ms", "100 ms", "1 s", "10 s"] {
        assert!(labels.iter().any(|it| it == word), "{word}: {labels:?}");
    }
    let denied = results.cases[1].denied;
    let says = format!("Denied: 0 with no limit, and {denied} with slots.");
    assert_eq!(served(&results).unwrap().says(), says);
}

/// The length of a bar would depend on where the axis begins.
#[test]
fn no_bar_is_on_a_logarithmic_axis() {
    for (name, results) in edges().into_iter().chain([("slow", backend()), ("nodes", nodes(""))]) {
        for (file, chart) in all(&results) {
            for mark in chart.panels.iter().flat_map(|panel| &panel.marks) {
                let is_bar = match mark {
                    panel::Mark::Area { .. } | panel::Mark::Above { .. } => {
                        chart.scale.is_logarithmic()
                    }
                    panel::Mark::Moments { shape, .. } => {
                        *shape == panel::Shape::Area && chart.across.is_logarithmic()
                    }
                    _ => false,
                };
                assert!(!is_bar, "{name}: {file}: {mark:.200?}");
            }
        }
    }
}

/// A flat line at the top would look like a value.
#[test]
fn values_beyond_the_top_are_drawn_as_cut() {
    let drawn = |values: Vec<u64>| {
        let series = panel::Series { column_us: 1, values };
        let chart = Chart {
            title: String::new(),
            says: String::new(),
            across: Across::Time { end_us: 4, calendar: None },
            scale: Scale::Count { unit: String::new(), top: 10 },
            keys: Vec::new(),
            panels: vec![panel::Panel {
                name: String::new(),
                note: String::new(),
                rows: Vec::new(),
                marks: vec![panel::Mark::Line { ink: look::Ink::Denied, series }],
            }],
            below: None,
            is_low: false,
        };
        let fill = format!("fill=\"{}\"", look::Ink::Denied.colour(Theme::Light).to_svg_string());
        let svg = chart.svg(LOOKS[0]);
        let dashes = svg.split("<path").filter(|path| path.contains(&fill));
        dashes.map(|path| path.matches('Z').count()).sum::<usize>()
    };
    assert_eq!(drawn(vec![1, 10, 0, 3]), 0);
    let [one, two] = [drawn(vec![1, 11, 0, 3]), drawn(vec![1, 11, 900, 3])];
    assert!(one > 5 && two >= 2 * one - 1, "{one} {two}");
}

#[test]
fn an_outage_of_the_store_is_shaded() {
    let words = "the store is away for some nodes or all";
    let bands = |away: &str| -> Vec<_> {
        let charts = all(&nodes(away)).into_iter().filter(|(file, _)| *file != "questions");
        let band = |mark: &panel::Mark| matches!(mark, panel::Mark::Band { .. });
        let of = |chart: &Chart| chart.panels.iter().filter(|it| it.marks.iter().any(band)).count();
        charts.map(|(_, it)| (of(&it), it.keys.iter().any(|key| key.text == words))).collect()
    };
    let shaded = bands(", away = [{ number = 2, from = \"1s\", until = \"2s\" }]");
    assert!(shaded.len() > 1 && shaded.iter().all(|it| *it == (1, true)), "{shaded:?}");
    assert!(bands("").iter().all(|it| *it == (0, false)));
}

#[test]
fn on_a_logarithmic_axis_ten_times_as_much_is_one_decade_higher() {
    let at = |values: Vec<u64>| {
        let series = panel::Series { column_us: 1, values };
        let chart = Chart {
            title: String::new(),
            says: String::new(),
            across: Across::Time { end_us: 4, calendar: None },
            scale: Scale::Counts { unit: String::new(), top: 1_000 },
            keys: Vec::new(),
            panels: vec![panel::Panel {
                name: String::new(),
                note: String::new(),
                rows: Vec::new(),
                marks: vec![panel::Mark::Area { ink: look::Ink::Admitted, series }],
            }],
            below: None,
            is_low: false,
        };
        let svg = chart.svg(LOOKS[0]);
        let fill = format!("fill=\"{}\"", look::Ink::Admitted.colour(Theme::Light).to_svg_string());
        let tree = roxmltree::Document::parse(&svg).unwrap();
        let path = tree
            .descendants()
            .find(|node| node.has_tag_name("path") && svg[node.range()].contains(&fill));
        let path = path.unwrap().attribute("d").unwrap().to_owned();
        let heights =
            path.split('V').skip(1).map(|part| part.split('H').next().unwrap().to_owned());
        heights.map(|it| it.parse::<f64>().unwrap()).collect::<Vec<_>>()
    };
    let heights = at(vec![10, 100, 1_000, 1]);
    let steps: Vec<f64> = heights.windows(2).map(|two| two[0] - two[1]).collect();
    assert!((steps[0] - steps[1]).abs() < 0.2 && steps[0] > 10.0, "{heights:?}");
    assert!((steps[0] + steps[1] + steps[2] + heights[3] - heights[0]).abs() < 0.2);
    // 1 is at the bottom: a decade below 10.
    assert!((heights[3] - heights[0] - steps[0]).abs() < 0.2, "{heights:?}");
}

#[test]
fn what_is_far_above_does_not_press_the_rest_of_a_queue_flat() {
    let (_, mut results) = edges().into_iter().find(|(name, _)| *name == "queues").unwrap();
    results.cases.truncate(2);
    let levels = |chart: Chart| -> Vec<bool> {
        let level = |mark: &panel::Mark| matches!(mark, panel::Mark::Level(_));
        let panels = chart.panels.iter().map(|panel| panel.marks.iter().any(level));
        panels.chain([chart.keys.iter().any(|key| key.shape == panel::Shape::Dashes)]).collect()
    };
    assert_eq!(levels(offers(&results).unwrap()), [true; 3], "two panels, and the key");
    let mut change = |place: usize, workers, bound| {
        let queue = results.cases[place].queue.as_mut().unwrap();
        (queue.workers, queue.bound, queue.depth_max) = (workers, bound, 12);
        [offers(&results).unwrap(), depth(&results).unwrap()].map(levels)
    };
    change(1, 3, 12);
    assert_eq!(change(0, 3, 12), [[true; 3], [true; 3]]);
    let far = [false, true, true];
    assert_eq!(change(0, 100_000, 1_000), [far, far]);
    assert_eq!(change(1, 100_000, 1_000), [[false; 3], [false; 3]]);
    // The unit suits the waiting times.
    for case in &mut results.cases {
        let queue = case.queue.as_mut().unwrap();
        queue.waited_us.as_mut().unwrap().max = 1_000_000;
    }
    let words = words(&waits(&results).unwrap().svg(LOOKS[0]));
    assert!(words.contains(&"milliseconds, the longest of each 1 s".to_owned()), "{words:?}");
    assert!(words.contains(&"500".to_owned()) && words.contains(&"1000".to_owned()), "{words:?}");
}

#[test]
fn a_png_is_twice_the_size_of_the_svg() {
    for chart in charts(&results()) {
        for look in LOOKS {
            let png = chart.png(look).unwrap();
            assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
            let width = u32::from_be_bytes([png[16], png[17], png[18], png[19]]);
            assert_eq!(f64::from(width), look.width.pixels() * 2.0);
        }
    }
}

#[test]
fn a_picture_too_tall_for_png_is_refused() {
    let mut results = results();
    results.cases = vec![bare("case", Vec::new()); 2_000];
    let chart = over_time(&results);
    let error = chart.png(Look::new(Theme::Light, Width::Wide)).unwrap_err();
    assert!(error.to_string().contains("SVG"), "{error}");
    roxmltree::Document::parse(&chart.svg(Look::new(Theme::Light, Width::Wide))).unwrap();
}

#[test]
fn the_same_results_are_the_same_picture() {
    let draw = || charts(&results()).iter().map(|chart| chart.svg(LOOKS[0])).collect::<Vec<_>>();
    assert_eq!(draw(), draw());
}

#[test]
fn a_spike_survives_a_hundred_thousand_buckets() {
    let mut results = results();
    let mut buckets = vec![Bucket { admitted: 1, denied: 0, occupancy: 5 }; 100_000];
    buckets[54_321] = Bucket { admitted: 997, denied: 0, occupancy: 1_234 };
    results.bucket_us = 600;
    results.cases = vec![bare("spiky", buckets)];
    let timeline = Timeline::new(&results, columns::COLUMNS);
    let columns = timeline.highest(&results.cases[0].buckets, |bucket| bucket.admitted);
    assert!(columns.len() <= columns::COLUMNS);
    assert_eq!(columns.iter().filter(|value| **value == 997).count(), 1);
    assert_eq!(columns.iter().position(|value| *value == 997), Some(54_321 / 167));
    // The axis and the text name the maximum.
    let chart = over_time(&results);
    assert_eq!(chart.scale, Scale::Count { unit: chart.scale.unit().into(), top: 997 });
    assert_eq!(chart.says(), "In its busiest 600 us, every case let 997 through.");
    assert!(chart.scale.unit().ends_with("the most of each 100.2 ms"), "{}", chart.scale.unit());
    assert!(occupancy(&results).unwrap().says().contains("in 10 s, spiky let 1234 through"));
}

#[test]
fn sentences_say_what_the_numbers_say() {
    let results = results();
    let says = |chart: Chart| chart.says().to_owned();
    let most = results.cases.iter().filter_map(|case| case.peak).max().unwrap();
    assert!(most > 300);
    let said = says(occupancy(&results).unwrap());
    assert!(said.starts_with("Where 300 are allowed in 10 s, "), "{said}");
    assert!(said.contains(&format!(" let {most} through, ")), "{said}");
    assert!(said.ends_with("; sliding_log and uniform kept to it."), "{said}");
    let busiest = |n: usize| results.cases[n].buckets.iter().map(|b| b.admitted).max().unwrap();
    let said = says(over_time(&results));
    assert!(said.contains(&format!("uniform never more than {}", busiest(1))), "{said}");
    assert_eq!(says(raster(&results)), "With uniform, 1932 of 2880 requests never got through.");
}

#[test]
fn a_storm_of_denials_does_not_press_the_rest_flat() {
    let mut results = results();
    results.cases.iter_mut().for_each(|case| case.buckets[40].denied = 1_000_000);
    let chart = over_time(&results);
    let most = results.cases.iter().flat_map(|case| &case.buckets).map(|b| b.admitted).max();
    let unit = chart.scale.unit().to_owned();
    assert_eq!(chart.scale, Scale::Count { unit, top: most.unwrap() * 2 });
    let words = words(&chart.svg(LOOKS[0]));
    assert!(words.iter().any(|word| word == "denied, up to 1000000: cut at the top"), "{words:?}");
}

#[test]
fn the_capacity_is_a_line_over_its_own_window_alone() {
    let results = results();
    assert!(results.capacity.is_some());
    let level = |mark: &panel::Mark| matches!(mark, panel::Mark::Level(_));
    let has = |chart: &Chart| chart.panels.iter().any(|panel| panel.marks.iter().any(level));
    assert!(has(&occupancy(&results).unwrap()));
    assert!(!has(&over_time(&results)), "a log that holds would look over it");
}

#[test]
fn captions_name_every_case_that_is_over_the_capacity() {
    let mut results = results();
    results.capacity.as_mut().unwrap().units = 10;
    for (place, case) in results.cases.iter_mut().enumerate() {
        case.peak = Some(if place == 0 { 9 } else { 100 * place as u64 });
    }
    let says = occupancy(&results).unwrap().says().to_owned();
    let names: Vec<&str> = results.cases.iter().map(|case| &*case.name).collect();
    for (place, name) in names.iter().enumerate().skip(1) {
        assert!(says.contains(&format!("{name} ")), "{says}");
        assert!(says.contains(&(100 * place).to_string()), "{says}");
    }
    assert!(says.ends_with(&format!("; {} kept to it.", names[0])), "{says}");
}

/// Of two colours as `#rrggbb`: WCAG 2.2, success criterion 1.4.11.
fn contrast(one: &str, other: &str) -> f64 {
    let light = |colour: &str| {
        let part = |place: usize| {
            let byte = u8::from_str_radix(&colour[place..place + 2], 16).unwrap();
            let part = f64::from(byte) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    };
    let (one, other) = (light(one) + 0.05, light(other) + 0.05);
    one.max(other) / one.min(other)
}

#[test]
fn every_mark_stands_out_from_its_paper() {
    assert!((contrast("#ffffff", "#000000") - 21.0).abs() < 1e-9);
    let css = page_colours();
    for theme in css.lines() {
        let colour = |name: &str| {
            let (_, rest) = theme.split_once(&format!("--{name}:")).unwrap();
            rest[..7].to_owned()
        };
        let paper = colour("paper");
        for (name, least) in [
            ("text", 4.5),
            ("muted", 4.5),
            ("admitted", 3.0),
            ("denied", 3.0),
            ("over", 3.0),
            ("waiting", 3.0),
        ] {
            let contrast = contrast(&paper, &colour(name));
            assert!(contrast >= least, "{name} on {paper}: {contrast:.2}, {least} is needed");
        }
    }
}

#[test]
fn requests_that_never_got_through_are_counted() {
    let (_, results) = edges().into_iter().find(|(name, _)| *name == "nobody served").unwrap();
    let said = raster(&results).says().to_owned();
    let none = "With uniform, 1932 of 2880 requests never got through. ";
    let rows = "A row is a client: first up to 8 that were denied most often, then others.";
    assert_eq!(said, format!("{none}{rows}"));
}

#[test]
fn names_are_shown_as_they_are() {
    let (_, results) = edges().pop().unwrap();
    for chart in charts(&results) {
        let words = words(&chart.svg(LOOKS[0]));
        for name in ["<script>alert(1)</script>", "Zähler für $x^2$ ünd 漢字 🚦"] {
            assert!(words.iter().any(|word| word == name), "{name}: {words:?}");
        }
    }
}

#[test]
fn attempts_that_touch_are_one_mark() {
    let mut results = results();
    for case in &mut results.cases {
        let column = |column| cell(0, column, true);
        case.raster.cells = (0..600).map(column).collect();
    }
    let chart = raster(&results);
    let panel::Mark::Moments { runs, .. } = &chart.panels[0].marks[0] else { panic!() };
    assert_eq!(runs.len(), 1);
}

#[test]
fn where_moments_were_not_kept_the_caption_says_so() {
    let mut results = results();
    let kept = raster(&results).says().to_owned();
    results.cases[1].raster.cells[0].columns = 64;
    let says = raster(&results).says().to_owned();
    let coarse = "There were too many clients to keep every moment of each: a mark of up to 6.4 s \
                  says that there was something in it.";
    assert_eq!(says, format!("{kept} {coarse}"));
}
