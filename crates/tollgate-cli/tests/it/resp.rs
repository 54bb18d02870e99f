//! `serve --resp`: the replies to redis-cli, redis-benchmark and the clients of other languages.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::Place;
use crate::clients::{code_and_output, folder, node_with, python_with};
use crate::serving::Serving;

const PAGE: &str = include_str!("../../docs/resp.md");

pub(crate) const PASSWORD: &str = "a-password-of-many-bytes";

/// A service with the Redis protocol on a free port, and that port.
pub(crate) fn serve(place: &Place, password: Option<&str>, more: &[&str]) -> (Serving, u16) {
    let args = [&["--resp", "127.0.0.1:0"], more].concat();
    let mut command = Serving::command(place, &args);
    command.env_remove("TOLLGATE_RESP_PASSWORD");
    if let Some(password) = password {
        command.env("TOLLGATE_RESP_PASSWORD", password);
    }
    let serving = Serving::start_command(command);
    let address = serving.line_after("redis      ");
    let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
    (serving, port)
}

/// The output of a Redis tool, with this on stdin; `None` if it is not installed.
fn tool(name: &str, port: u16, args: &[&str], input: &str) -> Option<Output> {
    let port = port.to_string();
    let started = Command::new(name)
        .args(["-p", &port])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!("SKIPPED: {name} is not installed: apt-get install redis-tools");
        return None;
    };
    // A tool that stops reading is not a fault of the test.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Some(child.wait_with_output().unwrap())
}

pub(crate) fn cli(port: u16, args: &[&str], input: &str) -> Option<String> {
    let output = tool("redis-cli", port, args, input)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Some(text(&output.stdout))
}

#[test]
fn the_line_that_is_printed_and_those_of_the_page_answer() {
    let place = Place::new();
    let (serving, port) = serve(&place, None, &[]);
    let line = serving.line_after("  redis-cli ");
    assert_eq!(line, format!("-h 127.0.0.1 -p {port} CL.THROTTLE user:42 2 3 10"));
    let args: Vec<&str> = line.split(' ').collect();
    let Some(out) = cli(port, &args, "") else { return };
    assert_eq!(out, "0\n3\n2\n-1\n4\n");
    // The page's own line, and the answer below it, on a fresh key.
    let shown = "redis-cli -p 6380 CL.THROTTLE user:42 15 30 60";
    assert!(PAGE.contains(shown));
    let answer = PAGE.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let args = ["--no-raw", "CL.THROTTLE", "user:43", "15", "30", "60"];
    assert_eq!(cli(port, &args, "").unwrap(), answer);
    // The lines of the whole answer, as a shell reads them.
    let lines: Vec<&str> =
        PAGE.lines().filter(|line| line.starts_with("redis-cli -p 6380 TOLLGATE.")).collect();
    let (settle, ask): (Vec<&str>, _) = lines.into_iter().partition(|line| line.contains('$'));
    let settles = |line: &&str| line.contains("RELEASE ID") || line.contains("COMMIT ID");
    let (by_id, ask): (Vec<&str>, _) = ask.into_iter().partition(settles);
    let numbers = (settle.len(), by_id.len(), ask.len());
    assert_eq!(numbers, (2, 2, 7), "{settle:?} {by_id:?} {ask:?}");
    let mut holds = Vec::new();
    for line in ask {
        let line = line.replace("6380", &port.to_string());
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(
            out.starts_with("allowed\n1\noutcome\nallowed\nauthority\nstore\n"),
            "{line}: {out}"
        );
        let hold = out.split_once("\nhold\n").and_then(|(_, rest)| rest.lines().next());
        holds.extend(hold.map(str::to_owned));
    }
    assert_eq!(holds.len(), 4, "{holds:?}");
    for (line, expected) in by_id.iter().zip(["released\n1\n", "already\n0\nactual\n60\n"]) {
        let line = line.replace("6380", &port.to_string());
        let out = Command::new("sh").args(["-c", &line]).output().unwrap().stdout;
        assert!(out.starts_with(expected.as_bytes()), "{line}: {out:?}");
    }
    let said = [("$hold", "already\n0\nactual\n300\nlimits\n"), ("$slot", "released\n1\n")];
    for ((line, hold), (variable, expected)) in settle.iter().zip(&holds).zip(said) {
        assert!(line.contains(variable), "{line}");
        let text = line.replace("6380", &port.to_string());
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &text]).env(&variable[1..], hold).output();
        let out = shell.unwrap().stdout;
        assert!(out.starts_with(expected.as_bytes()), "{line}: {out:?}");
    }
    // Lines are wrapped in another way, and the rest is the page.
    let (code, out, _) = place.run(&["help", "resp"]);
    let code_of = |text: &str| text.split("```").skip(1).step_by(2).collect::<String>();
    assert_eq!((code, code_of(&out)), (0, code_of(PAGE)));
    serving.end();
}

