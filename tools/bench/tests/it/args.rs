//! Help, and arguments that are refused.

use crate::run;

#[test]
fn every_command_has_help_with_an_example() {
    for command in ["memory", "sqlite", "redis", "server", "resp", "grpc"] {
        for flag in ["-h", "--help"] {
            let (code, out, err) = run(&[command, flag]);
            assert_eq!((code, err.as_str()), (0, ""), "{command}");
            let example = format!("cargo run --profile dist -p tollgate-bench -- {command}");
            assert!(out.contains("Example") && out.contains(&example), "{command} {flag}: {out}");
            assert!(out.contains(&format!("tollgate-bench {command}")), "{out}");
            assert!(!out.contains('\x1b'), "colours without a terminal");
        }
    }
    let (code, out, _) = run(&["--help"]);
    assert!(code == 0 && out.contains("Example: cargo run"), "{out}");
}

#[test]
fn numbers_out_of_range_are_refused() {
    let (code, _, err) = run(&["memory", "--keys", "0"]);
    assert!(code == 2 && err.contains("1..=10000000"), "{err}");
}

/// Nothing of an address is shown: it may hold a password.
#[test]
fn an_address_without_a_scheme_is_no_redis() {
    for address in ["redis.prod:6379", "localhost:6379", "counts", "ann:s3cret@redis.prod:6379"] {
        let (code, _, err) = run(&["redis", "--store", address]);
        assert!(code == 2 && err.contains("scheme") && !err.contains("s3cret"), "{err}");
    }
}
