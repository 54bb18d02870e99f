//! The project's own tasks: `cargo xtask test`, `tidy`, `docs`, `fuzz`, `mutate` and their kin.

mod binding;
mod check;
mod docs;
mod faults;
mod from_a_script;
mod fuzz;
mod judge;
mod models;
mod mutate;
mod node;
mod node_package;
mod packages;
mod part;
mod playground;
mod process;
mod programs;
mod publish;
mod python;
mod release;
mod report;
mod source;
mod suite;
mod test;
mod tidy;
mod tools;
mod tree;
mod wheel;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use lexopt::prelude::{Long, Short, Value, ValueExt};

use crate::mutate::{Options, Shard};
use crate::publish::Oldest;
use crate::tree::Tree;

const HELP: &str = "\
The project's own tasks.

Usage: cargo xtask <TASK> [OPTIONS]

Tasks:
  test [--quick] [--no-install]   format, clippy, tidy, tests (generated parts too), docs,
                                  crates, deny; ends `N passed, N failed`
                                  --quick ends with the tests
                                  --no-install never installs cargo-deny or redis-server, only says
                                  how
  check [--since REV]             between two commits: format, clippy, tidy, generated parts, and the
                                  tests of the packages that differ from REV (default HEAD)
  tidy                            the project's own rules (STYLE.md), a second or so
  docs [--check]                  write the tables and pictures that come from the engine
                                  --check only says which of them are stale
  playground [--install]          the engine in a page: target/playground.html
                                  --install adds the target for WebAssembly where it is missing,
                                  by rustup, else from Debian's packages
  features                        each feature of each crate alone
  crates [--no-install]           what is to be published, packed, unpacked and built, by this
                                  Rust and by the oldest, which --no-install does not install
  wheel [--no-install] [--only-build]
                                  the Python package: built, installed into a fresh environment,
                                  tested there; pip installs what it needs (--no-install skips)
                                  --only-build tests nothing: a wheel is in target/wheels
  node-package [--no-install] [--only-build]
                                  the Node package: built, packed, installed into a fresh folder,
                                  tested there; npm installs what it needs (--no-install skips)
                                  --only-build tests nothing: a package is in target/node-package
  packages [--no-install] [--rebuild] [--charts-by PROGRAM]
                                  a package for Debian, an image, charts: built, installed, started;
                                  apt-get and pip install what that needs, as root
                                  --rebuild builds the program again in another folder and compares
                                  --charts-by PROGRAM checks the charts alone, by a `tollgate` that
                                  is built already
  release --dry-run [--no-install] [--rebuild]
                                  crates, the Python and the Node package, packages, bill of
                                  materials: built and checked, and one table; publishes nothing
  deny [--no-install]             bans, licences and sources of every dependency
  advisories [--no-install]       known vulnerabilities (needs a network)
  fuzz [--seconds N] [--target T] libFuzzer on every target, or on T, N seconds each (default
                                  60); needs a C++ compiler
                                  --list says which targets there are
  faults [OPTIONS]                faults of real servers under load, on Redis and on Valkey, which
                                  pip installs once; partitions need root and iptables
                                  --write puts the table into docs/faults.md
                                  --seconds N makes faults at random for so long on each
                                  --seed N chooses victims, subjects and times (default 1)
  judge [--only NAME] [--write]   limiters of crates.io, PyPI and npm, and ours, by `tollgate judge`;
                                  pip and npm install them once; others by path:
                                  TOLLGATE_PEER_REDIS_CELL names the module of redis-cell, and
                                  TOLLGATE_PEER_RATELIMIT the program of envoyproxy/ratelimit
                                  --write puts the table into docs/field.md
  models [MODEL...] [OPTIONS]     models of the code, checked to the end: every order of events in
                                  small worlds; all without any name
                                  --sample checks the smallest worlds alone, --json prints JSON
                                  --write puts the table into docs/proof.md
                                  --broken makes changes on purpose, each of which must be caught
  from-a-script [--check]         the table of docs/from-a-script.md, from a real Redis
                                  --check only compares it
  mutate literals [OPTIONS]       move every integer literal of the strategies by one
  mutate operators [OPTIONS]      cargo-mutants on the strategies
  mutate-lua [OPTIONS]            change every comparison, operator, `and`, `or` and integer of the
                                  Lua, and compare each with the Rust, in process

