//! The settings of Envoy's rate limit service.

use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;

/// The settings of Envoy's rate limit service, over gRPC and at `/json`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnvoyOptions {
    /// Where the rules come from; from nowhere by default.
    pub rules: EnvoyRules,
    /// Whether files, or resources, of one domain are one set of rules. By default the second one
    /// is an error.
    pub merges_domains: bool,
    /// Whether a domain without rules and policies is denied; it is admitted by default.
    pub denies_unknown: bool,
    /// Whether answers have dynamic metadata: the request, and the metadata of the rules that
    /// admitted it. They have none by default.
    pub metadata: bool,
    /// Whether `/metrics` has the hits by rule, too, under the names of envoyproxy/ratelimit.
    pub metrics: bool,
    /// The age from which a connection is closed, once its calls are answered: 24 h by default.
    pub max_age: Duration,
}

impl Default for EnvoyOptions {
    fn default() -> Self {
        Self {
            rules: EnvoyRules::None,
            merges_domains: false,
            denies_unknown: false,
            metadata: false,
            metrics: false,
            max_age: Duration::from_secs(24 * 3_600),
        }
    }
}

/// Where the rules of Envoy's service come from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum EnvoyRules {
    /// From nowhere: there are none.
    #[default]
    None,
    /// From the YAML of envoyproxy/ratelimit: a file, or a folder of files.
    Files(PathBuf),
    /// From a control plane.
    Xds(XdsOptions),
}

/// A control plane that sends rules by xDS: `ratelimit.config.ratelimit.v3.RateLimitConfig` over
/// its aggregated discovery service, in the state-of-the-world protocol
/// (<https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol>).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct XdsOptions {
    /// Its address, `HOST:PORT`.
    pub address: String,
    /// The id under which it knows this service.
    pub node: String,
    /// TLS towards it; `None` connects without.
    pub tls: Option<XdsTls>,
}

impl XdsOptions {
    /// A control plane at `HOST:PORT` without TLS, that knows this service as `default`.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), node: "default".to_owned(), tls: None }
    }
}

impl FromStr for XdsOptions {
    type Err = String;

    /// Reads `HOST:PORT`, or `https://HOST:PORT` for TLS. Parameters follow a `?`: `node=ID`, and
    /// with TLS `ca=FILE`, `cert=FILE` with `key=FILE`, and `name=NAME`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, parameters) = text.split_once('?').unwrap_or((text, ""));
        let (address, mut tls) = match address.split_once("://") {
            None => (address, None),
            Some(("http", address)) => (address, None),
            Some(("https", address)) => (address, Some(XdsTls::default())),
            Some((scheme, _)) => {
                return Err(format!("`{scheme}://`: write HOST:PORT, or https://HOST:PORT"));
            }
        };
        let address = address.strip_suffix('/').unwrap_or(address);
        let mut this = Self::new(address);
        let (mut chain, mut private) = (None, None);
        for (name, value) in form_urlencoded::parse(parameters.as_bytes()) {
            if value.is_empty() {
                return Err(format!("`{name}` has no value: leave it out, or give one"));
            }
            match (&*name, &mut tls) {
                ("node", _) => this.node = value.into_owned(),
                ("ca", Some(tls)) => tls.authorities = Some(value.into_owned().into()),
                ("cert", Some(_)) => chain = Some(value.into_owned().into()),
                ("key", Some(_)) => private = Some(value.into_owned().into()),
                ("name", Some(tls)) => tls.name = Some(value.into_owned()),
                ("ca" | "cert" | "key" | "name", None) => {
                    return Err(format!("`{name}` is for TLS: write https://{address}?{name}=..."));
                }
                _ => {
                    return Err(format!(
                        "unknown `{name}`: there are node, ca, cert, key and name"
                    ));
                }
            }
        }
        match (chain, private, &mut tls) {
            (Some(chain), Some(private), Some(tls)) => tls.certificate = Some((chain, private)),
            (None, None, _) => {}
            _ => return Err("`cert` and `key` belong together: give both".to_owned()),
        }
        Ok(Self { tls, ..this })
    }
}

/// TLS towards a control plane. The files are PEM, and read again for each connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct XdsTls {
    /// The authorities that may vouch for it; `None` trusts those of the system.
    pub authorities: Option<PathBuf>,
    /// The certificate of this service and its private key, if it asks for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The name in its certificate; `None` is the host of the address.
    pub name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_control_plane_is_read() {
        let read = |text: &str| text.parse::<XdsOptions>();
        assert_eq!(read("cp:18001"), Ok(XdsOptions::new("cp:18001")));
        assert_eq!(read("http://cp:18001/"), read("cp:18001"));
        let tls = read("https://[::1]:18001?ca=a.pem&cert=c.pem&key=k.pem&name=cp&node=x%2Fy");
        let tls = tls.unwrap();
        assert_eq!((&*tls.address, &*tls.node), ("[::1]:18001", "x/y"));
        let certificate = Some(("c.pem".into(), "k.pem".into()));
        let (authorities, name) = (Some("a.pem".into()), Some("cp".to_owned()));
        assert_eq!(tls.tls, Some(XdsTls { authorities, certificate, name }));
        for (text, says) in [
            ("grpc://cp:1", "write HOST:PORT, or https://HOST:PORT"),
            ("cp:1?ca=a.pem", "write https://cp:1?ca=..."),
            ("https://cp:1?cert=c.pem", "belong together"),
            ("cp:1?nodes=x", "unknown `nodes`"),
            ("cp:1?node=", "`node` has no value"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
