//! Whose attempts are drawn one by one, of a case with more clients than a picture has rows.

use super::results::Raster;

/// How many clients have a row.
pub(super) const ROWS: usize = 12;

/// How many of them are for those who are denied most, where others are there too.
const DENIED: usize = 8;

/// How many attempts are kept at most.
const ATTEMPTS: usize = 20_000;

/// Attempts of single clients. All are kept until they are too many; then those of the clients that
/// were denied most so far, and of some others from the first to the last.
pub(super) struct Drawn {
    /// Client, microseconds from the start, and whether it was let through.
    attempts: Vec<(u32, u64, bool)>,
    /// Clients from the first to the last, in order: they are drawn where nobody is denied.
    spread: Vec<u32>,
    /// Whose attempts are kept, in order, once all were too many.
    kept: Option<Vec<u32>>,
    cut: bool,
}

impl Drawn {
    pub(super) fn new(spread: Vec<u32>) -> Self {
        Self { attempts: Vec::new(), spread, kept: None, cut: false }
    }

    pub(super) fn see(&mut self, client: u32, at_us: u64, is_admitted: bool) {
        let is_out = |kept: &Vec<u32>| kept.binary_search(&client).is_err();
        if self.kept.as_ref().is_some_and(is_out) {
            return;
        }
        if self.attempts.len() == ATTEMPTS && self.kept.is_none() {
            self.choose();
            return self.see(client, at_us, is_admitted);
        }
        if self.attempts.len() == ATTEMPTS {
            self.cut = true;
            return;
        }
        self.attempts.push((client, at_us, is_admitted));
    }

    /// Keeps some clients alone from here on.
    fn choose(&mut self) {
        let mut kept: Vec<u32> = self.by_denials().into_iter().take(ROWS).collect();
        kept.extend(&self.spread);
        kept.sort_unstable();
        kept.dedup();
        self.attempts.retain(|(client, ..)| kept.binary_search(client).is_ok());
        self.kept = Some(kept);
        self.cut = true;
    }

    /// Who was denied, the most often first.
    fn by_denials(&self) -> Vec<u32> {
        let mut denied: Vec<u32> =
            self.attempts.iter().filter(|(.., is_in)| !is_in).map(|(client, ..)| *client).collect();
        denied.sort_unstable();
        let mut counts: Vec<(usize, u32)> = denied
            .chunk_by(|one, other| one == other)
            .filter_map(|all| Some((all.len(), *all.first()?)))
            .collect();
        counts.sort_unstable_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
        counts.into_iter().map(|(_, client)| client).collect()
    }

    /// The picture: those denied most often first, then others from the first to the last.
    pub(super) fn finish(self, name: impl Fn(u32) -> String) -> Raster {
        let denied = self.by_denials();
        let (first, more) = denied.split_at(denied.len().min(DENIED));
        let mut rows = first.to_vec();
        for client in self.spread.iter().chain(more) {
            if rows.len() < ROWS && !rows.contains(client) {
                rows.push(*client);
            }
        }
        let row = |client| rows.iter().position(|row| *row == client);
        let mut cut = self.cut;
        let attempts = self.attempts.iter().filter_map(|&(client, at_us, is_admitted)| {
            let row = row(client);
            cut |= row.is_none();
            Some((u32::try_from(row?).ok()?, at_us, is_admitted))
        });
        let attempts = attempts.collect();
        Raster { clients: rows.iter().map(|client| name(*client)).collect(), attempts, cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(drawn: Drawn) -> Vec<String> {
        drawn.finish(|client| client.to_string()).clients
    }

    #[test]
    fn who_is_denied_most_comes_first_and_the_others_are_spread() {
        let mut drawn = Drawn::new((0..12).map(|n| n * 100).collect());
        for client in 0..1_200 {
            drawn.see(client, 1, true);
        }
        for client in [777, 777, 5, 777, 300] {
            drawn.see(client, 2, false);
        }
        let raster = drawn.finish(|client| format!("client {client}"));
        let first: Vec<&str> = raster.clients.iter().map(String::as_str).take(5).collect();
        assert_eq!(first, ["client 777", "client 5", "client 300", "client 0", "client 100"]);
        assert_eq!((raster.clients.len(), raster.cut), (ROWS, true));
        let of = |row| raster.attempts.iter().filter(|it| it.0 == row).count();
        assert_eq!([of(0), of(1), of(3)], [4, 2, 1]);
    }

    #[test]
    fn a_row_has_all_of_its_client_also_when_the_others_were_too_many() {
        let mut drawn = Drawn::new(vec![7]);
        drawn.see(4_000, 0, true);
        for n in 0..100_000_u32 {
            drawn.see(n % 3_000, u64::from(n), true);
            if n % 1_000 == 0 {
                drawn.see(4_000, u64::from(n), n % 2_000 == 0);
            }
        }
        let raster = drawn.finish(|client| client.to_string());
        assert_eq!((&raster.clients[..], raster.cut), (&["4000".into(), "7".into()][..], true));
        let of = |row| raster.attempts.iter().filter(|it| it.0 == row).count();
        assert_eq!((of(0), of(1)), (101, 34), "from the first attempt to the last");
        assert!(raster.attempts.is_sorted_by_key(|it| it.1));
    }

    #[test]
    fn attempts_are_bounded() {
        let mut drawn = Drawn::new(vec![0]);
        for n in 0..50_000 {
            drawn.see(0, n, n % 2 == 0);
        }
        let raster = drawn.finish(|client| client.to_string());
        assert_eq!((raster.attempts.len(), raster.cut), (ATTEMPTS, true));
        assert_eq!(clients(Drawn::new(vec![3])), ["3"]);
    }
}
