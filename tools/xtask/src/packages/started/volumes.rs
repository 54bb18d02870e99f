//! The volumes of a pod, laid out in a folder as the kubelet lays them out: files are links into a
//! folder that another link, `..data`, names, and a change swaps that link.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::packages::manifests::{Manifests, Pod};
use crate::packages::stage::fresh;
use crate::process;

/// Makes an authority, and a certificate of it for this machine, as server and as client.
const KEYS: &str = "\
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem \
    -subj '/CN=A test authority' &&
openssl req -newkey rsa:2048 -nodes -keyout tls.key -out tls.csr -subj /CN=localhost &&
printf 'subjectAltName=IP:127.0.0.1,DNS:localhost' >names &&
openssl x509 -req -in tls.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
    -extfile names -out tls.crt";

/// Signs the same key once more, with a number by which it is seen.
const RENEWED: &str = "\
openssl x509 -req -in tls.csr -CA ca.pem -CAkey ca.key -set_serial 0x7777 -days 2 \
    -extfile names -out renewed.crt";

/// Stand-ins for config maps of the user's own, by the file that is looked for.
const POLICIES: &str = "version = 1\nmatch = \"all\"\n[[policies]]\nname = \"own\"\n\
    limits = [{ subject = \"ip\", limit = \"9/s\" }]\non_failure = \"allow\"\n";
const RULES: &str = "domain: own\ndescriptors: [{key: k}]\n";

/// Writes keys into `HOME/keys`.
pub(super) fn make_keys(home: &Path) -> Result<()> {
    let keys = home.join("keys");
    fresh(&keys)?;
    process::read(process::shell(KEYS).current_dir(&keys)).context("openssl").map(drop)
}

/// A certificate that replaces the one in use, and its number as `curl` prints it.
pub(super) fn renewed(home: &Path) -> Result<(String, &'static str)> {
    let keys = home.join("keys");
    process::read(process::shell(RENEWED).current_dir(&keys)).context("openssl")?;
    Ok((std::fs::read_to_string(keys.join("renewed.crt"))?, "7777"))
}

/// The folders of a pod.
#[derive(Debug)]
pub(super) struct Volumes {
    /// Where a folder of the pod is here.
    folders: BTreeMap<String, PathBuf>,
}

impl Volumes {
    /// Lays them all out below `root`. Secrets are keys of `home`.
    pub(super) fn fill(
        manifests: &Manifests,
        pod: &Pod<'_>,
        root: &Path,
        home: &Path,
    ) -> Result<Self> {
        let mut folders = BTreeMap::new();
        let volumes: Vec<&Value> = pod.spec["volumes"].as_array().into_iter().flatten().collect();
        for mount in pod.container["volumeMounts"].as_array().into_iter().flatten() {
            let at = mount["mountPath"].as_str().context("a mount without a path")?;
            let folder = root.join(at.trim_start_matches('/'));
            fresh(&folder)?;
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
            let files = volume.map(|volume| files(manifests, volume, home)).transpose()?;
            // Others, such as claims, are folders to write into.
            if let Some(files) = files.filter(|files| !files.is_empty()) {
                lay(&folder, &files)?;
            }
            folders.insert(at.to_owned(), folder);
        }
        Ok(Self { folders })
    }

    /// Where a path of the pod is here. An error if no volume has it.
    pub(super) fn path(&self, path: &str) -> Result<PathBuf> {
        let found = self.folders.iter().find_map(|(at, folder)| {
            let rest = path.strip_prefix(at.as_str())?;
            rest.is_empty()
                .then(|| folder.clone())
                .or_else(|| Some(folder.join(rest.strip_prefix('/')?)))
        });
        found.with_context(|| format!("{path} is in no volume"))
    }

    /// Changes a file of a config map, or adds one.
    pub(super) fn change(&self, folder: &str, file: &str, text: &str) -> Result<()> {
        let folder = self.path(folder)?;
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(folder.join("..data"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.insert(name, std::fs::read_to_string(entry.path())?);
        }
        files.insert(file.to_owned(), text.to_owned());
        lay(&folder, &files)
    }
}

/// The files of a volume.
fn files(manifests: &Manifests, volume: &Value, home: &Path) -> Result<BTreeMap<String, String>> {
    let key = |file: &str| std::fs::read_to_string(home.join("keys").join(file));
    let mut files = BTreeMap::new();
    let mut put = |name: &str, text: String| files.insert(name.to_owned(), text);
    if volume["secret"].is_object() {
        put("tls.crt", key("tls.crt")?);
        put("tls.key", key("tls.key")?);
    }
    let Some(name) = volume["configMap"]["name"].as_str() else { return Ok(files) };
    match manifests.config_map(name).and_then(Value::as_object) {
        Some(data) => {
            for (name, text) in data {
                put(name, text.as_str().context("a file is not text")?.to_owned());
            }
        }
        None => {
            put("policies.toml", POLICIES.to_owned());
            put("rules.yaml", RULES.to_owned());
            put("authority.pem", key("ca.pem")?);
        }
    }
    Ok(files)
}

/// Writes files into a volume, in the order of the kubelet's steps.
fn lay(folder: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    let data = folder.join("..data");
    let before = std::fs::read_link(&data).ok();
    let turn = before.as_ref().and_then(|name| name.to_str()?.strip_prefix("..")?.parse().ok());
    let written = format!("..{}", turn.unwrap_or(0_u32) + 1);
    fresh(&folder.join(&written))?;
    for (name, text) in files {
        std::fs::write(folder.join(&written).join(name), text)?;
    }
    let next = folder.join("..data_tmp");
    symlink(&written, &next)?;
    std::fs::rename(&next, &data)?;
    for name in files.keys() {
        let shown = folder.join(name);
        if !shown.exists() {
            symlink(Path::new("..data").join(name), &shown)?;
        }
    }
    if let Some(before) = before {
        std::fs::remove_dir_all(folder.join(before))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_swaps_one_link() {
        let dir = tempfile::tempdir().unwrap();
        let one = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        lay(dir.path(), &one).unwrap();
        let folders = BTreeMap::from([("/etc/x".to_owned(), dir.path().to_owned())]);
        let volumes = Volumes { folders };
        volumes.change("/etc/x", "b", "7").unwrap();
        volumes.change("/etc/x", "b", "2").unwrap();
        let read = |path: &str| std::fs::read_to_string(volumes.path(path).unwrap()).unwrap();
        assert_eq!([read("/etc/x/a"), read("/etc/x/b")], ["1", "2"]);
        assert!(std::fs::read_link(dir.path().join("b")).unwrap().starts_with("..data"));
        assert!(volumes.path("/etc/xy").is_err());
    }
}
