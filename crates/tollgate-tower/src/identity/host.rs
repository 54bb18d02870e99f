//! The canonical form of hosts.

/// A host without its port and its trailing dot: `a.example.:80` becomes `a.example`, `[::1]:80`
/// becomes `[::1]`. The case of letters is kept: hosts are compared in lower case.
///
/// ```
/// use tollgate_tower::identity::host_name;
/// assert_eq!(host_name("A.example.:8080"), "A.example");
/// ```
#[must_use]
pub fn host_name(authority: &str) -> &str {
    let host = without_port(authority);
    host.strip_suffix('.').unwrap_or(host)
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port))
            if port.bytes().all(|b| b.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_part_of_a_host() {
        for (authority, host) in [
            ("a.example", "a.example"),
            ("a.example:80", "a.example"),
            ("a.example:", "a.example"),
            ("[2001:db8::1]:443", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("a.example:http", "a.example:http"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            assert_eq!(without_port(authority), host);
        }
    }
}
