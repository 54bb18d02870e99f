//! The words with which `redis-cli` reaches the same server.

use super::{Address, Endpoint, Options, Target};

impl Options {
    /// The words for `redis-cli`, such as `-h 10.0.0.1 -p 6379`. They have no password: it takes
    /// one from `REDISCLI_AUTH`. `None` under sentinels, whose server changes.
    ///
    /// ```
    /// use tollgate_redis::Options;
    /// let options = Options::from_url("rediss://limiter:s%40fe@redis.example/3")?;
    /// let words = options.redis_cli().unwrap();
    /// assert_eq!(words.join(" "), "-h redis.example -p 6379 -n 3 --tls --user limiter");
    /// # Ok::<(), tollgate::StoreError>(())
    /// ```
    #[must_use]
    pub fn redis_cli(&self) -> Option<Vec<String>> {
        let at = |host: &str, port: u16| {
            vec!["-h".into(), host.to_owned(), "-p".into(), port.to_string()]
        };
        let (mut words, over_tls) = match &self.target {
            Target::Server(Address::Tcp { host, port, tls }) => (at(host, *port), *tls),
            Target::Server(Address::Unix(path)) => {
                (vec!["-s".to_owned(), path.display().to_string()], false)
            }
            Target::Cluster { seeds, tls } => {
                let Endpoint { host, port } = seeds.first()?;
                let mut words = at(host, *port);
                words.push("-c".to_owned());
                (words, *tls)
            }
            Target::Sentinel(_) => return None,
        };
        if self.database > 0 {
            words.extend(["-n".to_owned(), self.database.to_string()]);
        }
        if over_tls {
            words.push("--tls".to_owned());
            if let Some(certificate) = &self.certificate {
                let files = [("--cert", &certificate.chain), ("--key", &certificate.key)];
                words.extend(
                    files
                        .into_iter()
                        .flat_map(|(name, file)| [name.to_owned(), file.display().to_string()]),
                );
            }
        }
        if let Some(user) = &self.user {
            words.extend(["--user".to_owned(), user.clone()]);
        }
        Some(words)
    }

    /// Whether it has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }
}
