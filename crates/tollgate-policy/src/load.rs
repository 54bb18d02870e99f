//! Loads a policy file and the lists that it refers to.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::lines::hash_of;
use crate::list::MAX_LIST_BYTES;
use crate::policies::Policies;
use crate::problem::{Problem, Problems, Span};
use crate::read::keys::Unlisted;
use crate::source::{Format, MAX_FILE_BYTES};

impl Policies {
    /// Loads a policy file; its extension selects TOML or YAML. Relative paths of lists and tiers
    /// are resolved against the folder of the policy file.
    ///
    /// Each warning about its content is logged with the crate `tracing`, and is also in
    /// [`Policies::warnings`].
    ///
    /// # Errors
    /// All problems in the file and in the lists that it refers to; a file that cannot be read, or
    /// is too large; an extension of no known format.
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

/// The files that a policy file refers to, each with the hash of its content; `None` for one that
/// could not be read.
pub(crate) type Lists = BTreeMap<PathBuf, Option<u64>>;

/// Parses the text of the policy file at this path, with the lists that it refers to. The lists are
/// added to `lists` even if there are problems.
pub(crate) fn parse(path: &Path, text: &str, lists: &mut Lists) -> Result<Policies, Problems> {
    let mut known: HashMap<String, Result<Rc<String>, Unlisted>> = HashMap::new();
    let mut files = |named: &str| {
        let text = known.entry(named.to_owned()).or_insert_with(|| {
            let at = path.parent().unwrap_or(Path::new("")).join(named);
            let read = read_list(&at);
            lists.insert(at, read.as_ref().ok().map(|text| hash_of(text)));
            let remedy = "give the path of a file, from the folder of this one";
            let unread = |why| Unlisted { what: format!("{named}: {why}"), remedy };
            read.map(Rc::new).map_err(unread)
        });
        text.clone()
    };
    let format = format_of(path)?;
    Policies::parse_with(&path.display().to_string(), text, format, &mut files)
}

pub(crate) fn read_list(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("the file cannot be read: {error}");
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err("this is not a plain file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let most = u64::try_from(MAX_LIST_BYTES).unwrap_or(u64::MAX);
    // One byte more than there is shows the end without growing.
    let room = usize::try_from(found.len().min(most) + 1).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room);
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_LIST_BYTES {
        return Err(format!("the file has over {MAX_LIST_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "this is not UTF-8".to_owned())
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
    // Opening a pipe would block until something writes to it.
    let kind = std::fs::metadata(path).map_err(unreadable)?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() { "this is a folder" } else { "this is not a plain file" };
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
        let problem = Problem::error(Some(at), "from here on this is not UTF-8", remedy);
        Problems::new(&path.display().to_string(), &text, vec![problem])
    })
}
