//! `cargo xtask playground`: the engine as WebAssembly and the page around it, as one file.

mod toolchain;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::tree::Tree;
use toolchain::Wasm;

/// The file that is made.
const PAGE: &str = "target/playground.html";

/// Its parts.
const FOLDER: &str = "bindings/playground/page";

/// The scripts, in the order in which they are joined: they share one scope.
const SCRIPTS: [&str; 9] = [
    "trouble.js",
    "words.js",
    "engine.js",
    "address.js",
    "draw.js",
    "lanes.js",
    "save.js",
    "step.js",
    "main.js",
];

/// The maximum size of the page: it should open quickly even on a slow network.
const MAX_BYTES: usize = 500_000;

/// Builds the page, and prints its path; `false` if there is no target for it here.
pub(crate) fn run(tree: &Tree, may_install: bool) -> Result<bool> {
    let bytes = build(tree, may_install)?;
    if let Some(bytes) = bytes {
        println!("{PAGE}: {bytes} bytes");
    }
    Ok(bytes.is_some())
}

/// Builds it for the tests. If that is impossible, this is reported, and they skip themselves.
pub(crate) fn provide(tree: &Tree, may_install: bool) {
    if let Err(error) = build(tree, may_install) {
        eprintln!("the playground could not be built ({error:#})");
    }
}

/// The bytes of the page; `None` if there is no target for it, which is reported.
fn build(tree: &Tree, may_install: bool) -> Result<Option<usize>> {
    let mut command = match toolchain::find(tree, may_install)? {
        Wasm::Ready(toolchain) => toolchain.cargo(tree),
        Wasm::Absent(why) => {
            eprintln!("the playground is not built: {why}");
            return Ok(None);
        }
    };
    // In a separate folder: a test that builds it should not wait for the build of others.
    let folder = tree.root.join("target/playground");
    command.args(["rustc", "--quiet", "--locked", "--package", "tollgate-playground", "--lib"]);
    command.args(["--crate-type", "cdylib", "--target", toolchain::TARGET]);
    command.args(["--profile", "playground", "--target-dir"]).arg(&folder);
    if !process::show(command.stdout(Stdio::null()))? {
        bail!("the engine cannot be built for {}", toolchain::TARGET);
    }
    let built = folder.join(toolchain::TARGET).join("playground/tollgate_playground.wasm");
    let page = page(&tree.root.join(FOLDER), &base64(&packed(&built)?))?;
    if page.len() > MAX_BYTES {
        bail!("the page has {} bytes, at most {MAX_BYTES} are allowed", page.len());
    }
    std::fs::write(tree.root.join(PAGE), &page).with_context(|| PAGE.to_owned())?;
    Ok(Some(page.len()))
}

/// A file, packed with gzip, which a browser unpacks.
fn packed(file: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
    let mut gzip = Command::new("gzip");
    // Without the file's name and time: the same engine gives the same page.
    gzip.args(["--best", "--no-name", "--stdout"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = gzip.spawn().context("cannot start `gzip`")?;
    let mut pipe = child.stdin.take().context("gzip has no input")?;
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(move || pipe.write_all(&bytes));
        let output = child.wait_with_output();
        writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        output
    });
    let output = output.context("cannot pack the engine")?;
    if !output.status.success() {
        bail!("gzip failed");
    }
    Ok(output.stdout)
}

/// The page with all its parts.
fn page(folder: &Path, engine: &str) -> Result<String> {
    let read = |name: &str| {
        let file = folder.join(name);
        std::fs::read_to_string(&file).with_context(|| file.display().to_string())
    };
    let slim = |name: &&str| read(name).and_then(|script| slim(&script));
    let scripts: Vec<String> = SCRIPTS.iter().map(slim).collect::<Result<_>>()?;
    let (script, style) = (scripts.join("\n"), read("style.css")?);
    // Either would end the element that it is in.
    for (text, end) in [(&script, "</script"), (&style, "</style")] {
        if text.contains(end) {
            bail!("`{end}` is in a part of the page");
        }
    }
    let mut page = read("index.html")?;
    for (name, text) in [("style", &*style), ("script", &*script), ("engine", engine)] {
        let place = format!("{{{{{name}}}}}");
        let Some((before, after)) = page.split_once(&place) else {
            bail!("index.html has no `{place}`");
        };
        page = format!("{before}{}{after}", text.trim_end());
    }
    Ok(page)
}

/// A script without comments and indentation, an eighth of it: nobody reads them in the page.
fn slim(script: &str) -> Result<String> {
    let lines = script.lines().map(str::trim);
    let kept: Vec<&str> = lines.filter(|it| !it.is_empty() && !it.starts_with("//")).collect();
    // A text over several lines would lose its blanks.
    if let Some(line) = kept.iter().find(|line| line.matches('`').count() % 2 == 1) {
        bail!("a text goes on behind the line `{line}`: end it there");
    }
    Ok(kept.join("\n"))
}

/// Base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize % 64];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_base64() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    }

    #[test]
    fn the_page_has_all_its_parts_and_names_nothing_outside_of_it() {
        let folder = Tree::find().unwrap().root.join(FOLDER);
        let page = page(&folder, "RU5HSU5F").unwrap();
        assert!(page.contains("RU5HSU5F") && !page.contains("{{"), "{page}");
        assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
        for outside in ["src=", "href=", "http:", "https:", "@import", "url(", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
        let files = std::fs::read_dir(&folder).unwrap();
        assert_eq!(files.count(), SCRIPTS.len() + 2, "every file is a part of the page");
    }

    #[test]
    fn what_would_end_an_element_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("index.html", "{{style}}{{script}}{{engine}}");
        write("style.css", "a{}\n");
        SCRIPTS.iter().for_each(|name| write(name, "1;\n"));
        let joined = ["1;"; SCRIPTS.len()].join("\n");
        assert_eq!(page(dir.path(), "E").unwrap(), format!("a{{}}{joined}E"));
        write("main.js", "'</script>'");
        assert!(page(dir.path(), "E").is_err());
        write("main.js", "");
        write("index.html", "{{style}}{{script}}");
        let error = page(dir.path(), "E").unwrap_err().to_string();
        assert_eq!(error, "index.html has no `{{engine}}`");
    }

    #[test]
    fn comments_and_indentation_stay_at_home() {
        let script = "// About it.\nf(() => {\n  // Why.\n  g(`//`);\n\n});\n";
        assert_eq!(slim(script).unwrap(), "f(() => {\ng(`//`);\n});");
        assert!(slim("f(`a\n  b`);\n").is_err());
    }

    #[test]
    fn files_are_packed_and_the_same_ones_equally() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("engine");
        std::fs::write(&file, vec![7_u8; 200_000]).unwrap();
        let first = packed(&file).unwrap();
        assert!(first.starts_with(&[0x1f, 0x8b]) && first.len() < 2_000);
        assert_eq!(packed(&file).unwrap(), first);
    }
}
