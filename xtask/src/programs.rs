//! Programs that some tests start: redis-server, the languages of the examples, `ab`. Found,
//! installed where that may be, else how to get them.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::process;

/// The one line to run, as the tests that are skipped say it too.
const REMEDY: &str = "apt-get install redis-server";

/// Where Debian's package listens once it is installed.
const SERVICE_PORT: u16 = 6379;

/// Other programs: the languages in which examples are run, and what sends them many requests;
/// with the package that has each. On Debian 12 Python takes 21 MB where there is none, Node 96 MB
/// (23 MB to fetch).
const PROGRAMS: [(&str, &str); 3] =
    [("python3", "python3"), ("node", "nodejs"), ("ab", "apache2-utils")];

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// Nothing: the tests will find it.
    Found,
    Install,
    /// Only say how, and why it is not done.
    Say(&'static str),
}

/// Sees to it that the tests find a redis-server and the other programs, when they may be
/// installed. When one may not or cannot, that is said, and the tests that need it skip
/// themselves.
pub(crate) fn provide(may_install: bool) {
    provide_server(may_install);
    for (program, package) in PROGRAMS {
        match plan(is_there(program), may_install, is_there("apt-get"), is_root()) {
            Plan::Found => {}
            Plan::Say(why) => {
                eprintln!("{program} is not installed ({why}): apt-get install {package}");
            }
            Plan::Install => {
                eprintln!("installing {package} with apt-get (once); tests need it");
                if let Err(error) = install_package(package) {
                    eprintln!("{package} could not be installed ({error:#})");
                }
            }
        }
    }
}

fn provide_server(may_install: bool) {
    match plan(is_found(), may_install, is_there("apt-get"), is_root()) {
        Plan::Found => {}
        Plan::Say(why) => eprintln!("redis-server is not installed ({why}): {REMEDY}"),
        Plan::Install => {
            if let Err(error) = install() {
                eprintln!("redis-server could not be installed ({error:#}): {REMEDY}");
            }
        }
    }
}

fn plan(found: bool, may_install: bool, apt: bool, root: bool) -> Plan {
    match (found, may_install, apt, root) {
        (true, ..) => Plan::Found,
        (_, false, ..) => Plan::Say("--no-install was given"),
        (_, _, false, _) => Plan::Say("there is no apt-get here: use what your system has"),
        (_, _, _, false) => Plan::Say("only root may install it"),
        (false, true, true, true) => Plan::Install,
    }
}

/// Whether the tests will find one: they look for the same, in `tollgate-proof`.
fn is_found() -> bool {
    std::env::var_os("TOLLGATE_REDIS_SERVER").is_some()
        || is_there("redis-server")
        || is_there("valkey-server")
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    // The program's word: the system call would need unsafe code or a dependency.
    let output = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn install() -> Result<()> {
    eprintln!("installing redis-server with apt-get (once); tests start servers of their own");
    let served = is_served();
    install_package("redis-server")?;
    // The package starts a service, and has it start with the machine. Nobody asked for that.
    if served {
        eprintln!("port {SERVICE_PORT} was in use before: its service is left as it is");
        return Ok(());
    }
    stop_service();
    if is_served() {
        eprintln!("the package's service listens on {SERVICE_PORT}: service redis-server stop");
    }
    Ok(())
}

fn install_package(package: &str) -> Result<()> {
    let install = ["install", "-y", "--no-install-recommends", package];
    if !apt_get(&install)? {
        // A fresh container has no list of packages yet.
        eprintln!("apt-get does not have it: apt-get update, then once more");
        apt_get(&["update"])?;
        if !apt_get(&install)? {
            bail!("apt-get failed");
        }
    }
    Ok(())
}

fn apt_get(arguments: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    // To a package this is a machine in maintenance, in which services are not started. Where
    // systemd runs, nobody asks for it, and the service is stopped afterwards.
    command.env("RUNLEVEL", "1");
    // Standard output is for the results of the tests.
    command.stdout(io::stderr());
    process::show(&mut command)
}

fn stop_service() {
    let mut command = if Path::new("/run/systemd/system").is_dir() {
        let mut command = Command::new("systemctl");
        command.args(["disable", "--now", "redis-server"]);
        command
    } else {
        let mut command = Command::new("service");
        command.args(["redis-server", "stop"]);
        command
    };
    // Most often it does not run, and then there is nothing to stop. Whether it worked is seen
    // by looking at the port.
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

fn is_served() -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, SERVICE_PORT)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_installed_only_where_that_may_be() {
        assert_eq!(plan(true, true, true, true), Plan::Found);
        assert_eq!(plan(true, false, false, false), Plan::Found);
        assert_eq!(plan(false, true, true, true), Plan::Install);
        assert_eq!(plan(false, false, true, true), Plan::Say("--no-install was given"));
        assert!(matches!(plan(false, true, false, true), Plan::Say(_)));
        assert!(matches!(plan(false, true, true, false), Plan::Say(_)));
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(is_there("sh") && !is_there("no-such-program-here"));
    }
}
