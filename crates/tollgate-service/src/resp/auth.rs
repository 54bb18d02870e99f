//! The users of the Redis protocol, their passwords and roles, and the slowing of guesses.

use core::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tollgate::ParseError;

use crate::guesses::Guesses;
use crate::secret::{MIN_TOKEN_BYTES, is_same};

/// The user of clients that name none.
pub(super) const DEFAULT_USER: &str = "default";

/// The longest name of a user, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The permissions of a user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Role {
    /// Ask, look, and refund by receipts.
    Ask,
    /// Also correct the counts of others.
    Administer,
}

/// A user of the Redis protocol.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RespUser {
    /// The name, as clients send it; `default` for clients that send a password alone.
    pub name: String,
    /// The password, of at least 16 bytes.
    pub password: String,
    /// The permissions of the user.
    pub role: Role,
}

impl fmt::Debug for RespUser {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, role, .. } = self;
        f.debug_struct("RespUser").field("name", name).field("role", role).finish_non_exhaustive()
    }
}

impl RespUser {
    /// The user `default`, with permission to ask.
    #[must_use]
    pub fn default_user(password: String) -> Self {
        Self { name: DEFAULT_USER.to_owned(), password, role: Role::Ask }
    }

    /// Users in one text: `NAME:ROLE:PASSWORD`, separated by blanks or lines. A role is `ask` or
    /// `administer`.
    ///
    /// ```
    /// use tollgate_service::{RespUser, Role};
    ///
    /// let text = "web:ask:0123456789abcdef ops:administer:fedcba9876543210";
    /// let users = RespUser::parse_all(text)?;
    /// assert_eq!((users[1].name.as_str(), users[1].role), ("ops", Role::Administer));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// The problem, without a password.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        text.split_whitespace().enumerate().map(|(at, user)| Self::parse(user, at + 1)).collect()
    }

    fn parse(text: &str, number: usize) -> Result<Self, String> {
        let parts: Vec<&str> = text.splitn(3, ':').collect();
        let [name, role, password] = parts[..] else {
            return Err(format!("user {number} is not NAME:ROLE:PASSWORD"));
        };
        let role = match role {
            "ask" => Role::Ask,
            "administer" => Role::Administer,
            _ => return Err(format!("the role of `{name}` is neither `ask` nor `administer`")),
        };
        Ok(Self { name: name.to_owned(), password: password.to_owned(), role })
    }

    /// The problem with these users, if there is one.
    pub(crate) fn fault(all: &[Self]) -> Option<String> {
        let is_odd = |byte: u8| !byte.is_ascii_alphanumeric() && !b"_-.".contains(&byte);
        for (at, Self { name, password, .. }) in all.iter().enumerate() {
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.bytes().any(is_odd) {
                return Some(format!(
                    "`{name}` is not the name of a RESP user: 1 to {MAX_NAME_BYTES} letters, \
                     digits, \
                     `_`, `-` and `.`"
                ));
            }
            if all.iter().take(at).any(|other| other.name == *name) {
                return Some(format!("the RESP user `{name}` is given twice"));
            }
            if password.len() < MIN_TOKEN_BYTES {
                return Some(format!(
                    "the password of the RESP user `{name}` has {} bytes, and needs \
                     {MIN_TOKEN_BYTES}: `openssl rand -hex 16` makes one",
                    password.len()
                ));
            }
        }
        None
    }
}

/// The identity of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identified {
    pub(super) name: Arc<str>,
    pub(super) role: Role,
}

/// The users; without any, everybody may ask.
#[derive(Debug)]
pub(crate) struct Users {
    users: Vec<(Identified, String)>,
    /// The wrong passwords of each address.
    guesses: Guesses,
}

impl Users {
    pub(crate) fn new(users: Vec<RespUser>) -> Result<Self, ParseError> {
        let known = |RespUser { name, password, role }: RespUser| {
            (Identified { name: name.into(), role }, password)
        };
        let users = users.into_iter().map(known).collect();
        Ok(Self { users, guesses: Guesses::new()? })
    }

