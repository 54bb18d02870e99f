//! Things that another language holds by number.

use std::rc::Rc;

/// Things by number, from 1: 0 means no thing. A number that is free is used again.
#[derive(Debug)]
pub struct Table<T> {
    things: Vec<Option<Rc<T>>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    /// A table without things.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is made in a constant")]
    pub const fn new() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }

    /// Adds a thing, and returns its number.
    pub fn put(&mut self, thing: T) -> u32 {
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

    /// The thing of a number; none after it was removed.
    #[must_use]
    pub fn find(&self, number: u32) -> Option<Rc<T>> {
        self.things.get(index(number)).and_then(Option::as_ref).cloned()
    }

    /// Removes a thing, for the caller to drop.
    pub fn remove(&mut self, number: u32) -> Option<Rc<T>> {
        let thing = self.things.get_mut(index(number)).and_then(Option::take)?;
        self.free.push(number);
        Some(thing)
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_one_thing_until_it_is_removed() {
        let mut table = Table::new();
        let (a, b) = (table.put("a"), table.put("b"));
        assert_eq!((a, b), (1, 2));
        assert_eq!(table.remove(a).as_deref(), Some(&"a"));
        assert!(table.remove(a).is_none() && table.find(a).is_none());
        assert_eq!(table.put("c"), a, "a free number is used again");
        assert_eq!(table.find(a).as_deref(), Some(&"c"));
        assert_eq!(table.find(b).as_deref(), Some(&"b"));
        assert!(table.find(0).is_none() && table.find(9).is_none() && table.remove(0).is_none());
    }
}
