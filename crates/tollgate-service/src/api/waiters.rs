//! The requests that wait for jobs, by the addresses of their clients.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;

use crate::listen::network;

/// The maximum number of requests that wait for jobs concurrently: each occupies a connection.
pub(super) const MAX_WAITING: usize = 1_000;

/// The places of the requests that wait.
#[derive(Debug)]
pub(super) struct Waiters(Mutex<Places>);

#[derive(Debug)]
struct Places {
    free: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The place of one request; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place<'a> {
    waiters: &'a Waiters,
    address: IpAddr,
}

impl Waiters {
    pub(super) fn new(most: usize) -> Self {
        Self(Mutex::new(Places { free: most, by_address: HashMap::new() }))
    }

    /// Takes a place. `None` when this address has as many as are left for others, so that no
    /// address takes all of them.
    pub(super) fn enter(&self, peer: IpAddr) -> Option<Place<'_>> {
        let address = network(peer);
        let mut places = self.0.lock();
        let has = places.by_address.get(&address).copied().unwrap_or_default();
        if has >= places.free {
            return None;
        }
        places.free -= 1;
        places.by_address.insert(address, has + 1);
        Some(Place { waiters: self, address })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut places = self.waiters.0.lock();
        places.free += 1;
        if let Some(has) = places.by_address.get_mut(&self.address) {
            *has -= 1;
            if *has == 0 {
                places.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_takes_the_places_of_others() {
        let waiters = Waiters::new(8);
        let enter = |last| waiters.enter(IpAddr::from([192, 0, 2, last]));
        let mut first: Vec<_> = core::iter::from_fn(|| enter(1)).collect();
        let second: Vec<_> = core::iter::from_fn(|| enter(2)).collect();
        assert_eq!((first.len(), second.len()), (4, 2));
        assert!(enter(3).is_some());
        // A job that is free again is free for everybody.
        first.truncate(1);
        assert_eq!(core::iter::from_fn(|| enter(3)).collect::<Vec<_>>().len(), 3);
        drop((first, second));
        assert_eq!(waiters.0.lock().free, 8);
        assert!(waiters.0.lock().by_address.is_empty());
    }
}
