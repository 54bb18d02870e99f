//! The options of every command, `help` with its completions, and the addresses that `--at` takes.

use std::process::Command;

use crate::Place;
use crate::serving::Serving;

#[test]
fn colours_are_where_they_are_wanted() {
    let place = Place::new();
    let is_coloured = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = place.tollgate(args);
        command.envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stdout).unwrap().contains('\u{1b}')
    };
    let (no, force) = (("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1"));
    for words in [&["explain", "10/s"][..], &["help", "check"], &["check", "--help"]] {
        for (choice, variables, expected) in [
            (&[][..], &[][..], false),
            (&[], &[force], true),
            (&[], &[no], false),
            (&["--color", "auto"], &[force], true),
            (&["--color", "always"], &[], true),
            (&["--color=always"], &[no], true),
            (&["--color", "never"], &[force], false),
        ] {
            // Before the command and after it.
            for args in [[choice, words].concat(), [words, choice].concat()] {
                assert_eq!(is_coloured(&args, variables), expected, "{args:?} {variables:?}");
            }
        }
    }
    let (code, _, error) = place.run(&["explain", "10/s", "--color", "blue"]);
    assert!(code == 2 && error.contains("[possible values: auto, always, never]"), "{error}");
    // What follows `--` belongs to the command that is run.
    let (code, out, _) =
        place.run(&["run", "a", "--limit", "9/s", "--", "echo", "--color", "always"]);
    assert_eq!((code, out.as_str()), (0, "--color always\n"));
}

#[test]
fn quiet_leaves_errors_and_verbose_adds_steps_and_the_output_is_the_same() {
    let place = Place::new();
    let log = place.path().join("access.log");
    let line = "10.0.0.1 - - [17/May/2015:10:05:00 +0000] \"GET /a HTTP/1.1\" 200 5\n";
    std::fs::write(&log, format!("{line}no line of a log\n{line}")).unwrap();
    let args = ["replay", log.to_str().unwrap(), "--limit", "3/10s", "--json"];
    let (code, out, error) = place.run(&args);
    assert!(
        code == 0 && error.contains("note: skipped 1 line") && !error.contains("took "),
        "{error}"
    );
    let (_, quiet, none) = place.run(&[&args[..], &["-q"]].concat());
    assert_eq!((quiet.as_str(), none.as_str()), (out.as_str(), ""));
    let (_, verbose, more) = place.run(&[&["--verbose"], &args[..]].concat());
    assert!(verbose == out && more.contains("note: skipped 1 line"), "{more}");
    assert!(more.lines().last().unwrap().starts_with("took 0."), "{more}");
    let (code, _, error) = place.run(&["replay", "/nowhere.log", "--limit", "3/10s", "--quiet"]);
    assert!(code == 2 && error.starts_with("error: "), "{error}");
    let (code, _, error) = place.run(&["explain", "10/s", "-q", "-v"]);
    assert!(code == 2 && error.contains("cannot be used with"), "{error}");
}

#[test]
fn shells_complete_pages_and_commands_after_help() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completions", shell]).1;
        let line = script.lines().find(|line| line.contains("notation")).unwrap();
        assert!(
            ["upgrade", "check", "advise"].iter().all(|it| line.contains(it)),
            "{shell}: {line}"
        );
    }
    let script = place.path().join("complete.bash");
    std::fs::write(&script, place.run(&["completions", "bash"]).1).unwrap();
    let ask = format!(
        "source '{}'; COMP_WORDS=(tollgate help coming); COMP_CWORD=2; \
         _tollgate tollgate coming help; echo \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let output = Command::new("bash").args(["-c", &ask]).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.starts_with("coming-from-envoy-ratelimit coming-from-"), "{out}");
    assert!(out.split(' ').count() >= 5, "{out}");
}

#[test]
fn every_address_that_serve_prints_is_taken_or_the_right_one_is_named() {
    let place = Place::new();
    let socket = format!("unix:{}", place.path().join("admin.sock").display());
    let args = ["--resp", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let serving = Serving::start(&place, &args);
    let admin = |at: &str| place.run(&["admin", "rulings", "--at", at]);
    let [url, console] = ["admin      ", "console    "].map(|it| serving.line_after(it));
    assert!(url.starts_with("http://127.0.0.1:") && console == format!("{url}/console"));
    for at in [url, console, &format!("{url}/"), url.trim_start_matches("http://")] {
        assert_eq!(admin(at), (0, "no bans and no exemptions\n".into(), String::new()), "{at}");
    }
    let listening = format!("http://{}", serving.address());
    assert_eq!(place.code(&["health", &listening]), 0);
    let [redis, grpc] = ["redis      ", "grpc       "].map(|it| serving.line_after(it).to_owned());
    for (protocol, address, scheme) in
        [("the Redis protocol", &redis, "redis"), ("gRPC", &grpc, "grpc")]
    {
        for at in [address.clone(), format!("{scheme}://{address}")] {
            let says = format!(
                "`{at}` is an address for {protocol}: give the one that `serve` prints after"
            );
            let (code, _, error) = admin(&at);
            assert!(code == 2 && error.contains(&format!("{says} `admin`")), "{at}: {error}");
            let (code, out, error) = place.run(&["health", &at]);
            assert!(
                code > 0 && format!("{out}{error}").contains(&format!("{says} `listening`")),
                "{at}: {out}{error}"
            );
        }
    }
    // The address of clients has no answers for administrators.
    let (code, _, error) = admin(&serving.address().to_string());
    assert!(code == 2 && error.contains("prints after `admin`"), "{error}");
    drop(serving);
    let serving = Serving::start(&place, &["--admin", &socket]);
    assert_eq!(serving.line_after("admin      "), socket);
    assert_eq!(admin(&socket).0, 0);
}

#[test]
fn an_address_of_https_is_asked_over_tls_with_a_certificate_that_is_trusted() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [certificate, key] = ["one.pem", "one.key"].map(|name| place.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let [certificate, key] = [certificate, key].map(|path| path.display().to_string());
    let args = ["--admin", "0.0.0.0:0", "--tls-cert", &certificate, "--tls-key", &key];
    let token = ("TOLLGATE_ADMIN_TOKEN", "0123456789abcdef");
    let mut command = Serving::command(&place, &args);
    command.env(token.0, token.1);
    let serving = Serving::start_command(command);
    let at = serving.line_after("admin      ");
    assert!(at.starts_with("https://0.0.0.0:"), "{at}");
    let ask = |at: &str, trusted: &str| {
        let mut command = place.tollgate(&["admin", "rulings", "--at", at]);
        let output = command.env(token.0, token.1).env("SSL_CERT_FILE", trusted).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(ask(at, &certificate), (0, String::new()));
    let (code, error) = ask(at, "/etc/hostname");
    assert!(code == 2 && error.contains("certificate"), "{error}");
    let plain = at.trim_start_matches("https://");
    let (code, error) = ask(plain, &certificate);
    assert!(code == 2 && error.contains("write `https://` before it"), "{error}");
}
