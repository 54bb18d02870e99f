//! Objects that JavaScript knows by a number: each thread of JavaScript has separate tables.
//!
//! A number is read in a few nanoseconds, where an object of the engine that is wrapped in an
//! object of JavaScript takes longer than a check. `lib/native.js` gives a number back when the
//! object that has it is collected.

use core::cell::RefCell;
use std::rc::Rc;

use tollgate::{Hold, LimitSet, ManualClock, Pace};
use tollgate_binding::{Clients, Limiter, Policies, Table};

use crate::error::{self, Result};

/// The tables of a thread.
#[derive(Debug)]
pub(crate) struct Tables {
    limiters: RefCell<Table<Limiter>>,
    limits: RefCell<Table<LimitSet>>,
    clocks: RefCell<Table<ManualClock>>,
    holds: RefCell<Table<Hold>>,
    clients: RefCell<Table<Clients>>,
    paces: RefCell<Table<RefCell<Pace>>>,
    policies: RefCell<Table<Policies>>,
}

thread_local! {
    static TABLES: Tables = const {
        Tables {
            limiters: RefCell::new(Table::new()),
            limits: RefCell::new(Table::new()),
            clocks: RefCell::new(Table::new()),
            holds: RefCell::new(Table::new()),
            clients: RefCell::new(Table::new()),
            paces: RefCell::new(Table::new()),
            policies: RefCell::new(Table::new()),
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
        let found = TABLES.with(|tables| Self::table(tables).borrow().find(number));
        found.ok_or_else(|| error::other("it was closed"))
    }

    /// Forgets a thing.
    fn forget(number: u32) {
        // Dropped when the table is free again: a dropped object may look into it.
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
    Clients = clients;
    RefCell<Pace> = paces;
    Policies = policies;
}
