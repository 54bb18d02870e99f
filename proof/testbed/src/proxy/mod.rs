//! A TCP proxy between a client and a server that fails on demand, the same way for one seed.
//!
//! It knows where a request and a reply end, so that a fault lies exactly between two of them, or
//! in the middle of one. It is beside a server and not in its place: forwarded commands are
//! executed, whatever happens to the reply.
//!
//! It cannot do two things: leave the first packet of a connection unanswered (the kernel accepts
//! for it), and send a reset of its choice (a cut is an orderly end).

mod forward;
mod link;
mod mode;
mod port;
mod state;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use forward::Shared;
pub use mode::{Mode, Seen, Trick};
use port::Port;
use state::{State, lock};

/// A proxy before one server. Dropped, it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

impl Proxy {
    /// A proxy in which everything passes.
    ///
    /// # Panics
    ///
    /// No port is free.
    #[must_use]
    pub fn start(upstream: SocketAddr) -> Self {
        Self::seeded(upstream, 0)
    }

    /// The same with a seed for random choices: delays, garbage, and who meets [`Self::sometimes`].
    /// One client alone meets the same each time; with several the order of their requests is the
    /// machine's.
    ///
    /// # Panics
    ///
    /// No port is free.
    #[must_use]
    pub fn seeded(upstream: SocketAddr, seed: u64) -> Self {
        let shared = Arc::new(Shared::new(upstream, State::seeded(seed)));
        // Somebody may take the port between our look and our bind.
        for _ in 0..100 {
            let Ok(port) = Port::free() else { continue };
            let shared = Arc::clone(&shared);
            let proxy = Self { port, shared, acceptor: Mutex::new(None) };
            if proxy.listen().is_ok() {
                return proxy;
            }
        }
        panic!("no port is free for a proxy");
    }

    /// The address for clients, `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Changes how all connections are from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.change(|state| state.mode = mode);
    }

    /// Plays this trick on the next `count` requests.
    pub fn next(&self, count: usize, trick: Trick) {
        self.shared.change(|state| state.armed.extend(std::iter::repeat_n(trick, count)));
    }

    /// Plays one of these tricks on each request with a chance of `per_mille` in 1000.
    pub fn sometimes(&self, per_mille: u32, tricks: &[Trick]) {
        self.shared.change(|state| state.sometimes = (per_mille, tricks.to_vec()));
    }

    /// Plays tricks on these commands only, in capital letters; on all when there are none. A
    /// client that connects again sends some commands before it repeats its question: this leaves
    /// them alone.
    pub fn only(&self, commands: &[&str]) {
        let commands = commands.iter().map(|&name| name.to_owned()).collect();
        self.shared.change(|state| state.only = commands);
    }

    /// No mode and no tricks any more. Connections that were refused are accepted again.
    ///
    /// # Panics
    ///
    /// See [`accept`](Self::accept).
    pub fn heal(&self) {
        self.shared.change(|state| {
            state.mode = Mode::Pass;
            state.armed.clear();
            state.sometimes = (0, Vec::new());
        });
        self.accept();
    }

    /// Refuses new connections, as a machine does on which nobody listens. Those that are open
    /// stay, and nobody else gets the port.
    pub fn refuse(&self) {
        self.shared.change(|state| state.refusing = true);
        // An error says that it refuses already.
        let _ = self.port.refuse();
        if let Some(acceptor) = lock(&self.acceptor).take() {
            let _ = acceptor.join();
        }
    }

    /// Accepts connections again.
    ///
    /// # Panics
    ///
    /// The port cannot be listened on.
    pub fn accept(&self) {
        if lock(&self.shared.state).refusing {
            self.listen().expect("the port is still ours");
        }
    }

    /// Cuts all open connections.
    pub fn cut(&self) {
        self.shared.change(|state| {
            for link in state.links.values() {
                link.cut();
            }
        });
    }

    /// The traffic so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        let state = lock(&self.shared.state);
        Seen { open: state.links.len(), ..state.seen }
    }

    fn listen(&self) -> io::Result<()> {
        let listener = self.port.listen()?;
        self.shared.change(|state| state.refusing = false);
        let shared = Arc::clone(&self.shared);
        *lock(&self.acceptor) = Some(thread::spawn(move || shared.accept_all(&listener)));
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.cut();
    }
}
