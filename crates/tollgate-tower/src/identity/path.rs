//! The canonical form of a path: different spellings of one path become equal, and spellings that
//! servers interpret differently are refused.

use std::borrow::Cow;

use super::why::Why;

/// Whether the case of letters distinguishes paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Case {
    /// `/Login` is not `/login`, as for most routers.
    #[default]
    Keep,
    /// They are equal, as for routers that ignore the case of ASCII letters.
    Fold,
}

/// The meaning of an escaped slash to the server behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum EscapedSlashes {
    /// Refused, and backslashes too: servers interpret them differently.
    #[default]
    Reject,
    /// `%2F` is part of its segment, as for axum. So is a backslash (`%5C`).
    Keep,
    /// `%2F` separates segments, as for Flask. A backslash is refused: it separates segments for
    /// few of these servers.
    Unescape,
}

/// The meaning of a `;` in a path to the server behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum PathParameters {
    /// Refused, and `%3B` too: servers interpret them differently.
    #[default]
    Reject,
    /// Part of its segment like any character; `%3B` is equal to it.
    Keep,
    /// The start of a parameter, which is removed up to the next `/`, as in servlets. `%3B` is
    /// refused: a server that decodes first sees a parameter there too.
    Strip,
}

/// How paths are interpreted: like the server behind, where servers differ. A path that the
/// settings leave ambiguous is refused. Segments `.` and `..`, in any spelling, and `%00` are
/// always refused.
///
/// ```
/// use tollgate_tower::identity::{Case, EscapedSlashes, PathReading, Why};
/// let strict = PathReading::default();
/// assert_eq!(strict.read("//%6Cogin/").as_deref(), Ok("/login"));
/// assert_eq!(strict.read("/a%2fb"), Err(Why::EscapedSlash));
/// assert_eq!(strict.read("/a/../b"), Err(Why::Dots));
/// let kept = strict.escaped_slashes(EscapedSlashes::Keep);
/// assert_eq!(kept.read("/a%2fb").as_deref(), Ok("/a%2Fb"));
/// assert_eq!(PathReading::from(Case::Fold).read("/Login").as_deref(), Ok("/login"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathReading {
    case: Case,
    escaped_slashes: EscapedSlashes,
    parameters: PathParameters,
}

impl From<Case> for PathReading {
    fn from(case: Case) -> Self {
        Self::default().case(case)
    }
}

impl PathReading {
    /// Sets whether the case of letters distinguishes paths. It does by default.
    #[must_use]
    pub fn case(self, case: Case) -> Self {
        Self { case, ..self }
    }

    /// Sets the meaning of an escaped slash. It is refused by default.
    #[must_use]
    pub fn escaped_slashes(self, escaped_slashes: EscapedSlashes) -> Self {
        Self { escaped_slashes, ..self }
    }

    /// Sets the meaning of a `;`. It is refused by default.
    #[must_use]
    pub fn parameters(self, parameters: PathParameters) -> Self {
        Self { parameters, ..self }
    }

    /// The canonical form of a path. It has no empty segments, no trailing slash, and only
    /// necessary escapes, in upper case. Escapes are decoded once: `%252F` is the text `%2F`. The
    /// conversion takes linear time; the result has at most three bytes per input byte, plus one.
    ///
    /// # Errors
    /// [`Why::Dots`], [`Why::EscapedSlash`], [`Why::Backslash`], [`Why::Parameter`] and
    /// [`Why::Nul`]: the settings do not define the meaning of this part of the path.
    #[inline]
    pub fn read<'p>(&self, path: &'p str) -> Result<Cow<'p, str>, Why> {
        if self.is_form(path) {
            return Ok(Cow::Borrowed(path));
        }
        self.form(path)
    }

    /// True for most paths, which already are canonical: a quick test.
    #[inline]
    fn is_form(&self, path: &str) -> bool {
        // `OPTIONS *` is about the server, not about a path.
        if path == "/" || path == "*" {
            return true;
        }
        let Some(rest) = path.as_bytes().strip_prefix(b"/") else { return false };
        let mut before = b'/';
        for &byte in rest {
            // An empty segment, or one that may consist of dots.
            let is_suspect = before == b'/' && matches!(byte, b'/' | b'.');
            if is_suspect || !(PLAIN[usize::from(byte)] || byte == b'/') {
                return false;
            }
            before = byte;
        }
        let has_capital = || rest.iter().any(u8::is_ascii_uppercase);
        before != b'/' && (self.case == Case::Keep || !has_capital())
    }

    fn form<'p>(&self, path: &'p str) -> Result<Cow<'p, str>, Why> {
        let mut out = Vec::with_capacity(path.len() + 1);
        // Segments of dots are detected in the widest interpretation: between slashes of any kind,
        // and before a parameter. `None` where no segment of dots is possible.
        let mut dots = Some(0);
        let (mut at_start, mut in_parameter) = (true, false);
        for (byte, escaped) in bytes(path) {
            let is_slash = matches!(byte, b'/' | b'\\');
            if is_slash || byte == b';' {
                refuse_dots(dots)?;
            }
            dots = match (byte, dots) {
                _ if is_slash => Some(0),
                (b'.', Some(count)) => Some(count + 1),
                _ => None,
            };
            match (byte, escaped) {
                (0, _) => return Err(Why::Nul),
                (b'/', false) => (at_start, in_parameter) = (true, false),
                (b'/', true) => match self.escaped_slashes {
                    EscapedSlashes::Keep => {}
                    // The end of the parameter would depend on the order of decoding.
                    EscapedSlashes::Unescape if !in_parameter => at_start = true,
                    _ => return Err(Why::EscapedSlash),
                },
                (b'\\', _) if self.escaped_slashes != EscapedSlashes::Keep => {
                    return Err(Why::Backslash);
                }
                (b';', _) => match self.parameters {
                    PathParameters::Keep => {}
                    PathParameters::Strip if !escaped => in_parameter = true,
                    _ => return Err(Why::Parameter),
                },
                _ => {}
            }
            let separates =
                byte == b'/' && (!escaped || self.escaped_slashes == EscapedSlashes::Unescape);
            if separates || in_parameter {
                continue;
            }
            if at_start {
                out.push(b'/');
                at_start = false;
            }
            self.push(&mut out, byte);
        }
        refuse_dots(dots)?;
        if out.is_empty() {
            out.push(b'/');
        }
        if out == path.as_bytes() {
            return Ok(Cow::Borrowed(path));
        }
        // The result is ASCII: everything else was escaped.
        Ok(Cow::Owned(String::from_utf8(out).unwrap_or_default()))
    }

    fn push(&self, out: &mut Vec<u8>, byte: u8) {
        if PLAIN[usize::from(byte)] || byte == b';' {
            out.push(if self.case == Case::Fold { byte.to_ascii_lowercase() } else { byte });
            return;
        }
        out.push(b'%');
        for nibble in [byte >> 4, byte & 15] {
            out.push(b"0123456789ABCDEF"[usize::from(nibble)]);
        }
    }
}

