//! Imports in a circle: no file of a crate reaches itself through its imports and theirs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::source::{Kind, Source};
use crate::tidy::Finding;
use crate::tree::File;

/// The crates that still have circles, and why. A crate that is free of them leaves this list.
const NOT_YET: [(&str, &str); 4] = [
    ("lab/experiments", PARENT),
    ("lab/logs", PARENT),
    ("proof/kit", PARENT),
    ("tools/xtask", PARENT),
];

/// Why most crates have circles.
const PARENT: &str = "files import from the module above them, which imports from them";

/// The most re-exports that one name passes.
const MAX_STEPS: usize = 16;

/// A path in a file, from its first segment to its last.
type Path = Vec<String>;

/// The paths that a file imports.
#[derive(Debug, Default)]
struct Module {
    path: String,
    /// The imports: the name that each binds, and its path. A glob binds `*`.
    imports: Vec<(String, Path)>,
    /// The paths that the file depends on: imports, except for those that it only passes on.
    paths: Vec<Path>,
}

/// The files of a crate by their modules.
type Modules = BTreeMap<Path, Module>;

/// Finds circles of files in the crates that are not listed, and listed crates without any.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    check_with(files, &NOT_YET)
}

fn check_with(files: &[File], not_yet: &[(&str, &str)]) -> Vec<Finding> {
    let mut crates = BTreeMap::<&str, Modules>::new();
    for file in files {
        let Some((krate, place)) = file.path.split_once("/src/") else { continue };
        let Some(module) = module_of(place) else { continue };
        // The rules on text say what does not lex.
        let Ok(source) = Source::lex(&file.path, &file.text) else { continue };
        let code = source.only(|token| !token.test && token.kind != Kind::Text);
        crates.entry(krate).or_default().insert(module, read(&file.path, &code));
    }
    crates.values_mut().for_each(drop_foreign_paths);
    let mut findings = Vec::new();
    for (krate, modules) in &crates {
        let circles = circles(modules);
        if not_yet.iter().any(|(name, _)| name == krate) {
            if circles.is_empty() {
                let message = "has no files that import in a circle: take it off the list";
                findings.push(Finding::at(krate, 1, message));
            }
            continue;
        }
        findings.extend(circles.into_iter().filter_map(|circle| {
            let first = circle.first()?.clone();
            let message = format!("imports in a circle: {}", circle.join(" -> "));
            Some(Finding::at(&first, 1, message))
        }));
    }
    findings
}

/// The module that a file below `src/` is; `None` for other files and for tests.
fn module_of(place: &str) -> Option<Path> {
    let mut path: Path = place.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    let last = path.last()?.as_str();
    let is_folder = last == "mod" || path.len() == 1 && (last == "lib" || last == "main");
    if is_folder {
        path.pop();
    }
    (!path.iter().any(|name| name == "tests" || name == "bin")).then_some(path)
}

/// The words and signs of code; `::` is one sign.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut found, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let end = match first {
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        found.push(token);
        rest = after.trim_start();
    }
    found
}

/// Reads the imports of a file, and the paths that begin with `crate` or `super`.
fn read(path: &str, code: &str) -> Module {
    let tokens = tokens(code);
    let mut module = Module { path: path.to_owned(), ..Module::default() };
    let (mut place, mut passed_on, mut words) = (0, Vec::new(), BTreeSet::new());
    while let Some(token) = tokens.get(place).copied() {
        let next = tokens.get(place + 1).copied();
        let before = place.checked_sub(1).and_then(|at| tokens.get(at)).copied();
        place += 1;
        if token == "use" && next != Some("<") {
            let is_public = matches!(before, Some("pub" | ")"));
            let mut found = Vec::new();
            place = read_use(&tokens, place, &[], &mut found);
            if is_public { &mut passed_on } else { &mut module.paths }
                .extend(found.iter().map(|(_, path)| path.clone()));
            module.imports.extend(found);
        } else if next == Some("::") && before == Some("in") && is_visibility(&tokens, place) {
            place += 1;
        } else if next == Some("::") && before != Some("::") {
            let mut path = vec![token.to_owned()];
            while tokens.get(place) == Some(&"::") && tokens.get(place + 1).is_some_and(is_name) {
                path.push(tokens.get(place + 1).copied().unwrap_or_default().to_owned());
                place += 2;
            }
            words.insert(token.to_owned());
            module.paths.push(path);
        } else {
            words.insert(token.to_owned());
        }
    }
    let is_used = |path: &Path| {
        module.imports.iter().any(|(name, known)| known == path && words.contains(name))
    };
    let used: Vec<Path> = passed_on.into_iter().filter(is_used).collect();
    module.paths.extend(used);
    module
}

