//! The client redis-rs, unmodified: with a user, in both versions of the protocol, and over TLS.

use redis::{Client, ErrorKind, RedisError, TlsCertificates, cmd};
use tollgate_service::RespUser;

use crate::secured::certificate;
use crate::{Service, here, tcp};

const USERS: &str = "web:ask:the-password-of-web ops:administer:the-password-of-ops";

/// The replies to a client with this URL, for a key.
async fn throttled(client: &Client, key: &str) -> Result<Vec<i64>, RedisError> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut throttle = cmd("CL.THROTTLE");
    throttle.arg(key).arg(2).arg(3).arg(3600).query_async(&mut connection).await
}

#[tokio::test]
async fn redis_rs_counts_as_a_user_and_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certificate(folder.path(), "one");
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(std::fs::read(&tls.certificate).unwrap()),
    };
    for secured in [false, true] {
        let service = Service::with(|options| {
            options.resp = vec![here()];
            options.resp_users = RespUser::parse_all(USERS).unwrap();
            options.tls = secured.then(|| tls.clone());
        })
        .await;
        let port = tcp(&service.server.resp()[0]).port();
        let client = |user: &str, version: &str| {
            let rest = format!("{user}@localhost:{port}/0?protocol={version}");
            match secured {
                false => Client::open(format!("redis://{rest}")).unwrap(),
                true => {
                    let url = format!("rediss://{rest}");
                    Client::build_with_tls(url, certificates.clone()).unwrap()
                }
            }
        };
        for (version, left) in [("resp2", 2), ("resp3", 1)] {
            let said = throttled(&client("web:the-password-of-web", version), "user:42").await;
            assert_eq!(said.unwrap(), [0, 3, left, -1, 1200 * (3 - left)], "{secured} {version}");
            let wrong = throttled(&client("web:the-password-of-ops", version), "user:42").await;
            // It has a kind for the error of AUTH, and none for that of HELLO.
            let wrong = wrong.unwrap_err();
            let is_told = wrong.kind() == ErrorKind::AuthenticationFailed
                || wrong.code() == Some("WRONGPASS");
            assert!(is_told, "{secured} {version}: {wrong}");
        }
        let reset = |user: &'static str| {
            let client = client(user, "resp3");
            async move {
                let mut connection = client.get_multiplexed_async_connection().await?;
                let limit = "cell: 3/1h burst 3 via gcra";
                let mut reset = cmd("TOLLGATE.RESET");
                reset.arg("user:42").arg(limit).query_async::<bool>(&mut connection).await
            }
        };
        let refused = reset("web:the-password-of-web").await.unwrap_err();
        assert_eq!(refused.code(), Some("NOPERM"), "{refused}");
        assert!(reset("ops:the-password-of-ops").await.unwrap());
        assert!(!reset("ops:the-password-of-ops").await.unwrap());
    }
}