#[test]
fn redis_cli_reads_commands_from_a_pipe_in_both_versions() {
    let place = Place::new();
    let (_serving, port) = serve(&place, None, &[]);
    let input = "PING\nGCRA a 4 1 3600 TOKENS 2\nGCRA a 4 1 3600\nSET a b\nCOMMAND COUNT\n";
    // Two of five are left for the second round, and the first call takes both.
    for (version, expected) in [("-2", ["3", "2"]), ("-3", ["0", "0"])] {
        let Some(out) = cli(port, &[version], input) else { return };
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "PONG", "{out}");
        assert_eq!([lines[3], lines[8]], expected, "{out}");
        assert!(out.contains("ERR unknown command 'SET', with args beginning with: 'a' 'b'"));
    }
    // It keeps the documentation of the commands for its hints, and asserts their form.
    for args in [&["COMMAND", "DOCS"][..], &["-3", "COMMAND", "DOCS", "hello"], &["COMMAND"]] {
        assert!(cli(port, args, "").unwrap().contains("hello"), "{args:?}");
    }
}

#[test]
fn redis_benchmark_measures_it() {
    let place = Place::new();
    let (_serving, port) = serve(&place, None, &[]);
    let args = ["-q", "-n", "2000", "-c", "10", "-P", "16", "-r", "100"];
    let args = [&args[..], &["CL.THROTTLE", "key:__rand_int__", "9", "10", "60"]].concat();
    let Some(output) = tool("redis-benchmark", port, &args, "") else { return };
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && out.contains("requests per second"), "{out}");
    assert!(!out.contains("WARN") && output.stderr.is_empty(), "{out}");
}

#[test]
fn client_libraries_count_together() {
    let programs = |name: &str| folder("../../examples/resp").join(name);
    for password in [None, Some(PASSWORD)] {
        let [place, python, node, ioredis] = [(); 4].map(|()| Place::new());
        let (_serving, port) = serve(&place, password, &[]);
        let secret = password.map_or(String::new(), |password| format!(":{password}@"));
        let url = format!("redis://{secret}127.0.0.1:{port}");
        let clients = [
            python_with(&python, &programs("throttle.py")),
            node_with(&node, "redis", &programs("throttle.mjs")),
            node_with(&ioredis, "ioredis", &programs("throttle-ioredis.mjs")),
        ];
        let clients: Vec<Command> = clients.into_iter().flatten().collect();
        let mut left: Vec<String> =
            (0..3).rev().map(|left| format!("admitted: {left} of 3 remain\n")).collect();
        left.push("denied: retry in 1800 s\n".to_owned());
        let mut said = Vec::new();
        let all = clients.len();
        for mut client in clients {
            let output = client.arg("user:42").env("REDIS_URL", &url).output().unwrap();
            said.push(code_and_output(&output).1);
            if password.is_some() {
                // A client with a wrong password gets no answer.
                let wrong = url.replace(PASSWORD, "another");
                let output = client.env("REDIS_URL", &wrong).output().unwrap();
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(2), "{client:?}: {text}");
                assert!(text.contains("no answer"), "{client:?}: {text}");
            }
        }
        assert_eq!(said, left[..all], "{password:?}");
    }
}

