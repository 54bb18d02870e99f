//! The container image, put together by umoci: the program, the libraries that it needs,
//! authorities for TLS, and nothing else. No daemon takes part.

mod recipe;
mod run;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

pub(crate) use run::free_port;

use super::deb::provide;
use super::sheet::{Sheet, Shown, sha256};
use super::stage::{Stage, date_all, fresh, time};
use crate::process;
use crate::tree::Tree;

/// Its name on the sheet.
const NAME: &str = "image";

/// The user that runs it: by number, since Kubernetes cannot see that a name is not root's.
const USER: &str = "10001:10001";
const ENTRYPOINT: [&str; 2] = ["/usr/bin/tollgate", "serve"];
const ARGUMENTS: [&str; 4] =
    ["--listen", "0.0.0.0:8700", "--config", "/etc/tollgate/policies.toml"];

/// The names of the kernel's nobody and of our user.
const USERS: &str =
    "root:x:0:0::/:/nonexistent\ntollgate:x:10001:10001::/var/lib/tollgate:/nonexistent\n";
const GROUPS: &str = "root:x:0:\ntollgate:x:10001:\n";

/// How names are looked up.
const NAMES: &str = "hosts: files dns\n";

/// Where the program and the library look for authorities.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Builds it and checks it.
pub(crate) fn make(tree: &Tree, stage: &Stage, sheet: &mut Sheet, may_install: bool) -> Result<()> {
    for (program, package) in [("umoci", "umoci"), ("update-ca-certificates", "ca-certificates")] {
        if let Err(why) = provide(program, package, may_install) {
            sheet.note(NAME, "built", Ok(Shown::Skipped(why)), "");
            return Ok(());
        }
    }
    let image = Image::build(tree, stage, &stage.home.join("image"))?;
    let archive = stage.out.join(format!("tollgate-{}-oci.tar", stage.version));
    image.archive(&archive, stage.epoch)?;
    sheet.file(NAME, &archive);
    sheet.check(NAME, "its root", || {
        let (files, bytes) = image.root()?;
        Ok(Shown::Held(format!("{files} files, {bytes} bytes unpacked")))
    });
    sheet.check(NAME, "built twice", || {
        let again = stage.home.join("again");
        fresh(&again)?;
        let other = Image::build(tree, stage, &again)?;
        let file = again.join("again.tar");
        other.archive(&file, stage.epoch)?;
        match sha256(&archive)? == sha256(&file)? {
            true => Ok(Shown::Held("the same bytes".to_owned())),
            false => bail!("{} and {} differ", archive.display(), file.display()),
        }
    });
    sheet.check(NAME, "the recipe for Docker", || recipe::check(tree, stage, may_install));
    sheet.check(NAME, "read by skopeo", || inspected(&archive, &stage.version, may_install));
    run::check(&image, stage, sheet, may_install)
}

/// A layout of the Open Container Initiative, in a folder.
#[derive(Debug)]
struct Image {
    layout: PathBuf,
    tag: String,
    rootfs: PathBuf,
}

