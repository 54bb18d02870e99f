//! Pages of the documentation: Markdown whose paragraphs and tables fit the output.

use super::table::Table;
use super::width::{SENTENCE, columns, wrap};

/// A page in the columns of the output. Code is as in the page, so that it can be copied; all else
/// keeps its marks.
pub(crate) fn page(text: &str) -> String {
    page_in(text, columns())
}

fn page_in(text: &str, columns: usize) -> String {
    let mut page = Page { text: String::new(), block: None, rows: Vec::new(), columns };
    let mut is_code = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if is_code || is_fence {
            page.end_block();
            page.line(line);
            is_code ^= is_fence;
        } else {
            page.add(line);
        }
    }
    page.end_block();
    page.text
}

/// A paragraph, a heading or an item of a list.
struct Block {
    text: String,
    /// The column in which its further lines begin.
    hang: usize,
}

struct Page {
    text: String,
    block: Option<Block>,
    /// The rows of a table.
    rows: Vec<Vec<String>>,
    columns: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds a line that is no code.
    fn add(&mut self, line: &str) {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if let Some(cells) = words.strip_prefix('|') {
            if self.rows.is_empty() {
                self.end_block();
            }
            self.rows.push(self::cells(cells));
            return;
        }
        let marker = marker(words);
        let begins = marker > 0 || words.starts_with('#') || words.starts_with('<');
        match &mut self.block {
            _ if words.is_empty() => {
                self.end_block();
                self.line("");
            }
            Some(block) if !begins => {
                block.text.push(' ');
                block.text.push_str(words.trim_end());
            }
            _ => {
                self.end_block();
                let text = line.trim_end().to_owned();
                self.block = Some(Block { text, hang: indent + marker });
                // The line below a heading is no part of it.
                if words.starts_with('#') {
                    self.end_block();
                }
            }
        }
    }

    /// Writes the block or the table that has ended.
    fn end_block(&mut self) {
        if let Some(Block { text, hang }) = self.block.take() {
            let lines = wrap(&text, 0, hang, self.columns.min(SENTENCE));
            self.line(&lines);
        }
        let mut rows = core::mem::take(&mut self.rows).into_iter();
        let Some(header) = rows.next() else { return };
        let mut table = Table::of_texts(header);
        // The line below the header separates it from the rows.
        rows.skip(1).for_each(|row| table.add_row(row));
        let lines = table.within(self.columns);
        self.line(&super::width::fitted(&lines, self.columns));
    }
}

/// The columns of the mark of a list's item; 0 without one.
fn marker(words: &str) -> usize {
    if words.starts_with("- ") || words.starts_with("> ") {
        return 2;
    }
    let digits = words.len() - words.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits > 0 && words[digits..].starts_with(". ") { digits + 2 } else { 0 }
}

/// The cells of a row, without the line before the first. `\|` is a line in a cell.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim_end().strip_suffix('|').unwrap_or(row).replace("\\|", "\u{0}");
    row.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_and_lists_are_wrapped_and_code_is_kept() {
        let text = "\
# A page

Words of a paragraph that are
wrapped otherwise than in the page.
- an item of a list that has more words
  than a line
2. two

```sh
a command that is longer than the line is, and is copied
```
";
        let expected = "\
# A page

Words of a paragraph that are wrapped
otherwise than in the page.
- an item of a list that has more words
  than a line
2. two

```sh
a command that is longer than the line is, and is copied
```
";
        assert_eq!(page_in(text, 40), expected);
    }

    #[test]
    fn a_table_fits_or_becomes_records() {
        let text = "| key | meaning |\n| --- | --- |\n| `a\\|b` | one |\n| `c` | two |\nText.\n";
        let table =
            " key     meaning \n─────────────────\n `a|b`   one     \n `c`     two     \nText.\n";
        assert_eq!(page_in(text, 40), table);
        let wide = format!("| key | meaning |\n|---|---|\n| k | {} |\n", "word ".repeat(40));
        let records = page_in(&wide, 40);
        assert!(records.starts_with("key k\n  meaning  word"), "{records}");
        assert!(records.lines().all(|line| line.len() <= 40), "{records}");
    }
}
