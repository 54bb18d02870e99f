//! `advise`: which limit fits a log.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use tollgate::{LimitSet, Period};
use tollgate_experiments::report::{advice_curve, advice_html, bytes, outliers, span};
use tollgate_logs::advise::{
    Advice, AdvisedLimit, BusyClient, ClientRow, Options, Progress, Step, Target, WindowAdvice,
};
use tollgate_logs::text::printable;
use tollgate_logs::{Error, Reading, Traffic};

use super::log::{LogOptions, headline, share};
use crate::args::{Advise, Outliers};
use crate::file::{beside, persist};
use crate::input;
use crate::show::{self, Output, Table, wrapped};
use crate::stop::Stop;

/// The most characters of an agent or a path: a line has 80.
const SHOWN_VALUE: usize = 65;

pub(crate) fn advise(args: &Advise, out: &mut Output) -> Result<u8> {
    let log = LogOptions::new(&args.log)?;
    let options = options(args, &log)?;
    // Fail before the log is read if a file cannot be written, not an hour later.
    for path in [&args.policy, &args.csv, &args.report].into_iter().flatten() {
        beside(path)?;
    }
    let start = Instant::now();
    let reading = Reading::by(log.by.clone()).with_cost(log.cost.clone());
    let reading = reading.with_hints(log.hints.clone()).with_descriptions();
    let reading = reading.with_max_clients(args.max_clients);
    let traffic = log.read(&args.logs, |lines, update| reading.read_lines(lines, update))?;
    let reading = start.elapsed();
    let stop = Stop::listen()?;
    let advice = match with_bar(&traffic, &options, &stop) {
        Err(Error::Stopped) => {
            show::note("interrupted: no advice is written");
            return Ok(stop.code());
        }
        advice => advice?,
    };
    let written = write_files(args, &advice)?;
    let notes = log.notes(&traffic.summary);
    if args.json {
        out.json(&advice)?;
        notes.iter().for_each(|note| show::note(note));
        return Ok(0);
    }
    out.text(&headline(&traffic.summary, &log.by, reading))?;
    out.text(&text(&advice))?;
    for note in &notes {
        out.line(format!("\nnote: {note}"))?;
    }
    for path in &written {
        out.line(format!("\nwritten to {path}"))?;
    }
    if args.policy.is_none() {
        out.line("\nThe policy file (--policy FILE writes it):\n")?;
        out.exact(&format!("{}\n", policy(&advice)))?;
    }
    Ok(0)
}

fn options(args: &Advise, log: &LogOptions) -> Result<Options> {
    let mut options = Options::by(log.by.clone());
    options.cost = log.cost.clone();
    if let Some(unit) = &args.unit {
        let limit: LimitSet = format!("1/m of {unit}").parse().context("--unit")?;
        options.unit = limit.limits().first().map_or(options.unit, |limit| *limit.unit());
    }
    if let Some(share) = &args.deny_clients {
        options.target = Target::Clients(share.parse().context("--deny-clients")?);
    }
    if let Some(share) = &args.deny_requests {
        options.target = Target::Requests(share.parse().context("--deny-requests")?);
    }
    if !args.per.is_empty() {
        let period = |text: &String| text.trim().parse::<Period>().context("--per");
        options.periods = args.per.iter().map(period).collect::<Result<_>>()?;
        options.max_wait = None;
    }
    options.strategy = args.strategy.as_deref().map(input::strategy).transpose()?;
    if let Some(wait) = &args.max_wait {
        options.max_wait = Some(wait.parse().context("--max-wait")?);
        if !options.wants_rate() {
            bail!("--max-wait is for a rate with a burst: leave out --strategy, or give `gcra`");
        }
    }
    options.lists_clients = args.csv.is_some();
    options.sets_outliers_apart = args.outliers == Outliers::Apart;
    Ok(options)
}

/// Advises with a progress bar, until a signal arrives.
fn with_bar(traffic: &Traffic, options: &Options, stop: &Stop) -> Result<Advice, Error> {
    let bar = show::progress(Some(0)).with_style(show::bar("{msg:20} {bar:30} {percent} %"));
    let advice = tollgate_logs::advise::advise(traffic, options, &mut |progress: Progress| {
        bar.set_message(match progress.step {
            Step::Replay(strategy) => strategy.name(),
            _ => "looking at clients",
        });
        bar.set_length(progress.total_events);
        bar.set_position(progress.events);
        if stop.is_asked() { Err(Error::Stopped) } else { Ok(()) }
    });
    bar.finish_and_clear();
    advice
}