    /// The identity of a client before it sends a password; `None` if it must send one.
    pub(super) fn anybody(&self) -> Option<Identified> {
        let anybody = || Identified { name: DEFAULT_USER.into(), role: Role::Ask };
        self.users.is_empty().then(anybody)
    }

    /// The user with this password. Without users everybody is `default`. `None` for a wrong one,
    /// which has waited if its address sent too many.
    pub(super) async fn login(&self, user: &[u8], said: &[u8], peer: IpAddr) -> Option<Identified> {
        if let Some(anybody) = self.anybody() {
            return (user == DEFAULT_USER.as_bytes()).then_some(anybody);
        }
        let found = self.users.iter().find(|(known, _)| known.name.as_bytes() == user);
        // A user that does not exist takes as long as one that does.
        let password = found.map_or(DEFAULT_USER, |(_, password)| password);
        if is_same(password, said)
            && let Some((known, _)) = found
        {
            return Some(known.clone());
        }
        let what = "a client of RESP was refused: the user or the password is another";
        self.guesses.wrong(peer, what).await;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, password: &str, role: Role) -> RespUser {
        RespUser { name: name.to_owned(), password: password.to_owned(), role }
    }

    fn right(name: &str, role: Role) -> Option<Identified> {
        Some(Identified { name: name.into(), role })
    }

    #[tokio::test]
    async fn each_user_has_a_password_and_a_role() {
        let (web, ops) = ("web's password, long", "ops' password, long");
        let users =
            Users::new(vec![user("web", web, Role::Ask), user("ops", ops, Role::Administer)]);
        let (users, peer) = (users.unwrap(), "192.0.2.1".parse().unwrap());
        assert_eq!(users.login(b"web", web.as_bytes(), peer).await, right("web", Role::Ask));
        assert_eq!(users.login(b"ops", ops.as_bytes(), peer).await, right("ops", Role::Administer));
        for (name, password) in [("web", ops), ("default", web), ("default", "default"), ("", "")] {
            let said = users.login(name.as_bytes(), password.as_bytes(), peer).await;
            assert_eq!(said, None, "{name} {password}");
        }
        assert_eq!(users.anybody(), None);
        let nobody = Users::new(Vec::new()).unwrap();
        assert_eq!(nobody.anybody().unwrap().role, Role::Ask);
        assert_eq!(nobody.login(b"default", b"", peer).await, right("default", Role::Ask));
        assert_eq!(nobody.login(b"web", b"", peer).await, None);
    }

    #[test]
    fn texts_of_users_are_read_or_explained() {
        let all =
            RespUser::parse_all(" web:ask:a:password:of:many\nops:administer:0123456789abcdef");
        let expected = [
            user("web", "a:password:of:many", Role::Ask),
            user("ops", "0123456789abcdef", Role::Administer),
        ];
        let all = all.unwrap();
        assert!(all == expected && RespUser::fault(&all).is_none(), "{all:?}");
        for (text, says) in [
            ("web", "user 1 is not NAME:ROLE:PASSWORD"),
            ("a:ask:0123456789abcdef web:0123456789abcdef", "user 2 is not NAME:ROLE:PASSWORD"),
            ("web:root:secret", "the role of `web` is neither `ask` nor `administer`"),
        ] {
            let said = RespUser::parse_all(text).unwrap_err();
            assert_eq!(said, says);
        }
        for (text, says) in [
            (":ask:0123456789abcdef", "`` is not the name of a RESP user"),
            ("a/b:ask:0123456789abcdef", "`a/b` is not the name of a RESP user"),
            ("a:ask:0123456789abcdef a:ask:0123456789abcdef", "the RESP user `a` is given twice"),
            ("a:ask:secret", "the password of the RESP user `a` has 6 bytes"),
        ] {
            let said = RespUser::fault(&RespUser::parse_all(text).unwrap()).unwrap();
            assert!(said.contains(says) && !said.contains("secret"), "{said}");
        }
    }
}