impl Image {
    fn build(tree: &Tree, stage: &Stage, home: &Path) -> Result<Self> {
        fresh(home)?;
        let tag = stage.version.clone();
        let image = Self { layout: home.join("layout"), tag, rootfs: home.join("rootfs") };
        fill(tree, stage, &image.rootfs)?;
        process::read(Command::new("umoci").args(["init", "--layout"]).arg(&image.layout))?;
        image.umoci("new", &[])?;
        let time = time(stage.epoch)?;
        let by = ["--history.created", &time, "--history.created_by", "cargo xtask packages"];
        let rootfs = image.rootfs.to_string_lossy().into_owned();
        image.umoci("insert", &[&by[..], &[&*rootfs, "/"]].concat())?;
        let mut words: Vec<String> = by.map(str::to_owned).into();
        let mut option = |name: &str, value: &str| words.push(format!("--{name}={value}"));
        option("created", &time);
        option("config.user", USER);
        option("config.workingdir", "/var/lib/tollgate");
        option("config.exposedports", "8700/tcp");
        option("config.stopsignal", "SIGTERM");
        ENTRYPOINT.iter().for_each(|word| option("config.entrypoint", word));
        ARGUMENTS.iter().for_each(|word| option("config.cmd", word));
        for (key, value) in labels(tree, stage, &time)? {
            let value = format!("org.opencontainers.image.{key}={value}");
            option("config.label", &value);
            option("manifest.annotation", &value);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        image.umoci("config", &words)?;
        image.add_health_check()?;
        process::read(Command::new("umoci").args(["gc", "--layout"]).arg(&image.layout))?;
        Ok(image)
    }

    /// `PATH:TAG`.
    fn name(&self) -> String {
        format!("{}:{}", self.layout.display(), self.tag)
    }

    fn umoci(&self, action: &str, words: &[&str]) -> Result<()> {
        let mut command = Command::new("umoci");
        command.arg(action).arg("--image").arg(self.name()).args(words);
        process::read(&mut command).map(drop)
    }

    /// Docker reads this field, which umoci does not know: the configuration is written again, and
    /// so is the file that names it.
    fn add_health_check(&self) -> Result<()> {
        let index_file = self.layout.join("index.json");
        let mut index = read_json(&index_file)?;
        let described = index.pointer_mut("/manifests/0").context("an index without a manifest")?;
        let mut manifest = read_json(&self.blob(described)?)?;
        let config_of = manifest.get_mut("config").context("a manifest without a config")?;
        let mut config = read_json(&self.blob(config_of)?)?;
        let inner = config.get_mut("config").and_then(Value::as_object_mut);
        inner.context("a config without a config")?.insert("Healthcheck".to_owned(), health());
        self.store(&config, config_of)?;
        self.store(&manifest, described)?;
        std::fs::write(&index_file, index.to_string())?;
        Ok(())
    }

    /// The file that a descriptor names.
    fn blob(&self, descriptor: &Value) -> Result<PathBuf> {
        let digest = descriptor["digest"].as_str().and_then(|text| text.strip_prefix("sha256:"));
        Ok(self.layout.join("blobs/sha256").join(digest.context("a descriptor without a digest")?))
    }

    /// Writes a value as a file that its descriptor then names.
    fn store(&self, value: &Value, descriptor: &mut Value) -> Result<()> {
        let text = value.to_string();
        let folder = self.layout.join("blobs/sha256");
        let fresh = folder.join("new");
        std::fs::write(&fresh, &text)?;
        let sum = sha256(&fresh)?;
        std::fs::rename(&fresh, folder.join(&sum))?;
        let descriptor = descriptor.as_object_mut().context("a descriptor is an object")?;
        descriptor.insert("digest".to_owned(), format!("sha256:{sum}").into());
        descriptor.insert("size".to_owned(), text.len().into());
        Ok(())
    }

    /// The layout in one file, for each of `podman load`, `skopeo` and `docker load`.
    fn archive(&self, file: &Path, epoch: u64) -> Result<()> {
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"]);
        tar.args([format!("--mtime=@{epoch}"), "--mode=u=rwX,go=rX".to_owned()]);
        tar.arg("--file").arg(file).arg("--directory").arg(&self.layout);
        process::read(tar.args(["--create", "blobs", "index.json", "oci-layout"])).map(drop)
    }

    /// How many files it has, and their bytes. None may be written by others or run as another.
    fn root(&self) -> Result<(usize, u64)> {
        let mut find = Command::new("find");
        find.arg(&self.rootfs).args(["-type", "f", "-printf", "%m %s %P\n"]);
        let listed = process::read(&mut find)?;
        let mut bytes = 0_u64;
        for line in listed.lines() {
            let mut words = line.splitn(3, ' ');
            let (mode, size, path) = (words.next(), words.next(), words.next());
            if !matches!(mode, Some("644" | "755")) {
                bail!("{} has the mode {}", path.unwrap_or_default(), mode.unwrap_or_default());
            }
            bytes = bytes.saturating_add(size.and_then(|size| size.parse().ok()).unwrap_or(0));
        }
        if self.rootfs.join("bin/sh").exists() || !self.rootfs.join(AUTHORITIES).is_file() {
            bail!("it has a shell, or no authorities");
        }
        Ok((listed.lines().count(), bytes))
    }
}

/// The command that Docker runs to see that it is healthy.
fn health() -> Value {
    let seconds = |seconds: u64| seconds * 1_000_000_000;
    json!({
        "Test": ["CMD", "/usr/bin/tollgate", "health"],
        "Interval": seconds(10),
        "Timeout": seconds(3),
        "StartPeriod": seconds(5),
        "Retries": 3,
    })
}

fn labels(tree: &Tree, stage: &Stage, time: &str) -> Result<[(&'static str, String); 6]> {
    let mut git = Command::new("git");
    git.current_dir(&tree.root).args(["rev-parse", "HEAD"]);
    // An archive of the sources has none.
    let revision = process::read(&mut git).unwrap_or_else(|_| "unknown".to_owned());
    Ok([
        ("title", "tollgate".to_owned()),
        ("description", "Tollgate, an exact rate limiter".to_owned()),
        ("version", stage.version.clone()),
        ("licenses", "MIT OR Apache-2.0".to_owned()),
        ("revision", revision.trim().to_owned()),
        ("created", time.to_owned()),
    ])
}

fn read_json(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| path.display().to_string())?;
    serde_json::from_slice(&text).with_context(|| path.display().to_string())
}

/// Lays the files out.
fn fill(tree: &Tree, stage: &Stage, root: &Path) -> Result<()> {
    let program = stage.program();
    put(&program, root, "usr/bin/tollgate", "755")?;
    put(&tree.root.join("examples/policies/demo.toml"), root, "etc/tollgate/policies.toml", "644")?;
    put(&Path::new("/").join(AUTHORITIES), root, AUTHORITIES, "644")?;
    put(
        &tree.root.join("packages/deb/copyright"),
        root,
        &document("tollgate", "copyright"),
        "644",
    )?;
    put(&stage.materials(), root, &document("tollgate", "tollgate.spdx.json"), "644")?;
    for (name, text) in [("passwd", USERS), ("group", GROUPS), ("nsswitch.conf", NAMES)] {
        std::fs::write(root.join("etc").join(name), text)?;
    }
    let mut packages = vec!["ca-certificates".to_owned()];
    for library in libraries(&program)? {
        put(Path::new(&library), root, library.trim_start_matches('/'), "755")?;
        let owner = process::read(Command::new("dpkg-query").args(["--search", &library]))?;
        packages.push(owner.split(':').next().unwrap_or_default().to_owned());
    }
    packages.sort();
    packages.dedup();
    // Programs that look for known vulnerabilities read these, and people the licences.
    let status = root.join("var/lib/dpkg/status.d");
    std::fs::create_dir_all(&status)?;
    for package in packages {
        let text = process::read(Command::new("dpkg-query").args(["--status", &package]))?;
        std::fs::write(status.join(&package), text)?;
        let copyright = document(&package, "copyright");
        put(&Path::new("/").join(&copyright), root, &copyright, "644")?;
    }
    let state = root.join("var/lib/tollgate");
    std::fs::create_dir_all(&state)?;
    std::os::unix::fs::chown(&state, Some(10_001), Some(10_001))
        .context("only root may give a folder to another user")?;
    let mut mode = Command::new("chmod");
    process::read(mode.args(["-R", "u=rwX,go=rX"]).arg(root))?;
    date_all(root, stage.epoch)
}

fn document(package: &str, name: &str) -> String {
    format!("usr/share/doc/{package}/{name}")
}

/// Copies what a path leads to.
fn put(from: &Path, root: &Path, to: &str, mode: &str) -> Result<()> {
    let mut install = Command::new("install");
    install.args(["-D", "--mode", mode]).arg(from).arg(root.join(to));
    process::read(&mut install).map(drop)
}

/// The shared libraries that a program needs, its loader among them.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let said = process::read(Command::new("ldd").arg(program))?;
    let words = said.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(str::to_owned).collect())
}

