//! The most admitted units of one client in any window, counted independently of the engine.

use std::collections::VecDeque;
use std::iter::Peekable;

use crate::error::Error;
use crate::event::Event;
use crate::order::Iter;
use crate::read::Traffic;

/// The most admitted units of one client in any `(t - D, t]`, where D is `period_us`.
///
/// A second reader, one window behind the first, finds the events that leave the window. So one bit
/// per event of the window suffices to record which were admitted, whatever the limit admits. A
/// queue of admitted events would take 12 bytes each: with D = 30 days, the whole log in memory.
pub(super) struct Peak<'a> {
    period_us: u64,
    /// Whether an event counts its cost, and not 1.
    counts_cost: bool,
    /// The second reader, at the oldest event in the window.
    behind: Peekable<Iter<'a>>,
    /// Whether each event between the two readers was admitted.
    admitted: Bits,
    /// The admitted units of each client in the window.
    counts: Vec<u64>,
    most: u64,
}

impl<'a> Peak<'a> {
    pub(super) fn new(
        traffic: &'a Traffic,
        period_us: u64,
        counts_cost: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            period_us,
            counts_cost,
            behind: traffic.ordered.iter()?.peekable(),
            admitted: Bits::default(),
            counts: vec![0; traffic.clients.len()],
            most: 0,
        })
    }

    /// Counts the next event. Events come in the order of the traffic.
    pub(super) fn count(&mut self, event: Event, admitted: bool) -> Result<(), Error> {
        let Self { period_us, counts_cost, behind, counts, .. } = self;
        let units = |event: Event| if *counts_cost { u64::from(event.cost) } else { 1 };
        let gone = |old: &Result<Event, Error>| {
            old.as_ref().map_or(true, |old| old.at_us + *period_us <= event.at_us)
        };
        while let Some(old) = behind.next_if(gone) {
            let was_admitted = self.admitted.pop();
            let old = old?;
            if was_admitted {
                counts[old.client.index() as usize] -= units(old);
            }
        }
        self.admitted.push(admitted);
        if admitted {
            let count = &mut counts[event.client.index() as usize];
            *count += units(event);
            self.most = self.most.max(*count);
        }
        Ok(())
    }

    /// The most so far.
    pub(super) fn most(&self) -> u64 {
        self.most
    }
}

/// A queue of bits.
#[derive(Default)]
struct Bits {
    words: VecDeque<u64>,
    /// The bits of the first word that were taken out.
    taken: u32,
    /// The bits of the last word that are in use; 64 (or no word at all) when it is full.
    used: u32,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.used == u64::BITS || self.words.is_empty() {
            self.words.push_back(0);
            self.used = 0;
        }
        if let Some(last) = self.words.back_mut() {
            *last |= u64::from(bit) << self.used;
        }
        self.used += 1;
    }

    /// Takes out the oldest bit. There is always one: the second reader never passes the first.
    fn pop(&mut self) -> bool {
        let Some(first) = self.words.front() else { return false };
        let bit = first >> self.taken & 1 == 1;
        self.taken += 1;
        if self.taken == u64::BITS {
            self.words.pop_front();
            self.taken = 0;
        }
        bit
    }
}
