//! Each error of Redis has its fault, and a store error says the same.

use super::*;

/// Texts of Redis 7.0.15; those marked are from its sources or older versions.
#[test]
fn every_error_of_redis_has_its_fault() {
    const AT: &str = "script: beef354d82996a708aa0deac229a63225ff0dd9c, on @user_script:1.";
    let within = Fault::NoPermission { charge: ChargeState::Unknown, missing: String::new() };
    let before = Fault::NoPermission { charge: ChargeState::NotCharged, missing: String::new() };
    let other = |code: &str| Fault::Other { code: code.to_owned() };
    for (line, fault) in [
        (
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to \
             persist to disk. Commands that may modify the data set are disabled, because \
             this instance is configured to report errors during writes if RDB snapshotting \
             fails (stop-writes-on-bgsave-error option).",
            Fault::Misconf,
        ),
        // From the sources.
        ("MISCONF Errors writing to the AOF file: No space left on device", Fault::Misconf),
        ("NOREPLICAS Not enough good replicas to write.", Fault::NoReplicas),
        ("READONLY You can't write against a read only replica.", Fault::ReadOnly),
        (
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            Fault::MasterDown,
        ),
        ("LOADING Redis is loading the dataset in memory", Fault::Loading),
        (
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
             NOSAVE.",
            Fault::Busy,
        ),
        ("CLUSTERDOWN Hash slot not served", Fault::ClusterDown),
        // From the sources.
        ("TRYAGAIN Multiple keys request during rehashing of slot", Fault::TryAgain),
        (
            "ERR Script attempted to access a non local key in a cluster node script: f3a1, on \
             @user_script:12.",
            Fault::TryAgain,
        ),
        ("CROSSSLOT Keys in request don't hash to the same slot", Fault::CrossSlot),
        ("MOVED 3999 127.0.0.1:6381", Fault::Cluster),
        ("ASK 3999 127.0.0.1:6381", Fault::Cluster),
        ("NOAUTH Authentication required.", Fault::NoAuth),
        ("WRONGPASS invalid username-password pair or user is disabled.", Fault::WrongPassword),
        // Before 6.0.
        ("ERR invalid password", Fault::WrongPassword),
        (
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
            Fault::NoPasswordSet,
        ),
        // Before 6.0.
        ("ERR Client sent AUTH, but no password is set", Fault::NoPasswordSet),
        ("DENIED Redis is running in protected mode because", Fault::Protected),
        (
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            before.clone(),
        ),
        ("NOPERM this user has no permissions to run the 'evalsha' command", before),
        (
            "ERR The user executing the script can't run this command or subcommand script: x",
            within.clone(),
        ),
        (&format!("NOPERM this user has no permissions {AT}"), within),
        ("OOM command not allowed when used memory > 'maxmemory'.", Fault::OutOfMemory),
        (
            &format!("OOM command not allowed when used memory > 'maxmemory'. {AT}"),
            Fault::OutOfMemory,
        ),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", Fault::WrongType),
        ("ERR max number of clients reached", Fault::TooManyClients),
        ("ERR DB index is out of range", Fault::NoSuchDatabase),
        ("ERR SELECT is not allowed in cluster mode", Fault::NoSuchDatabase),
        ("ERR unknown command 'EVALSHA', with args beginning with: 'secret' ", Fault::NoScripting),
        // Before 6.0.
        ("ERR unknown command `SCRIPT`, with args beginning with: ", Fault::NoScripting),
        ("NOSCRIPT No matching script. Please use EVAL.", Fault::NoScript),
        (&format!("ERR Script killed by user with SCRIPT KILL... {AT}"), Fault::Killed),
        (
            "UNKILLABLE Sorry the script already executed write commands against the dataset.",
            other("UNKILLABLE"),
        ),
        (&format!("ERR user_script:1: x {AT}"), other("ERR")),
        ("MY x", other("MY")),
        ("user:secret", other("")),
        ("", other("")),
    ] {
        assert_eq!(Fault::from_reply(line), fault, "{line}");
        assert!(!fault.to_string().contains("secret"), "{line}");
    }
}

#[test]
fn a_store_error_says_the_same_as_its_fault() {
    let unknown = ChargeState::Unknown;
    for (fault, transient, ambiguous) in [
        (Fault::Loading, true, false),
        (Fault::WrongPassword, false, false),
        (Fault::Closed { charge: unknown }, true, true),
        (Fault::Closed { charge: ChargeState::NotCharged }, true, false),
        (Fault::Garbled { charge: unknown }, true, true),
        (Fault::NoPermission { charge: unknown, missing: String::new() }, true, true),
        (
            Fault::NoPermission { charge: ChargeState::NotCharged, missing: "set".into() },
            false,
            false,
        ),
        (Fault::Deadline { after: Duration::from_millis(50), charge: unknown }, true, true),
    ] {
        let error = StoreError::from(fault.clone());
        assert_eq!((error.is_transient(), error.is_ambiguous()), (transient, ambiguous));
        assert_eq!(error.to_string(), fault.to_string());
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.downcast_ref::<Fault>(), Some(&fault));
    }
}
