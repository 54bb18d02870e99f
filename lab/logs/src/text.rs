//! Printable forms of bytes from a log: short, on one line, without control characters.

/// At most `max_chars` characters of `bytes`. Unprintable bytes become `\xNN`, and a cut is marked
/// with `...`. The result is safe for a terminal, whatever the log contains.
#[must_use]
pub fn printable(bytes: &[u8], max_chars: usize) -> String {
    let mut out = String::new();
    let mut chars = 0_usize;
    for chunk in bytes.utf8_chunks() {
        let parts = chunk.valid().chars().map(Ok).chain(chunk.invalid().iter().map(Err));
        for part in parts {
            if chars >= max_chars {
                out.push_str("...");
                return out;
            }
            chars += 1;
            match part {
                Ok(c) if is_plain(c) => out.push(c),
                Ok(c) => {
                    let mut utf8 = [0; 4];
                    c.encode_utf8(&mut utf8).bytes().for_each(|b| push_hex(&mut out, b));
                }
                Err(&byte) => push_hex(&mut out, byte),
            }
        }
    }
    out
}

/// Bytes of a log as a cell of CSV (RFC 4180), in printable form. A text that a spreadsheet would
/// take for a formula gets an apostrophe, since clients choose what a log says.
///
/// ```
/// assert_eq!(tollgate_logs::csv_text(b"a,b"), "\"a,b\"");
/// assert_eq!(tollgate_logs::csv_text(b"=1+1"), "'=1+1");
/// ```
#[must_use]
pub fn csv_text(bytes: &[u8]) -> String {
    csv_cell(&printable(bytes, usize::MAX))
}

/// A printable text as a cell of CSV.
pub fn csv_cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

/// Control characters, and those that change the writing direction or print nothing, would let a
/// log line change what a terminal shows. XML and HTML do not allow non-characters.
fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn push_hex(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push_str("\\x");
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_text_hides_controls_and_cuts() {
        assert_eq!(printable("plain é".as_bytes(), 99), "plain é");
        assert_eq!(printable(b"\x1b[2J\xff\t", 99), "\\x1b[2J\\xff\\x09");
        assert_eq!(printable("a\u{202e}b".as_bytes(), 99), "a\\xe2\\x80\\xaeb");
        assert_eq!(printable("\u{ffff}".as_bytes(), 99), "\\xef\\xbf\\xbf");
        assert_eq!(printable(b"abcdef", 3), "abc...");
        assert_eq!(printable(b"abc", 3), "abc");
    }
}
