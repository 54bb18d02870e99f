//! Pages of the documentation, as tests read them: the tests run the examples of a page.

/// The text of a page's block in this language, by its number from 0.
pub(crate) fn block<'p>(page: &'p str, language: &str, number: usize) -> &'p str {
    let begin = format!("\n```{language}\n");
    let from = page.split(&begin).nth(number + 1);
    let from = from.unwrap_or_else(|| panic!("no block {number} in {language}"));
    from.split("```").next().unwrap()
}

/// The rows of a page's tables, heads too, as cells without their quotes.
pub(crate) fn rows(page: &str) -> impl Iterator<Item = Vec<String>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect())
}
