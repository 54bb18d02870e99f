//! A `redis-server` of a test's own: started on a free port, and gone with the test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::launch::{Launch, Setup};
use crate::{Client, Program, Reply, free_port};

/// How long a server may take until it answers, on a machine that is busy with other tests.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// How often a new server is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A running `redis-server` with nothing in it, which is killed when this is dropped.
///
/// It listens on a port of 127.0.0.1 and on a Unix socket in a separate directory, keeps nothing on
/// disk, and lets `DEBUG` be used. Should this process be killed, the server ends too.
#[derive(Debug)]
pub struct RedisServer {
    setup: Setup,
    address: SocketAddr,
    running: Option<Running>,
    dir: PathBuf,
    /// The directory, unless it is somebody else's.
    own: Option<TempDir>,
}

/// A server's process, and the one that ends it if we are killed.
#[derive(Debug)]
struct Running {
    /// A shell that waits for the end of its input, which comes when we drop it or die. Linux has
    /// a signal for the death of a parent, but it comes with the end of the *thread* that started
    /// the child, and a test's thread ends before the statics that it filled.
    _guard: Program,
    server: Program,
    frozen: AtomicBool,
}

/// The counters of one command, from `INFO commandstats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CommandStat {
    /// How often it ran.
    pub calls: u64,
    /// The time it took in all, in microseconds.
    pub usec: u64,
    /// How often it was refused before it ran: wrong arguments, no right to it, no memory.
    pub rejected: u64,
    /// How often it ran and answered with an error.
    pub failed: u64,
}

impl RedisServer {
    /// A server as it is by default.
    ///
    /// # Panics
    ///
    /// None is installed, or it does not start; see [`redis_or_skip!`](crate::redis_or_skip).
    #[must_use]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server with more arguments: `&["--maxmemory", "2mb"]`. When they say `--requirepass`, the
    /// methods of this type use that password.
    ///
    /// # Panics
    ///
    /// None is installed, or it does not start.
    #[must_use]
    pub fn with(arguments: &[&str]) -> Self {
        Self::launched(&Launch::default(), arguments)
    }

    /// The same, launched in a way of one's own.
    ///
    /// # Panics
    ///
    /// None is installed, or it does not start.
    #[must_use]
    pub fn launched(launch: &Launch, arguments: &[&str]) -> Self {
        Self::try_launched(launch, arguments).unwrap_or_else(|why| panic!("{why}"))
    }

    /// The same for a tool, which reports why there is no server.
    ///
    /// # Errors
    ///
    /// None is installed, or it does not start.
    pub fn try_launched(launch: &Launch, arguments: &[&str]) -> Result<Self, String> {
        let words = || arguments.iter().map(|&word| word.to_owned()).collect();
        Self::try_set_up(|| Setup { launch: launch.clone(), arguments: words(), config: None })
    }

    /// A server with a setup that is made again for each port that is tried, so that the setup can
    /// name another port too.
    pub(super) fn set_up(setup: impl FnMut() -> Setup) -> Self {
        Self::try_set_up(setup).unwrap_or_else(|why| panic!("{why}"))
    }

    fn try_set_up(mut setup: impl FnMut() -> Setup) -> Result<Self, String> {
        let deadline = Instant::now() + STARTS_WITHIN;
        let (address, made) = (free_port(), setup());
        let own = match made.launch.dir {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("tg-redis-").tempdir().unwrap()),
        };
        let dir = own.as_ref().map(|own| own.path().to_owned()).or(made.launch.dir.clone());
        let mut server =
            Self { setup: made, address, running: None, dir: dir.unwrap_or_default(), own };
        loop {
            if let Some(text) = &server.setup.config {
                fs::write(server.config_path(), text).unwrap();
            }
            match server.launch(deadline) {
                Ok(()) => return Ok(server),
                // Somebody else took the port between our look and the server's.
                Err(why) if why.contains("Address already in use") => {
                    (server.address, server.setup) = (free_port(), setup());
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// The address for clients, `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of 127.0.0.1 on which it listens. A restart keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.join("redis.sock")
    }

    /// Its directory, which is removed with it unless it is somebody else's.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its log since its last start.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Its process.
    ///
    /// # Panics
    ///
    /// It was killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running().server.child.id()
    }

    /// Whether it can answer: it was neither killed nor frozen.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.frozen.load(Ordering::SeqCst))
    }