/// The bytes of a path, decoded once, and whether each was escaped. A `%` that does not begin an
/// escape is a byte itself.
fn bytes(path: &str) -> impl Iterator<Item = (u8, bool)> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut rest = path.as_bytes();
    core::iter::from_fn(move || {
        let (&byte, after) = rest.split_first()?;
        if let (b'%', [high, low, after @ ..]) = (byte, after)
            && let Some((high, low)) = digit(*high).zip(digit(*low))
        {
            rest = after;
            return Some((high * 16 + low, true));
        }
        rest = after;
        Some((byte, false))
    })
}

fn refuse_dots(dots: Option<usize>) -> Result<(), Why> {
    if matches!(dots, Some(1 | 2)) { Err(Why::Dots) } else { Ok(()) }
}

/// The characters that need no escape in a segment (RFC 3986, 3.3), except `;`.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        plain[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'-' | b'.'
                    | b'_'
                    | b'~'
                    | b'!'
                    | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b','
                    | b'='
                    | b':'
                    | b'@'
            );
        byte += 1;
    }
    plain
};

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: PathReading = PathReading {
        case: Case::Keep,
        escaped_slashes: EscapedSlashes::Reject,
        parameters: PathParameters::Reject,
    };

    /// Every setting but for the case.
    fn settings() -> impl Iterator<Item = PathReading> {
        use {EscapedSlashes as E, PathParameters as P};
        let slashes = [E::Reject, E::Keep, E::Unescape];
        slashes.into_iter().flat_map(|slashes| {
            let with = move |parameters| STRICT.escaped_slashes(slashes).parameters(parameters);
            [P::Reject, P::Keep, P::Strip].map(with)
        })
    }

    #[test]
    fn the_default_is_strict() {
        assert_eq!(PathReading::default(), STRICT);
    }

    #[test]
    fn dots_and_nul_are_refused_under_every_setting_and_in_every_spelling() {
        for reading in settings() {
            for path in
                ["/.", "/..", "/a/../b", "/a/%2e%2E/b", "/.%2e", "./a", "/a/%2E", "/a/./", ".."]
            {
                assert_eq!(reading.read(path), Err(Why::Dots), "{path} {reading:?}");
            }
            for path in [
                "/x%2f..%2flogin",
                "/x/..%2flogin",
                "/.%2flogin",
                "/x%5c..",
                "/x\\.\\y",
                "/..;x/b",
                "/a/..;/b",
                "/a;%2f../b",
                "/a;\\..",
            ] {
                assert!(reading.read(path).is_err(), "{path} {reading:?}");
            }
            assert_eq!(reading.read("/login%00"), Err(Why::Nul));
            assert_eq!(reading.read("/\0"), Err(Why::Nul));
            for path in ["/a.b", "/...", "/.a", "/a..", "/.well-known/x", "/..a/a../.."] {
                let path = path.strip_suffix("/..").unwrap_or(path);
                assert_eq!(reading.read(path).as_deref(), Ok(path), "{reading:?}");
            }
            assert_eq!(reading.read("/%2e%2e%2e").as_deref(), Ok("/..."));
        }
    }

    #[test]
    fn what_servers_differ_in_reading_is_refused() {
        for (path, why) in [
            ("/%2flogin", Why::EscapedSlash),
            ("/login%2F", Why::EscapedSlash),
            ("/x%2f..%2flogin", Why::EscapedSlash),
            ("/x/..%2flogin", Why::Dots),
            ("/\\login", Why::Backslash),
            ("/%5clogin", Why::Backslash),
            ("/login;x=1", Why::Parameter),
            ("/;login", Why::Parameter),
            ("/login%3bx", Why::Parameter),
        ] {
            assert_eq!(STRICT.read(path), Err(why), "{path}");
        }
        // Decoded once: these are the texts `%2f`, `%2e` and `%00`, to everybody.
        assert_eq!(STRICT.read("/a%252fb").as_deref(), Ok("/a%252fb"));
        assert_eq!(STRICT.read("/a%25%32%66b").as_deref(), Ok("/a%252fb"));
        assert_eq!(STRICT.read("/%252e/%2500").as_deref(), Ok("/%252e/%2500"));
    }

    #[test]
    fn each_setting_reads_what_it_says() {
        use {EscapedSlashes as E, PathParameters as P};
        let kept = STRICT.escaped_slashes(E::Keep);
        let unescaped = STRICT.escaped_slashes(E::Unescape);
        let (parts, stripped) = (STRICT.parameters(P::Keep), STRICT.parameters(P::Strip));
        for (reading, path, form) in [
            (kept, "/a%2fb%2F", Ok("/a%2Fb%2F")),
            (kept, "/%2flogin", Ok("/%2Flogin")),
            (kept, "/a\\b%5c", Ok("/a%5Cb%5C")),
            (kept, "/x%2f..%2fb", Err(Why::Dots)),
            (kept, "/a;b", Err(Why::Parameter)),
            (unescaped, "/%2flogin", Ok("/login")),
            (unescaped, "/login%2f", Ok("/login")),
            (unescaped, "/a%2Fb%2f%2fc", Ok("/a/b/c")),
            (unescaped, "/%2f", Ok("/")),
            (unescaped, "%2fa", Ok("/a")),
            (unescaped, "/x%2f..%2flogin", Err(Why::Dots)),
            (unescaped, "/a\\b", Err(Why::Backslash)),
            (unescaped, "/a%5cb", Err(Why::Backslash)),
            (unescaped, "/a%252fb", Ok("/a%252fb")),
            (parts, "/a;b=1,2/c;", Ok("/a;b=1,2/c;")),
            (parts, "/a%3bb", Ok("/a;b")),
            (parts, "/a%2fb", Err(Why::EscapedSlash)),
            (stripped, "/a;b=1/c;d", Ok("/a/c")),
            (stripped, "/;x/a", Ok("/a")),
            (stripped, "/;x", Ok("/")),
            (stripped, "/a;x=..;y/b", Ok("/a/b")),
            (stripped, "/a/..;x/b", Err(Why::Dots)),
            (stripped, "/a%3Bb", Err(Why::Parameter)),
            (stripped, "/a;b%3Bc", Err(Why::Parameter)),
            (stripped, "/a;b%2Fc/d", Err(Why::EscapedSlash)),
            (stripped.escaped_slashes(E::Keep), "/a;b%2Fc\\e/d", Ok("/a/d")),
            (stripped.escaped_slashes(E::Unescape), "/a%2fb;c/d", Ok("/a/b/d")),
            (stripped.escaped_slashes(E::Unescape), "/a;b%2Fc/d", Err(Why::EscapedSlash)),
            (stripped, "/a;\0", Err(Why::Nul)),
        ] {
            assert_eq!(reading.read(path).as_deref(), form.as_deref(), "{path} {reading:?}");
        }
    }

    #[test]
    fn paths_have_one_form() {
        for (path, form) in [
            ("", "/"),
            ("/", "/"),
            ("*", "*"),
            ("//", "/"),
            ("/a//b///", "/a/b"),
            ("/%61%7E%7e", "/a~~"),
            ("/%zz/%4", "/%25zz/%254"),
            ("/%25zz", "/%25zz"),
            ("/%", "/%25"),
            ("/\u{e9}", "/%C3%A9"),
            ("/%c3%a9", "/%C3%A9"),
            ("/a b", "/a%20b"),
            ("a", "/a"),
        ] {
            for reading in settings() {
                assert_eq!(reading.read(path).as_deref(), Ok(form), "{path} {reading:?}");
            }
        }
        let folded = PathReading::from(Case::Fold);
        assert_eq!(folded.read("/LOGIN/%4C%c3").as_deref(), Ok("/login/l%C3"));
        assert_eq!(folded.read("/Login").as_deref(), Ok("/login"));
    }

    #[test]
    fn a_path_in_its_form_is_borrowed() {
        for path in ["/", "*", "/a/b", "/a-b_c~d/e.f,g:h@i", "/%C3%A9", "/.well-known/x"] {
            assert!(matches!(STRICT.read(path), Ok(Cow::Borrowed(_))), "{path}");
        }
    }
}
