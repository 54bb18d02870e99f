//! A judgement as a page: one self-contained HTML file.

use tollgate_experiments::report::{Section, tables_html};

use super::report::Report;

pub(super) fn page(report: &Report) -> String {
    let row = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>();
    let verdicts = report.verdicts.iter().map(|it| {
        let checked = it.checked.to_string();
        row(&[it.promise, it.verdict, &checked, it.traffic.unwrap_or(""), &it.reason])
    });
    let most = report
        .most_admitted
        .iter()
        .map(|it| row(&[&it.limit, &it.admitted.to_string(), &it.units.to_string(), it.traffic]));
    let traffic = report.traffic.iter().map(|it| {
        let numbers = [it.asked, it.allowed, it.denied, it.no_decision].map(|it| it.to_string());
        let [asked, allowed, denied, none] = &numbers;
        row(&[it.name, asked, allowed, denied, none, &it.broken.join(", ")])
    });
    let mut sections = vec![
        Section {
            title: "Verdicts".to_owned(),
            header: row(&["promise", "verdict", "answers checked", "shown by", "reason"]),
            rows: verdicts.collect(),
            code: None,
        },
        Section {
            title: "The most that was admitted".to_owned(),
            header: row(&["limit", "most in one period", "of", "seen in"]),
            rows: most.collect(),
            code: None,
        },
        Section {
            title: "Traffic".to_owned(),
            header: row(&["traffic", "asked", "allowed", "denied", "no decision", "broken"]),
            rows: traffic.collect(),
            code: None,
        },
    ];
    for it in report.verdicts.iter().filter(|it| !it.history.is_empty()) {
        sections.push(Section {
            title: format!("The smallest history: {}", it.promise),
            header: Vec::new(),
            rows: Vec::new(),
            code: Some(it.history.join("\n")),
        });
    }
    sections.push(Section {
        title: "Not decided".to_owned(),
        header: row(&["and why"]),
        rows: report.not_decided.iter().map(|line| row(&[line])).collect(),
        code: None,
    });
    let title = format!("Judged: {}", report.verdict);
    let lead = format!("{}: {}.", report.headline(), report.verdict);
    tables_html((&title, &report.limiter), &lead, &sections, report)
}
