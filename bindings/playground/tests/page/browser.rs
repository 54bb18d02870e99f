//! A browser that opens the built page, runs a script in it, and sends home what that returns.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tollgate_testbed::Program;

/// As long as a browser may take for all of a test, on a machine that does more than this.
const PATIENCE: Duration = Duration::from_secs(120);

/// Reports a script that cannot be parsed, which no `try` in it would.
const NO_SCRIPT: &str = r#"addEventListener("error", ({ error }) => {
  if (error instanceof SyntaxError) parent.home(JSON.stringify({ failed: error.message }));
});
"#;

/// How a reader's screen is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// In CSS pixels.
    pub(crate) width: u32,
    pub(crate) is_dark: bool,
}

pub(crate) const DESK: Screen = Screen { width: 1_280, is_dark: false };

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page, built now from the tree; `None` where there is no target for it.
pub(crate) fn built() -> Option<&'static str> {
    static PAGE: OnceLock<Option<String>> = OnceLock::new();
    let page = PAGE.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut xtask = Command::new(cargo);
        xtask.args(["run", "--quiet", "--package", "xtask", "--", "playground"]);
        let output = xtask.current_dir(root()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {
                Some(std::fs::read_to_string(root().join("target/playground.html")).unwrap())
            }
            Some(1) => {
                println!("SKIPPED: {}", error.trim());
                None
            }
            _ => panic!("{error}"),
        }
    });
    if page.is_none() {
        println!("SKIPPED: there is no target for WebAssembly: cargo xtask playground");
    }
    page.as_deref()
}

static TURN: Mutex<()> = Mutex::new(());

/// How the page is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit<'a> {
    pub(crate) screen: Screen,
    /// After the page's own address: nothing, or `#` and more.
    pub(crate) address: &'a str,
    /// A script that runs before those of the page.
    pub(crate) library: &'a str,
}

/// Opens the page on such a screen, and runs the body of an async function in it, with `input` as
/// the argument. The function's result; `None` where there is no page or no browser.
pub(crate) fn run(screen: Screen, script: &str, input: &Value) -> Option<Value> {
    run_at(Visit { screen, address: "", library: "" }, script, input)
}

/// The same for a page that is opened in another way.
pub(crate) fn run_at(visit: Visit<'_>, script: &str, input: &Value) -> Option<Value> {
    let Visit { screen, address, library } = visit;
    let page = built()?;
    // One at a time: a browser has as many processes as this machine may have processors.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let library = library.replace("</script", "<\\/script");
    let probe = format!(
        "<script>{NO_SCRIPT}{library}</script>\n<script type=\"module\">{}\nconst input = {};\ntry {{\nawait ready();\n\
         report(await (async () => {{{script}\n}})());\n\
         }} catch (error) {{ report({{ failed: `${{error}} ${{error.stack}}` }}); }}</script>",
        include_str!("probe.js"),
        // No text in it ends the element.
        input.to_string().replace('<', "\\u003c")
    );
    let page = page.replace("</body>", &format!("{probe}</body>"));
    let (home, found) = serve(framed(screen.width, address), page);
    let profile = tempfile::tempdir().unwrap();
    let start = |program: &&str| {
        let mut command = Command::new(program);
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--hide-scrollbars", "--no-first-run", "--window-size=1400,2000"])
            .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!screen.is_dark)))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(&home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Program::start(&mut command).ok()
    };
    let programs = ["chromium", "chromium-browser", "google-chrome"];
    let Some(_browser) = programs.iter().find_map(start) else {
        println!("SKIPPED: no browser is installed: apt-get install chromium");
        return None;
    };
    let found = found.recv_timeout(PATIENCE).expect("the browser reports in time");
    assert!(found["failed"].is_null(), "{found}");
    Some(found)
}

/// A page with the page under test in a frame of this width: a browser's window is at least 500
/// pixels wide.
fn framed(width: u32, address: &str) -> String {
    let address = address.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><title>frame</title>\
         <style>body{{margin:0}}iframe{{border:0}}</style>\
         <script>function home(text) {{ fetch(\"/found\", {{ method: \"POST\", body: text }}) }}\
         </script><iframe title=\"page\" width=\"{width}\" height=\"1900\" \
         src=\"/page{address}\"></iframe>"
    )
}

/// Serves both pages on this machine, and gets what is posted back. The page under test may not
/// connect anywhere: the page around it posts.
fn serve(frame: String, page: String) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, receiver) = channel();
    let pages = Arc::new([frame, page]);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (sender, pages) = (sender.clone(), Arc::clone(&pages));
            // A browser opens connections before it needs them, and says nothing there.
            thread::spawn(move || {
                let [frame, page] = &*pages;
                if let Some(found) = answer(stream, frame, page) {
                    // The test has what it waited for, and may be gone.
                    let _ = sender.send(found);
                }
            });
        }
    });
    (address, receiver)
}

/// Answers one request: a page, or nothing for the posted result. A browser that closes a
/// connection early has its reasons.
fn answer(mut stream: TcpStream, frame: &str, page: &str) -> Option<Value> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((_, value)) = line.to_lowercase().split_once("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (status, text) = match first.split_whitespace().nth(1) {
        Some("/") => ("200 OK", frame),
        Some("/page") => ("200 OK", page),
        Some("/found") => ("200 OK", ""),
        _ => ("404 Not Found", ""),
    };
    let bytes = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {bytes}\r\n\
         Connection: close\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
    first.starts_with("POST /found").then(|| serde_json::from_slice(&body).unwrap())
}
