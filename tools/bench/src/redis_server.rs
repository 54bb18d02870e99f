//! A redis-server for one measurement: started on a free port, and stopped whatever happens.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that is ours alone.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
    /// What it would write lies here, and goes with it.
    _dir: TempDir,
}

impl Server {
    pub(super) fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// The same with more arguments.
    pub(super) fn start_with(more: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir().context("no temporary directory")?;
        // One that is free now; should another program take it at this moment, the server ends,
        // and its error says so.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let named = std::env::var_os("TOLLGATE_REDIS_SERVER");
        let programs = named.map_or_else(
            || vec!["redis-server".into(), "valkey-server".into()],
            |named| vec![named],
        );
        let start = |program: &OsString| {
            Command::new(program)
                .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
                .args(["--save", "", "--appendonly", "no", "--dir"])
                .arg(dir.path())
                .args(more)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                // Ctrl-C is for us: what was written is removed before it stops.
                .process_group(0)
                .spawn()
        };
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for program in &programs {
            match start(program) {
                Ok(child) => {
                    let mut server = Self { child, address, _dir: dir };
                    server.wait()?;
                    return Ok(server);
                }
                Err(error) => last = error,
            }
        }
        Err(last).context(
            "no redis-server can be started: install one (apt-get install redis-server), name it \
             with TOLLGATE_REDIS_SERVER, or measure one that runs with `--store URL`",
        )
    }

    /// The number of its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(super) fn host_and_port(&self) -> (String, u16) {
        (self.address.ip().to_string(), self.address.port())
    }

    /// Waits until it answers.
    fn wait(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.answers() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the redis-server that was started ended at once: {status}");
            }
            if Instant::now() > deadline {
                bail!("the redis-server that was started does not answer");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Forgets all keys.
    pub(super) fn empty(&self) -> Result<()> {
        let answer = self.ask("FLUSHALL").context("the redis-server that was started is gone")?;
        if answer != *b"+OK\r\n" {
            bail!("the redis-server that was started does not forget its keys");
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        self.ask("PING").is_ok_and(|answer| answer == *b"+PONG")
    }

    /// The first bytes of its answer to a word.
    fn ask(&self, word: &str) -> io::Result<[u8; 5]> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{word}\r\n").as_bytes())?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that anybody wants.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