fn write_files(args: &Advise, advice: &Advice) -> Result<Vec<String>> {
    let mut written = Vec::new();
    let mut file = |path: &Path, text: &str| -> Result<()> {
        persist(beside(path)?, text.as_bytes(), path)?;
        written.push(path.display().to_string());
        Ok(())
    };
    if let Some(path) = &args.policy {
        file(path, &advice.recommended.policy)?;
    }
    if let Some(path) = &args.csv {
        let windows: Vec<&str> = advice.windows.iter().map(|it| it.window.as_str()).collect();
        let mut text = ClientRow::header(&windows);
        for row in &advice.rows {
            text.push('\n');
            text.push_str(&row.csv());
        }
        text.push('\n');
        file(path, &text)?;
    }
    if let Some(path) = &args.report {
        file(path, &advice_html(advice))?;
    }
    Ok(written)
}

/// The policy file, indented.
fn policy(advice: &Advice) -> String {
    let lines = advice.recommended.policy.lines();
    let indented = lines.map(|line| format!("{}\n", format!("  {line}").trim_end()));
    indented.collect::<String>().trim_end().to_owned()
}

fn text(advice: &Advice) -> String {
    let mut text = String::new();
    let sampled = advice.sampled;
    if sampled.one_in > 1 {
        text.push_str(&format!(
            "SAMPLED: {} of the clients, one of {} by a hash of the name, with all of their \
             requests;\n  {} events of the others are left out (--max-clients looks at more)\n",
            advice.clients, sampled.one_in, sampled.events_left_out
        ));
    }
    text.push_str(&format!(
        "half of the load is made by {} ({})\n",
        show::count(advice.half_of_load, "client"),
        share(advice.half_of_load, advice.clients)
    ));
    text.push_str("\nThe busiest clients\n");
    for client in &advice.busiest {
        text.push_str(&busy_client(client));
    }
    text.push_str(&format!(
        "\nThe demand of clients in their busiest window\n\n{}\n",
        busy(advice)
    ));
    text.push_str(&if advice.rates.is_empty() { of_windows(advice) } else { of_rates(advice) });
    let recommended = &advice.recommended;
    let bold = anstyle::Style::new().bold();
    text.push_str(&format!(
        "\n{}\n{bold}Recommended: {}{bold:#}\n  {}\n  {}\n",
        advice_curve(advice),
        recommended.limit,
        wrapped(&recommended.reason, 2),
        wrapped(&denials(advice), 2),
    ));
    text.push_str("\nFacts that are not in the log\n");
    for line in &advice.cannot_know {
        text.push_str(&format!("  - {}\n", wrapped(line, 4)));
    }
    text
}

/// The limits with a burst, and the outliers under the recommended one.
fn of_rates(advice: &Advice) -> String {
    let it = &advice.recommended;
    let mut text = String::new();
    if it.outliers_count > 0 {
        let named = outliers("its burst", &it.outliers, it.outliers_count);
        text.push_str(&format!("\n{}\n", wrapped(&format!("outliers: {named}"), 2)));
    }
    text.push_str(&format!(
        "\nLimits with a burst that deny at most {} (--per shows windows)\n\n{}\n",
        advice.target,
        rates(advice)
    ));
    text
}

/// The outliers in each window, and the limits of all strategies.
fn of_windows(advice: &Advice) -> String {
    let mut text = String::new();
    for window in advice.windows.iter().filter(|window| window.outliers_count > 0) {
        let named = outliers(&window.window, &window.outliers, window.outliers_count);
        let words = format!("outliers in any {}: {named}", window.window);
        text.push_str(&format!("\n{}\n", wrapped(&words, 2)));
    }
    text.push_str(&format!("\nLimits that deny at most {}\n", advice.target));
    for window in &advice.windows {
        let per = format!("per {}", window.window);
        text.push_str(&format!("\n{per}\n{}\n", limits(window)));
        for row in window.limits.iter().filter(|row| row.limit.is_none()) {
            let why = row.refused.as_deref().unwrap_or_default();
            text.push_str(&format!("  {}: {}\n", row.strategy, wrapped(why, 4)));
        }
    }
    text
}

