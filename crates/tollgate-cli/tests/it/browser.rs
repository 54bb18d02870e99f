//! A browser that opens pages of a running service: driven over two pipes, as its developer tools
//! are, so that keys are keys and headers are those of a browser.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_testbed::Program;

use crate::serving::LONG;

/// How a reader's screen is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// In CSS pixels.
    pub(crate) width: u32,
    pub(crate) is_dark: bool,
}

pub(crate) const DESK: Screen = Screen { width: 1_280, is_dark: false };

/// A browser with one page; ended with the test.
pub(crate) struct Browser {
    _program: Program,
    requests: File,
    messages: Receiver<Value>,
    session: String,
    number: u64,
    /// The errors in the page's console, and scripts that failed.
    faults: Vec<String>,
    _folder: TempDir,
}

impl Browser {
    /// Starts a browser; `None`, and a word about it, where none is installed.
    pub(crate) fn start(screen: Screen) -> Option<Self> {
        let programs = ["chromium", "chromium-browser", "google-chrome"];
        let is_there =
            |it: &&&str| Command::new(it).arg("--version").stdout(Stdio::null()).status().is_ok();
        let Some(program) = programs.iter().find(is_there) else {
            println!("SKIPPED: no browser is installed: apt-get install chromium");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let [to, from] = ["to", "from"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
        // The browser reads requests from file 3, and writes messages to file 4.
        let shell = "exec \"$0\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
                     --no-first-run --hide-scrollbars --remote-debugging-pipe \
                     --user-data-dir=\"$3\" about:blank 3<\"$1\" 4>\"$2\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", shell, program])
            .args([to.as_os_str(), from.as_os_str()])
            .arg(folder.path().join("profile"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let program = Program::start(&mut command).unwrap();
        // In the order in which the shell opens them: each waits for the other end.
        let requests = File::options().write(true).open(to).unwrap();
        let messages = messages(&from);
        let mut browser = Self {
            _program: program,
            requests,
            messages,
            session: String::new(),
            number: 0,
            faults: Vec::new(),
            _folder: folder,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.look(screen);
        Some(browser)
    }

    /// Gives the page such a screen.
    pub(crate) fn look(&mut self, screen: Screen) {
        let Screen { width, is_dark } = screen;
        let metrics = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if is_dark { "dark" } else { "light" };
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": feature }));
    }

    /// Opens this address as a person who types it.
    pub(crate) fn open(&mut self, url: &str) {
        let went = self.call("Page.navigate", json!({ "url": url }));
        assert!(went["errorText"].is_null(), "{url}: {went}");
        self.run(
            "await new Promise(done => document.readyState === \"complete\" ? done() \
                  : addEventListener(\"load\", done))",
        );
    }

    /// Runs the body of an async function in the page, and returns its result.
    pub(crate) fn run(&mut self, script: &str) -> Value {
        self.evaluate(script).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Runs a script that makes the page give way to the next one, and waits until that one is
    /// loaded and this condition holds there. The old page is marked: it goes on for a while, and
    /// the condition may hold there, too.
    pub(crate) fn run_to_next_page(&mut self, script: &str, condition: &str) {
        // The answer comes before the page gives way.
        self.run(&format!("window.isOld = true; setTimeout(() => {{ {script} }})"));
        let wait = format!(
            "await until(() => !window.isOld && document.readyState === \"complete\" && \
             ({condition}))"
        );
        let until = Instant::now() + LONG;
        while let Err(error) = self.evaluate(&wait) {
            let gone = ["navigated or closed", "context was destroyed", "Cannot find context"];
            let is_gone = gone.iter().any(|says| error.contains(says));
            assert!(is_gone && Instant::now() < until, "{wait}: {error}");
        }
    }

    fn evaluate(&mut self, script: &str) -> Result<Value, String> {
        let helpers = include_str!("browser.js");
        let expression = format!("(async () => {{ {helpers}\n{script}\n}})()");
        let evaluate = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true
        });
        let found = self.ask("Runtime.evaluate", evaluate)?;
        match found["exceptionDetails"].is_null() {
            true => Ok(found["result"]["value"].clone()),
            false => Err(format!("{found:#}")),
        }
    }

    /// Adds a script of somebody else to the page, whatever the page allows itself.
    pub(crate) fn add(&mut self, script: &str) {
        let found = self.call("Runtime.evaluate", json!({ "expression": script }));
        assert!(found["exceptionDetails"].is_null(), "{found:#}");
    }

    /// Types a text where the focus is.
    pub(crate) fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses a key and lets it go.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            " " => (32, " "),
            _ => panic!("{key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code
            });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the whole page, or of the part in view, where `TOLLGATE_PICTURES` names a
    /// folder for them.
    pub(crate) fn picture(&mut self, name: &str, is_whole: bool) {
        let Some(folder) = std::env::var_os("TOLLGATE_PICTURES") else { return };
        let shot =
            self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": is_whole }));
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(shot["data"].as_str().unwrap())
            .unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    /// The mistakes that the browser noticed in the page since the last question.
    pub(crate) fn faults(&mut self) -> Vec<String> {
        // Events before this answer have come.
        self.run("return 0");
        std::mem::take(&mut self.faults)
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The answer of the browser; or its error, as text.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": params });
        if !self.session.is_empty() {
            request["sessionId"] = self.session.as_str().into();
        }
        write!(self.requests, "{request}\0").unwrap();
        loop {
            let message = self.messages.recv_timeout(LONG).unwrap();
            if message["id"] == self.number {
                return match message["error"].is_null() {
                    true => Ok(message["result"].clone()),
                    false => Err(message.to_string()),
                };
            }
            match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => self.faults.push(message.to_string()),
                Some("Log.entryAdded") if message["params"]["entry"]["level"] == "error" => {
                    self.faults.push(message.to_string());
                }
                _ => {}
            }
        }
    }
}

/// The checker of pages for people who do not see them, or not well: axe-core, as a script. `None`,
/// and a word about it, where it is not installed.
pub(crate) fn axe() -> Option<String> {
    let checker = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/node/node_modules/axe-core/axe.min.js");
    let script = std::fs::read_to_string(checker).ok();
    if script.is_none() {
        println!("SKIPPED: axe-core is not installed: cargo xtask test installs it");
    }
    script
}

/// The browser's messages, until it ends.
fn messages(from: &Path) -> Receiver<Value> {
    let mut reader = BufReader::new(File::open(from).unwrap());
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        while reader.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
            bytes.pop();
            let message = serde_json::from_slice(&bytes).unwrap();
            if sender.send(message).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    receiver
}
