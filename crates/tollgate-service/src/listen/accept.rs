//! The accept loop. Each connection is served in its own task, by the listener's protocol.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::time::Duration;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use socket2::SockRef;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use super::bound::{BACKLOG, Bound};
use super::budget::Budget;
use super::pace::{Pace, Phase};
use super::registry::Registry;
use super::runtimes::Runtimes;
use super::transport::Transport;
use crate::tls::{Certificate, HTTP1};

/// The pause after the process ran out of file descriptors for connections.
const NO_FILES: Duration = Duration::from_millis(50);

/// How many waiting connections are accepted at the end before others have a turn.
const TURN: u32 = 64;

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// A client with this address.
    Tcp(IpAddr),
    /// A client at a unix socket, which has no address.
    Unix,
}

impl Peer {
    /// The address in logs, bounds and trusted networks: that of this host for a unix socket.
    pub(crate) fn address(self) -> IpAddr {
        match self {
            Self::Tcp(address) => address,
            Self::Unix => LOCAL,
        }
    }
}

/// The addresses of this host, and of a peer without one.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const UNSPECIFIED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The protocol that clients and the service use over connections.
pub(crate) trait Protocol: Clone + Send + Sync + 'static {
    /// The name by which clients ask for it over TLS. A client that asks for none is served.
    const ALPN: &'static [u8] = HTTP1;

    /// Serves one connection until the client closes it, and records its phase in its pace.
    fn serve<T>(self, connection: Connection<T>) -> impl Future<Output = ()> + Send
    where
        T: Transport;
}

/// An accepted connection.
pub(crate) struct Connection<T> {
    pub(crate) stream: T,
    pub(crate) peer: Peer,
    pub(crate) pace: Arc<Pace>,
    /// The memory budget that all connections share.
    pub(crate) budget: Arc<Budget>,
    /// True once the service takes no more requests.
    pub(crate) ending: watch::Receiver<bool>,
}

/// The state that the connections of one address share.
#[derive(Clone)]
pub(crate) struct Listener<P> {
    pub(crate) protocol: P,
    pub(crate) registry: Arc<Registry>,
    /// The runtimes that serve its connections.
    pub(crate) runtimes: Runtimes,
    pub(crate) tls: Option<Arc<Certificate>>,
    /// True once the service takes no more requests.
    pub(crate) ending: watch::Receiver<bool>,
    /// How long a connection that still waited to be accepted at the end may take for its request.
    pub(crate) patience: Duration,
}

impl Listener<()> {
    /// The same for this protocol.
    pub(crate) fn of<P: Protocol>(&self, protocol: P) -> Listener<P> {
        let Self { protocol: (), registry, runtimes, tls, ending, patience } = self.clone();
        Listener { protocol, registry, runtimes, tls, ending, patience }
    }
}

/// Accepts the connections of a socket, whatever their protocol.
pub(crate) type Accept = Box<dyn Fn(Bound) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

impl<P: Protocol> Listener<P> {
    /// The same for a list of listeners of several protocols.
    pub(crate) fn accepting(self) -> Accept {
        Box::new(move |bound| Box::pin(self.clone().accept_all(bound)))
    }

