//! The terminal of `top`: a screen of its own, its size, and single keys.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

/// The size of a terminal that does not know its own.
const USUAL: (u16, u16) = (80, 24);

/// Another screen, so that the lines before stay, and no cursor on it.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Moves to the first column of the first line, and erases all that is below.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// A terminal that gives each key at once. It is as before when this is dropped.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Its modes before; `None` where there are no keys, since the input is something else.
    before: Option<Termios>,
}

impl Terminal {
    /// Takes the terminal; `None` where the output goes elsewhere, or no cursor can move.
    pub(super) fn open() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb");
        if !io::stdout().is_terminal() || is_dumb {
            return None;
        }
        let before = io::stdin().is_terminal().then(|| tcgetattr(stdin()).ok()).flatten();
        let terminal = Self { before };
        terminal.take_keys();
        terminal.write(ENTER);
        Some(terminal)
    }

    /// Whether keys are read.
    pub(super) fn has_keys(&self) -> bool {
        self.before.is_some()
    }

    /// Its columns and rows now.
    pub(super) fn size(&self) -> (u16, u16) {
        let size = tcgetwinsize(stdout()).ok();
        size.map(|it| (it.ws_col, it.ws_row)).filter(|(x, y)| *x > 0 && *y > 0).unwrap_or(USUAL)
    }

    /// The keys that were pressed since the last call.
    pub(super) fn keys(&self) -> Vec<char> {
        let mut bytes = [0; 64];
        if self.before.is_none() {
            return Vec::new();
        }
        let read = rustix::io::read(stdin(), &mut bytes).unwrap_or(0);
        plain_keys(bytes.get(..read).unwrap_or_default())
    }

    /// Shows these lines in place of those before.
    pub(super) fn draw(&self, lines: &str) {
        // A shell resets the modes of a program that was stopped and goes on.
        self.take_keys();
        let mut text = CLEAR.to_owned();
        for (number, line) in lines.lines().enumerate() {
            // No end of line after the last one, which would move the first out of sight.
            text.push_str(if number == 0 { "" } else { "\r\n" });
            text.push_str(line);
        }
        self.write(&text);
    }

    /// Keys come at once, and are not shown. Ctrl-C stays a signal.
    fn take_keys(&self) {
        let Some(before) = &self.before else { return };
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        modes.special_codes[SpecialCodeIndex::VMIN] = 0;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        // A terminal that refuses shows the figures, and Ctrl-C ends them.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
    }

    /// Not through `Output`, which leaves out the codes where no colours are wanted. A terminal
    /// that is gone ends the process by a signal.
    fn write(&self, text: &str) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.write(LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

/// The letters among these bytes. An arrow and the like is several bytes that begin with Escape and
/// may end in a letter.
fn plain_keys(bytes: &[u8]) -> Vec<char> {
    let (mut keys, mut bytes) = (Vec::new(), bytes.iter().copied().peekable());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\x1b' if bytes.next_if(|it| *it == b'[').is_some() => {
                bytes.by_ref().find(|it| (b'@'..=b'~').contains(it));
            }
            b'\x1b' if bytes.next_if(|it| *it == b'O').is_some() => {
                bytes.next();
            }
            letter if letter.is_ascii_alphabetic() => keys.push(letter.into()),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_keys_and_arrows_are_not() {
        for (bytes, keys) in [
            (&b"q"[..], "q"),
            (b"nD", "nD"),
            (b"\x1b[A", ""),
            (b"\x1b[1;5Dq", "q"),
            (b"\x1bOAn", "n"),
            (b"\x1b", ""),
            (b"\x1b[", ""),
            (b"1 \x03\xc3\xa4d", "d"),
        ] {
            assert_eq!(plain_keys(bytes), keys.chars().collect::<Vec<_>>(), "{bytes:?}");
        }
    }
}
