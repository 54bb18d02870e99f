//! The Redis protocol of a service: its settings, and its lines of output.

use anyhow::{Result, anyhow};
use tollgate_service::{Address, Options, RespUser, Server};

use crate::args::{Serve, TlsFor};
use crate::input::secret;
use crate::show::Output;

/// Takes the addresses from the arguments, and the users from the environment.
pub(super) fn set(args: &Serve, options: &mut Options) -> Result<()> {
    let resp: Result<Vec<Address>, _> = args.resp.iter().map(|text| text.parse()).collect();
    options.resp = resp?;
    options.resp_users = resp_users()?;
    Ok(())
}

/// The users of the Redis protocol, from the environment.
fn resp_users() -> Result<Vec<RespUser>> {
    let default = secret("TOLLGATE_RESP_PASSWORD")?.map(RespUser::default_user);
    let users = secret("TOLLGATE_RESP_USERS")?.map(|users| RespUser::parse_all(&users));
    let users = users.transpose().map_err(|why| anyhow!("TOLLGATE_RESP_USERS: {why}"))?;
    Ok(default.into_iter().chain(users.into_iter().flatten()).collect())
}

/// Prints the addresses.
pub(super) fn introduce(server: &Server, out: &mut Output) -> Result<()> {
    if !server.resp().is_empty() {
        let resp: Vec<String> = server.resp().iter().map(ToString::to_string).collect();
        out.line(format!("redis      {}", resp.join(", ")))?;
    }
    Ok(())
}

/// A line to try at an address of the Redis protocol.
pub(super) fn redis_cli(args: &Serve) -> impl Fn(&Address) -> String {
    let tls = if args.has_tls(TlsFor::Resp) { " --tls --insecure" } else { "" };
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let (auth, user) = match ["TOLLGATE_RESP_PASSWORD", "TOLLGATE_RESP_USERS"].map(is_set) {
        [true, _] => ("REDISCLI_AUTH=\"$TOLLGATE_RESP_PASSWORD\" ", ""),
        [false, true] => ("", " --user NAME --askpass"),
        [false, false] => ("", ""),
    };
    move |address| {
        let place = match address {
            Address::Tcp(found) => {
                let found = found.first().copied();
                let host = found.map(|it| it.ip()).filter(|ip| !ip.is_unspecified());
                let host = host.map_or(String::new(), |ip| format!(" -h {ip}"));
                format!("{host} -p {}", found.map_or(0, |it| it.port()))
            }
            other => format!(" -s {}", other.to_string().trim_start_matches("unix:")),
        };
        format!("{auth}redis-cli{place}{user}{tls} CL.THROTTLE user:42 2 3 10")
    }
}
