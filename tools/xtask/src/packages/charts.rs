//! The chart for Helm and the folders for Kustomize: rendered, held to the schemas of Kubernetes,
//! and their programs started as they would be started there.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::manifests::{Manifests, starts};
use super::sheet::{Sheet, Shown, sha256};
use super::stage::Stage;
use crate::tree::Tree;
use crate::{process, python};

/// Their names on the sheet.
const CHART: &str = "chart";
const KUSTOMIZE: &str = "kustomize";

/// Where the chart is, from the root, and values that use all of it.
const FOLDER: &str = "packages/helm/tollgate";
const FULL: &str = "packages/helm/tollgate/ci/full-values.yaml";

/// The folders that are rendered by Kustomize.
const LAYERS: [&str; 2] = ["base", "overlays/production"];

/// The program that reads manifests.
const READ: &str = include_str!("manifests.py");

/// Values that are refused, and a part of the message.
const REFUSED: [(&str, &str); 9] = [
    ("replicas=2", "store.secret is empty"),
    ("admin.enabled=true", "admin.secret is empty"),
    ("admin.enabled=true,admin.secret=a,admin.port=8700", "where clients are served"),
    ("replicas=0", "/replicas"),
    ("replica=3", "'replica' not allowed"),
    ("service.port=99999", "/service/port"),
    ("shutdown.linger=1", "/shutdown/linger"),
    ("memory=lots", "/memory"),
    ("extraArgs={listen}", "/extraArgs/0"),
];

/// Checks the chart and packs it.
pub(crate) fn chart(
    tree: &Tree,
    stage: &Stage,
    sheet: &mut Sheet,
    may_install: bool,
) -> Result<()> {
    let archive = stage.out.join(format!("tollgate-{}.tgz", stage.version));
    pack(&tree.root.join("packages/helm"), "tollgate", &archive, stage.epoch)?;
    sheet.file(CHART, &archive);
    let reader = match python::kubernetes(tree, may_install) {
        Ok(python) => Ok(python),
        Err(error) => Err(format!("{error:#}")),
    };
    sheet.check(CHART, "its values and their schema", || match &reader {
        Err(why) => Ok(Shown::Skipped(why.clone())),
        Ok(python) => {
            let mut command = Command::new(python);
            command.current_dir(tree.root.join(FOLDER)).args(["-c", READ]);
            let values = process::read(command.args(["values.schema.json", "values.yaml"]))?;
            Ok(Shown::Held(format!("{} values", values.trim())))
        }
    });
    let helm = match python::helm_or_kubectl(tree, "helm", may_install) {
        Ok(helm) => helm,
        Err(error) => {
            let why = format!("{error:#}");
            sheet.note(CHART, "linted, rendered, started", Ok(Shown::Skipped(why)), "");
            return Ok(());
        }
    };
    let run =
        |words: &[&str]| process::read(Command::new(&helm).current_dir(&tree.root).args(words));
    sheet.check(CHART, "helm lint", || {
        run(&["lint", "--strict", FOLDER])?;
        run(&["lint", "--strict", FOLDER, "--values", FULL])?;
        run(&["lint", "--strict", &archive.to_string_lossy()])?;
        Ok(Shown::Held(format!("by {}", run(&["version", "--short"])?.trim())))
    });
    sheet.check(CHART, "refuses values that cannot work", || {
        for (values, part) in REFUSED {
            match run(&["template", "x", FOLDER, "--set", values]) {
                Ok(_) => bail!("{values} is accepted"),
                Err(error) if error.to_string().contains(part) => {}
                Err(error) => bail!("{values}: `{part}` is not in `{error}`"),
            }
        }
        Ok(Shown::Held(format!("{} of {}", REFUSED.len(), REFUSED.len())))
    });
    for (name, values) in [("its default", None), ("everything in it", Some(FULL))] {
        let mut words = vec!["template", "limits", FOLDER];
        words.extend(values.into_iter().flat_map(|values| ["--values", values]));
        rendered(CHART, name, stage, sheet, &reader, || run(&words));
    }
    Ok(())
}

/// Checks what Kustomize makes, and packs its folders.
pub(crate) fn kustomize(
    tree: &Tree,
    stage: &Stage,
    sheet: &mut Sheet,
    may_install: bool,
) -> Result<()> {
    let archive = stage.out.join(format!("tollgate-{}-kustomize.tgz", stage.version));
    pack(&tree.root.join("packages"), "kustomize", &archive, stage.epoch)?;
    sheet.file(KUSTOMIZE, &archive);
    let kubectl = match python::helm_or_kubectl(tree, "kubectl", may_install) {
        Ok(kubectl) => kubectl,
        Err(error) => {
            let why = format!("{error:#}");
            sheet.note(KUSTOMIZE, "rendered, started", Ok(Shown::Skipped(why)), "");
            return Ok(());
        }
    };
    let reader = python::kubernetes(tree, may_install).map_err(|error| format!("{error:#}"));
    for layer in LAYERS {
        rendered(KUSTOMIZE, layer, stage, sheet, &reader, || {
            let folder = tree.root.join("packages/kustomize").join(layer);
            process::read(Command::new(&kubectl).arg("kustomize").arg(folder))
        });
    }
    let example = tree.root.join("examples/kubernetes/tollgate.yaml");
    rendered(KUSTOMIZE, "examples/kubernetes", stage, sheet, &reader, || {
        std::fs::read_to_string(&example).context("the example")
    });
    Ok(())
}

/// Three checks of the rendered manifests: by the schemas, of the references between them, and by
/// starting them.
fn rendered(
    artefact: &str,
    name: &str,
    stage: &Stage,
    sheet: &mut Sheet,
    reader: &Result<PathBuf, String>,
    render: impl FnOnce() -> Result<String>,
) {
    let python = match reader {
        Ok(python) => python,
        Err(why) => {
            let check = format!("{name}: schemas, started");
            return sheet.note(artefact, &check, Ok(Shown::Skipped(why.clone())), "");
        }
    };
    let mut manifests = None;
    sheet.check(artefact, &format!("{name}: schemas of Kubernetes"), || {
        let read = Manifests::read(&through(python, &render()?)?)?;
        let kinds = read.kinds();
        manifests = Some(read);
        Ok(Shown::Held(kinds))
    });
    // A file that could not be read has failed already.
    if let Some(manifests) = manifests {
        sheet.check(artefact, &format!("{name}: fits together"), || manifests.fit(&stage.version));
        sheet.check(artefact, &format!("{name}: started"), || starts(&manifests, stage));
    }
}

/// Manifests as JSON, once they are valid.
fn through(python: &Path, manifests: &str) -> Result<Value> {
    let mut command = Command::new(python);
    command.args(["-c", READ]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().context("cannot start Python")?;
    let mut input = child.stdin.take().context("Python has no input")?;
    input.write_all(manifests.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("the manifests as JSON")
}

/// A folder as one file, the same each time.
fn pack(home: &Path, folder: &str, archive: &Path, epoch: u64) -> Result<()> {
    let plain = archive.with_extension("tar");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"]);
    tar.args([format!("--mtime=@{epoch}"), "--mode=u=rwX,go=rX".to_owned()]);
    tar.args(["--exclude=ci", "--create", "--file"]).arg(&plain);
    process::read(tar.arg("--directory").arg(home).arg(folder))?;
    // Without its time and name.
    process::read(Command::new("gzip").args(["--no-name", "--best", "--force"]).arg(&plain))?;
    std::fs::rename(plain.with_extension("tar.gz"), archive)?;
    sha256(archive).map(drop)
}