Options of mutate and mutate-lua:
  --file F            only this file, from the root of the project (may be repeated); of
                      mutate-lua also `composed`: the lines that Rust writes into scripts
  --shard K/N         only part K of N, counted from 0
  --jobs N            copies of the workspace, or judges, at work at once (default 1)
  --test-command CMD  literals only: what must fail for a mutant to count as killed
  --timeout SECONDS   literals only: the limit for one mutant (default: 5 x the unmutated run)
  --list              say what would be mutated, and run nothing

Examples:
  cargo xtask test --quick
  cargo xtask check --since main
  cargo xtask mutate literals --file crates/tollgate/src/strategy/gcra/mod.rs
  cargo xtask mutate literals --shard 0/8
  cargo xtask fuzz --seconds 600 --target question
  cargo xtask models leases --json
  cargo xtask mutate operators --list
  cargo xtask mutate-lua --jobs 2

Environment: with CI=true a skipped test (#[ignore], or a test that prints `SKIPPED: reason`)
counts as failed; one that prints `WANTED: reason` needs a program that no script can install, and is listed.
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the task that the command line names; `Ok(false)` is a check that did not hold.
fn run() -> Result<bool> {
    let words = Words::parse(lexopt::Parser::from_env())?;
    if words.help || words.path.is_empty() {
        print!("{HELP}");
        return Ok(words.help);
    }
    let tree = Tree::find()?;
    let path: Vec<&str> = words.path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["test"] => {
            words.only("test", &["quick", "no-install"])?;
            test::run(&tree, words.quick, words.install)
        }
        ["check"] => {
            words.only("check", &["since"])?;
            check::run(&tree, &words.since)
        }
        ["tidy"] => {
            words.only("tidy", &[])?;
            tidy::run(&tree)
        }
        ["docs"] => {
            words.only("docs", &["check"])?;
            docs::run(&tree, words.check)
        }
        ["playground"] => {
            words.only("playground", &["install"])?;
            playground::run(&tree, words.seen.iter().any(|name| name == "install"))
        }
        ["features"] => {
            words.only("features", &[])?;
            publish::features(&tree)
        }
        ["packages" | "release" | "crates" | "wheel" | "node-package"] => {
            package(&tree, &words, path[0])
        }
        [task @ ("deny" | "advisories")] => {
            words.only(task, &["no-install"])?;
            tools::deny(&tree, *task == "advisories", words.install)
        }
        ["fuzz"] => {
            words.only("fuzz", &["seconds", "target", "list"])?;
            fuzz::run(
                &tree,
                words.seconds.unwrap_or(fuzz::SECONDS),
                words.target.as_deref(),
                words.mutate.list,
            )
        }
        ["faults"] => {
            words.only("faults", &["write", "seconds", "seed"])?;
            let Words { write, seconds, seed, .. } = words;
            faults::run(&tree, &faults::Options { write, seconds, seed })
        }
        ["models", models @ ..] => check_models(&tree, &words, models),
        ["from-a-script"] => {
            words.only("from-a-script", &["check"])?;
            from_a_script::run(&tree, words.check)
        }
        ["judge"] => {
            words.only("judge", &["write", "only"])?;
            judge::run(&tree, words.write, words.only_name.as_deref())
        }
        ["mutate", ..] | ["mutate-lua"] => mutate(&tree, &words, &path),
        other => bail!(
            "no task `{}`; there are: test, check, tidy, docs, playground, features, crates, \
             packages, release, wheel, deny, advisories, fuzz, faults, judge, models, \
             from-a-script, mutate literals, mutate operators, mutate-lua",
            other.join(" ")
        ),
    }
}

