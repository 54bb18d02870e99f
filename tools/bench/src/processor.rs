//! The time that a server takes of the processors.

use anyhow::{Context as _, Result};

use crate::service::Run;

/// Loads a process, and adds its time for each answer. `load` says how many answers there were.
///
/// # Errors
/// Those of `load`; the system says nothing of the process.
pub(crate) fn with_cpu(process: u32, load: impl FnOnce() -> Result<(Run, f64)>) -> Result<Run> {
    let begin = processor_us(process)?;
    let (run, answers) = load()?;
    let cpu_us = (processor_us(process)? - begin) / answers;
    Ok(Run { cpu_us: Some(cpu_us), ..run })
}

/// The time that a process took of the processors, in microseconds.
pub(crate) fn processor_us(process: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let ticks = ticks(&stat).with_context(|| format!("/proc/{process}/stat says: {stat}"))?;
    Ok(ticks as f64 * 1e6 / rustix::param::clock_ticks_per_second() as f64)
}

/// User and system time are the 14th and 15th field of proc_pid_stat(5); the second one is a name
/// in parentheses, which may have blanks.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let [user, system] = [fields.next()?, fields.next()?].map(str::parse::<u64>);
    Some(user.ok()? + system.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_found_behind_any_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 3 4 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(300));
        for stat in ["", "7 (a", "7 (a) S 1 2"] {
            assert_eq!(ticks(stat), None, "{stat}");
        }
        assert!(processor_us(std::process::id()).unwrap() >= 0.0);
    }
}
