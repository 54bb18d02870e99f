//! How fast an experiment runs, and in how much memory: `experiment_speed FILE`. Making requests,
//! deciding and measuring are timed apart; the memory is the process's peak.

use std::path::Path;
use std::time::Instant;

use tollgate_experiments::experiment::{Experiment, Timings, run};
use tollgate_logs::InMemory;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(path) = std::env::args().nth(1) else {
        return Err("name an experiment: experiment_speed FILE".into());
    };
    let experiment = Experiment::load(Path::new(&path))?;
    for case in &experiment.cases {
        let mut one = experiment.clone();
        one.cases = vec![case.clone()];
        let (start, mut took) = (Instant::now(), Timings::default());
        let results = run(&one, &mut InMemory::default(), |progress| took = progress.took)?;
        let [result] = &results.cases[..] else { continue };
        println!(
            "{:<16} {} attempts, {} admitted: {:.0} decisions/s ({:.2} s), made in {:.2} s, \
             measured in {:.2} s, all {:.2} s; peak memory so far {}",
            result.name,
            result.attempts,
            result.admitted,
            result.attempts as f64 / took.deciding.as_secs_f64(),
            took.deciding.as_secs_f64(),
            took.making.as_secs_f64(),
            took.measuring.as_secs_f64(),
            start.elapsed().as_secs_f64(),
            peak_memory()
        );
    }
    Ok(())
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned())
}
