//! Tables that fit the output: their cells are wrapped, or each row becomes a record.

use core::fmt;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width,
};

use super::width::{columns, width};

/// The blanks left and right of a cell, and those where room is short.
const WIDE: (usize, usize) = (1, 1);
const NARROW: (usize, usize) = (0, 1);

/// The most lines of a row. A row of more is read with more trouble than a record.
const LINES: usize = 3;

/// Rows of cells below a header. A table that is wider than the output wraps its cells between
/// words; one that is wider nevertheless is shown as records, one field a line.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    is_text: bool,
}

/// A table whose first column is text, and the others are numbers.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    Table { is_text: false, ..texts(header) }
}

/// The same with text in all columns.
pub(crate) fn texts<const N: usize>(header: [&str; N]) -> Table {
    Table::of_texts(header.map(str::to_owned).into())
}

impl Table {
    /// A table with text in all columns.
    pub(super) fn of_texts(header: Vec<String>) -> Self {
        Self { header, rows: Vec::new(), is_text: true }
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in at most this many columns, unless a word is wider.
    pub(crate) fn within(&self, columns: usize) -> String {
        let whole = self.drawn(WIDE, None);
        if width_of(&whole) <= columns {
            return whole;
        }
        for padding in [WIDE, NARROW] {
            let count = self.header.len();
            let cells: usize = (0..count).map(|it| self.least(it) + padding.0 + padding.1).sum();
            // One blank is between two cells.
            if columns + 1 < cells + count {
                continue;
            }
            let wrapped = self.drawn(padding, Some(columns));
            // The header and its line come before the rows, and may take more lines.
            let lines = wrapped.lines().skip_while(|line| !line.starts_with('─')).count();
            if width_of(&wrapped) <= columns && lines <= 1 + LINES * self.rows.len() {
                return wrapped;
            }
        }
        self.records()
    }

    /// The table as lines, in this many columns or as many as it needs.
    fn drawn(&self, padding: (usize, usize), columns: Option<usize>) -> String {
        let line = LineStyle::none().fill('─').junction('─');
        let mut table = comfy_table::Table::new();
        table.load_style(TableStyle::new().header_separator(line)).set_header(&self.header);
        for row in &self.rows {
            table.add_row(row);
        }
        let number = |columns| u16::try_from(columns).unwrap_or(u16::MAX);
        let (left, right) = padding;
        for (place, column) in table.column_iter_mut().enumerate() {
            column.set_padding((number(left), number(right)));
            if place > 0 && !self.is_text {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        if let Some(columns) = columns {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(number(columns));
            table.set_constraints((0..self.header.len()).map(|column| {
                let least = number(self.least(column) + left + right);
                ColumnConstraint::LowerBoundary(Width::Fixed(least))
            }));
        }
        table.to_string()
    }

    /// The least columns of a column: those of its longest word, and of a number with its unit.
    fn least(&self, column: usize) -> usize {
        let is_text = self.is_text || column == 0;
        let words = |text: &str| text.split(' ').map(width).max().unwrap_or(0);
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let cells = cells.map(|cell| if is_text { words(cell) } else { width(cell) });
        let title = self.header.get(column).map(|title| words(title));
        title.into_iter().chain(cells).max().unwrap_or(0)
    }

    /// The rows as records: the first cell, and below it the other fields with their names.
    fn records(&self) -> String {
        let Some((first, names)) = self.header.split_first() else { return String::new() };
        let wide = names.iter().map(|name| width(name)).max().unwrap_or(0);
        let each = self.rows.iter().map(|row| {
            let (title, cells) = row.split_first().map_or(("", &[][..]), |(it, rest)| (it, rest));
            let mut record = format!("{first} {title}").trim().to_owned();
            for (name, cell) in names.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
                let blanks = wide - width(name);
                record.push_str(&format!("\n  {name}{:blanks$}  {cell}", ""));
            }
            record
        });
        each.collect::<Vec<_>>().join("\n\n")
    }
}

fn width_of(text: &str) -> usize {
    text.lines().map(width).max().unwrap_or(0)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.within(columns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strategies() -> Table {
        let mut table = table(["strategy", "admitted", "clients denied", "longest wait"]);
        table.add_row(["fixed_window", "9210", "12 of 1753", "59s"]);
        table.add_row(["gcra", "9100", "8 of 1753", "2m 30s"]);
        table
    }

    #[test]
    fn a_table_that_fits_is_one_line_a_row() {
        let expected = [
            " strategy       admitted   clients denied   longest wait ",
            "─────────────────────────────────────────────────────────",
            " fixed_window       9210       12 of 1753            59s ",
            " gcra               9100        8 of 1753         2m 30s ",
        ];
        assert_eq!(strategies().within(80), expected.join("\n"));
    }

    #[test]
    fn a_table_that_is_too_wide_wraps_its_cells_between_words() {
        let text = strategies().within(50);
        assert!(width_of(&text) <= 50 && text.contains(" fixed_window "), "{text}");
        // The header is wrapped, and no number is cut from its unit.
        assert!(text.lines().count() > 4 && text.contains(" 12 of 1753 "), "{text}");
        let narrow = strategies().within(44);
        assert!(narrow.starts_with("strategy") && !narrow.contains("\n\n"), "{narrow}");
    }

    #[test]
    fn a_table_that_is_much_too_wide_becomes_records() {
        let expected = "\
strategy fixed_window
  admitted        9210
  clients denied  12 of 1753
  longest wait    59s

strategy gcra
  admitted        9100
  clients denied  8 of 1753
  longest wait    2m 30s";
        assert_eq!(strategies().within(40), expected);
    }

    #[test]
    fn a_row_of_many_lines_becomes_a_record() {
        let mut table = texts(["policy", "why"]);
        table.add_row(["login", &"word ".repeat(40)]);
        assert!(table.within(40).starts_with("policy login\n  why  word"), "{table}");
    }
}
