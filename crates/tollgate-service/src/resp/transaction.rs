//! `MULTI`: commands that are queued, and run in order at `EXEC`, as a pipeline. Other clients'
//! commands may run in between.

use super::codec::Words;

/// The most commands of one transaction.
pub(super) const MAX_QUEUED: usize = 1_000;

/// The maximum number of bytes of the commands of one transaction, with the overhead of each word.
pub(super) const MAX_QUEUED_BYTES: usize = 256 * 1_024;

/// The commands since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    commands: Vec<Vec<Box<[u8]>>>,
    bytes: usize,
    /// Whether one of them was refused: then none is run.
    is_broken: bool,
}

impl Transaction {
    /// Queues a command.
    ///
    /// # Errors
    /// The queue has no room for it. Nothing of the transaction will be run.
    pub(super) fn push(&mut self, words: &Words<'_>) -> Result<(), &'static str> {
        let taken = |word: &&[u8]| word.len() + size_of::<Box<[u8]>>();
        let bytes = self.bytes + words.iter().map(taken).sum::<usize>();
        if self.commands.len() >= MAX_QUEUED || bytes > MAX_QUEUED_BYTES {
            self.spoil();
            return Err(
                "ERR a transaction has at most 1000 commands and 256 KiB: send several, or \
                        pipeline the commands without MULTI",
            );
        }
        self.bytes = bytes;
        self.commands.push(words.iter().map(|word| Box::from(*word)).collect());
        Ok(())
    }

    /// Remembers that a command was refused. The queued commands are dropped, since none of them
    /// will run.
    pub(super) fn spoil(&mut self) {
        *self = Self { is_broken: true, ..Self::default() };
    }

    /// The commands to run.
    ///
    /// # Errors
    /// One of them was refused when it was queued.
    pub(super) fn into_commands(self) -> Result<Vec<Vec<Box<[u8]>>>, &'static str> {
        match self.is_broken {
            true => Err("EXECABORT Transaction discarded because of previous errors."),
            false => Ok(self.commands),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_bounds() {
        let words: Words<'_> = [&b"PING"[..]].into_iter().collect();
        let mut transaction = Transaction::default();
        for _ in 0..MAX_QUEUED {
            transaction.push(&words).unwrap();
        }
        assert!(transaction.push(&words).unwrap_err().contains("at most 1000"));
        assert!(transaction.into_commands().unwrap_err().starts_with("EXECABORT"));
        let long = vec![b'a'; 60 * 1_024];
        let words: Words<'_> = [&b"ECHO"[..], &long].into_iter().collect();
        let mut transaction = Transaction::default();
        for _ in 0..4 {
            transaction.push(&words).unwrap();
        }
        assert!(transaction.push(&words).unwrap_err().contains("256 KiB"));
    }
}
