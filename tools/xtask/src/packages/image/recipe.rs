//! The recipe for Docker (`packages/image/Dockerfile`), carried out by buildah without a registry:
//! the compiler's stage is a folder with the program of this run, and its Debian is one of ours.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::packages::deb::{provide, system};
use crate::packages::sheet::Shown;
use crate::packages::stage::{Stage, fresh};
use crate::process;
use crate::tree::Tree;

/// The base image of the recipe, as buildah names it.
const BASE: &str = "docker.io/library/debian:bookworm-slim";

/// Where the recipe finds what its first stage has built.
const BUILT: &str = "src/target/profiling";

/// Asks the image what it has, as its own user.
const LOOK: &str = "id -u && stat -c %u /var/lib/tollgate && tollgate --version && \
                    tollgate config check /etc/tollgate/policies.toml && \
                    test -s /etc/ssl/certs/ca-certificates.crt && ! touch /etc/tollgate/x 2>/dev/null";

/// Builds the image by the recipe and looks into it.
pub(super) fn check(tree: &Tree, stage: &Stage, may_install: bool) -> Result<Shown> {
    if let Err(why) = provide("buildah", "buildah", may_install) {
        return Ok(Shown::Skipped(why));
    }
    let debian = match system(tree, may_install)? {
        Ok(debian) => debian,
        Err(why) => return Ok(Shown::Skipped(why)),
    };
    let home = stage.home.join("recipe");
    fresh(&home)?;
    let shown = built(tree, stage, &home, &debian);
    // A gigabyte that nobody needs again.
    fresh(&home)?;
    shown
}

fn built(tree: &Tree, stage: &Stage, home: &Path, debian: &Path) -> Result<Shown> {
    let buildah = |words: &[&str]| {
        let mut command = Command::new("buildah");
        command.current_dir(&tree.root).args(["--storage-driver", "vfs"]);
        command.arg("--root").arg(home.join("store")).arg("--runroot").arg(home.join("run"));
        process::read(command.args(words))
    };
    let path = |path: &Path| path.display().to_string();
    let base = buildah(&["from", "scratch"])?;
    buildah(&["copy", "--quiet", base.trim(), &path(debian), "/"])?;
    buildah(&["commit", "--quiet", "--rm", base.trim(), BASE])?;
    let folder = home.join("build").join(BUILT);
    std::fs::create_dir_all(&folder)?;
    std::fs::copy(stage.program(), folder.join("tollgate"))?;
    let build = format!("build={}", path(&home.join("build")));
    buildah(&[
        "build",
        "--isolation=chroot",
        "--pull-never",
        "--format=docker",
        "--build-context",
        &build,
        "--tag=tollgate:recipe",
        "--file=packages/image/Dockerfile",
        ".",
    ])?;
    let container = buildah(&["from", "--pull-never", "localhost/tollgate:recipe"])?;
    let run = ["run", "--isolation=chroot", container.trim(), "--", "sh", "-c", LOOK];
    let found = buildah(&run).context("in the image")?;
    let user = format!("10001\n10001\ntollgate {}\n", stage.version);
    if !found.starts_with(&user) {
        bail!("its user, the owner of its folder or its version: {found}");
    }
    Ok(Shown::Held("built by buildah, user 10001, its policies hold".to_owned()))
}
