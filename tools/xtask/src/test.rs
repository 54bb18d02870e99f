//! `cargo xtask test`: every check in order, and one plain line at the end.

use anyhow::Result;

use crate::report::Steps;
use crate::suite::{self, Counts};
use crate::tools::cargo;
use crate::tree::Tree;
use crate::{fuzz, node, playground, process, programs, publish, python, tidy, tools};

/// Runs the steps; `quick` leaves out the slow ones that seldom fail.
pub(crate) fn run(tree: &Tree, quick: bool, may_install: bool) -> Result<bool> {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    let mut steps = Steps::default();
    let mut counts = Counts::default();
    looks(tree, &mut steps);
    steps.step("tests", || {
        programs::provide(may_install);
        python::provide(tree, may_install);
        node::provide(tree, may_install);
        playground::provide(tree, may_install);
        counts = suite::run(tree, &[])?;
        Ok(counts.hold(in_ci))
    });
    if !quick {
        steps.step("docs", || {
            let flags = "-D warnings -D rustdoc::broken_intra_doc_links";
            let arguments = ["doc", "--workspace", "--no-deps", "--locked"];
            process::show(cargo(tree).args(arguments).env("RUSTDOCFLAGS", flags))
        });
        steps.step("crates", || publish::packages(tree));
        steps.step("deny", || tools::deny(tree, false, may_install));
    }

    counts.say(in_ci);
    for name in steps.failed() {
        println!("step failed: {name}");
    }
    println!("{}", steps.times());
    println!("{}", counts.last_line(in_ci));
    Ok(steps.failed().is_empty())
}

/// The checks that read the whole tree and run no test.
pub(crate) fn looks(tree: &Tree, steps: &mut Steps) {
    let run = |arguments: &[&str]| process::show(cargo(tree).args(arguments));
    steps.step("format", || run(&["fmt", "--all", "--", "--check"]));
    steps.step("clippy", || {
        run(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
    });
    steps.step("tidy", || tidy::run(tree));
    steps.step("fuzz lock", || fuzz::is_locked(tree));
}
