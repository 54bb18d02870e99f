//! Connections for programs that read and write the protocol themselves.

use core::fmt;

use tollgate::StoreError;

use crate::event_loop::Stream;
use crate::node::Connector;
use crate::options::Options;

/// Makes connections to one server: over TLS where the options say so, logged in, with the database
/// selected. What follows on them is the caller's.
///
/// ```no_run
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tollgate_redis::{BareConnections, Options};
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options::from_url("rediss://limiter:secret@localhost:6379")?;
/// let mut stream = BareConnections::new(options)?.open().await?;
/// stream.write_all(b"PING\r\n").await?;
/// let mut reply = [0; 7];
/// stream.read_exact(&mut reply).await?;
/// assert_eq!(&reply, b"+PONG\r\n");
/// # Ok(())
/// # }
/// ```
pub struct BareConnections(Connector);

impl BareConnections {
    /// Prepares connections to the server of these options. Nobody is connected to yet.
    ///
    /// # Errors
    /// The options are of a cluster or of sentinels, or a file of TLS cannot be read.
    pub fn new(options: Options) -> Result<Self, StoreError> {
        Ok(Self(Connector::new(options)?))
    }

    /// Makes a connection.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the user, the password or the database.
    pub async fn open(&self) -> Result<Box<dyn Stream>, StoreError> {
        Ok(self.0.bare().await?)
    }
}

impl fmt::Debug for BareConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BareConnections").field(&self.0.options).finish()
    }
}
