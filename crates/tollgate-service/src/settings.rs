//! The check of a service's settings before it starts.

use crate::listen::Address;
use crate::options::Options;
use crate::secret::MIN_TOKEN_BYTES;
use crate::service::MIN_KEY_BYTES;
use crate::start_error::StartError;
use crate::tls::TlsProtocol;

/// Rejects settings that would start a service other than the intended one.
pub(crate) fn check(options: &Options) -> Result<(), StartError> {
    let refuse = |what: String| Err(StartError::Options(what));
    if options.listen.is_empty() {
        return refuse(
            "there is no address to listen on: give one, e.g. `127.0.0.1:8700`".to_owned(),
        );
    }
    for (what, secret) in
        [("admin token", &options.admin_token), ("worker token", &options.worker_token)]
    {
        if let Some(secret) = secret.as_ref().filter(|it| it.len() < MIN_TOKEN_BYTES) {
            return refuse(format!(
                "the {what} has {} bytes, and needs {MIN_TOKEN_BYTES}: `openssl rand -hex 16` \
                 makes one",
                secret.len()
            ));
        }
    }
    if options.queue_workers
        && options.worker_token.is_none()
        && let Some(address) = options.listen.iter().find(|address| !address.is_local())
    {
        return refuse(format!(
            "everybody who reaches {address} could take the jobs of the queues: set \
             TOLLGATE_WORKER_TOKEN, or listen on 127.0.0.1"
        ));
    }
    #[cfg(feature = "resp")]
    if let Some(fault) = crate::resp::RespUser::fault(&options.resp_users) {
        return refuse(fault);
    }
    #[cfg(feature = "resp")]
    if options.resp_users.is_empty()
        && let Some(address) = options.resp.iter().find(|address| !address.is_local())
    {
        return refuse(format!(
            "everybody who reaches {address} could spend the counts over RESP: set \
             TOLLGATE_RESP_PASSWORD or TOLLGATE_RESP_USERS, or listen on 127.0.0.1"
        ));
    }
    if let Some(key) = options.receipt_key.as_ref().filter(|it| it.len() < MIN_KEY_BYTES) {
        return refuse(format!(
            "the key for receipts has {} bytes, and needs {MIN_KEY_BYTES}: `openssl rand -hex 32` \
             makes one",
            key.len()
        ));
    }
    if let Some(peer) = options.peers.iter().find(|it| matches!(it, Address::Systemd(_))) {
        return refuse(format!(
            "`{peer}` is no instance to ask: write its admin listener, as HOST:PORT or unix:/PATH"
        ));
    }
    if !options.peers.is_empty() && options.admin.is_none() {
        return refuse(
            "other instances are shown at the admin listener, which is off: leave the instances \
             out, or turn it on"
                .to_owned(),
        );
    }
    match &options.admin {
        Some(address) if !address.is_local() && options.admin_token.is_none() => refuse(format!(
            "the admin front would be open to everybody who reaches {address}: set \
             TOLLGATE_ADMIN_TOKEN, or listen on 127.0.0.1"
        )),
        _ => Ok(()),
    }
}

/// The address of administrators, if their token goes over a network in clear text although there
/// is a certificate.
pub(crate) fn open_admin(options: &Options) -> Option<&Address> {
    let tls = options.tls.as_ref()?;
    let address = options.admin.as_ref()?;
    (!address.is_local() && !tls.serves(TlsProtocol::Admin)).then_some(address)
}

/// The address of gRPC, if there is one, at which everybody may ask who reaches it, without a
/// credential and in clear text.
pub(crate) fn open_grpc(options: &Options) -> Option<&Address> {
    let is_secured = options.tls.as_ref().is_some_and(|tls| tls.serves(TlsProtocol::Grpc));
    options.grpc.iter().find(|address| !address.is_local() && !is_secured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Tls;

    #[test]
    fn instances_that_nobody_could_see_or_ask_are_refused() {
        let address = |text: &str| text.parse::<Address>().unwrap();
        let mut options = Options::new(vec![address("127.0.0.1:0")]);
        options.peers = vec![address("127.0.0.1:1"), address("unix:/run/t.sock")];
        let said = |options: &Options| check(options).unwrap_err().to_string();
        assert!(said(&options).contains("which is off"), "{}", said(&options));
        options.admin = Some(address("127.0.0.1:0"));
        assert!(check(&options).is_ok());
        options.peers.push(address("systemd:admin"));
        assert!(said(&options).contains("as HOST:PORT or unix:/PATH"), "{}", said(&options));
    }

    #[test]
    fn grpc_beyond_loopback_is_open_without_tls() {
        let address = |text: &str| text.parse::<Address>().unwrap();
        let mut options = Options::new(vec![address("127.0.0.1:0")]);
        options.grpc = vec![address("127.0.0.1:0"), address("unix:/run/t.sock")];
        assert_eq!(open_grpc(&options), None);
        options.grpc.push(address("192.0.2.1:8081"));
        assert_eq!(open_grpc(&options), Some(&address("192.0.2.1:8081")));
        options.tls = Some(Tls::new("a.pem", "a.key"));
        assert_eq!(open_grpc(&options), None);
        let plain = Tls::new("a.pem", "a.key").protocols([TlsProtocol::Http]);
        options.tls = Some(plain);
        assert_eq!(open_grpc(&options), Some(&address("192.0.2.1:8081")));
    }
}
