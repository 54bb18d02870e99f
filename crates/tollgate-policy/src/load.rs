//! Reading a policy file, with the lists that it names.

use core::hash::BuildHasher as _;
use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::list::{MAX_LIST_BYTES, NetworkList};
use crate::policies::Policies;
use crate::problem::{Problem, Problems, Span};
use crate::read::keys::Unlisted;
use crate::source::{Format, MAX_FILE_BYTES};

impl Policies {
    /// Reads a policy file; its name says whether it is TOML or YAML. A list of networks that it
    /// names lies in its own folder, unless the list's path begins at the root.
    ///
    /// What is suspect in it is logged as a warning of the crate `tracing` each, and in
    /// [`Policies::warnings`].
    ///
    /// # Errors
    /// Everything that is wrong with it and with the lists that it names; a file that cannot be
    /// read, or is too large; a name that says no format.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Problems> {
        let path = path.as_ref();
        let policies = parse(path, &text_of(path)?, &mut Lists::default())?;
        let warnings = policies.warnings();
        for warning in warnings.iter() {
            let (line, column) = warnings.place(warning).unwrap_or((1, 1));
            let (what, remedy, file) = (warning.what(), warning.remedy(), path.display());
            tracing::warn!("{file}:{line}:{column}: {what}: {remedy}");
        }
        Ok(policies)
    }
}

/// The files that a policy file names: the hash of what was read of each; none for one that could
/// not be read.
pub(crate) type Lists = BTreeMap<PathBuf, Option<u64>>;

/// The policies of a text that was read at this path, with the lists that it names. Those are told
/// in `lists`, also when something is wrong.
pub(crate) fn parse(path: &Path, text: &str, lists: &mut Lists) -> Result<Policies, Problems> {
    let mut known: HashMap<String, Result<NetworkList, Unlisted>> = HashMap::new();
    let mut list = |named: &str| {
        let list = known.entry(named.to_owned()).or_insert_with(|| {
            let at = path.parent().unwrap_or(Path::new("")).join(named);
            let read = read_list(&at);
            lists.insert(at, read.as_ref().ok().map(|text| hash_of(text)));
            let of_file = "give the path of a file of networks, from the folder of this one";
            let text = read.map_err(|why| (format!("{named}: {why}"), of_file));
            let of_line = "mend the list: a network or an address in each line, and comments after \
                           a `#`";
            let list = text
                .and_then(|text| NetworkList::parse(named, &text).map_err(|what| (what, of_line)));
            list.map_err(|(what, remedy)| Unlisted { what, remedy })
        });
        list.clone()
    };
    let format = format_of(path)?;
    Policies::parse_with(&path.display().to_string(), text, format, &mut list)
}

pub(crate) fn read_list(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("the file cannot be read: {error}");
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("this is no plain file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let most = u64::try_from(MAX_LIST_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_LIST_BYTES {
        return Err(format!("the file has over {MAX_LIST_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "this is no UTF-8".to_owned())
}

pub(crate) fn hash_of(text: &str) -> u64 {
    foldhash::fast::FixedState::default().hash_one(text)
}

/// A problem with the file as a whole.
pub(crate) fn whole(path: &Path, what: String, remedy: &str) -> Problems {
    let problem = Problem::error(Some(Span::new(0, 0)), what, remedy);
    Problems::new(&path.display().to_string(), "", vec![problem])
}

pub(crate) fn format_of(path: &Path) -> Result<Format, Problems> {
    Format::from_path(path).ok_or_else(|| {
        let what = "the name of the file does not say how it is written".to_owned();
        whole(path, what, "name it `.toml`, `.yaml` or `.yml`")
    })
}

pub(crate) fn text_of(path: &Path) -> Result<String, Problems> {
    let unreadable = |error: std::io::Error| {
        let remedy = "give the path of a file that may be read";
        whole(path, format!("the file cannot be read: {error}"), remedy)
    };
    // To open a pipe would wait for whoever writes into it.
    let kind = std::fs::metadata(path).map_err(unreadable)?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() { "this is a folder" } else { "this is no plain file" };
        return Err(whole(path, what.to_owned(), "give the path of a policy file"));
    }
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let most = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_FILE_BYTES {
        let remedy = "split it, or match by fields instead";
        return Err(whole(path, format!("the file has over {MAX_FILE_BYTES} bytes"), remedy));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let bytes = error.into_bytes();
        let text = String::from_utf8_lossy(bytes.get(..good).unwrap_or(&[])).into_owned();
        let at = Span::new(text.len(), text.len());
        let remedy = "write the file in UTF-8";
        let problem = Problem::error(Some(at), "from here on this is no UTF-8", remedy);
        Problems::new(&path.display().to_string(), &text, vec![problem])
    })
}
