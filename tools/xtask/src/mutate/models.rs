//! Changes made on purpose to the code that models check: each must be caught by its model.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::mutate::scratch::Scratch;
use crate::process;
use crate::report::seconds;
use crate::tree::Tree;

/// The list of changes.
pub(crate) const LIST: &str = "proof/models/broken.txt";

/// The first build has nothing to reuse.
const LIMIT: Duration = Duration::from_secs(3600);

/// The engine as it is built fastest.
const QUICK: &str = "--config profile.dev.package.tollgate.opt-level=0";

/// The exit code of a model that found something.
const FOUND: i32 = 1;

/// One change: the model that catches it, its name, and the text that it replaces in a file.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    model: String,
    name: String,
    path: String,
    old: String,
    new: String,
}

/// Makes each change in a copy of the sources, and runs its model there. Returns whether each was
/// caught, and the table of them.
pub(crate) fn run(tree: &Tree) -> Result<(bool, String)> {
    let text = std::fs::read_to_string(tree.root.join(LIST));
    let changes = parse(&text.with_context(|| format!("cannot read {LIST}"))?)?;
    process::end_groups_on_ctrl_c()?;
    let scratch = Scratch::sync(tree, 0)?;
    let mut table = "| model | a change made on purpose | file | caught |\n\
                     | --- | --- | --- | --- |\n"
        .to_owned();
    let mut all = true;
    for (number, change) in changes.iter().enumerate() {
        let Change { model, name, path, .. } = change;
        let whole = std::fs::read_to_string(tree.root.join(path))
            .with_context(|| format!("{LIST} names {path}"))?;
        scratch.put(path, &changed(&whole, change)?)?;
        // Built quickly: each change builds again.
        let line = format!("cargo run -q {QUICK} -p tollgate-models -- {model} --sample --json");
        let ended = scratch.test(&line, LIMIT);
        scratch.put(path, &whole)?;
        let ended = ended?;
        let code = ended.status.and_then(|status| status.code());
        if !matches!(code, Some(0 | FOUND)) {
            bail!("{model}: {name}: it was not tried:\n{}", ended.output);
        }
        let caught = if code == Some(FOUND) { "yes" } else { "NO" };
        all &= code == Some(FOUND);
        eprintln!(
            "[{}/{}] caught: {caught:3} {model}: {name} ({})",
            number + 1,
            changes.len(),
            seconds(ended.took)
        );
        let _ = writeln!(table, "| {model} | {name} | `{path}` | {caught} |");
    }
    Ok((all, table))
}

/// The changes of the list: a line `MODEL: NAME`, the file, lines `- OLD`, lines `+ NEW`. An empty
/// line is between two of them, and lines with `#` are remarks.
fn parse(text: &str) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for block in text.split("\n\n") {
        let lines: Vec<&str> = block.lines().filter(|line| !line.starts_with('#')).collect();
        let [title, path, rest @ ..] = &lines[..] else {
            if lines.iter().all(|line| line.trim().is_empty()) {
                continue;
            }
            bail!(
                "{LIST}: `{block}` is not a change: write `MODEL: NAME`, the file, - and + lines"
            );
        };
        let Some((model, name)) = title.split_once(": ") else {
            bail!("{LIST}: `{title}` does not begin with the name of a model and a colon");
        };
        let of = |sign: char| {
            let marked = rest.iter().filter_map(|line| line.strip_prefix(sign));
            let each = marked.map(|line| line.strip_prefix(' ').unwrap_or(line));
            each.collect::<Vec<_>>().join("\n")
        };
        changes.push(Change {
            model: model.to_owned(),
            name: name.to_owned(),
            path: (*path).to_owned(),
            old: of('-'),
            new: of('+'),
        });
    }
    Ok(changes)
}

/// The text of a file with a change.
fn changed(whole: &str, change: &Change) -> Result<String> {
    let Change { model, name, path, old, new } = change;
    match whole.matches(old.as_str()).count() {
        1 if !old.is_empty() => Ok(whole.replacen(old.as_str(), new, 1)),
        times => bail!(
            "{LIST}: {model}: {name}: its old text is in {path} {times} times; it has to be there \
             once: copy it from the file"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Remarks.\n\nleases: it is wrong\na.rs\n- one\n- two\n+ three\n";

    #[test]
    fn a_change_is_read_and_made() {
        let changes = parse(TEXT).unwrap();
        assert_eq!(changes.len(), 1);
        let change = &changes[0];
        assert_eq!((&*change.model, &*change.name), ("leases", "it is wrong"));
        assert_eq!(changed("zero\none\ntwo\n", change).unwrap(), "zero\nthree\n");
        let error = changed("none", change).unwrap_err().to_string();
        assert!(error.contains("is in a.rs 0 times"), "{error}");
        assert!(parse("leases it is wrong\na.rs").is_err());
        assert!(parse("leases: it is wrong").is_err());
    }

    #[test]
    fn every_change_of_the_list_fits_its_file() {
        let tree = Tree::find().unwrap();
        let text = std::fs::read_to_string(tree.root.join(LIST)).unwrap();
        let changes = parse(&text).unwrap();
        for change in &changes {
            let whole = std::fs::read_to_string(tree.root.join(&change.path)).unwrap();
            changed(&whole, change).unwrap();
            let of_model = changes.iter().filter(|other| other.model == change.model);
            assert!(of_model.count() >= 3, "{} has less than three changes", change.model);
        }
    }
}
