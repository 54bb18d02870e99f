//! Breaks text into lines.

/// Words in lines, the first after `mark`, the others indented below it.
pub(super) fn paragraph(out: &mut String, width: usize, mark: &str, text: &str) {
    let indent = " ".repeat(mark.chars().count());
    let (mut line, mut used) = (mark.to_owned(), mark.chars().count());
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let chars = word.chars().count();
        if !is_empty && used + 1 + chars > width {
            out.push_str(&line);
            out.push('\n');
            (line, used, is_empty) = (indent.clone(), indent.len(), true);
        }
        if !is_empty {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += chars;
        is_empty = false;
    }
    out.push_str(&line);
    out.push('\n');
}
