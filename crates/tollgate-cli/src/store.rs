//! Which store a command asks.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use tollgate_sqlite::{Options, SqliteStore};

use crate::args::Place;
use crate::input::shown;

/// Opens the store that the arguments, the environment or the default name. A busy database is
/// waited for as long as its own default says: 5 s.
pub(crate) fn open(place: &Place) -> Result<SqliteStore> {
    let options = match place.store.as_deref().filter(|url| !url.is_empty()) {
        Some(url) => options(url)?,
        None => Options::new(default_path()?),
    };
    Ok(SqliteStore::open_with(options)?)
}

/// What a URL says.
fn options(url: &str) -> Result<Options> {
    if let Some((scheme, _)) = url.split_once("://") {
        match scheme {
            "sqlite" => {}
            "memory" => bail!(
                "`memory://` would forget everything when this command ends, and so admit always: \
                 use `sqlite://PATH`, or leave `--store` out"
            ),
            "redis" | "rediss" | "redis+sentinel" | "redis+cluster" => bail!(
                "`{scheme}://` is not built yet: this version has `sqlite://PATH` and, for \
                 `replay`, `memory://`"
            ),
            _ => bail!(
                "unknown kind of store `{}://`: this version has `sqlite://PATH` and, for \
                 `replay`, `memory://`",
                shown(scheme)
            ),
        }
    }
    Ok(Options::from_url(url)?)
}

/// The file in the user's state folder, which is made when it is not there.
fn default_path() -> Result<PathBuf> {
    let folder = folder(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(|| {
        format!(
            "the folder {} cannot be made: give another place with `--store sqlite://PATH`",
            folder.display()
        )
    })?;
    Ok(folder.join("tollgate.db"))
}

/// `$XDG_STATE_HOME/tollgate`, else `~/.local/state/tollgate`. Relative paths do not count, as
/// the XDG specification has it.
fn folder(state: Option<OsString>, home: Option<OsString>) -> Result<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(state)
        .or_else(|| absolute(home).map(|home| home.join(".local").join("state")))
        .map(|folder| folder.join("tollgate"))
        .ok_or_else(|| {
            anyhow!(
                "neither XDG_STATE_HOME nor HOME is set, so there is no default place for counts: \
                 give one with `--store sqlite://PATH`"
            )
        })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_default_is_in_the_state_folder() {
        let os = |text: &str| Some(OsString::from(text));
        assert_eq!(folder(os("/s"), os("/h")).unwrap(), Path::new("/s/tollgate"));
        assert_eq!(folder(os("rel"), os("/h")).unwrap(), Path::new("/h/.local/state/tollgate"));
        assert_eq!(folder(None, os("/h")).unwrap(), Path::new("/h/.local/state/tollgate"));
        assert!(folder(None, os("")).unwrap_err().to_string().contains("--store"));
    }

    #[test]
    fn stores_that_are_not_there_say_so() {
        for (url, says) in [
            ("memory://", "would forget everything"),
            ("redis://localhost", "`redis://` is not built yet"),
            ("rediss://localhost", "`rediss://` is not built yet"),
            ("redis+cluster://a,b", "not built yet"),
            ("postgres://x", "unknown kind of store `postgres://`"),
            ("sqlite://", "path is missing"),
        ] {
            let error = options(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
        assert!(options("sqlite:///tmp/x.db?sync=full").is_ok());
    }
}
