//! The chart for Helm and the folders for Kustomize: rendered, held to the schemas of Kubernetes,
//! and their programs started as they would be started there.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::deb::provide;
use super::manifests::Manifests;
use super::sheet::{Sheet, Shown, sha256};
use super::stage::Stage;
use super::started::{Others, starts};
use super::values;
use crate::tree::Tree;
use crate::{process, programs, python};

/// Their names on the sheet.
const CHART: &str = "chart";
const KUSTOMIZE: &str = "kustomize";

/// Where the chart is, from the root.
const FOLDER: &str = "packages/helm/tollgate";

/// The folders that are rendered by Kustomize.
const LAYERS: [&str; 2] = ["base", "overlays/production"];

/// The oldest Kubernetes that the chart and the folders are for.
const OLDEST: &str = "1.25";

/// Manifests that are applied as they are, and the oldest Kubernetes that each is for: a `sleep` of
/// `preStop` is there by default from 1.30 on.
const EXAMPLES: [(&str, &str); 2] = [
    ("examples/kubernetes/tollgate.yaml", OLDEST),
    ("examples/kubernetes/envoy-redis.yaml", "1.30"),
];

/// The program that reads manifests.
const READ: &str = include_str!("manifests.py");

/// Values that each are valid and cannot work together, and a part of the message.
const REFUSED: [(&str, &str); 22] = [
    ("replicas=2", "store.secret is empty"),
    ("autoscaling.enabled=true", "store.secret is empty"),
    ("autoscaling.enabled=true,store.secret=a,autoscaling.minReplicas=11", "minReplicas is above"),
    ("autoscaling.enabled=true,store.secret=a,resources.requests=null", "requests.cpu is empty"),
    ("policies=", "policies is empty"),
    ("envoy.configMap=a", "grpc.enabled is false"),
    ("envoy.metrics=true", "grpc.enabled is false"),
    (r"grpc.enabled=true,envoy.configMap=a,envoy.rules.a\.yaml=b", "choose one"),
    ("grpc.enabled=true,envoy.configMap=a,envoy.xds=h:1", "choose one"),
    ("grpc.enabled=true,envoy.xds=nowhere", "/envoy/xds"),
    ("grpc.enabled=true,envoy.metrics=true", "without rules"),
    ("resp.enabled=true", "resp.secret is empty"),
    ("resp.enabled=true,resp.secret=a,resp.passwordKey=", "resp.usersKey are empty"),
    ("tls.clientAuthority=a", "tls.secret is empty"),
    ("tls.clientAuthority=a,tls.secret=b,admin.enabled=true", "kubectl port-forward"),
    ("tls.secret=a,metrics.podMonitor.enabled=true", "tlsConfig is empty"),
    ("admin.enabled=true", "admin.secret is empty"),
    ("admin.enabled=true,admin.secret=a,admin.port=8700", "where clients are served"),
    ("admin.port=8081", "where clients are served"),
    ("grpc.enabled=true,grpc.port=8700", "give each another number"),
    ("shutdown.linger=2", "/shutdown/linger"),
    (r"grpc.enabled=true,envoy.rules.a\.txt=b", "'a.txt' not allowed"),
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
    let schema = std::fs::read_to_string(tree.root.join(FOLDER).join("values.schema.json"))?;
    let schema = serde_json::from_str(&schema).context("values.schema.json")?;
    let reader = python::kubernetes(tree, may_install).map_err(|error| format!("{error:#}"));
    sheet.check(CHART, "its values and their schema", || match &reader {
        Err(why) => Ok(Shown::Skipped(why.clone())),
        Ok(python) => {
            let mut command = Command::new(python);
            command.current_dir(tree.root.join(FOLDER)).args(["-c", READ]);
            process::read(command.args(["values.schema.json", "values.yaml"]))?;
            Ok(Shown::Held(format!("{} values", values::names(&schema)?.len())))
        }
    });
    sheet.check(CHART, "its alerts", || alerts(tree, may_install));
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
    let cases = cases(tree)?;
    sheet.check(CHART, "helm lint", || {
        for case in &cases {
            run(&["lint", "--strict", FOLDER, "--values", case])?;
        }
        run(&["lint", "--strict", &archive.to_string_lossy()])?;
        let chart = std::fs::read_to_string(tree.root.join(FOLDER).join("Chart.yaml"))?;
        if !chart.contains(&format!("\nkubeVersion: \">={OLDEST}.0-0\"\n")) {
            bail!("Chart.yaml has another oldest version than {OLDEST}");
        }
        Ok(Shown::Held(format!("by {}", run(&["version", "--short"])?.trim())))
    });
    sheet.check(CHART, "refuses values that cannot work together", || {
        for (values, part) in REFUSED {
            refused(run(&["template", "x", FOLDER, "--set", values]), values, part)?;
        }
        Ok(Shown::Held(format!("{} of {}", REFUSED.len(), REFUSED.len())))
    });
    sheet.check(CHART, "refuses each value that breaks a rule", || {
        let all = values::wrong(&schema)?;
        let file = stage.home.join("wrong.json");
        for one in &all {
            std::fs::write(&file, one.values.to_string())?;
            let said = run(&["template", "x", FOLDER, "--values", &file.to_string_lossy()]);
            refused(said, &one.values.to_string(), &format!("'{}", one.at))?;
        }
        Ok(Shown::Held(format!("{} of {}", all.len(), all.len())))
    });
    let others = others(tree, may_install);
    for case in &cases {
        let name = case.rsplit('/').next().unwrap_or_default().trim_end_matches("-values.yaml");
        rendered(CHART, (name, OLDEST), stage, sheet, (&reader, &others), || {
            run(&["template", "limits", FOLDER, "--values", case])
        });
    }
    Ok(())
}

