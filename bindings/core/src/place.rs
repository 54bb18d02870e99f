//! Where open stores are: one for threads that wait, and one for each loop that carries it.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::OnceCell;
use tollgate::Limiter;
use tollgate_stores::AnyStore;

use crate::carrier::Carrier;
use crate::fork::Closing;
use crate::lock::lock;

/// Where the open stores of a limiter are, in the process that opened them.
#[derive(Debug)]
pub(crate) struct Place(Mutex<Open>);

/// The connections of a store on a loop belong to the loop.
#[derive(Debug)]
struct Open {
    pid: u32,
    shared: Arc<Opened>,
    on_loops: Vec<(Arc<Carrier>, Arc<Opened>)>,
}

impl Open {
    fn none_yet() -> Self {
        Self { pid: std::process::id(), shared: Arc::default(), on_loops: Vec::new() }
    }
}

/// The limiter over a store, once that is open. Questions that are under way keep it.
#[derive(Debug, Default)]
pub(crate) struct Opened(pub(crate) OnceCell<Limiter<AnyStore>>);

impl Drop for Opened {
    fn drop(&mut self) {
        // Else the thread of a file would keep it open.
        if let Some(AnyStore::Sqlite(store)) = self.0.get().map(Limiter::store) {
            store.store().end_thread();
        }
    }
}

impl Place {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Open::none_yet())))
    }

    /// The stores that are open in this process. No fork happens meanwhile, so none finds the lock
    /// taken.
    fn open(&self) -> MutexGuard<'_, Open> {
        let mut open = lock(&self.0);
        if open.pid != std::process::id() {
            // The parent's. Its threads are not here, its connections are the parent's, and its
            // locks may be taken for ever: it is neither used nor dropped.
            core::mem::forget(core::mem::replace(&mut *open, Open::none_yet()));
        }
        open
    }

    /// The store that is open for threads.
    pub(crate) fn shared(&self) -> Arc<Opened> {
        Arc::clone(&self.open().shared)
    }

    /// The store that is open on a loop.
    pub(crate) fn on_loop(&self, carrier: &Arc<Carrier>) -> Arc<Opened> {
        let mut open = self.open();
        if let Some((_, found)) = open.on_loops.iter().find(|(it, _)| Arc::ptr_eq(it, carrier)) {
            return Arc::clone(found);
        }
        let opened = Arc::<Opened>::default();
        let (gone, kept) = core::mem::take(&mut open.on_loops)
            .into_iter()
            .partition::<Vec<_>, _>(|(it, _)| it.is_closed());
        open.on_loops = kept;
        open.on_loops.push((Arc::clone(carrier), Arc::clone(&opened)));
        drop(open);
        drop(gone);
        opened
    }

    /// Reads from a store that is open.
    pub(crate) fn find<T>(&self, read: impl Fn(&AnyStore) -> T) -> Option<T> {
        let open = self.open();
        let mut all = core::iter::once(&open.shared).chain(open.on_loops.iter().map(|(_, it)| it));
        all.find_map(|it| it.0.get()).map(|it| read(it.store()))
    }
}

impl Closing for Place {
    /// Closes all stores, as soon as the questions that are under way have their answers.
    fn close(&self) {
        let closed = core::mem::replace(&mut *self.open(), Open::none_yet());
        drop(closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rest, runtime};

    #[test]
    fn what_a_parent_opened_is_not_used() {
        let place = Place::new();
        let parents = place.shared();
        assert!(Arc::ptr_eq(&parents, &place.shared()));
        lock(&place.0).pid = std::process::id().wrapping_add(1);
        assert!(!Arc::ptr_eq(&parents, &place.shared()), "a child opens its own");
        assert_eq!(Arc::strong_count(&parents), 2, "and does not drop the parent's");
    }

    #[test]
    fn each_loop_has_its_own_until_it_ends() {
        let handle = runtime().unwrap().handle();
        let carrier = || Arc::new(Carrier::new(handle.clone(), || (), Rest::Kept));
        let (place, first, second) = (Place::new(), carrier(), carrier());
        let opened = place.on_loop(&first);
        assert!(Arc::ptr_eq(&opened, &place.on_loop(&first)));
        assert!(!Arc::ptr_eq(&opened, &place.on_loop(&second)));
        first.close();
        let _ = place.on_loop(&carrier());
        assert_eq!(Arc::strong_count(&opened), 1, "that of a loop that ended is gone");
        place.close();
        assert_eq!(lock(&place.0).on_loops.len(), 0);
    }
}
