//! Users, the permissions of their roles, and the corrections of administrators.

use tollgate_service::RespUser;

use super::{PASSWORD, talk};
use crate::redis_client::command;
use crate::{Service, here};

const USERS: &str = "web:ask:the-password-of-web ops:administer:the-password-of-ops";

async fn with_users(more: Vec<RespUser>) -> Service {
    Service::with(|options| {
        options.resp = vec![here()];
        options.resp_users = RespUser::parse_all(USERS).unwrap();
        options.resp_users.extend(more);
    })
    .await
}

#[tokio::test]
async fn a_user_does_what_its_role_allows() {
    let service = with_users(Vec::new()).await;
    let mut redis = service.redis().await;
    let no_auth = "(NOAUTH Authentication required.)";
    let wrong = "(WRONGPASS invalid username-password pair or user is disabled.)";
    let no_perm = "(NOPERM User web has no permissions to run the 'tollgate.reset' command)";
    talk(
        &mut redis,
        &[
            ("TOLLGATE.RESET a 5/h", no_auth),
            // There is no user `default`.
            ("AUTH the-password-of-web", wrong),
            ("AUTH ops the-password-of-web", wrong),
            ("AUTH web the-password-of-web", "OK"),
            ("ACL WHOAMI", "\"web\""),
            ("CL.THROTTLE a 4 5 3600 2", "[0, 5, 3, -1, 1440]"),
            ("TOLLGATE.RESET a cell:5/1h", no_perm),
            // An administrator also asks, and a connection may change its user.
            ("AUTH ops the-password-of-ops", "OK"),
            ("ACL WHOAMI", "\"ops\""),
            ("CL.THROTTLE a 4 5 3600 0", "[0, 5, 3, -1, 1440]"),
            ("TOLLGATE.RESET a cell:5/1h SHARD x", "1"),
            ("CL.THROTTLE a 4 5 3600 0", "[0, 5, 5, -1, 0]"),
            ("AUTH web wrong", wrong),
            ("ACL WHOAMI", "\"ops\""),
            ("RESET", "RESET"),
            ("ACL WHOAMI", no_auth),
        ],
    )
    .await;
    // HELLO names a user, too.
    let said = redis.ask("HELLO 3 AUTH ops the-password-of-ops").await;
    assert!(said.starts_with("{\"server\": \"tollgate\""), "{said}");
    assert_eq!(redis.ask("ACL WHOAMI").await, "\"ops\"");
}

#[tokio::test]
async fn a_password_alone_is_that_of_the_default_user() {
    let service = with_users(vec![RespUser::default_user(PASSWORD.to_owned())]).await;
    let mut redis = service.redis().await;
    redis.send(&command(&[b"AUTH", PASSWORD.as_bytes()])).await;
    assert_eq!(redis.reply().await, "OK");
    talk(
        &mut redis,
        &[
            ("ACL WHOAMI", "\"default\""),
            (
                "TOLLGATE.RESET a 1/h",
                "(NOPERM User default has no permissions to run the 'tollgate.reset' command)",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn without_users_nobody_administers() {
    let service = super::service().await;
    let mut redis = service.redis().await;
    let said = redis.ask("TOLLGATE.RESET a 1/h").await;
    assert!(said.starts_with("(NOPERM User default has no permissions"), "{said}");
}

#[tokio::test]
async fn a_reset_names_one_count() {
    let service = with_users(Vec::new()).await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    assert_eq!(redis.ask("AUTH ops the-password-of-ops").await, "OK");
    let question = r#"{"subject": "user:42", "limit": "3/h"}"#;
    http.check(question).await;
    talk(&mut redis, &[("TOLLGATE.RESET user:42 3/h", "1"), ("TOLLGATE.RESET user:42 3/h", "0")])
        .await;
    assert_eq!(http.check(question).await["remaining"], 2);
    for (line, says) in [
        ("TOLLGATE.RESET user:42", "(ERR wrong number of arguments for 'tollgate.reset' command)"),
        ("TOLLGATE.RESET user:42 3/h SHARD", "(ERR syntax error)"),
        ("TOLLGATE.RESET user:42 3/h COST 1", "(ERR "),
        ("TOLLGATE.RESET user:42 3/h AND user:43 3/h", "(ERR "),
    ] {
        let said = redis.ask(line).await;
        assert!(said.starts_with(says), "{line}: {said}");
    }
    // None of them deleted anything.
    assert_eq!(redis.ask("TOLLGATE.RESET user:42 3/h").await, "1");
}
