//! The machine of a judgement, and the versions of what is on it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::programs;

/// A sentence about the machine, for the page.
pub(super) fn sentence(python: &Path) -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = |file: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{file}")).unwrap_or_default();
        text.trim().to_owned()
    };
    let system = match (kernel("ostype"), kernel("osrelease")) {
        (name, release) if !name.is_empty() => format!("{name} {release}"),
        _ => std::env::consts::OS.to_owned(),
    };
    let asked: [(&str, &Path, &str); 5] = [
        ("rustc", "rustc".as_ref(), "--version"),
        ("Python", python, "--version"),
        ("Node", "node".as_ref(), "--version"),
        ("Redis", "redis-server".as_ref(), "--version"),
        ("nginx", "nginx".as_ref(), "-v"),
    ];
    let versions = asked.map(|(name, program, word)| match said(program, word) {
        Some(version) => format!("{name} {version}"),
        None => format!("no {name}"),
    });
    format!(
        "Judged on {cores} cores of {}, {system}, with {}.\n",
        processor(&info).unwrap_or(std::env::consts::ARCH),
        versions.join(", ")
    )
}

/// The kind of the processor.
fn processor(info: &str) -> Option<&str> {
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

fn said(program: &Path, word: &str) -> Option<String> {
    // nginx is where systems keep the programs of administrators, and prints to its errors.
    let found = program.to_str().and_then(programs::find);
    let output = Command::new(found.as_deref().unwrap_or(program)).arg(word).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    version(&String::from_utf8_lossy(&text))
}

/// The first word with a version in it, such as `v=7.0.15` or `nginx/1.22.1`.
fn version(text: &str) -> Option<String> {
    let numbers = |word: &str| {
        let at = word.find(|character: char| character.is_ascii_digit())?;
        let rest = word.get(at..)?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest.get(..end).filter(|found| found.contains('.')).map(str::to_owned)
    };
    text.split_whitespace().find_map(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_programs_print_them() {
        for (text, number) in [
            ("rustc 1.93.0 (254b59607 2026-01-19)", "1.93.0"),
            ("Python 3.11.2", "3.11.2"),
            ("v18.20.4", "18.20.4"),
            ("Redis server v=7.0.15 sha=00000000:0", "7.0.15"),
            ("nginx version: nginx/1.22.1", "1.22.1"),
        ] {
            assert_eq!(version(text).as_deref(), Some(number));
        }
        assert_eq!(version("command not found"), None);
    }

    #[test]
    fn the_processor_is_found() {
        let info = "processor\t: 0\nmodel name\t: A B 7\nmodel name\t: A B 7\n";
        assert_eq!(processor(info), Some("A B 7"));
    }
}
