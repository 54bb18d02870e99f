//! Files that have the same lines, of several that are read as one log.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::path::PathBuf;

use foldhash::fast::FixedState;

/// The most lines that are remembered, as 12 bytes each. Of more, a sample is.
const MAX_KNOWN: usize = 1 << 18;

/// The fewest lines that two files share, and the least share of the second one's, in per cent.
const MIN_LINES: u64 = 8;
const MIN_PERCENT: u64 = 20;

/// A file that has lines of an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repeat {
    /// The file.
    pub path: PathBuf,
    /// The earlier one.
    pub of: PathBuf,
    /// The share of its lines that are in the earlier one, in per cent, rounded down.
    pub percent: u64,
}

/// The lines of several files, by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The first file that has each.
    known: HashMap<u64, u32>,
    /// Of every `1 << halvings` lines one is looked at: those whose hash ends in that many zeros.
    halvings: u32,
    /// For each file how many lines were looked at, and how many each earlier file has.
    files: Vec<(u64, HashMap<u32, u64>)>,
}

impl Repeats {
    /// Looks at a line of this file.
    pub(crate) fn see(&mut self, file: u32, line: &[u8]) {
        let hash = FixedState::default().hash_one(line);
        if hash.trailing_zeros() < self.halvings {
            return;
        }
        self.files.resize_with(self.files.len().max(file as usize + 1), Default::default);
        let Some((seen, shared)) = self.files.last_mut() else { return };
        *seen += 1;
        match self.known.get(&hash) {
            Some(first) if *first != file => *shared.entry(*first).or_default() += 1,
            Some(_) => {}
            None => {
                self.known.insert(hash, file);
                if self.known.len() > MAX_KNOWN {
                    self.halvings += 1;
                    let halvings = self.halvings;
                    self.known.retain(|hash, _| hash.trailing_zeros() >= halvings);
                }
            }
        }
    }

    /// The files that repeat an earlier one.
    pub(crate) fn found(self, paths: &[PathBuf]) -> Vec<Repeat> {
        let mut found = Vec::new();
        for (file, (seen, shared)) in self.files.iter().enumerate() {
            let most =
                shared.iter().max_by_key(|(first, lines)| (**lines, std::cmp::Reverse(**first)));
            let Some((first, lines)) = most else { continue };
            let percent = lines * 100 / seen.max(&1);
            let pair = paths.get(file).zip(paths.get(*first as usize));
            if let Some((path, of)) = pair.filter(|_| *lines >= MIN_LINES && percent >= MIN_PERCENT)
            {
                found.push(Repeat { path: path.clone(), of: of.clone(), percent });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_and_an_overlap_are_found_and_a_few_equal_lines_are_not() {
        let paths: Vec<PathBuf> = ["a", "b", "c", "d"].map(PathBuf::from).into();
        for lines in [100_u64, 600_000] {
            let mut repeats = Repeats::default();
            let mut see = |file, from: u64, to: u64| {
                (from..to).for_each(|line| repeats.see(file, format!("line {line}").as_bytes()));
            };
            see(0, 0, lines);
            see(1, lines, 2 * lines); // others
            see(2, lines / 2, lines * 3 / 2); // half of each
            see(3, lines - 7, lines - 7); // none
            let found = repeats.found(&paths);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((&*found[0].path, &*found[0].of), (paths[2].as_path(), paths[0].as_path()));
            assert!((48..=52).contains(&found[0].percent), "{found:?}");
        }
    }
}
