//! Collects the outcomes of all clients in columns of time, in bounded memory, for the raster
//! chart.

use super::results::{Cell, Raster};

/// The number of clients with a row.
pub(super) const ROWS: usize = 12;

/// How many of them are for the most denied clients, if there are others, too.
const DENIED: usize = 8;

/// The columns of the experiment: as many as a chart has.
const COLUMNS: u64 = 600;

/// The most columns: decisions after twice the duration are in the last one.
const MAX_COLUMNS: u16 = 1_200;

/// The widest cell has `1 << WIDEST` columns, which covers all.
const WIDEST: u8 = 11;

/// The most cells in memory, unless there are more than half as many clients: 4 MiB.
const CELLS: usize = 1 << 19;

/// How many of the most denied clients keep narrow cells when others are widened. There are more
/// than rows, since the ranking may still change.
const NARROW: usize = 64;

const ADMITTED: u8 = 1;
const DENIED_TOO: u8 = 2;

/// The outcomes of one client's attempts in one column, or in several adjacent ones.
#[derive(Clone, Copy, Debug)]
struct HeldCell {
    client: u32,
    /// The first of its columns.
    column: u16,
    /// It has `1 << width` columns.
    width: u8,
    outcome: u8,
}

impl HeldCell {
    fn covers(self, column: u16) -> bool {
        self.column >> self.width == column >> self.width
    }

    /// The cell with at least this width.
    fn widened(self, width: u8) -> Self {
        let width = self.width.max(width);
        Self { column: self.column >> width << width, width, ..self }
    }
}

/// When each client was admitted and denied, in cells of one column over the whole duration.
///
/// Only the end determines which clients have a row, so cells are kept for all. When they become
/// too many, the cells of less denied clients are merged into wider ones: the chart is coarser
/// there, but complete.
pub(super) struct RasterBuilder {
    column_us: u64,
    /// In the order of time.
    cells: Vec<HeldCell>,
    /// The position of each client's newest cell, counted from 1.
    newest: Vec<u32>,
    /// The most cells in memory.
    most: usize,
    /// The width of the cells merged last: narrower ones would become too many again.
    width: u8,
    /// Clients from the first to the last, in order: they are shown if no client is denied.
    spread: Vec<u32>,
}

impl RasterBuilder {
    /// A builder for clients with numbers below `clients`, over `duration_us` microseconds.
    pub(super) fn new(spread: Vec<u32>, clients: usize, duration_us: u64) -> Self {
        Self {
            column_us: duration_us.div_ceil(COLUMNS).max(1),
            cells: Vec::new(),
            newest: vec![0; clients],
            // There must always be space for one cell per client.
            most: CELLS.max(clients.saturating_mul(2)),
            width: 1,
            spread,
        }
    }

    /// Records an attempt; `denied` contains each client's denials so far.
    pub(super) fn see(&mut self, client: u32, at_us: u64, is_admitted: bool, denied: &[u32]) {
        let column = u16::try_from(at_us / self.column_us).unwrap_or(u16::MAX);
        let cell = HeldCell {
            client,
            column: column.min(MAX_COLUMNS - 1),
            width: 0,
            outcome: if is_admitted { ADMITTED } else { DENIED_TOO },
        };
        if self.cells.len() >= self.most {
            self.join(denied);
        }
        self.add(cell);
    }

    fn add(&mut self, cell: HeldCell) {
        let Some(newest) = self.newest.get_mut(cell.client as usize) else { return };
        let place = (*newest as usize).checked_sub(1);
        match place.and_then(|place| self.cells.get_mut(place)) {
            Some(held) if held.covers(cell.column) => held.outcome |= cell.outcome,
            _ => {
                self.cells.push(cell);
                *newest = u32::try_from(self.cells.len()).unwrap_or(0);
            }
        }
    }

