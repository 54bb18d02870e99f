//! A generated part of a document: between a line that opens it and one that ends it.

use anyhow::{Result, bail};

const END: &str = "<!-- end -->";

/// The text with its generated part replaced.
pub(crate) fn with_part(path: &str, text: &str, begin: &str, part: &str) -> Result<String> {
    let Some((before, rest)) = text.split_once(begin) else {
        bail!("{path} has no line `{begin}`: add it and a line `{END}` where the part belongs");
    };
    let Some((_, after)) = rest.split_once(END) else {
        bail!("{path} has no line `{END}` after `{begin}`");
    };
    Ok(format!("{before}{begin}\n{part}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- generated: it -->";

    #[test]
    fn a_part_is_replaced_and_the_rest_stays() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let written = with_part("a.md", &text, BEGIN, "new\n").unwrap();
        assert_eq!(written, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert_eq!(with_part("a.md", &written, BEGIN, "new\n").unwrap(), written);
    }

    #[test]
    fn a_missing_marker_is_named() {
        let said = with_part("a.md", "text", BEGIN, "").err().unwrap().to_string();
        assert!(said.starts_with("a.md has no line `<!-- generated"), "{said}");
        let said = with_part("a.md", BEGIN, BEGIN, "").err().unwrap().to_string();
        assert!(said.starts_with("a.md has no line `<!-- end -->`"), "{said}");
    }
}
