//! A program that runs beside a test or a tool, and ends with it.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// How often a new program is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A running program, which is killed when this is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Program {
    /// Its process.
    pub child: Child,
}

impl Program {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Ok(Self { child: command.spawn()? })
    }

    /// Where a program is: on the path, or where systems keep those of administrators.
    #[must_use]
    pub fn find(name: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let more = ["/usr/sbin".into(), "/usr/local/sbin".into()];
        let mut files = std::env::split_paths(&path).chain(more).map(|folder| folder.join(name));
        files.find(|file| file.is_file())
    }

    /// Waits until it listens there.
    ///
    /// # Errors
    ///
    /// It ends before, or takes longer.
    pub fn listens(&mut self, at: SocketAddr, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        while TcpStream::connect(at).is_err() {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("ended at once: {status}"));
            }
            if Instant::now() > deadline {
                return Err("does not answer".to_owned());
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// The lines that it writes to its piped output, up to one that is the last or to the end. Its
    /// later output is read and dropped, so that it is never held up.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub fn lines(&mut self, mut is_last: impl FnMut(&str) -> bool) -> io::Result<Vec<String>> {
        let Some(out) = self.child.stdout.take() else { return Ok(Vec::new()) };
        let (mut out, mut lines) = (BufReader::new(out), Vec::<String>::new());
        while !lines.last().is_some_and(|line| is_last(line)) {
            let mut line = String::new();
            if out.read_line(&mut line)? == 0 {
                return Ok(lines);
            }
            lines.push(line.trim_end().to_owned());
        }
        thread::spawn(move || out.read_to_end(&mut Vec::new()));
        Ok(lines)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Stops it where it is (SIGSTOP), and returns when it has stopped. Connections can still be
    /// made: the kernel accepts them.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub fn freeze(&self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        // Without NOWAIT the stop would be taken from the next waiter for the child.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), stopped)?;
        Ok(())
    }

    /// Lets it go on after [`freeze`](Self::freeze) (SIGCONT).
    ///
    /// # Errors
    ///
    /// It is gone.
    pub fn thaw(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills it (SIGKILL), and returns when it is gone.
    pub fn kill(&mut self) {
        // Neither can fail in a way that matters: a program that has ended has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
