//! `help` and `man`: the help of the commands, and the documentation pages, which are built into
//! the program.

use anyhow::{Context as _, Result, bail};
use clap::CommandFactory as _;

use crate::args::{Cli, Help, Man};
use crate::input::shown;
use crate::show::Output;

/// The pages by name, with the topic of each.
macro_rules! pages {
    ($($name:literal: $about:literal,)*) => {
        &[$(($name, $about, include_str!(concat!("../../docs/", $name, ".md"))),)*]
    };
}

const PAGES: &[(&str, &str, &str)] = pages! {
    "advise": "a limit from a log, and what a change would change",
    "benchmarks": "how fast it is, and the commands that measure it",
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
    "headers": "headers, statuses and bodies of answers",
    "holds": "reserve and commit, and how many at once",
    "identity": "who a client is: addresses, proxies, paths",
    "image": "the container image",
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
    "proof": "checking a recorded run; broken limiters that are caught",
    "proxies": "behind nginx, Caddy, HAProxy",
    "python": "the Python package: checks, asyncio, FastAPI, Django, Flask",
    "queue": "queues: guarantees and usage",
    "recipes": "ten policy files to copy",
    "redis": "counts on Redis and Valkey",
    "resp": "the Redis protocol: CL.THROTTLE and more",
    "server": "the service",
    "subjects": "subjects from user input",
    "timeseries": "time series on Redis",
    "upgrade": "a newer version beside an older one, and the way back",
    "zoo": "the Zoo: three strategies on one traffic, with pictures",
};

/// The word before a page whose name is also a command.
const PAGE: &str = "page";

pub(crate) fn help(args: &Help, out: &mut Output) -> Result<u8> {
    let mut command = Cli::command();
    command.build();
    // A command takes precedence over a page of the same name, unless that word precedes it.
    let page = match &args.words[..] {
        [word, page] if word == PAGE => Some(page),
        [page] if command.find_subcommand(page).is_none() => Some(page),
        _ => None,
    };
    if let Some(text) = page.and_then(|page| page_of(page)) {
        out.text(text)?;
        return Ok(0);
    }
    let mut found = &mut command;
    for word in &args.words {
        let before = found.get_name().to_owned();
        found = found.find_subcommand_mut(word).with_context(|| unknown(&before, word))?;
    }
    out.text(&found.render_long_help().ansi().to_string())?;
    match &args.words[..] {
        [] => {
            out.line("\nPages (tollgate help PAGE):")?;
            for (name, about, _) in PAGES {
                out.line(format!("  {name:<12} {about}"))?;
            }
        }
        [word] if page_of(word).is_some() => {
            out.line(format!("\nThe page of this name: tollgate help {PAGE} {word}"))?;
        }
        _ => {}
    }
    Ok(0)
}

fn page_of(page: &str) -> Option<&'static str> {
    PAGES.iter().find(|(name, ..)| *name == page).map(|(.., text)| *text)
}

fn unknown(before: &str, word: &str) -> String {
    let pages: Vec<&str> = PAGES.iter().map(|(name, ..)| *name).collect();
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
    let command = Cli::command();
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        out.text(&String::from_utf8_lossy(&page))?;
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
