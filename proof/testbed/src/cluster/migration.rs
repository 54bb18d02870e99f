//! Slots that move from one primary to another, key by key.

use super::{PATIENCE, RedisCluster};
use crate::wait::until;
use crate::{Client, Reply};

/// How many keys one `GETKEYSINSLOT` names.
const KEYS: &str = "100";

/// How long one `MIGRATE` may wait for the other server, in milliseconds.
const MIGRATE_MS: &str = "5000";

/// A slot, and between which primaries it moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it names the arguments of a move")]
pub struct SlotMove {
    /// The slot.
    pub slot: u16,
    /// The number of the primary that owns it.
    pub from: usize,
    /// The number of the primary that gets it.
    pub to: usize,
}

impl RedisCluster {
    /// Moves a slot with all its keys.
    ///
    /// # Panics
    ///
    /// `from` does not own the slot, or `to` is not a primary.
    pub fn migrate_slot(&self, movement: SlotMove) {
        self.begin_migration(movement);
        self.move_keys(movement);
        self.finish_migration(movement);
    }

    /// Opens the slot on both sides. From now on `from` answers `ASK` for keys that it does not
    /// hold, and `TRYAGAIN` for several of which it holds some; `to` answers only after `ASKING`.
    ///
    /// # Panics
    ///
    /// `from` does not own the slot, or `to` is not a primary.
    pub fn begin_migration(&self, movement: SlotMove) {
        let SlotMove { from, to, .. } = movement;
        self.set_slot(movement, to, &["IMPORTING", &self.id(from)]);
        self.set_slot(movement, from, &["MIGRATING", &self.id(to)]);
    }

    /// Moves the keys that `from` holds in the open slot, one by one, and returns how many they
    /// were.
    ///
    /// # Panics
    ///
    /// A server does not answer, or refuses a key.
    pub fn move_keys(&self, movement: SlotMove) -> usize {
        let slot = movement.slot.to_string();
        let mut client = self.client(movement.from).unwrap();
        let mut count = 0;
        loop {
            let words: [&[u8]; 4] =
                [b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), KEYS.as_bytes()];
            let reply = client.command(&words).unwrap();
            assert_eq!(reply.error_code(), None, "{reply:?}");
            let keys: Vec<_> = reply.items().iter().filter_map(Reply::bytes).collect();
            if keys.is_empty() {
                return count;
            }
            // A key may expire meanwhile: it did not move then.
            count += keys.iter().filter(|key| self.migrate(&mut client, movement, key)).count();
        }
    }

    /// Moves one key of the open slot. False: `from` does not hold it.
    ///
    /// # Panics
    ///
    /// A server does not answer, or refuses the key.
    #[must_use]
    pub fn move_key(&self, movement: SlotMove, key: &[u8]) -> bool {
        self.migrate(&mut self.client(movement.from).unwrap(), movement, key)
    }

    /// Makes `to` the owner of the slot on all primaries that are awake, and returns when the
    /// replicas know it too. Keys that were not moved are lost.
    ///
    /// # Panics
    ///
    /// `from` still holds keys of the slot, or `to` is not a primary.
    pub fn finish_migration(&self, movement: SlotMove) {
        let SlotMove { slot, from, to } = movement;
        let id = self.id(to);
        // The new owner first: should the old one give it up before, nobody would have it.
        let others = self.primaries().into_iter().filter(|&other| other != from && other != to);
        let awake = others.filter(|&other| self.servers[other].is_awake());
        for index in [to, from].into_iter().chain(awake) {
            self.set_slot(movement, index, &["NODE", &id]);
        }
        until(PATIENCE, "the slot's new owner is known", || {
            self.all_see(|nodes| nodes[to].owns(slot))
        });
    }

    /// Sends `CLUSTER SETSLOT` to a server.
    fn set_slot(&self, movement: SlotMove, index: usize, words: &[&str]) {
        let slot = movement.slot.to_string();
        let mut command: Vec<&[u8]> = vec![b"CLUSTER", b"SETSLOT", slot.as_bytes()];
        command.extend(words.iter().map(|word| word.as_bytes()));
        self.command(index, &command)
            .done()
            .unwrap_or_else(|why| panic!("{movement:?}: {index} answers {words:?} with {why}"));
    }

    fn migrate(&self, from: &mut Client, movement: SlotMove, key: &[u8]) -> bool {
        let to = &self.servers[movement.to];
        let port = to.port().to_string();
        let mut words: Vec<&[u8]> =
            vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), key, b"0", MIGRATE_MS.as_bytes()];
        if let Some(password) = to.password() {
            words.extend([b"AUTH", password.as_bytes()]);
        }
        match from.command(&words).unwrap() {
            Reply::Status(text) if text == "OK" => true,
            Reply::Status(text) if text == "NOKEY" => false,
            other => panic!("{movement:?}: MIGRATE answers {other:?}"),
        }
    }

    /// The name that the cluster gave the node.
    fn id(&self, index: usize) -> String {
        self.command(index, &[b"CLUSTER", b"MYID"]).text().unwrap_or_default()
    }
}