/// An error that names what is wrong.
fn refused(said: Result<String>, values: &str, part: &str) -> Result<()> {
    match said {
        Ok(_) => bail!("{values} is accepted"),
        Err(error) if error.to_string().contains(part) => Ok(()),
        Err(error) => bail!("{values}: `{part}` is not in `{error}`"),
    }
}

/// The files of values that are rendered and started, from the root.
fn cases(tree: &Tree) -> Result<Vec<String>> {
    let folder = format!("{FOLDER}/ci");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(tree.root.join(&folder))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with("-values.yaml") {
            found.push(format!("{folder}/{name}"));
        }
    }
    found.sort();
    Ok(found)
}

/// The programs that take part where manifests are started.
fn others(tree: &Tree, may_install: bool) -> Others {
    let told = |found: Result<PathBuf>| found.map_err(|error| format!("{error:#}"));
    Others {
        redis: provide("redis-server", "redis-server", may_install),
        grpc: told(python::grpc(tree, may_install)),
        envoy: told(python::envoy(tree, may_install)),
    }
}

/// The folder of the alerts, which the chart has by a link.
const ALERTS: &str = "examples/prometheus";

/// Prometheus reads the alerts, and each fires for the series of its test.
fn alerts(tree: &Tree, may_install: bool) -> Result<Shown> {
    let promtool = match programs::unpacked(tree, "prometheus", "usr/bin/promtool", may_install) {
        Ok(promtool) => promtool,
        Err(error) => return Ok(Shown::Skipped(format!("{error:#}"))),
    };
    let folder = tree.root.join(ALERTS);
    let run =
        |words: &[&str]| process::read(Command::new(&promtool).current_dir(&folder).args(words));
    run(&["check", "rules", "alerts.yaml"])?;
    run(&["test", "rules", "alerts_test.yaml"])?;
    let text = std::fs::read_to_string(folder.join("alerts.yaml"))?;
    let tests = std::fs::read_to_string(folder.join("alerts_test.yaml"))?;
    let names = text.lines().flat_map(|line| line.trim().strip_prefix("- alert: "));
    let names: Vec<&str> = names.collect();
    match names.iter().find(|name| !tests.contains(&format!("alertname=\"{name}\""))) {
        Some(name) => bail!("no test sees {name} fire"),
        None => Ok(Shown::Held(format!("{} alerts, each of which fires", names.len()))),
    }
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
    let others = others(tree, may_install);
    for layer in LAYERS {
        rendered(KUSTOMIZE, (layer, OLDEST), stage, sheet, (&reader, &others), || {
            let folder = tree.root.join("packages/kustomize").join(layer);
            process::read(Command::new(&kubectl).arg("kustomize").arg(folder))
        });
    }
    for (example, oldest) in EXAMPLES {
        let name = example.rsplit('/').next().unwrap_or_default();
        rendered(KUSTOMIZE, (name, oldest), stage, sheet, (&reader, &others), || {
            std::fs::read_to_string(tree.root.join(example)).context("the example")
        });
    }
    Ok(())
}

/// Three checks of the rendered manifests: by the schemas, of the references between them, and by
/// starting them.
fn rendered(
    artefact: &str,
    (name, oldest): (&str, &str),
    stage: &Stage,
    sheet: &mut Sheet,
    (reader, others): (&Result<PathBuf, String>, &Others),
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
        let read = Manifests::read(&through(python, oldest, &render()?)?)?;
        let kinds = read.kinds();
        manifests = Some(read);
        Ok(Shown::Held(kinds))
    });
    // A file that could not be read has failed already.
    if let Some(manifests) = manifests {
        sheet.check(artefact, &format!("{name}: fits together"), || manifests.fit(&stage.version));
        sheet.check(artefact, &format!("{name}: started"), || starts(&manifests, stage, others));
    }
}

/// Manifests as JSON, once they are valid.
fn through(python: &Path, oldest: &str, manifests: &str) -> Result<Value> {
    let mut command = Command::new(python);
    command.args(["-c", READ, oldest]).stdin(Stdio::piped()).stdout(Stdio::piped());
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
    // The alerts are a link.
    tar.args(["--exclude=ci", "--dereference", "--create", "--file"]).arg(&plain);
    process::read(tar.arg("--directory").arg(home).arg(folder))?;
    // Without its time and name.
    process::read(Command::new("gzip").args(["--no-name", "--best", "--force"]).arg(&plain))?;
    std::fs::rename(plain.with_extension("tar.gz"), archive)?;
    sha256(archive).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alerts_are_about_metrics_that_the_page_names() {
        let root = Tree::find().unwrap().root;
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
        let (alerts, page) = (read("packages/helm/tollgate/alerts.yaml"), read("docs/metrics.md"));
        let words = alerts.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let mut seen = 0;
        for word in words.filter(|word| word.starts_with("tollgate_")) {
            let metric =
                ["_count", "_sum", "_bucket"].iter().fold(word, |w, end| w.trim_end_matches(end));
            assert!(page.contains(&format!("| `{metric}` |")), "docs/metrics.md has no {metric}");
            seen += 1;
        }
        assert!(seen > 20, "{seen}");
    }
}
