//! `help`, `man` and `completions`: the help of the commands, and the documentation pages, which
//! are built into the program.

use anyhow::{Context as _, Result, bail};
use clap::CommandFactory as _;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap_complete::Shell;

use crate::args::{Cli, Help, Man};
use crate::input::shown;
use crate::show::{self, Output, columns};

/// The pages by name, with the topic of each.
macro_rules! pages {
    ($($name:literal: $about:literal,)*) => {
        &[$(($name, $about, include_str!(concat!("../../docs/", $name, ".md"))),)*]
    };
}

const PAGES: &[(&str, &str, &str)] = pages! {
    "advise": "a limit from a log, and what a change would change",
    "benchmarks": "how fast it is, and the commands that measure it",
    "calling": "calling an API that limits you: httpx, fetch, Rust",
    "clients": "a Redis Cluster from redis-cli, Python, Node",
    "cluster": "Redis Cluster and Sentinel",
    "code": "limits in code: per route, several subjects, proxies",
    "coming-from-envoy-ratelimit": "the same rules as in envoyproxy/ratelimit, and what differs",
    "coming-from-limitador": "the same limits as in limitador, and what differs",
    "coming-from-nginx": "the same limits as with nginx's limit_req, and what differs",
    "coming-from-redis-cell": "the same limits as in redis-cell, and what differs",
    "coming-from-tower-governor": "the same limits as with tower_governor, and what differs",
    "commands": "the command line, command by command",
    "console": "the console: a page for administrators",
    "definitions": "what each strategy means, exactly",
    "doctor": "the checks of a Redis server, and what to do",
    "envoy": "Envoy's rate limit service: serve --grpc",
    "envoy-gateway": "Envoy Gateway with this service in place of envoyproxy/ratelimit",
    "faults": "guarantees when something fails",
    "field": "what the judge found in limiters of others",
    "from-a-script": "from a script of an article to a limit: the line that replaces it",
    "go": "the Go module: a client, net/http, waiting for a turn",
    "headers": "headers, statuses and bodies of answers",
    "holds": "reserve and commit, and how many at once",
    "identity": "who a client is: addresses, proxies, paths",
    "image": "the container image",
    "java": "the Java package: a client, a filter for servlets",
    "judge": "a judge for any limiter: drivers, verdicts",
    "keys": "names and formats of keys on Redis",
    "kubernetes": "on Kubernetes: the chart, Kustomize, an example with Envoy",
    "lab": "compare strategies on traffic",
    "languages": "asking from Go, Java and any other language",
    "leases": "fewer questions to the store: leases, the deny cache",
    "llm": "budgets for calls to models: tokens, requests, money",
    "logs": "the logs that advise, replay and diff read",
    "memory": "the memory store",
    "metrics": "metrics, and what to alert on",
    "middleware": "limits in front of an HTTP service in Rust",
    "mistakes": "mistakes in a setup, and how to fix them",
    "node": "the Node package: checks, Express, Fastify, Hono",
    "notation": "how limits and subjects are written",
    "packages": "packages: Debian, image, Helm, Kustomize, bill of materials",
    "playground": "limits to try in a browser: one HTML file",
    "policies": "policy files",
    "probes": "health, readiness, and manifests for them",
    "proof": "checking a recorded run; broken limiters; models",
    "proxies": "behind nginx, Caddy, HAProxy",
    "python": "the Python package: checks, asyncio, FastAPI, Django, Flask",
    "queue": "queues: guarantees and usage",
    "recipes": "ten policy files to copy",
    "redis": "counts on Redis and Valkey",
    "redis-assumptions": "what is assumed about Redis",
    "resp": "the Redis protocol: CL.THROTTLE and more",
    "server": "the service",
    "stores": "a store of your own, and the kit that tests it",
    "subjects": "subjects from user input",
    "timeseries": "time series on Redis",
    "upgrade": "a newer version beside an older one, and the way back",
    "zoo": "the Zoo: three strategies on one traffic, with pictures",
};

/// The most columns of a line of help.
const LONGEST_LINE: usize = 100;

/// The command line: as wide as the output, with the topics of `help` for the completions.
pub(crate) fn command_line() -> clap::Command {
    let command = Cli::command().term_width(columns().min(LONGEST_LINE));
    let topics = topics(&command);
    command.mut_subcommand("help", |help| {
        help.mut_arg("words", |words| words.value_parser(Topics(topics)).hide_possible_values(true))
    })
}

