//! `config import`: policies from the limits of other programs.

use anyhow::{Context as _, Result, anyhow, bail};
use tollgate_envoy::Config;
use tollgate_envoy::import::{Imported, limitador, rules};

use crate::args::{ConfigImport, ImportFrom};
use crate::show::{Output, note};

pub(crate) fn import(args: &ConfigImport, out: &mut Output) -> Result<u8> {
    let read = |path: &std::path::PathBuf| -> Result<(String, String)> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| name.clone())?;
        Ok((name, text))
    };
    let files: Vec<_> = args.files.iter().map(read).collect::<Result<_>>()?;
    let Imported { policies, notes, .. } = match (args.from, &files[..]) {
        (ImportFrom::Envoy, files) => from_envoy(files)?,
        (ImportFrom::Limitador, [(name, text)]) => {
            limitador(name, text).map_err(|problems| anyhow!("{problems}"))?
        }
        (ImportFrom::Limitador, _) => bail!("limitador has one file: give one"),
    };
    for what in notes {
        note(&what);
    }
    if !policies.contains("[[policies]]") {
        bail!("no limit of it has an equal in policies");
    }
    out.exact(&policies)?;
    Ok(0)
}

fn from_envoy(files: &[(String, String)]) -> Result<Imported> {
    let texts = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let config = Config::read(texts).map_err(|broken| {
        let all: Vec<_> = broken.iter().map(ToString::to_string).collect();
        anyhow!("{}", all.join("\n\n"))
    })?;
    for warnings in config.warnings() {
        note(&warnings.to_string());
    }
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    Ok(rules(&config, &names.join(", ")))
}
