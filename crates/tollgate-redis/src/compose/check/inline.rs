//! Inlines functions of a step. A script creates its functions again at each run, which takes most
//! of the time of a short check.

use std::fmt::Write as _;

/// A function with a single exit, its last line.
pub(super) struct InlinedFunction<'t> {
    parameters: Vec<&'t str>,
    lines: &'t str,
    returns: &'t str,
}

impl<'t> InlinedFunction<'t> {
    /// The function with this name in a text; `None` when it has several exits.
    pub(super) fn parse(text: &'t str, name: &str) -> Option<Self> {
        let (_, text) = text.split_once(&head(name))?;
        let (parameters, text) = text.split_once(")\n")?;
        let (body, _) = text.split_once("\nend\n")?;
        let (lines, last) = body.rsplit_once('\n').unwrap_or(("", body));
        let returns = last.strip_prefix("  return ")?;
        let parameters = parameters.split(',').map(str::trim).collect();
        (!has_word(lines, "return")).then_some(Self { parameters, lines, returns })
    }

    /// Writes the inlined function. Its return values are assigned to `results`.
    pub(super) fn write(&self, results: &str, arguments: &[String], out: &mut String) {
        let mut names = Vec::new();
        let mut values = Vec::new();
        for (name, value) in self.parameters.iter().zip(arguments) {
            let is_used = has_word(self.lines, name) || has_word(self.returns, name);
            if is_used && name != value {
                names.push(*name);
                values.push(value.as_str());
            }
        }
        out.push_str("do\n");
        if !names.is_empty() {
            let _ = writeln!(out, "  local {} = {}", names.join(", "), values.join(", "));
        }
        for line in self.lines.lines() {
            let _ = writeln!(out, "{line}");
        }
        let _ = writeln!(out, "  {results} = {}\nend", self.returns);
    }
}

/// The first line of a function.
fn head(name: &str) -> String {
    format!("local function {name}(")
}

/// A text without the functions of these names.
pub(super) fn without(text: &str, names: &[String]) -> String {
    let mut rest = String::new();
    let mut within = false;
    for line in text.lines() {
        within = within || names.iter().any(|name| line.starts_with(&head(name)));
        if !within {
            let _ = writeln!(rest, "{line}");
        }
        // Including the blank line after it.
        within = within && !line.is_empty();
    }
    rest
}

fn has_word(text: &str, word: &str) -> bool {
    let ends = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_';
    text.as_bytes().split(ends).any(|found| found == word.as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;

    const TEXT: &str = "local function one(a, b, c)
  local sum = a + c
  return sum, a
end

local function two(a)
  if a then
    return 1
  end
  return 2
end
";

    #[test]
    fn one_way_out_is_written_out() {
        let mut out = String::new();
        let arguments = ["x1", "x2", "c"].map(str::to_owned);
        InlinedFunction::parse(TEXT, "one").unwrap().write("y1, y2", &arguments, &mut out);
        assert_eq!(out, "do\n  local a = x1\n  local sum = a + c\n  y1, y2 = sum, a\nend\n");
    }

    #[test]
    fn several_ways_out_stay_a_function() {
        assert!(
            InlinedFunction::parse(TEXT, "two").is_none()
                && InlinedFunction::parse(TEXT, "three").is_none()
        );
        let rest = without(TEXT, &["one".to_owned()]);
        assert!(rest.starts_with("local function two(a)\n") && rest.ends_with("end\n"));
    }
}