    /// Merges the cells of all but the most denied clients, until half of the cells suffice.
    fn join(&mut self, denied: &[u32]) {
        let mut narrow = self.spread.clone();
        narrow.extend(most_denied(denied, NARROW).into_iter().map(|(client, _)| client));
        narrow.sort_unstable();
        for width in self.width..=WIDEST {
            self.width = width;
            self.newest.fill(0);
            for cell in core::mem::take(&mut self.cells) {
                let is_narrow = narrow.binary_search(&cell.client).is_ok();
                self.add(if is_narrow { cell } else { cell.widened(width) });
            }
            if self.cells.len() <= self.most / 2 {
                return;
            }
        }
    }

    /// The chart's data: the most denied clients first, then others from the first to the last.
    pub(super) fn finish(self, denied: &[u32], name: impl Fn(u32) -> String) -> Raster {
        let denied: Vec<u32> =
            most_denied(denied, DENIED + ROWS).into_iter().map(|(client, _)| client).collect();
        let (first, more) = denied.split_at(denied.len().min(DENIED));
        let mut rows = first.to_vec();
        for client in self.spread.iter().chain(more) {
            if rows.len() < ROWS && !rows.contains(client) {
                rows.push(*client);
            }
        }
        let mut cut = false;
        let cells = self.cells.iter().filter_map(|cell| {
            let row = rows.iter().position(|row| *row == cell.client);
            cut |= row.is_none();
            Some(Cell {
                row: u32::try_from(row?).ok()?,
                column: u32::from(cell.column),
                columns: 1 << cell.width,
                admitted: cell.outcome & ADMITTED > 0,
                denied: cell.outcome & DENIED_TOO > 0,
            })
        });
        let mut cells: Vec<Cell> = cells.collect();
        cells.sort_by_key(|cell| (cell.row, cell.column));
        let clients = rows.iter().map(|client| name(*client)).collect();
        Raster { clients, column_us: self.column_us, cells, cut }
    }
}