/// The models.
fn check_models(tree: &Tree, words: &Words, models: &[&str]) -> Result<bool> {
    words.only("models", &["sample", "json", "write", "broken"])?;
    let has = |name: &str| words.seen.iter().any(|seen| seen == name);
    let options = models::Options {
        models,
        sample: has("sample"),
        json: has("json"),
        write: words.write,
        broken: has("broken"),
    };
    models::run(tree, &options)
}

/// The tasks that build packages.
fn package(tree: &Tree, words: &Words, task: &str) -> Result<bool> {
    match task {
        "packages" => {
            words.only("packages", &["no-install", "rebuild", "charts-by"])?;
            match &words.charts_by {
                None => packages::run(tree, words.install, words.rebuild),
                Some(_) if words.rebuild => {
                    bail!("--charts-by builds nothing: leave --rebuild out")
                }
                Some(program) => packages::charts_by(tree, program, words.install),
            }
        }
        "release" => {
            words.only("release", &["dry-run", "no-install", "rebuild"])?;
            if !words.dry_run {
                bail!("`release` publishes nothing: say --dry-run, which builds and checks it all");
            }
            release::dry_run(tree, words.install, words.rebuild)
        }
        "crates" => {
            words.only("crates", &["no-install"])?;
            let holds = publish::packages(tree)?;
            match publish::oldest(tree, words.install)? {
                Oldest::Asked(builds) => Ok(holds && builds),
                Oldest::Absent(why) => {
                    println!("skipped: {why}");
                    Ok(holds)
                }
            }
        }
        "wheel" => {
            words.only("wheel", &["no-install", "only-build"])?;
            match words.only_build {
                true => wheel::only_build(tree, words.install),
                false => wheel::run(tree, words.install),
            }
        }
        _ => {
            words.only("node-package", &["no-install", "only-build"])?;
            match words.only_build {
                true => node_package::only_build(tree, words.install),
                false => node_package::run(tree, words.install),
            }
        }
    }
}

/// The mutation checks.
fn mutate(tree: &Tree, words: &Words, path: &[&str]) -> Result<bool> {
    match path {
        ["mutate", "literals"] => {
            let known = ["file", "shard", "jobs", "test-command", "timeout", "list"];
            words.only("mutate literals", &known)?;
            mutate::literals::run(tree, &words.mutate)
        }
        ["mutate", "operators"] => {
            words.only("mutate operators", &["file", "shard", "jobs", "list", "no-install"])?;
            mutate::operators::run(tree, &words.mutate, words.install)
        }
        ["mutate-lua"] | ["mutate", "lua"] => {
            words.only("mutate-lua", &["file", "shard", "jobs", "list"])?;
            mutate::lua::run(tree, &words.mutate)
        }
        _ => bail!("say `mutate literals`, `mutate operators` or `mutate-lua`"),
    }
}

/// The command line, parsed but not yet judged: which options a task takes is the task's affair.
struct Words {
    path: Vec<String>,
    seen: Vec<String>,
    help: bool,
    quick: bool,
    since: String,
    check: bool,
    install: bool,
    seconds: Option<u32>,
    seed: u64,
    write: bool,
    dry_run: bool,
    rebuild: bool,
    only_build: bool,
    charts_by: Option<PathBuf>,
    target: Option<String>,
    only_name: Option<String>,
    mutate: Options,
}