/// The commands and the pages.
fn topics(command: &clap::Command) -> Vec<String> {
    let commands = command.get_subcommands().map(|it| it.get_name().to_owned());
    let mut topics: Vec<String> = commands.chain(page_names().map(str::to_owned)).collect();
    topics.sort();
    topics.dedup();
    topics
}

/// Any words; the topics are for completions. `help` itself says which there are.
#[derive(Clone)]
struct Topics(Vec<String>);

impl TypedValueParser for Topics {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().cloned().map(PossibleValue::new)))
    }
}

/// Prints a page, or the help of a command that has none: `COMMAND --help` has that of all.
pub(crate) fn help(args: &Help, out: &mut Output) -> Result<u8> {
    let mut command = command_line();
    command.build();
    if let [word] = &args.words[..]
        && let Some(text) = page_of(word)
    {
        out.exact(&show::page(text))?;
        if command.find_subcommand(word).is_some() {
            out.line(format!("\nThe options of the command: tollgate {word} --help"))?;
        }
        return Ok(0);
    }
    let mut found = &mut command;
    for word in &args.words {
        let before = found.get_name().to_owned();
        found = found.find_subcommand_mut(word).with_context(|| unknown(&before, word))?;
    }
    // Clap has wrapped it, and examples are to be copied.
    out.exact(&found.render_long_help().ansi().to_string())?;
    if args.words.is_empty() {
        out.line("\nPages (tollgate help PAGE):")?;
        let wide = page_names().map(str::len).max().unwrap_or(0);
        for (name, about, _) in PAGES {
            out.line(format!("  {name:<wide$}  {about}"))?;
        }
    }
    Ok(0)
}

fn page_names() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(name, ..)| *name)
}

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell, out: &mut Output) -> Result<u8> {
    let mut command = command_line();
    // Written like any other output: a closed pipe must not panic.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "tollgate", &mut script);
    out.exact(&String::from_utf8_lossy(&script))?;
    if shell == Shell::Fish {
        // The generator leaves positional arguments out for this shell.
        let topics = topics(&command);
        out.exact(&format!(
            "complete -c tollgate -n \"__fish_tollgate_using_subcommand help\" -f -a \"{}\"\n",
            topics.join(" ")
        ))?;
    }
    Ok(0)
}

fn page_of(page: &str) -> Option<&'static str> {
    PAGES.iter().find(|(name, ..)| *name == page).map(|(.., text)| *text)
}

fn unknown(before: &str, word: &str) -> String {
    let pages: Vec<&str> = page_names().collect();
    let word = shown(word);
    if before == "tollgate" {
        return format!(
            "there is no command and no page `{word}`: `tollgate help` lists them, and the pages \
             are {}",
            pages.join(", ")
        );
    }
    format!("`{before}` has no command `{word}`: `tollgate help {before}` lists them")
}

pub(crate) fn man(args: &Man, out: &mut Output) -> Result<u8> {
    let command = command_line();
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        out.exact(&String::from_utf8_lossy(&page))?;
        return Ok(0);
    };
    if !folder.is_dir() {
        bail!("{}: there is no such folder: make it first", folder.display());
    }
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("{}: the pages cannot be written", folder.display()))?;
    out.line(format!("written to {}", folder.display()))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clap would wrap them, and half a command would be copied.
    #[test]
    fn examples_fit_into_80_columns() {
        let mut commands = vec![command_line()];
        let mut examples = 0;
        while let Some(command) = commands.pop() {
            let helps = [command.get_after_help(), command.get_after_long_help()];
            let helps = helps.into_iter().flatten().map(ToString::to_string);
            let text = helps.collect::<Vec<_>>().join("\n");
            for line in text.lines().filter(|line| line.contains("tollgate ")) {
                assert!(line.chars().count() <= 80, "{line}");
                examples += 1;
            }
            commands.extend(command.get_subcommands().cloned());
        }
        assert!(examples > 80, "{examples}");
    }

    #[test]
    fn every_page_of_the_documentation_is_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
        let mut names: Vec<String> = files
            .filter_map(|name| Some(name.to_str().unwrap().strip_suffix(".md")?.to_owned()))
            .collect();
        names.sort();
        let pages: Vec<&str> = PAGES.iter().map(|(name, ..)| *name).collect();
        assert_eq!(pages, names);
    }
}