/// Whether the path before this place says who sees something, as in `pub(in crate::a)`: it imports
/// nothing.
fn is_visibility(tokens: &[&str], place: usize) -> bool {
    let begin = place.checked_sub(4).and_then(|begin| tokens.get(begin..place - 1));
    begin == Some(&["pub", "(", "in"])
}

fn is_name(token: &&str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads a tree of imports from this place, and returns the place after it.
fn read_use(
    tokens: &[&str],
    mut place: usize,
    prefix: &[String],
    found: &mut Vec<(String, Path)>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        let token = tokens.get(place).copied().unwrap_or(";");
        place += 1;
        match token {
            "::" => {}
            "{" => {
                while !matches!(tokens.get(place).copied(), None | Some("}")) {
                    place = read_use(tokens, place, &path, found);
                    place += usize::from(tokens.get(place) == Some(&","));
                }
                return place + 1;
            }
            "as" => {
                let name = tokens.get(place).copied().unwrap_or_default();
                found.push((name.to_owned(), path));
                return place + 1;
            }
            "*" => {
                found.push(("*".to_owned(), path));
                return place;
            }
            ";" | "," | "}" => return place - 1,
            // `{self}` is the module itself.
            "self" if !path.is_empty() => {}
            word => path.push(word.to_owned()),
        }
        let is_last = matches!(tokens.get(place).copied(), None | Some(";" | "," | "}"));
        if is_last && token != "::" {
            let name = path.last().cloned().unwrap_or_default();
            found.push((name, path));
            return place;
        }
    }
}

/// Drops the paths that lead out of the crate: those of other crates, and of types.
fn drop_foreign_paths(modules: &mut Modules) {
    let known: BTreeSet<Path> = modules.keys().cloned().collect();
    for (own, module) in modules {
        let begins = |path: &Path| match path.first().map(String::as_str) {
            Some("crate" | "super" | "self") => true,
            Some(first) => known.contains(&joined(own, first)),
            None => false,
        };
        module.paths.retain(begins);
    }
}

fn joined(path: &[String], name: &str) -> Path {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

/// The file that a path in this module leads to; `None` for one of another crate.
fn target<'m>(
    modules: &'m Modules,
    own: &[String],
    path: &[String],
    steps: usize,
) -> Option<&'m str> {
    let (first, mut rest) = path.split_first()?;
    let mut at: Path = match first.as_str() {
        "crate" => Path::new(),
        "self" => own.to_vec(),
        "super" => own.split_last()?.1.to_vec(),
        name if modules.contains_key(&joined(own, name)) => joined(own, name),
        _ => return None,
    };
    while let Some((name, after)) = rest.split_first() {
        let next = joined(&at, name);
        if name == "super" {
            at.pop();
        } else if modules.contains_key(&next) {
            at = next;
        } else {
            return of_name(modules, &at, name, steps);
        }
        rest = after;
    }
    modules.get(&at).map(|module| module.path.as_str())
}

/// The file that has what a module calls by this name.
fn of_name<'m>(modules: &'m Modules, at: &[String], name: &str, steps: usize) -> Option<&'m str> {
    let module = modules.get(at)?;
    let steps = steps.checked_sub(1)?;
    let named = module.imports.iter().find(|(bound, _)| bound == name);
    if let Some((_, path)) = named {
        return target(modules, at, path, steps);
    }
    let globs = module.imports.iter().filter(|(bound, _)| bound == "*");
    // A glob of a module's own types, as of an enum, leads to the module itself.
    let mut found = globs.filter_map(|(_, path)| target(modules, at, &joined(path, name), steps));
    found.next().or(Some(&module.path))
}

/// The shortest circle of each group of files that reach each other.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let mut edges = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (own, module) in modules {
        let found = module.paths.iter().filter_map(|path| target(modules, own, path, MAX_STEPS));
        let others = found.filter(|found| *found != module.path);
        edges.entry(&module.path).or_default().extend(others);
    }
    let (mut seen, mut circles) = (BTreeSet::new(), Vec::<Vec<String>>::new());
    for file in edges.keys().copied() {
        if seen.contains(file) {
            continue;
        }
        if let Some(circle) = circle_from(&edges, file) {
            seen.extend(circle.iter().copied());
            circles.push(circle.into_iter().map(str::to_owned).collect());
        }
    }
    circles
}