/// Another program reads the archive, and sees what was written.
fn inspected(archive: &Path, version: &str, may_install: bool) -> Result<Shown> {
    if let Err(why) = provide("skopeo", "skopeo", may_install) {
        return Ok(Shown::Skipped(why));
    }
    let name = format!("oci-archive:{}:{version}", archive.display());
    let mut skopeo = Command::new("skopeo");
    let said = process::read(skopeo.args(["inspect", "--config", &name]))?;
    let config: Value = serde_json::from_str(&said).context("skopeo")?;
    let config = &config["config"];
    let labelled = &config["Labels"]["org.opencontainers.image.version"];
    if config["User"] != USER || labelled != version || config["Entrypoint"] != json!(ENTRYPOINT) {
        bail!("it reads {config}");
    }
    Ok(Shown::Held(format!("user {USER}, version {version}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways to an image make the same one, but for its root.
    #[test]
    fn the_recipe_for_docker_says_the_same() {
        let tree = Tree::find().unwrap();
        let recipe = std::fs::read_to_string(tree.root.join("packages/image/Dockerfile")).unwrap();
        let line = |word: &str| {
            let start = format!("{word} ");
            let mut found = recipe.lines().filter_map(|line| line.strip_prefix(&start));
            found.next_back().unwrap_or_else(|| panic!("no {word}"))
        };
        let words = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap();
        assert_eq!(line("USER"), USER);
        assert_eq!(words(line("ENTRYPOINT")), ENTRYPOINT);
        assert_eq!(words(line("CMD")), ARGUMENTS);
        let (options, command) = line("HEALTHCHECK").split_once(" CMD ").unwrap();
        let health = health();
        let mut check = vec!["CMD".to_owned()];
        check.extend(words(command));
        assert_eq!(health["Test"], json!(check));
        for (option, field) in
            [("interval", "Interval"), ("timeout", "Timeout"), ("start-period", "StartPeriod")]
        {
            let seconds = health[field].as_u64().unwrap() / 1_000_000_000;
            assert!(options.contains(&format!("--{option}={seconds}s")), "{option}: {options}");
        }
    }
}
