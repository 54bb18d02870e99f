//! The first connection to a server: once, or until the server is one for this client.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Node;
use super::slot::ConnectionSlot;
use crate::fault::Fault;

/// The pause between two attempts of [`Node::fill_by`].
const LOOK_PAUSE: Duration = Duration::from_millis(5);

impl Node {
    /// Connects: waits for the first connection, and starts the others.
    pub(crate) async fn fill(&self) -> Result<(), Fault> {
        self.0.connector.diagnosed(self.fill_once()).await
    }

    /// Connects to a server that may be none for this client until now, and tries again at once
    /// until this time. True when it is connected.
    ///
    /// Nothing is diagnosed between two attempts: that takes 250 ms where a connection was cut off,
    /// as sentinels do with all of a replica that they promote.
    pub(crate) async fn fill_by(&self, until: Instant) -> bool {
        while let Err(fault) = self.fill_once().await {
            if Instant::now() >= until || is_final(&fault) {
                return false;
            }
            sleep(LOOK_PAUSE).await;
        }
        true
    }

    async fn fill_once(&self) -> Result<(), Fault> {
        if let Some((first, others)) = self.0.slots.split_first() {
            first.fill().await?;
            others.iter().for_each(ConnectionSlot::start);
        }
        Ok(())
    }
}

/// Whether no further attempt is worth while. A server with TLS that asks clients for certificates
/// looks as if it wanted another one where it only cut a connection off.
fn is_final(fault: &Fault) -> bool {
    !fault.is_transient() && !matches!(fault, Fault::Tls { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::ChargeState;

    #[test]
    fn only_a_refusal_that_stays_ends_the_attempts() {
        let (charge, address) = (ChargeState::NotCharged, "a:6379".to_owned());
        let why = "it asks for a certificate of this client".to_owned();
        for (fault, ends) in [
            (Fault::NotPrimary, false),
            (Fault::Loading, false),
            (Fault::Closed { charge }, false),
            (Fault::Tls { address, why }, false),
            (Fault::WrongPassword, true),
            (Fault::NoAuth, true),
        ] {
            assert_eq!(is_final(&fault), ends, "{fault}");
        }
    }
}