    /// Stops the process where it is (SIGSTOP), and returns when it has stopped. Connections can
    /// still be made: the kernel accepts them.
    ///
    /// # Panics
    ///
    /// It was killed.
    pub fn freeze(&self) {
        self.running().server.freeze().unwrap();
        self.running().frozen.store(true, Ordering::SeqCst);
    }

    /// Lets a frozen process go on (SIGCONT).
    ///
    /// # Panics
    ///
    /// It was killed.
    pub fn thaw(&self) {
        self.running().server.thaw().unwrap();
        self.running().frozen.store(false, Ordering::SeqCst);
    }

    /// Kills the process (SIGKILL), and returns when it is gone. Nothing happens if it is.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts it again on the same port, killed before if it runs. Its counts are gone, unless the
    /// arguments made it keep them.
    ///
    /// # Panics
    ///
    /// It does not start.
    pub fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + STARTS_WITHIN;
        loop {
            match self.launch(deadline) {
                Ok(()) => return,
                // Another look for a free port is there for a moment.
                Err(why) if why.contains("in use") && Instant::now() < deadline => {
                    thread::sleep(LOOK_AGAIN);
                }
                Err(why) => panic!("{why}"),
            }
        }
    }

    /// A connection of one's own, over the unix socket.
    ///
    /// # Errors
    ///
    /// It does not run, or refuses the password.
    pub fn client(&self) -> io::Result<Client> {
        let mut client = Client::unix(&self.socket())?;
        if let Some(password) = self.password() {
            match client.command(&[b"AUTH", password.as_bytes()])? {
                Reply::Error(why) => return Err(io::Error::other(why)),
                _ => return Ok(client),
            }
        }
        Ok(client)
    }

    /// Sends a command over a new connection and waits for its reply.
    ///
    /// # Panics
    ///
    /// It does not answer. An error that it answers is a [`Reply::Error`].
    pub fn command(&self, words: &[&[u8]]) -> Reply {
        let once = || self.client().and_then(|mut client| client.command(words));
        let reply = match once() {
            // Sentinels kill all connections of a server to which they give another role.
            Err(_) if matches!(words, [b"INFO" | b"ROLE", ..]) => once(),
            reply => reply,
        };
        reply.unwrap_or_else(|error| {
            let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            panic!("no reply to {words:?}: {error}\n{}", self.log())
        })
    }

    /// All keys of database 0, sorted.
    ///
    /// # Panics
    ///
    /// It does not answer.
    #[must_use]
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut client = self.client().unwrap();
        let mut keys = Vec::new();
        let mut cursor = b"0".to_vec();
        loop {
            let reply = client.command(&[b"SCAN", &cursor, b"COUNT", b"1000"]).unwrap();
            let [next, found] = reply.items() else { panic!("SCAN answers {reply:?}") };
            keys.extend(found.items().iter().filter_map(Reply::bytes).map(<[u8]>::to_vec));
            cursor = next.bytes().unwrap().to_vec();
            if cursor == b"0" {
                break;
            }
        }
        // While its table grows, SCAN may name a key twice.
        keys.sort();
        keys.dedup();
        keys
    }

    /// The keys of database 0 that would stay for ever.
    ///
    /// # Panics
    ///
    /// It does not answer.
    #[must_use]
    pub fn without_ttl(&self) -> Vec<Vec<u8>> {
        let mut client = self.client().unwrap();
        let mut keys = self.keys();
        keys.retain(|key| client.command(&[b"PTTL", key]).unwrap() == Reply::Int(-1));
        keys
    }

    /// A section of INFO as names and values.
    ///
    /// # Panics
    ///
    /// It does not answer.
    #[must_use]
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        let reply = self.command(&[b"INFO", section.as_bytes()]);
        let text = reply.text().unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The processor time that it used so far, in seconds. A figure for people: no test passes or
    /// fails by it.
    ///
    /// # Panics
    ///
    /// It does not answer.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        let info = self.info("cpu");
        ["used_cpu_sys", "used_cpu_user"]
            .iter()
            .map(|name| info[*name].parse::<f64>().unwrap())
            .sum()
    }

    /// How often each command ran, by its name in small letters: `evalsha`, `script|load`.
    /// `CONFIG RESETSTAT` sets all to nothing.
    ///
    /// # Panics
    ///
    /// It does not answer.
    #[must_use]
    pub fn commandstats(&self) -> BTreeMap<String, CommandStat> {
        let info = self.info("commandstats");
        let stats = info.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("cmdstat_")?;
            Some((name.to_owned(), CommandStat::parse(value)))
        });
        stats.collect()
    }

    /// The password that its arguments say.
    pub(super) fn password(&self) -> Option<&str> {
        self.setup.argument("--requirepass")
    }

    /// The port on which it speaks TLS.
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.setup.tls_port(self.port())
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server was killed")
    }

    fn config_path(&self) -> PathBuf {
        self.dir.join("redis.conf")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("redis.log")
    }

    /// Starts the process and waits until it answers. When it does not, its log is the reason.
    fn launch(&mut self, deadline: Instant) -> Result<(), String> {
        let log = File::create(self.log_path()).unwrap();
        let mut command = self.setup.launch.command(self.port(), &self.dir)?;
        command
            // Only the first argument can be the configuration file.
            .args(self.setup.config.is_some().then(|| self.config_path()))
            .args(self.setup.port_arguments(self.port()))
            .args(["--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--enable-debug-command", "local"])
            .arg("--unixsocket")
            .arg(self.socket())
            .arg("--dir")
            .arg(&self.dir)
            .args(&self.setup.arguments)
            // A Ctrl-C is for the tests; the guard ends the server after them.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let server = Program::start(&mut command)
            .map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
        let running =
            self.running.insert(Running::guarded(server, self.own.as_ref().map(TempDir::path)));
        loop {
            if let Some(status) = running.server.child.try_wait().unwrap() {
                self.running = None;
                return Err(format!("redis-server ended at once, {status}:\n{}", self.log()));
            }
            if is_up(&self.dir.join("redis.sock"), self.setup.launch.is_loading) {
                return Ok(());
            }
            if Instant::now() > deadline {
                self.running = None;
                let limit = STARTS_WITHIN.as_secs();
                return Err(format!("no answer within {limit} s:\n{}", self.log()));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Running {
    /// With the directory that is removed with it.
    fn guarded(server: Program, own: Option<&Path>) -> Self {
        let mut guard = Command::new("sh");
        guard
            .args(["-c", "read -r _; kill -9 \"$1\"; rm -rf -- \"$2\"", "guard"])
            .arg(server.child.id().to_string())
            .arg(own.unwrap_or(Path::new("")))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // It is dropped first: the number of a process that is gone may be another's soon.
        let guard = Program::start(&mut guard).expect("`sh` can be started");
        Self { _guard: guard, server, frozen: AtomicBool::new(false) }
    }
}

impl CommandStat {
    /// `calls=1,usec=5,usec_per_call=5.00,rejected_calls=0,failed_calls=0`
    fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(key, _)| *key == name);
            found.and_then(|(_, value)| value.parse().ok()).unwrap_or_default()
        };
        Self {
            calls: field("calls"),
            usec: field("usec"),
            rejected: field("rejected_calls"),
            failed: field("failed_calls"),
        }
    }
}

/// Whether somebody answers there. A server that wants a password reports that, and this is an
/// answer; one that is still loading counts where it `may_load`.
fn is_up(socket: &Path, may_load: bool) -> bool {
    let reply = Client::unix(socket).and_then(|mut client| client.command(&[b"PING"]));
    reply.is_ok_and(|reply| may_load || reply.error_code() != Some("LOADING"))
}
