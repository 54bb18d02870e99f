//! Servers whose wall clocks can be set, each apart: a library that is loaded before the others
//! (`clock.c`), built by the C compiler of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;
use tollgate_testbed::RedisServer;

use crate::world::{Ground, World};

/// The clocks of the servers of a run.
#[derive(Debug)]
pub struct Clocks {
    dir: TempDir,
}

impl Clocks {
    /// Builds the library.
    ///
    /// # Errors
    ///
    /// There is no C compiler, or this is not root: clocks differ by user.
    pub fn new() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("clocks of servers can be set by root alone");
        }
        let dir = tempfile::Builder::new().prefix("tg-clocks-").tempdir()?;
        // Each server makes its clock's file there.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))?;
        let source = dir.path().join("clock.c");
        fs::write(&source, include_str!("clock.c"))?;
        let output = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .arg(dir.path().join("clock.so"))
            .arg(&source)
            .output()
            .context("cannot start cc, a C compiler")?;
        if !output.status.success() {
            bail!("cc: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Self { dir })
    }

    /// Starts servers with such clocks.
    #[must_use]
    pub fn on(&self, ground: Ground) -> Ground {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        ground.variable("LD_PRELOAD", &at("clock.so")).variable("TOLLGATE_CLOCKS", &at(""))
    }

    /// Sets the clock of a server, as many microseconds from this machine's.
    ///
    /// # Errors
    ///
    /// The server does not follow: it was linked statically.
    pub fn set(&self, world: &World, index: usize, offset_us: i64) -> Result<()> {
        let server = world.server(index);
        let file = self.dir.path().join(server.port().to_string());
        let held = fs::OpenOptions::new().write(true).open(&file);
        let held = held.context("its clock cannot be set: it loads no library")?;
        std::os::unix::fs::FileExt::write_all_at(&held, &offset_us.to_ne_bytes(), 0)?;
        let told = told_us(server)?;
        let here = i64::try_from(std::time::UNIX_EPOCH.elapsed()?.as_micros())?;
        if (told - here - offset_us).abs() > 60_000_000 {
            bail!("its clock cannot be set: it is not taken from the C library ({told} at {here})");
        }
        Ok(())
    }
}

/// The time that a server tells.
fn told_us(server: &RedisServer) -> Result<i64> {
    let reply = server.command(&[b"TIME"]);
    let number = |at: usize| reply.items().get(at)?.text()?.parse::<i64>().ok();
    let (seconds, micros) = number(0).zip(number(1)).context("TIME has two numbers")?;
    Ok(seconds * 1_000_000 + micros)
}