    /// Accepts connections until the service stops, and then those that wait to be accepted: the
    /// system has told their clients that they are connected, and would reset them.
    async fn accept_all(mut self, bound: Bound) {
        let mut ending = self.ending.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = ending.wait_for(|ending| *ending) => break,
                accepted = self.accept(&bound) => accepted,
            };
            match accepted {
                Ok(()) => {}
                // This error concerns a single connection, which has closed already.
                Err(error) if is_of_one(&error) => {}
                Err(error) => {
                    no_connection(&error);
                    tokio::time::sleep(NO_FILES).await;
                }
            }
        }
        self.accept_waiting(&bound).await;
    }

    /// Accepts what waits, at most as many as can wait, so that a flood does not hold up the end.
    async fn accept_waiting(&mut self, bound: &Bound) {
        let (end, ending) = watch::channel(false);
        self.ending = ending;
        for number in 0..BACKLOG {
            match self.accept_one(bound) {
                Ok(()) => {}
                Err(error) if is_of_one(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    no_connection(&error);
                    break;
                }
            }
            if number % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        let patience = self.patience;
        tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            end.send_replace(true);
        });
    }

    /// Accepts a connection that waits, or is `WouldBlock`. Tokio's own `accept` does not say
    /// whether nothing waits, or it has only not been told yet.
    fn accept_one(&self, bound: &Bound) -> io::Result<()> {
        match bound {
            Bound::Tcp(listener) => {
                let (stream, peer) = SockRef::from(listener).accept()?;
                stream.set_nonblocking(true)?;
                stream.set_tcp_nodelay(true)?;
                let peer = peer.as_socket().map_or(UNSPECIFIED, |peer| peer.ip().to_canonical());
                self.begin(|| TcpStream::from_std(stream.into()), Peer::Tcp(peer));
            }
            Bound::Unix(listener, _) => {
                let (stream, _) = SockRef::from(listener).accept()?;
                stream.set_nonblocking(true)?;
                self.begin(|| UnixStream::from_std(stream.into()), Peer::Unix);
            }
        }
        Ok(())
    }

    async fn accept(&self, bound: &Bound) -> io::Result<()> {
        match bound {
            Bound::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // A response is one small write, so Nagle's algorithm would only delay it.
                stream.set_nodelay(true)?;
                let stream = stream.into_std()?;
                let peer = Peer::Tcp(peer.ip().to_canonical());
                self.begin(|| TcpStream::from_std(stream), peer);
            }
            Bound::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let stream = stream.into_std()?;
                self.begin(|| UnixStream::from_std(stream), Peer::Unix);
            }
        }
        Ok(())
    }

    /// Serves a connection in a new task, on the runtime with the fewest. `stream` is called there.
    fn begin<T>(&self, stream: impl FnOnce() -> io::Result<T> + Send + 'static, peer: Peer)
    where
        T: Transport,
    {
        let Some(registration) = self.registry.enter(peer.address()) else { return };
        let (key, pace) = (registration.key, Arc::clone(&registration.pace));
        let (protocol, tls, ending) =
            (self.protocol.clone(), self.tls.clone(), self.ending.clone());
        let budget = Arc::clone(self.registry.budget());
        let runtime = self.runtimes.least_busy();
        let counted = Arc::clone(&runtime);
        let task = runtime.spawn(async move {
            // Moved into the task, so the connection leaves the registry and its runtime however
            // the task ends.
            let (registration, _counted) = (registration, counted);
            let pace = Arc::clone(&registration.pace);
            let _end = End(Arc::clone(&pace));
            let stream = match stream() {
                Ok(stream) => stream,
                Err(error) => return no_connection(&error),
            };
            let Some(tls) = tls else {
                return protocol.serve(Connection { stream, peer, pace, budget, ending }).await;
            };
            let secured = async {
                pace.set_phase(Phase::Head);
                // A failed handshake gets no answer, since there is no way to send one.
                if let Ok(stream) = tls.acceptor(P::ALPN).accept(stream).await {
                    pace.set_phase(Phase::Idle);
                    protocol.serve(Connection { stream, peer, pace, budget, ending }).await;
                }
            };
            Box::pin(secured).await;
        });
        self.registry.ended_by(key, &pace, task.abort_handle());
    }
}

/// Ends what is on its way over a connection, however its task ends.
struct End(Arc<Pace>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.on_the_way.ended();
    }
}

fn no_connection(error: &io::Error) {
    tracing::warn!(target: "tollgate", "no connection can be taken: {error}");
}

fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Waits until the stream has data, or ends.
pub(crate) async fn something_comes<T: AsyncRead + Unpin>(stream: &mut T) {
    // An empty buffer reads nothing, and only waits for data.
    let mut nowhere = ReadBuf::new(&mut []);
    // The next read reports an error again.
    let _ = poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut nowhere)).await;
}