/// The `most` clients with the most denials, in that order, with their denials.
pub(super) fn most_denied(denied: &[u32], most: usize) -> Vec<(u32, u64)> {
    let counted = (0..).zip(denied).filter(|(_, denied)| **denied > 0);
    let mut all: Vec<(u32, u64)> =
        counted.map(|(client, denied)| (client, u64::from(*denied))).collect();
    let order =
        |one: &(u32, u64), other: &(u32, u64)| other.1.cmp(&one.1).then(one.0.cmp(&other.0));
    if all.len() > most {
        all.select_nth_unstable_by(most.saturating_sub(1), order);
        all.truncate(most);
    }
    all.sort_unstable_by(order);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records attempts of a client, and counts denials as the measures do.
    struct Recorder {
        raster: RasterBuilder,
        denied: Vec<u32>,
    }

    impl Recorder {
        fn new(spread: Vec<u32>, clients: usize, duration_us: u64) -> Self {
            Self {
                raster: RasterBuilder::new(spread, clients, duration_us),
                denied: vec![0; clients],
            }
        }

        fn see(&mut self, client: u32, at_us: u64, is_admitted: bool) {
            self.denied[client as usize] += u32::from(!is_admitted);
            self.raster.see(client, at_us, is_admitted, &self.denied);
        }

        fn finish(self) -> Raster {
            self.raster.finish(&self.denied, |client| client.to_string())
        }
    }

    fn cells_of_row(raster: &Raster, row: u32) -> Vec<Cell> {
        raster.cells.iter().copied().filter(|cell| cell.row == row).collect()
    }

    #[test]
    fn who_is_denied_most_comes_first_and_the_others_are_spread() {
        let mut seen = Recorder::new((0..12).map(|n| n * 100).collect(), 1_200, 6_000);
        for client in 0..1_200 {
            seen.see(client, 1, true);
        }
        for client in [777, 777, 5, 777, 300] {
            seen.see(client, 5_990, false);
        }
        let raster = seen.finish();
        let first: Vec<&str> = raster.clients.iter().map(String::as_str).take(5).collect();
        assert_eq!(first, ["777", "5", "300", "0", "100"]);
        assert_eq!((raster.clients.len(), raster.column_us, raster.cut), (ROWS, 10, true));
        let cell =
            |row, column, admitted| Cell { row, column, columns: 1, admitted, denied: !admitted };
        assert_eq!(cells_of_row(&raster, 0), [cell(0, 0, true), cell(0, 599, false)]);
        assert_eq!(cells_of_row(&raster, 3), [cell(3, 0, true)]);
    }

    #[test]
    fn what_became_of_a_column_is_one_cell_whatever_the_number_of_attempts() {
        let mut seen = Recorder::new(vec![0], 1, 600);
        for n in 0..600_000 {
            seen.see(0, n / 1_000, n % 2 == 0);
        }
        // Later than any possible time.
        seen.see(0, u64::MAX, false);
        assert_eq!(seen.raster.cells.len(), 601);
        let raster = seen.finish();
        assert_eq!((raster.cells.len(), raster.cut), (601, false));
        assert!(raster.cells[..600].iter().all(|cell| cell.admitted && cell.denied));
        assert_eq!(raster.cells[600].column, u32::from(MAX_COLUMNS) - 1);
        let nobody = Recorder::new(vec![3], 4, 0).finish();
        assert_eq!((&nobody.clients[..], nobody.column_us), (&["3".to_owned()][..], 1));
    }

    /// With too many cells, the rows are still those of the most denied clients, over the whole
    /// duration.
    #[test]
    fn where_there_are_too_many_cells_those_of_others_are_wider_and_none_is_lost() {
        let clients = 1_000;
        let mut seen = Recorder::new(vec![0, 500], clients, 600);
        seen.raster.most = 20_000;
        for at in 0..600 {
            for client in 0..1_000 {
                // Client 700 is denied a little all the time, 900 more often than all others in the
                // end.
                let is_denied = match client {
                    700 => at % 5 == 0,
                    900 => at >= 400,
                    client => client % 100 == 1 && at == 3,
                };
                seen.see(client, at, !is_denied);
            }
            assert!(seen.raster.cells.len() <= 20_000);
        }
        let raster = seen.finish();
        assert_eq!(raster.clients[..3], ["900", "700", "1"]);
        let covers = |row: u32| -> Vec<u32> {
            cells_of_row(&raster, row)
                .iter()
                .flat_map(|it| it.column..it.column + it.columns)
                .collect()
        };
        for row in 0..3 {
            let columns = covers(row);
            let all: Vec<u32> = (0..600).collect();
            assert_eq!(columns[..600], all, "row {row}: the whole time, once");
        }
        // The client denied most throughout is as detailed as without the others.
        assert_eq!(cells_of_row(&raster, 1).len(), 600);
        let wide = cells_of_row(&raster, 0);
        assert!(wide[0].columns > 1 && wide[0].admitted && !wide[0].denied, "{:?}", wide[0]);
        assert!(wide.last().unwrap().columns == 1 && wide.last().unwrap().denied);
        assert!(
            wide.iter().filter(|cell| cell.denied).all(|cell| cell.column + cell.columns > 400)
        );
        // Client 0 is never denied, but is one of the evenly spread ones.
        let row = raster.clients.iter().position(|client| client == "0").unwrap();
        assert_eq!(cells_of_row(&raster, u32::try_from(row).unwrap()).len(), 600);
    }

    #[test]
    fn a_cell_of_each_of_many_clients_is_held() {
        let clients = u32::try_from(CELLS).unwrap() / 2 + 1_000;
        let mut seen = Recorder::new(vec![0], clients as usize, 600);
        assert_eq!(seen.raster.most, CELLS + 2_000);
        for at in [0, 300, 599] {
            for client in 0..clients {
                seen.raster.see(client, at, true, &[]);
            }
        }
        assert!(seen.raster.cells.len() <= seen.raster.most);
        let last = Recorder { denied: [vec![0; clients as usize - 1], vec![1]].concat(), ..seen };
        let raster = last.finish();
        let whole: u32 = cells_of_row(&raster, 0).iter().map(|cell| cell.columns).sum();
        assert!(raster.cut && whole >= 3, "{:?}", raster.cells);
    }
}
