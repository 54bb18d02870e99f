//! A place in a line, as stores keep it.

use crate::hold::HoldId;

/// The most tickets of one count.
pub const MAX_TICKETS: usize = 1_000;

/// The shortest time for which a ticket lasts after its last ask, in microseconds.
pub const SHORTEST_TICKET_US: u64 = 1_000_000;

/// The longest time for which a ticket lasts after its last ask, in microseconds.
pub const LONGEST_TICKET_US: u64 = 10_000_000;

/// A place in the line of a count. Tickets are ordered by their arrivals, then by their ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct Ticket {
    /// When it came, in microseconds since the Unix epoch, or a little later, so that each has
    /// another time.
    pub since_us: u64,
    /// The id of the hold that it is for, which has a name.
    pub id: HoldId,
    /// The cost of that hold.
    pub cost: u64,
    /// When it ends unless its holder asks again.
    pub end_us: u64,
}

impl Ticket {
    /// Whether it is the ticket of this hold.
    pub(super) fn is_of(&self, (id, cost): (HoldId, u64)) -> bool {
        self.id == id && self.cost == cost
    }
}