/// A busy client: its statuses, and its agents and paths, each with the number of its requests.
fn busy_client(client: &BusyClient) -> String {
    let name = printable(client.client.as_bytes(), 60);
    let mut text = format!("  {name}: {}", show::count(client.requests, "request"));
    if client.units != client.requests {
        text.push_str(&format!(" of {} units", client.units));
    }
    let Some(it) = &client.description else { return text + "\n" };
    if it.looked_at < client.requests {
        text.push_str(&format!(", {} of them looked at", it.looked_at));
    }
    let statuses = it.statuses.iter().map(|(status, count)| format!("{status} ({count})"));
    let statuses: Vec<String> = statuses.collect();
    if !statuses.is_empty() {
        text.push_str(&format!("; status {}", statuses.join(", ")));
    }
    text.push('\n');
    for (value, count) in it.agents.iter().chain(&it.paths) {
        text.push_str(&format!("{count:>10}  {}\n", printable(value.as_bytes(), SHOWN_VALUE)));
    }
    text
}

fn busy(advice: &Advice) -> Table {
    let mut table =
        show::table(["any", "p50", "p90", "p99", "p99.9", "most", "outliers", "bursts"]);
    for window in &advice.windows {
        let busiest = window.busiest;
        let bursts = window.burst_tenths.map(|tenths| format!("{}.{} x", tenths / 10, tenths % 10));
        table.add_row([
            window.window.clone(),
            busiest.p50.to_string(),
            busiest.p90.to_string(),
            busiest.p99.to_string(),
            busiest.p99_9.to_string(),
            busiest.max.to_string(),
            window.outliers_count.to_string(),
            bursts.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

/// The denials of a replay of the recommended limit, among all requests of the log.
fn denials(advice: &Advice) -> String {
    let it = &advice.recommended;
    let requests = it.requests_denied + it.outliers_requests_denied;
    if requests == 0 {
        return format!(
            "A replay of it denies none of {}.",
            show::count(advice.requests, "request")
        );
    }
    let mut text = format!(
        "A replay of it denies {} of {} ({}), of {} of {}",
        show::count(requests, "request"),
        advice.requests,
        share(requests, advice.requests),
        show::count(it.clients_denied + it.outliers_denied, "client"),
        advice.clients,
    );
    if it.outliers_count > 0 {
        text.push_str(&format!(
            ": {} are of {} of {}",
            it.outliers_requests_denied,
            it.outliers_denied,
            show::count(it.outliers_count, "outlier")
        ));
    }
    text + &format!(". The longest wait is {}.", span(it.longest_wait_us))
}

/// The rates with their bursts.
fn rates(advice: &Advice) -> Table {
    let mut table = show::table([
        "limit",
        "longest wait",
        "in an hour at worst",
        "clients denied",
        "outliers denied",
    ]);
    for row in &advice.rates {
        table.add_row([
            format!("{} burst {}", row.rate, row.burst),
            span(row.wait_us),
            row.worst_hour.to_string(),
            row.clients_denied.to_string(),
            row.outliers_denied.to_string(),
        ]);
    }
    table
}

fn limits(window: &WindowAdvice) -> Table {
    let mut table = show::table([
        "strategy",
        "units",
        "at its worst",
        "clients denied",
        "outliers denied",
        "requests denied",
        "longest wait",
        "memory",
        "Redis",
    ]);
    for row in window.limits.iter().filter(|row| row.limit.is_some()) {
        table.add_row(cells(row));
    }
    table
}

fn cells(row: &AdvisedLimit) -> [String; 9] {
    let requests = row.requests_denied.zip(row.outliers_requests_denied);
    let requests = requests.map(|(ordinary, outliers)| (ordinary + outliers).to_string());
    [
        row.strategy.to_owned(),
        row.units.to_string(),
        row.worst_window.to_string(),
        row.clients_denied.to_string(),
        row.outliers_denied.to_string(),
        requests.unwrap_or_else(|| "-".to_owned()),
        row.longest_wait_us.map_or_else(|| "-".to_owned(), span),
        bytes(row.bytes_memory),
        bytes(row.bytes_redis),
    ]
}
