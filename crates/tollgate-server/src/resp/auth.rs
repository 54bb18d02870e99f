//! The password of clients, and what slows guesses of it.

use std::net::IpAddr;

use http::HeaderMap;
use tollgate::{Limiter, MemoryStore, ParseError, Subject};
use tollgate_tower::identity::ClientAddress;

use crate::api::{REFUSALS, REFUSALS_BYTES, is_same};

/// The only user that a password belongs to.
const USER: &[u8] = b"default";

/// What an attempt to log in was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Login {
    Right,
    Wrong,
    /// Too many wrong ones came from this address: even the right one must wait.
    Late,
}

/// The password that clients send before they ask.
#[derive(Debug)]
pub(crate) struct Password {
    password: Option<String>,
    /// The wrong passwords of each address.
    refusals: Limiter<MemoryStore>,
}

impl Password {
    pub(crate) fn new(password: Option<String>) -> Result<Self, ParseError> {
        let store = MemoryStore::builder().max_bytes(REFUSALS_BYTES).build();
        Ok(Self { password, refusals: Limiter::new(REFUSALS.parse()?, store) })
    }

    pub(super) fn is_needed(&self) -> bool {
        self.password.is_some()
    }

    /// Whether this is the user and the password. Without a password everybody is.
    pub(super) fn login(&self, user: &[u8], said: &[u8], peer: IpAddr) -> Login {
        let Some(password) = &self.password else {
            return if user == USER { Login::Right } else { Login::Wrong };
        };
        let client = ClientAddress::peer().client(peer, &HeaderMap::new());
        let client = client.value();
        let subject = Subject::new("ip", client.as_str()).ok();
        if let Some(subject) = &subject {
            let wait = self.refusals.peek_now(subject).ok().and_then(|it| it.retry_after());
            if wait.is_some_and(|wait| !wait.is_zero()) {
                return Login::Late;
            }
        }
        if is_same(password, said) && user == USER {
            return Login::Right;
        }
        let has_to_wait = subject.is_some_and(|subject| {
            self.refusals.check_now(&subject).is_ok_and(|after| after.remaining() == 0)
        });
        tracing::warn!(
            target: "tollgate",
            client = client.as_str(),
            "a client of RESP was refused: the password is another{}",
            if has_to_wait { "; it has to wait" } else { "" }
        );
        Login::Wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_have_to_wait_and_other_addresses_do_not() {
        let password = Password::new(Some("a secret of many bytes".to_owned())).unwrap();
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let right = b"a secret of many bytes";
        assert_eq!(password.login(b"default", right, one), Login::Right);
        for guess in 0..10 {
            assert_eq!(password.login(b"default", b"guess", one), Login::Wrong, "{guess}");
        }
        assert_eq!(password.login(b"default", right, one), Login::Late);
        assert_eq!(password.login(b"root", right, other), Login::Wrong);
        assert_eq!(password.login(b"default", right, other), Login::Right);
    }
}
