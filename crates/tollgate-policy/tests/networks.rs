//! Networks in conditions: their addresses, refused ones, and how many there may be.
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use tollgate_policy::{Field, Fields, Format, Policies, Problems};

fn file(when: &str) -> String {
    format!(
        "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\nwhen = {when}\n\
         limits = [{{ subject = \"ip\", limit = \"1/s\" }}]\n"
    )
}

fn read(when: &str) -> Result<Policies, Problems> {
    Policies::parse(&file(when), Format::Toml)
}

fn applies(policies: &Policies, ip: &str) -> bool {
    !policies.matching(&[("ip", ip)]).is_empty()
}

/// The remedy of the only problem.
fn remedy(when: &str) -> String {
    let problems = read(when).expect_err(when);
    assert!(problems.has_errors(), "{problems}");
    problems.iter().next().unwrap().remedy().to_owned()
}

#[test]
fn an_address_meets_a_condition_on_its_network_and_no_other() {
    for (when, inside, outside) in [
        // The former advice for these is 256 times too wide, and 256 times too narrow.
        (r#"{ ip = "203.0.113.0/24" }"#, &["203.0.113.0", "203.0.113.255"][..], "203.0.112.1"),
        (r#"{ ip = "10.0.0.0/8" }"#, &["10.0.0.1", "10.255.255.255"], "11.0.0.0"),
        (r#"{ ip = "10.128.0.0/9" }"#, &["10.128.0.0", "::ffff:10.200.0.1"], "10.127.255.255"),
        (r#"{ ip = "::ffff:10.0.0.0/104" }"#, &["10.1.2.3"], "11.0.0.0"),
        // Fronts tell an IPv6 client by its network.
        (r#"{ ip = "2001:db8::/32" }"#, &["2001:db8:1:2::/64", "2001:db8::1"], "2001:db9::/64"),
        (r#"{ ip = ["192.0.2.7", "10.0.0.0/8"] }"#, &["192.0.2.7", "10.9.9.9"], "192.0.2.8"),
        (r#"{ ip = "0.0.0.0/0" }"#, &["192.0.2.7"], "2001:db8::/64"),
        (r#"{ ip = "::/0" }"#, &["2001:db8::/64"], "192.0.2.7"),
        // The condition that it is not filed under.
        (r#"{ ip = "10.0.0.0/8", method = "GET" }"#, &[], "10.0.0.1"),
    ] {
        let policies = read(when).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(policies.warnings().is_empty(), "{}", policies.warnings());
        for ip in inside {
            assert!(applies(&policies, ip), "{when}: {ip}");
        }
        assert!(!applies(&policies, outside), "{when}: {outside}");
    }
}

/// A client that counts by its `/64`, as fronts tell it.
struct Client(&'static str);

impl Fields for Client {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        let Field::Ip = field else { return None };
        let IpAddr::V6(address) = self.0.parse().unwrap() else { return Some(self.0.into()) };
        let bits = address.to_bits() >> 64 << 64;
        Some(format!("{}/64", Ipv6Addr::from_bits(bits)).into())
    }

    fn address(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }
}

/// A condition about an address applies to it, and to none beside it, though both count as one.
#[test]
fn a_condition_is_about_the_whole_address() {
    let many: Vec<String> = (0..100).map(|n| format!("\"2001:db8::f:{n:x}\"")).collect();
    let many = format!("{{ ip = [{}, \"2001:db8::5\"] }}", many.join(", "));
    for when in [
        r#"{ ip = "2001:db8::5" }"#,
        r#"{ ip = "2001:DB8:0::4/126" }"#,
        r#"{ ip = ["2001:db8::5", "10.0.0.0/8"] }"#,
        &many,
        // The condition that it is not filed under.
        r#"{ method = "GET", ip = "2001:db8::5" }"#,
        r#"{ method = "GET", ip = "2001:db8::4/127" }"#,
    ] {
        let policies = read(when).unwrap_or_else(|problems| panic!("{problems}"));
        let applies = |ip| {
            let client = Client(ip);
            let request = WithMethod(&client);
            !policies.matching(&request).is_empty()
        };
        assert!(applies("2001:db8::5"), "{when}");
        assert!(!applies("2001:db8::9"), "{when}");
    }
    // The network that it counts by is written as before.
    let policies = read(r#"{ ip = "2001:db8::/64" }"#).unwrap();
    assert!(!policies.matching(&Client("2001:db8::9")).is_empty());
    let policies = read(r#"{ ip = "192.0.2.0/24" }"#).unwrap();
    assert!(!policies.matching(&Client("192.0.2.9")).is_empty());
}

/// A client that asks with GET.
struct WithMethod<'c>(&'c Client);

impl Fields for WithMethod<'_> {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        if *field == Field::Method { Some("GET".into()) } else { self.0.field(field) }
    }

    fn address(&self) -> Option<IpAddr> {
        self.0.address()
    }
}

#[test]
fn what_is_no_network_is_an_error_that_names_the_right_one() {
    for (when, says) in [
        (r#"{ ip = "10.1.2.3/8" }"#, "write `10.0.0.0/8` for the network, or `10.1.2.3`"),
        (r#"{ ip = "2001:db8::1/32" }"#, "write `2001:db8::/32`"),
        (r#"{ ip = "10.0.0.0/33" }"#, "`203.0.113.0/24`"),
        (r#"{ ip = "010.0.0.1" }"#, "`203.0.113.0/24`"),
        (r#"{ ip = "office" }"#, "`203.0.113.0/24`"),
        (r#"{ ip = "300.*" }"#, "`192.0.2.*`"),
        (r#"{ ip = "1.2.3.4.*" }"#, "`192.0.2.*`"),
    ] {
        assert!(remedy(when).contains(says), "{when}: {}", remedy(when));
    }
}

#[test]
fn an_earlier_network_that_holds_a_later_one_hides_it() {
    let overrides = |first: &str, second: &str| {
        let text = format!(
            "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\n\
             [[policies.limits]]\nsubject = \"ip\"\nlimit = \"1/s\"\n\
             [[policies.limits.overrides]]\nwhen = {{ ip = \"{first}\" }}\nlimit = \"banned\"\n\
             [[policies.limits.overrides]]\nwhen = {{ ip = \"{second}\" }}\nlimit = \"unlimited\"\n"
        );
        let policies = Policies::parse(&text, Format::Toml).unwrap();
        policies.warnings().iter().map(|problem| problem.what().to_owned()).collect::<Vec<_>>()
    };
    let hidden = vec!["this override is never reached".to_owned()];
    assert_eq!(overrides("10.0.0.0/8", "10.1.0.0/16"), hidden);
    assert_eq!(overrides("10.0.0.0/8", "10.1.2.3"), hidden);
    assert_eq!(overrides("10.0.0.0/8", "10.1.*"), hidden);
    assert_eq!(overrides("10.*", "10.1.0.0/16"), hidden);
    assert!(overrides("10.1.0.0/16", "10.0.0.0/8").is_empty());
    assert!(overrides("10.1.0.0/16", "10.*").is_empty());
}

#[test]
fn a_list_in_a_file_of_its_own_stands_where_a_network_does() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.txt", "# ours\n10.0.0.0/8\n2001:db8::/32\n");
    write("none.txt", "");
    let load = |when: &str| {
        write("p.toml", &file(when));
        Policies::load(folder.path().join("p.toml"))
    };
    for (when, inside, outside) in [
        (r#"{ ip = { file = "a.txt" } }"#, &["10.1.2.3", "2001:db8:1::/64"][..], "192.0.2.7"),
        (r#"{ ip = ["192.0.2.7", { file = "a.txt" }] }"#, &["10.1.2.3", "192.0.2.7"], "1.1.1.1"),
        (r#"{ ip = { file = "none.txt" } }"#, &[], "10.0.0.1"),
        (r#"{ ip = { file = "a.txt" }, method = "GET" }"#, &[], "10.0.0.1"),
    ] {
        let policies = load(when).unwrap_or_else(|problems| panic!("{problems}"));
        for ip in inside {
            assert!(applies(&policies, ip), "{when}: {ip}");
        }
        assert!(!applies(&policies, outside), "{when}: {outside}");
    }
    for (when, says) in [
        (r#"{ ip = { file = "missing.txt" } }"#, "missing.txt: the file cannot be read"),
        (r#"{ ip = { file = "." } }"#, ".: this is not a plain file"),
        (r#"{ ip = { file = "" } }"#, "an empty path is not a file"),
        (r#"{ ip = { path = "a.txt" } }"#, "unknown key `path`"),
        (r#"{ ip = { file = 5 } }"#, "`file` is a whole number"),
        (r#"{ method = { file = "a.txt" } }"#, "a.txt, line 2: no method is ever like"),
    ] {
        let problems = load(when).expect_err(when).to_string();
        assert!(problems.contains(says), "{when}: {problems}");
    }
    write("a.txt", "10.0.0.0/8\n10.0.0.1/8\n");
    let problems = load(r#"{ ip = { file = "a.txt" } }"#).unwrap_err().to_string();
    assert!(problems.contains("a.txt, line 2: `10.0.0.1/8` has bits beyond"), "{problems}");
    assert!(problems.contains("p.toml:5:24"), "the place that names it: {problems}");
    let text = read(r#"{ ip = { file = "a.txt" } }"#).unwrap_err().to_string();
    assert!(text.contains("read the policies with `Policies::load`"), "{text}");
}

#[test]
fn the_content_of_a_list_is_part_of_what_the_policies_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.yaml");
    let text = "version: 1\npolicies:\n- name: p\n  on_failure: allow\n  when: { ip: { file: l } }\n  \
                limits: [{ subject: ip, limit: 1/s }]\n";
    std::fs::write(&path, text).unwrap();
    let hash = |list: &str| {
        std::fs::write(folder.path().join("l"), list).unwrap();
        Policies::load(&path).unwrap().hash().to_owned()
    };
    let first = hash("10.0.0.0/8\n");
    assert_ne!(hash("10.0.0.0/9\n"), first);
    assert_eq!(hash("# a comment says nothing\n10.0.0.0/8\n"), first);
}