/// A pipeline or a transaction of these libraries is one here: each command is charged once.
#[test]
fn transactions_of_client_libraries_run() {
    let [place, python, node, ioredis] = [(); 4].map(|()| Place::new());
    let (_serving, port) = serve(&place, None, &[]);
    let programs = |name: &str| folder("tests/it").join(name);
    let clients = [
        python_with(&python, &programs("transaction.py")),
        node_with(&node, "redis", &programs("transaction.mjs")),
        node_with(&ioredis, "ioredis", &programs("transaction-ioredis.mjs")),
    ];
    for mut client in clients.into_iter().flatten() {
        let output = client.env("REDIS_URL", format!("redis://127.0.0.1:{port}")).output().unwrap();
        assert_eq!(code_and_output(&output), (Some(0), "[0, 0, 1]\n".to_owned()), "{client:?}");
    }
}

/// A certificate for this address, and the arguments of a service that has it. The name `localhost`
/// has a second address, whose port may be another program's.
pub(crate) fn certificate(place: &Place) -> (String, Vec<String>) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let [certificate, key] = ["one.pem", "one.key"].map(|name| place.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let [certificate, key] = [certificate, key].map(|path| path.display().to_string());
    let args = ["--tls-cert", &certificate, "--tls-key", &key].map(str::to_owned).to_vec();
    (certificate, args)
}

#[test]
fn clients_count_together_over_tls_with_a_user() {
    let programs = |name: &str| folder("../../examples/resp").join(name);
    let [place, python, node, ioredis] = [(); 4].map(|()| Place::new());
    let (certificate, more) = certificate(&place);
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let args = [&["--resp", "127.0.0.1:0"], &more[..]].concat();
    let mut command = Serving::command(&place, &args);
    command.env_remove("TOLLGATE_RESP_PASSWORD");
    command.env("TOLLGATE_RESP_USERS", format!("web:ask:{PASSWORD}"));
    let serving = Serving::start_command(command);
    let port = serving.line_after("redis      ").rsplit_once(':').unwrap().1.to_owned();
    let url = format!("rediss://web:{PASSWORD}@127.0.0.1:{port}");
    let clients = [
        python_with(&python, &programs("throttle.py")),
        node_with(&node, "redis", &programs("throttle.mjs")),
        node_with(&ioredis, "ioredis", &programs("throttle-ioredis.mjs")),
    ];
    let mut said = Vec::new();
    for mut client in clients.into_iter().flatten() {
        // redis-py reads this from the URL, and Node from its environment.
        let with_ca = format!("{url}?ssl_ca_certs={certificate}");
        let is_python = client.get_program().to_string_lossy().contains("python");
        let url = if is_python { &with_ca } else { &url };
        client.arg("user:42").env("REDIS_URL", url).env("NODE_EXTRA_CA_CERTS", &certificate);
        said.push(code_and_output(&client.output().unwrap()).1);
    }
    let left = (0..3).rev().map(|left| format!("admitted: {left} of 3 remain\n"));
    assert_eq!(said, left.take(said.len()).collect::<Vec<_>>());
    let user = ["--user", "web", "--pass", PASSWORD, "--no-auth-warning"];
    let tls = ["-h", "127.0.0.1", "--tls", "--cacert", &certificate];
    let look = ["CL.THROTTLE", "user:42", "2", "2", "3600", "0"];
    let port = port.parse().unwrap();
    let Some(out) = cli(port, &[&tls[..], &user, &look].concat(), "") else { return };
    assert_eq!(out.lines().nth(2), Some(&*(3 - said.len()).to_string()), "{out}");
    let who = cli(port, &[&tls[..], &user, &["-3", "ACL", "WHOAMI"]].concat(), "");
    assert_eq!(who.unwrap(), "web\n");
    let reset = ["TOLLGATE.RESET", "user:42", "cell: 2/1h burst 3 via gcra"];
    let refused = cli(port, &[&tls[..], &user, &reset].concat(), "").unwrap();
    assert!(refused.starts_with("NOPERM User web has no permissions"), "{refused}");
}

#[test]
fn an_address_for_everybody_needs_a_password() {
    let place = Place::new();
    let (code, _, err) = place.run(&["serve", "--admin", "off", "--resp", ":0"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("set TOLLGATE_RESP_PASSWORD or TOLLGATE_RESP_USERS, or listen on 127.0.0.1"),
        "{err}"
    );
    let (serving, _) = serve(&place, Some(PASSWORD), &["--resp", "0.0.0.0:0"]);
    let log = serving.end();
    assert!(!log.contains(PASSWORD), "{log}");
}
