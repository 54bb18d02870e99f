//! A loop that is not tokio's carries the connections.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::sync::mpsc;

use super::server::{self, Server};
use super::{connect, count};
use crate::event_loop::{Driver, EventLoop, Stream};
use crate::options::Options;

/// A thread with a separate runtime, apart from that of the test.
#[derive(Debug)]
struct Apart {
    drivers: mpsc::UnboundedSender<Driver>,
    handle: tokio::runtime::Handle,
    adopted: AtomicUsize,
    ended: Arc<AtomicUsize>,
}

impl Apart {
    fn start() -> Arc<Self> {
        let (drivers, mut spawned) = mpsc::unbounded_channel::<Driver>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let (handle, count) = (runtime.handle().clone(), Arc::clone(&ended));
        thread::spawn(move || {
            runtime.block_on(async {
                while let Some(driver) = spawned.recv().await {
                    let count = Arc::clone(&count);
                    tokio::spawn(async move {
                        driver.await;
                        count.fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
        });
        Arc::new(Self { drivers, handle, adopted: AtomicUsize::new(0), ended })
    }
}

impl EventLoop for Apart {
    fn adopt(&self, socket: OwnedFd) -> Box<dyn Stream> {
        self.adopted.fetch_add(1, Ordering::SeqCst);
        let _entered = self.handle.enter();
        let socket = std::os::unix::net::UnixStream::from(socket);
        Box::new(tokio::net::UnixStream::from_std(socket).unwrap())
    }

    fn spawn(&self, driver: Driver) {
        self.drivers.send(driver).unwrap();
    }
}

#[tokio::test]
async fn it_adopts_each_socket_and_polls_each_driver_to_its_end() {
    let server = Server::start(&[]);
    let socket = Options::unix(server.socket()).deadline(server.options().deadline);
    for (place, options) in [server.options().connections(2), socket].into_iter().enumerate() {
        let apart = Apart::start();
        let client = connect(options.event_loop(Arc::clone(&apart) as Arc<dyn EventLoop>)).await;
        let connections = 2 - place;
        server::until("all connections", async || {
            count(&client).await;
            apart.adopted.load(Ordering::SeqCst) == connections
        })
        .await;
        drop(client);
        let ended = async || apart.ended.load(Ordering::SeqCst) == connections;
        server::until("the end of all drivers", ended).await;
    }
}

#[test]
fn options_are_equal_when_their_loops_are_one() {
    let (one, other) = (Apart::start(), Apart::start());
    let with = |apart: &Arc<Apart>| {
        Options::tcp("a", 1).event_loop(Arc::clone(apart) as Arc<dyn EventLoop>)
    };
    assert_eq!(with(&one), with(&one));
    assert_ne!(with(&one), with(&other));
    assert_ne!(with(&one), Options::tcp("a", 1));
}
