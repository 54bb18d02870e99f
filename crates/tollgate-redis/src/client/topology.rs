//! The owners of the keys now, by sentinels or a cluster, and the changes since.

/// Where the keys are, as sentinels or a cluster said when they were asked.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Topology {
    /// Where the primaries are reached: one under sentinels, several in a cluster.
    pub primaries: Vec<String>,
    /// Higher after a later failover: the configuration epoch of the primary that sentinels name,
    /// or the current epoch of a cluster. 0 where this user may not read it.
    pub epoch: u64,
    /// The slots of a cluster that no primary serves, as one node sees it; else 0.
    pub slots_down: u16,
    /// How many of the sentinels answered, and how many the options name. None in a cluster.
    pub sentinels: Option<(usize, usize)>,
    /// A place in `primaries` for each slot of a cluster.
    pub(super) owners: Box<[u16]>,
}

/// A primary took over from another.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Takeover {
    /// Where the primary was.
    pub from: String,
    /// Where it is now.
    pub to: String,
    /// How many slots of a cluster it took over; 0 under sentinels.
    pub slots: u16,
}

impl Topology {
    /// The primaries that took over since `before`. Slots that moved between two primaries that
    /// both remain do not count: that is how a cluster is resharded.
    #[must_use]
    pub fn takeovers_since(&self, before: &Self) -> Vec<Takeover> {
        if self.sentinels.is_some() {
            let (Some(from), Some(to)) = (before.primaries.first(), self.primaries.first()) else {
                return Vec::new();
            };
            let takeover = Takeover { from: from.clone(), to: to.clone(), slots: 0 };
            return if from == to { Vec::new() } else { vec![takeover] };
        }
        let mut found: Vec<Takeover> = Vec::new();
        for (was, is) in before.owners.iter().zip(&self.owners) {
            let was = before.primaries.get(usize::from(*was));
            let is = self.primaries.get(usize::from(*is));
            let (Some(from), Some(to)) = (was, is) else { continue };
            if from == to || self.primaries.contains(from) {
                continue;
            }
            match found.iter_mut().find(|known| known.from == *from && known.to == *to) {
                Some(known) => known.slots += 1,
                None => found.push(Takeover { from: from.clone(), to: to.clone(), slots: 1 }),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(primaries: &[&str], owners: &[u16]) -> Topology {
        Topology {
            primaries: primaries.iter().map(|&it| it.to_owned()).collect(),
            epoch: 1,
            slots_down: 0,
            sentinels: None,
            owners: owners.into(),
        }
    }

    fn takeover(from: &str, to: &str, slots: u16) -> Takeover {
        Takeover { from: from.to_owned(), to: to.to_owned(), slots }
    }

    #[test]
    fn a_replica_took_over_where_the_primary_is_gone() {
        let before = cluster(&["a", "b"], &[0, 0, 1, u16::MAX]);
        assert_eq!(before.takeovers_since(&before), []);
        let after = cluster(&["b", "c"], &[1, 1, 0, 0]);
        assert_eq!(after.takeovers_since(&before), [takeover("a", "c", 2)]);
    }

    #[test]
    fn slots_that_move_between_primaries_are_no_takeover() {
        let before = cluster(&["a", "b"], &[0, 0, 1, 1]);
        assert_eq!(cluster(&["a", "b"], &[0, 1, 1, 1]).takeovers_since(&before), []);
        let nobody = cluster(&["a", "b"], &[u16::MAX, u16::MAX, 1, 1]);
        assert_eq!(nobody.takeovers_since(&before), []);
    }

    #[test]
    fn under_sentinels_there_is_one_primary() {
        let named = |primary| Topology { sentinels: Some((3, 3)), ..cluster(&[primary], &[]) };
        assert_eq!(named("b").takeovers_since(&named("a")), [takeover("a", "b", 0)]);
        assert_eq!(named("a").takeovers_since(&named("a")), []);
    }
}
