//! Child processes: run to the end, or for a limited time with everything they started.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The process groups that run now; Ctrl-C must end them too, since a terminal tells only its own
/// foreground group.
static GROUPS: LazyLock<Mutex<Vec<u32>>> = LazyLock::new(Mutex::default);

/// Runs a command in this terminal, as it is. Ctrl-C reaches both it and us.
pub(crate) fn show(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| cannot_start(command))?;
    Ok(status.success())
}

/// Runs a command to its end and returns what it printed; when it fails, the error has what it
/// said.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| cannot_start(command))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let program = command.get_program().to_string_lossy();
        let said = [out.trim_end(), String::from_utf8_lossy(&output.stderr).trim_end()].join(" ");
        bail!("`{program}` failed ({}): {}", output.status, said.trim());
    }
    Ok(out)
}

/// The output of a command that makes a table of a page, while its remarks go to the terminal. One
/// with a deviation is an error.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| cannot_start(command))?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        bail!("not everything was as stated:\n{text}");
    }
    Ok(text)
}

/// The result of a command with a time limit.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit status; none when the limit passed and everything was killed.
    pub(crate) status: Option<ExitStatus>,
    /// Standard output, then standard error.
    pub(crate) output: String,
    /// How long it ran.
    pub(crate) took: Duration,
}

/// Runs a command for at most `limit`. A mutant may loop for ever in a test binary that cargo
/// started. So the command gets a separate process group, and the whole group is killed.
pub(crate) fn run_for(command: &mut Command, limit: Duration) -> Result<Ended> {
    own_group(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| cannot_start(command))?;
    let id = child.id();
    groups().push(id);

    let (done, finished) = channel();
    let out = child.stdout.take().map(|pipe| drain(pipe, done.clone()));
    let err = child.stderr.take().map(|pipe| drain(pipe, done));
    // Both ends of the channel are dropped when both pipes are closed: every process that could
    // still write has ended.
    let timed_out = matches!(finished.recv_timeout(limit), Err(RecvTimeoutError::Timeout));
    if timed_out {
        kill_group(&mut child)?;
    }
    let status = child.wait().context("cannot wait for a command")?;
    groups().retain(|group| *group != id);
    let output = [out, err].into_iter().flatten().map(text_of).collect();
    Ok(Ended { status: (!timed_out).then_some(status), output, took: started.elapsed() })
}

/// Makes Ctrl-C end the commands of [`run_for`] before it ends this program.
pub(crate) fn end_groups_on_ctrl_c() -> Result<()> {
    ctrlc::set_handler(|| {
        for id in groups().iter() {
            // We are on the way out: a group that cannot be killed has already ended.
            let _ = signal_group(*id);
        }
        std::process::exit(130);
    })
    .context("cannot watch for Ctrl-C")
}

fn groups() -> std::sync::MutexGuard<'static, Vec<u32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", command.get_program().to_string_lossy())
}

/// Reads a pipe to its end; `done` is held until then, and nothing is ever sent.
fn drain<R: Read + Send + 'static>(mut pipe: R, done: Sender<()>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Lines that were read before an error are still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        drop(done);
        bytes
    })
}

fn text_of(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

fn kill_group(child: &mut Child) -> Result<()> {
    if !signal_group(child.id())? {
        child.kill().context("cannot kill a command that ran too long")?;
    }
    Ok(())
}

#[cfg(unix)]
fn own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(unix)]
fn signal_group(id: u32) -> Result<bool> {
    // The shell's own `kill`: the system call would need unsafe code or a dependency.
    let kill = format!("kill -KILL -{id}");
    let status = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
    Ok(status.context("cannot start `sh`")?.success())
}

#[cfg(not(unix))]
fn own_group(_: &mut Command) {}

#[cfg(not(unix))]
fn signal_group(_: u32) -> Result<bool> {
    Ok(false)
}

/// A shell that runs some lines.
pub(crate) fn shell(lines: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", lines]);
    command
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn both_outputs_and_the_status_come_back() {
        let line = "echo out; echo err >&2; exit 3";
        let ended = run_for(&mut shell(line), Duration::from_secs(60)).unwrap();
        assert_eq!(ended.status.unwrap().code(), Some(3));
        assert_eq!(ended.output, "out\nerr\n");
    }

    #[test]
    fn a_grandchild_that_never_ends_is_killed_too() {
        // The inner shell would hold the pipes open for ever if only the outer one were killed.
        let line = "sh -c 'while :; do :; done'; true";
        let ended = run_for(&mut shell(line), Duration::from_millis(100)).unwrap();
        assert!(ended.status.is_none());
    }

    #[test]
    fn a_failed_command_is_an_error_with_what_it_said() {
        assert_eq!(read(&mut shell("echo out; echo err >&2")).unwrap(), "out\n");
        let error = read(&mut shell("echo out; echo err >&2; exit 3")).unwrap_err();
        assert_eq!(error.to_string(), "`sh` failed (exit status: 3): out err");
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let error = show(&mut Command::new("no-such-command-here")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start `no-such-command-here`");
    }
}
