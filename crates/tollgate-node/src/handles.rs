//! What JavaScript holds by a number: each thread of JavaScript has tables of its own.
//!
//! A number is read in a few nanoseconds, where an object of the engine that is wrapped in an
//! object of JavaScript takes longer than a check. `lib/native.js` gives a number back when the
//! object that has it is collected.

use core::cell::RefCell;
use std::rc::Rc;

use tollgate::{Hold, LimitSet, ManualClock};

use crate::error::{self, Result};
use crate::limiter::Limiter;

/// Things by number, from 1: 0 is none.
#[derive(Debug)]
pub(crate) struct Table<T> {
    things: Vec<Option<Rc<T>>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    const fn new() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }

    fn put(&mut self, thing: T) -> u32 {
        let thing = Some(Rc::new(thing));
        if let Some(number) = self.free.pop()
            && let Some(place) = self.things.get_mut(index(number))
        {
            *place = thing;
            return number;
        }
        self.things.push(thing);
        u32::try_from(self.things.len()).unwrap_or(u32::MAX)
    }

    fn find(&self, number: u32) -> Result<Rc<T>> {
        let thing = self.things.get(index(number)).and_then(Option::as_ref);
        thing.cloned().ok_or_else(|| error::other("it was closed"))
    }

    fn remove(&mut self, number: u32) -> Option<Rc<T>> {
        let thing = self.things.get_mut(index(number)).and_then(Option::take)?;
        self.free.push(number);
        Some(thing)
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(1)
}

/// The tables of a thread.
#[derive(Debug)]
pub(crate) struct Tables {
    limiters: RefCell<Table<Limiter>>,
    limits: RefCell<Table<LimitSet>>,
    clocks: RefCell<Table<ManualClock>>,
    holds: RefCell<Table<Hold>>,
}

thread_local! {
    static TABLES: Tables = const {
        Tables {
            limiters: RefCell::new(Table::new()),
            limits: RefCell::new(Table::new()),
            clocks: RefCell::new(Table::new()),
            holds: RefCell::new(Table::new()),
        }
    };
}

/// A kind of thing that has a table.
pub(crate) trait Handled: Sized + 'static {
    /// Its table.
    fn table(tables: &Tables) -> &RefCell<Table<Self>>;

    /// The number of a new thing.
    fn put(self) -> u32 {
        TABLES.with(|tables| Self::table(tables).borrow_mut().put(self))
    }

    /// The thing of a number.
    ///
    /// # Errors
    /// It was closed.
    fn find(number: u32) -> Result<Rc<Self>> {
        TABLES.with(|tables| Self::table(tables).borrow().find(number))
    }

    /// Forgets a thing.
    fn forget(number: u32) {
        // Dropped when the table is free again: what is dropped may look into it.
        let thing = TABLES.with(|tables| Self::table(tables).borrow_mut().remove(number));
        drop(thing);
    }
}

macro_rules! handled {
    ($($type:ty = $table:ident;)+) => {$(
        impl Handled for $type {
            #[inline]
            fn table(tables: &Tables) -> &RefCell<Table<Self>> {
                &tables.$table
            }
        }
    )+};
}

handled! {
    Limiter = limiters;
    LimitSet = limits;
    ManualClock = clocks;
    Hold = holds;
}
