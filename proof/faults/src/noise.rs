//! Small faults at random times, beside a greater one: none of them may cost a charge.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use tollgate_testbed::Client;

use crate::wait::pause;
use crate::world::{FOR_CLIENTS, World};

/// The longest time between two.
const PAUSE_MS: u64 = 800;

/// Somebody who makes small faults until this is dropped.
#[derive(Debug)]
pub struct Noise {
    is_over: Arc<AtomicBool>,
    maker: Option<JoinHandle<()>>,
}

impl Noise {
    /// Begins. A server that does not answer is left alone.
    #[must_use]
    pub fn start(world: &World, mut rng: ChaCha8Rng) -> Self {
        let servers: Vec<(PathBuf, String)> = world
            .servers()
            .iter()
            .map(|server| (server.socket(), format!("{FOR_CLIENTS}:{}", server.port())))
            .collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let maker = thread::spawn(move || {
            while !told.load(Ordering::SeqCst) {
                pause(Duration::from_millis(rng.random_range(50..PAUSE_MS)));
                let Some((socket, address)) = servers.choose(&mut rng) else { return };
                let words = match rng.random_range(0..5) {
                    // Those who make the greater faults come another way.
                    0 => vec!["CLIENT", "KILL", "LADDR", address],
                    1 => vec!["SCRIPT", "FLUSH"],
                    2 => vec!["CLIENT", "PAUSE", "100", "ALL"],
                    3 => vec!["CLIENT", "PAUSE", "100", "WRITE"],
                    _ => vec!["DEBUG", "SLEEP", "0.1"],
                };
                let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                // Not waited for: a frozen server would hold this thread.
                let _ = Client::unix(socket).and_then(|mut client| client.send(&words));
            }
        });
        Self { is_over, maker: Some(maker) }
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(maker) = self.maker.take() {
            let _ = maker.join();
        }
    }
}