impl Words {
    fn parse(mut parser: lexopt::Parser) -> Result<Self> {
        let mut words = Self {
            path: Vec::new(),
            seen: Vec::new(),
            help: false,
            quick: false,
            since: "HEAD".to_owned(),
            check: false,
            install: true,
            seconds: None,
            seed: 1,
            write: false,
            dry_run: false,
            rebuild: false,
            only_build: false,
            charts_by: None,
            target: None,
            only_name: None,
            mutate: Options::default(),
        };
        while let Some(argument) = parser.next()? {
            match argument {
                Short('h') | Long("help") => words.help = true,
                Value(word) => words.path.push(word.string()?),
                Long(name) => {
                    let name = name.to_owned();
                    if !words.flag(&name) && !words.value(&name, &mut parser)? {
                        return Err(Long(&name).unexpected().into());
                    }
                    words.seen.push(name);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(words)
    }

    /// Takes an option without a value; false if there is none of this name.
    fn flag(&mut self, name: &str) -> bool {
        let flag = match name {
            "quick" => &mut self.quick,
            "check" => &mut self.check,
            "write" => &mut self.write,
            "dry-run" => &mut self.dry_run,
            "rebuild" => &mut self.rebuild,
            "only-build" => &mut self.only_build,
            "list" => &mut self.mutate.list,
            // One task has them, and looks at what was seen.
            "broken" | "json" | "sample" => return true,
            // Most tasks install what they need unless they may not; the playground does not.
            "install" => &mut self.install,
            "no-install" => {
                self.install = false;
                return true;
            }
            _ => return false,
        };
        *flag = true;
        true
    }

    /// Takes an option with a value; false if there is none of this name.
    fn value(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool> {
        match name {
            "since" => self.since = parser.value()?.string()?,
            "file" => self.mutate.files.push(parser.value()?.string()?),
            "shard" => self.mutate.shard = Some(Shard::parse(&parser.value()?.string()?)?),
            "jobs" => {
                self.mutate.jobs = match parser.value()?.parse()? {
                    0 => bail!("--jobs 0 would run nothing; 1 is the least"),
                    jobs => jobs,
                };
            }
            "test-command" => self.mutate.test_command = parser.value()?.string()?,
            "timeout" => self.mutate.timeout_seconds = Some(parser.value()?.parse()?),
            "seconds" => {
                self.seconds = match parser.value()?.parse()? {
                    0 => bail!("--seconds 0 would never end; 1 is the least"),
                    seconds => Some(seconds),
                };
            }
            "charts-by" => self.charts_by = Some(parser.value()?.into()),
            "seed" => self.seed = parser.value()?.parse()?,
            "target" => self.target = Some(parser.value()?.string()?),
            "only" => self.only_name = Some(parser.value()?.string()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses an option that the task would have to ignore.
    fn only(&self, task: &str, known: &[&str]) -> Result<()> {
        match self.seen.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) if known.is_empty() => bail!("`{task}` takes no options, not --{name}"),
            Some(name) => {
                bail!("`{task}` does not take --{name}; it takes --{}", known.join(", --"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Result<Words> {
        Words::parse(lexopt::Parser::from_args(line))
    }

    #[test]
    fn an_option_of_another_task_is_refused() {
        let parsed = words(&["tidy", "--quick"]).unwrap();
        let message = parsed.only("tidy", &[]).unwrap_err().to_string();
        assert_eq!(message, "`tidy` takes no options, not --quick");
    }

    #[test]
    fn bad_values_are_refused() {
        assert!(words(&["mutate", "literals", "--jobs", "0"]).is_err());
        assert!(words(&["mutate", "literals", "--shard", "3/3"]).is_err());
        assert!(words(&["mutate", "literals", "--shard", "0/0"]).is_err());
        assert!(words(&["fuzz", "--seconds", "0"]).is_err());
        assert!(words(&["--nonsense"]).is_err());
    }

    #[test]
    fn a_shard_counts_from_zero() {
        let parsed = words(&["mutate", "literals", "--shard", "1/3"]).unwrap();
        let shard = parsed.mutate.shard.unwrap();
        let mine: Vec<usize> = (0..7).filter(|index| shard.holds(*index)).collect();
        assert_eq!(mine, [1, 4]);
    }
}
