//! Partitions: packets that a firewall drops, without a report to anybody.
//!
//! `iptables` does it, as root. Rules name ports of the run's servers alone, and are gone with the
//! [`Cut`].

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::world::{FOR_CLIENTS, World};

/// The side that is cut off from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each is a way of its own")]
pub enum Side {
    /// Clients, in both directions.
    Clients,
    /// Clients, in one direction: the server's answers are lost.
    Answers,
    /// All other servers and sentinels, in both directions. Clients still reach it.
    Peers,
}

/// A partition, until it is dropped.
#[derive(Debug)]
pub struct Cut {
    rules: Vec<Vec<String>>,
}

impl Cut {
    /// Why partitions cannot be made here, if they cannot.
    #[must_use]
    pub fn impossible() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("partitions need root".to_owned());
        }
        match iptables(&["-w", "-n", "-L", "OUTPUT"]) {
            Ok(()) => None,
            Err(why) => Some(format!("{why:#}: apt-get install iptables")),
        }
    }

    /// Cuts a server off.
    ///
    /// # Errors
    ///
    /// The firewall refuses.
    pub fn make(world: &World, victim: usize, side: Side) -> Result<Self> {
        let server = world.server(victim);
        let port = server.port().to_string();
        let mut cut = Self { rules: Vec::new() };
        let to_clients = ["-s", FOR_CLIENTS, "--sport", &port];
        match side {
            Side::Clients => {
                cut.add(&["-d", FOR_CLIENTS, "--dport", &port])?;
                cut.add(&to_clients)?;
            }
            Side::Answers => cut.add(&to_clients)?,
            Side::Peers => {
                // A server runs as the user whose number is its port.
                cut.add(&["!", "-s", FOR_CLIENTS, "-m", "owner", "--uid-owner", &port])?;
                cut.add(&["-d", "127.0.0.1", "--dport", &port])?;
                if let Some(bus) = bus(world, victim) {
                    cut.add(&["-d", "127.0.0.1", "--dport", &bus])?;
                }
            }
        }
        Ok(cut)
    }

    fn add(&mut self, what: &[&str]) -> Result<()> {
        let mut rule = vec!["OUTPUT", "-o", "lo", "-p", "tcp"];
        rule.extend(what);
        rule.extend(["-j", "DROP"]);
        iptables(&[&["-w", "-I"], &rule[..]].concat())?;
        self.rules.push(rule.into_iter().map(str::to_owned).collect());
        Ok(())
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        for rule in &self.rules {
            let words: Vec<&str> =
                ["-w", "-D"].into_iter().chain(rule.iter().map(String::as_str)).collect();
            if let Err(error) = iptables(&words) {
                eprintln!("a rule stays in the firewall: {error:#}");
            }
        }
    }
}

/// The port on which a node of a cluster hears from the others.
fn bus(world: &World, victim: usize) -> Option<String> {
    world.cluster()?;
    let reply = world.server(victim).command(&[b"CONFIG", b"GET", b"cluster-port"]);
    reply.items().get(1)?.text()
}

fn iptables(words: &[&str]) -> Result<()> {
    let mut command = Command::new("iptables");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().context("cannot start iptables")?;
    if !output.status.success() {
        bail!("iptables {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