/// The shortest way from a file to itself.
fn circle_from<'m>(
    edges: &BTreeMap<&'m str, BTreeSet<&'m str>>,
    file: &'m str,
) -> Option<Vec<&'m str>> {
    let mut came_from = BTreeMap::<&str, &str>::new();
    let mut waiting = VecDeque::from([file]);
    while let Some(at) = waiting.pop_front() {
        for next in edges.get(at).into_iter().flatten().copied() {
            if next == file {
                let mut circle = vec![file, at];
                while let Some(before) = circle.last().and_then(|last| came_from.get(last)) {
                    circle.push(before);
                }
                circle.dedup();
                circle.reverse();
                circle.push(file);
                circle.dedup();
                return Some(circle);
            }
            if let std::collections::btree_map::Entry::Vacant(entry) = came_from.entry(next) {
                entry.insert(at);
                waiting.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)], not_yet: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| File {
            path: format!("crates/a/src/{path}"),
            text: (*text).to_owned(),
        });
        let found = check_with(&files.collect::<Vec<_>>(), not_yet);
        found.iter().map(|finding| finding.message.replace("crates/a/src/", "")).collect()
    }

    #[test]
    fn two_files_that_import_each_other_are_found() {
        let one = ("one.rs", "use crate::two::{A, b::{self, C}};");
        let files = [("lib.rs", "mod one; mod two;"), one, ("two.rs", "use super::one::D;")];
        assert_eq!(messages(&files, &[]), ["imports in a circle: one.rs -> two.rs -> one.rs"]);
        assert_eq!(messages(&files, &[("crates/a", "why")]), [""; 0]);
    }

    #[test]
    fn a_path_that_says_who_sees_something_does_not_count() {
        let child = ("x/child.rs", "pub(in crate::x) struct C; fn f() { for _ in super::g() {} }");
        let parent = ("x/mod.rs", "mod child; struct P(child::C);");
        let seen = ("x/child.rs", "pub(in crate::x) struct C;");
        let circle = "imports in a circle: x/child.rs -> x/mod.rs -> x/child.rs";
        assert_eq!(messages(&[parent, child], &[]), [circle]);
        assert_eq!(messages(&[parent, seen], &[]), [""; 0]);
    }

    #[test]
    fn a_path_in_code_counts_and_so_does_a_parent() {
        let child = ("x/child.rs", "fn f() { super::g() }");
        let parent = ("x/mod.rs", "mod child; fn g() { child::f() }");
        let circle = "imports in a circle: x/child.rs -> x/mod.rs -> x/child.rs";
        assert_eq!(messages(&[parent, child], &[]), [circle]);
    }

    #[test]
    fn a_name_leads_to_the_file_that_has_it() {
        let parent = ("x/mod.rs", "mod one; mod two; pub(crate) use one::A as B;");
        let two = ("x/two.rs", "use crate::x::B;");
        assert_eq!(messages(&[parent, ("x/one.rs", "struct A;"), two], &[]), [""; 0]);
        let circle = ["imports in a circle: x/one.rs -> x/two.rs -> x/one.rs"];
        assert_eq!(messages(&[parent, ("x/one.rs", "use super::two::C;"), two], &[]), circle);
        // A path that a module re-exports is its own dependency once it uses that.
        let parent = ("x/mod.rs", "mod one; pub use one::A; struct D(A);");
        let one = ("x/one.rs", "use super::D;");
        let circle = ["imports in a circle: x/mod.rs -> x/one.rs -> x/mod.rs"];
        assert_eq!(messages(&[parent, one], &[]), circle);
    }

    #[test]
    fn tests_and_texts_do_not_count() {
        let one = "use super::two::A; // crate::two\nconst T: &str = \"crate::two::B\";";
        let two = "#[cfg(test)]\nmod tests { use super::super::one::C; }";
        assert_eq!(messages(&[("one.rs", one), ("two.rs", two)], &[]), [""; 0]);
    }

    #[test]
    fn a_listed_crate_without_circles_leaves_the_list() {
        let files = [("one.rs", "use super::two::A;"), ("two.rs", "struct A;")];
        let says = "has no files that import in a circle: take it off the list";
        assert_eq!(messages(&files, &[("crates/a", "why")]), [says]);
    }
}
