//! `top`: the figures of a running service in a terminal.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::Place;
use crate::serving::{LONG, Serving};

/// A service that was asked five times, and its admin listener.
fn serve(place: &Place) -> (Serving, String) {
    let serving = Serving::start(place, &["--log-denials", "plain"]);
    for _ in 0..5 {
        serving.client().check(r#"{"subject": "user:42", "limit": "3/h"}"#).unwrap();
    }
    let at = serving.admin_address();
    (serving, at)
}

#[test]
fn the_figures_are_shown_once_or_as_json() {
    let place = Place::new();
    let (_serving, at) = serve(&place);
    // They are recorded once a second, which may be between two of the checks.
    let (out, lines) = loop {
        let (code, out, error) = place.run(&["top", "--once", "--at", &at]);
        assert_eq!((code, error.as_str()), (0, ""));
        let lines: Vec<String> =
            out.lines().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let inline = lines.iter().find(|line| line.starts_with("inline "));
        let last = inline.into_iter().flat_map(|line| line.split(' ').rev().take(2));
        if last.filter_map(|number| number.parse::<u64>().ok()).sum::<u64>() >= 5 {
            break (out, lines);
        }
    };
    assert!(!out.contains('\u{1b}'), "{out:?}");
    assert!(lines[0].starts_with("tollgate ") && lines[0].contains("; 1 policy, "), "{out}");
    assert!(lines[1].starts_with("store memory counts, answered in "), "{out}");
    assert!(lines[2].starts_with("5 by the store in 60 s: half within "), "{out}");
    assert!(
        lines.iter().any(|line| line.starts_with("inline ") && line.ends_with(" 3 2")),
        "{out}"
    );
    assert!(lines.contains(&"user:42 - 5".to_owned()), "{out}");
    assert!(lines.contains(&"user:42 - 2".to_owned()), "{out}");
    let figures = place.json(&["top", "--json", "--at", &at]);
    assert_eq!(figures["limits"][0]["denied"], 2);
}

#[test]
fn it_goes_on_until_ctrl_c_and_over_an_outage() {
    let place = Place::new();
    let (serving, at) = serve(&place);
    let mut command = place.std(&["top", "--at", &at, "--every", "1s"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let heads = lines.by_ref().filter(|line| line.starts_with("tollgate ")).take(2);
    assert_eq!(heads.count(), 2, "it is shown again");
    drop(serving);
    let gone = lines.find(|line| line.contains("does not answer"));
    assert!(gone.is_some_and(|line| line.contains(&at)));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(child.wait().unwrap().success(), "it ends well");
}

#[test]
fn a_service_that_is_not_there_and_a_pause_that_is_too_short_are_errors() {
    let place = Place::new();
    for (args, says) in [
        (&["top", "--at", "127.0.0.1:9"][..], "does not answer"),
        (&["top", "--every", "100ms"], "1s or more"),
        (&["top", "--at", "nowhere"], "is not an address"),
    ] {
        let (code, out, error) = place.run(args);
        assert!(code == 2 && out.is_empty() && error.contains(says), "{args:?}: {error}");
    }
}

/// A terminal in which `top` runs.
struct Screen {
    keys: File,
    terminal: OwnedFd,
    pieces: Receiver<Vec<u8>>,
    seen: String,
    /// The modes before it.
    before: Termios,
    child: Child,
}

impl Screen {
    fn start(place: &Place, at: &str, columns: u16, rows: u16) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let name = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let terminal = OwnedFd::from(File::options().read(true).write(true).open(name).unwrap());
        let (keys, end) = (File::from(keys), terminal.try_clone().unwrap());
        let mut screen = keys.try_clone().unwrap();
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            while let Ok(read @ 1..) = screen.read(&mut piece) {
                if sender.send(piece[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        resize(&terminal, columns, rows);
        let before = tcgetattr(&terminal).unwrap();
        let mut command = place.std(&["top", "--at", at, "--every", "1s"]);
        // No colours are wanted, which is not the end of a screen.
        command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
        command.stdin(Stdio::from(terminal.try_clone().unwrap())).stdout(Stdio::from(end));
        let child = command.spawn().unwrap();
        Self { keys, terminal, pieces, seen: String::new(), before, child }
    }

    /// Waits until what is shown is so, and returns its lines.
    fn until(&mut self, is_so: impl Fn(&[&str]) -> bool) -> Vec<String> {
        let began = Instant::now();
        loop {
            // The last screen may be here in part: a later one is not.
            let screens: Vec<&str> = self.seen.split("\u{1b}[H\u{1b}[J").skip(1).collect();
            if let Some(screen) = screens.last() {
                let lines = screen.split('\n').map(|line| line.trim_end_matches('\r'));
                let lines: Vec<&str> = lines.collect();
                if is_so(&lines) {
                    return lines.into_iter().map(str::to_owned).collect();
                }
            }
            assert!(began.elapsed() < LONG, "{:?}", screens.last());
            let piece = self.pieces.recv_timeout(LONG).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
    }
}

fn resize(terminal: &OwnedFd, columns: u16, rows: u16) {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

/// The row below the head of the limits.
fn first<'l>(lines: &[&'l str]) -> &'l str {
    let head = lines.iter().position(|line| line.trim_start().starts_with("policy and limit"));
    head.and_then(|head| lines.get(head + 2)).map_or("", |line| line.trim_start())
}

#[test]
fn a_window_has_the_denying_one_of_fifty_policies_first_and_keys_sort_it() {
    let place = Place::new();
    let policy = |number: usize| {
        format!(
            "[[policies]]\nname = \"p{number:02}\"\non_failure = \"deny\"\n\
             when = {{ path = \"/{number}\" }}\nlimits = [{{ subject = \"ip\", limit = \"2/h\" }}]\n"
        )
    };
    let file = place.path().join("p.toml");
    let policies: String = (0..50).map(policy).collect();
    std::fs::write(&file, format!("version = 1\nmatch = \"first\"\n{policies}")).unwrap();
    let serving = Serving::start(&place, &["--config", file.to_str().unwrap()]);
    let mut client = serving.client();
    for number in 0..50 {
        for _ in 0..if number == 47 { 9 } else { 1 } {
            let ask = r#"{"policy": "pNN", "fields": {"ip": "192.0.2.7"}}"#;
            client.check(&ask.replace("NN", &format!("{number:02}"))).unwrap();
        }
    }
    let mut screen = Screen::start(&place, &serving.admin_address(), 80, 24);
    let is_last = |line: &str, sort: &str| line.starts_with("q quit; ") && line.contains(sort);
    let shown = |lines: &[&str], rows: usize, row: &str, sort: &str| {
        lines.len() == rows && first(lines).starts_with(row) && is_last(lines[rows - 1], sort)
    };
    let lines = screen.until(|lines| shown(lines, 24, "p47: 2/h via sliding_log", "denied/s*"));
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    assert!(lines[0].starts_with("tollgate ") && lines[0].contains("50 policies"), "{lines:#?}");
    let modes = tcgetattr(&screen.terminal).unwrap().local_modes;
    assert!(!modes.intersects(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
    // An arrow is no key, though it ends in a letter.
    screen.keys.write_all(b"\x1b[A").unwrap();
    screen.keys.write_all(b"n").unwrap();
    screen.until(|lines| shown(lines, 24, "p00: ", "name*"));
    screen.keys.write_all(b"D").unwrap();
    screen.until(|lines| shown(lines, 24, "p47: ", "denied/h*"));
    resize(&screen.terminal, 100, 40);
    let lines = screen.until(|lines| shown(lines, 40, "p47: ", "denied/h*"));
    assert!(lines.iter().any(|line| line.contains("asked most")), "{lines:#?}");
    screen.keys.write_all(b"q").unwrap();
    assert!(screen.child.wait().unwrap().success());
    let after = tcgetattr(&screen.terminal).unwrap();
    assert_eq!(after.local_modes, screen.before.local_modes);
    screen.until(|lines| lines.last().is_some_and(|last| last.ends_with("\u{1b}[?1049l")));
}
