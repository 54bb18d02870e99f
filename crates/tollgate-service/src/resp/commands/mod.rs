//! The one table of commands. Each command is a file: it reads its words, asks, and answers.

mod acl;
mod acquire;
mod auth;
mod cancel;
mod charge;
mod check;
mod client;
mod command;
mod commit;
mod config;
mod connection;
mod hello;
mod help;
mod info;
mod peek;
mod ping;
mod refund;
mod release;
mod renew;
mod request;
mod reserve;
mod reset_count;
mod throttle;
mod transaction;

use super::command::Table;

/// All commands, those of many calls first.
pub(super) static TABLE: Table = Table(&[
    &throttle::CL_THROTTLE,
    &throttle::THROTTLE,
    &throttle::GCRA,
    &throttle::RL_THROTTLE,
    &check::COMMAND,
    &peek::COMMAND,
    &charge::COMMAND,
    &request::COMMAND,
    &reserve::COMMAND,
    &commit::COMMAND,
    &cancel::COMMAND,
    &acquire::COMMAND,
    &renew::COMMAND,
    &release::COMMAND,
    &refund::COMMAND,
    &reset_count::COMMAND,
    &ping::PING,
    &ping::ECHO,
    &hello::COMMAND,
    &auth::COMMAND,
    &connection::QUIT,
    &connection::RESET,
    &connection::SELECT,
    &transaction::MULTI,
    &transaction::EXEC,
    &transaction::DISCARD,
    &transaction::WATCH,
    &transaction::UNWATCH,
    &info::COMMAND,
    &acl::ACL,
    &acl::HELP,
    &acl::WHO_AM_I,
    &client::CLIENT,
    &client::GET_NAME,
    &client::HELP,
    &client::ID,
    &client::SET_INFO,
    &client::SET_NAME,
    &command::COMMAND,
    &command::COUNT,
    &command::DOCS,
    &command::HELP,
    &command::INFO,
    &command::LIST,
    &config::CONFIG,
    &config::GET,
    &config::HELP,
]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::codec::{MAX_WORDS, Words};

    fn found(line: &str) -> Result<&'static str, String> {
        let words: Words<'_> = line.split(' ').map(str::as_bytes).collect();
        TABLE
            .find(&words)
            .map(|(place, command)| {
                assert_eq!(TABLE.0[place].name, command.name);
                command.name
            })
            .map_err(|unknown| unknown.to_string())
    }

    #[test]
    fn containers_are_known_without_a_search() {
        for command in TABLE.top() {
            let has_some = TABLE.subcommands(command.name).next().is_some();
            assert_eq!(command.has_subcommands, has_some, "{}", command.name);
        }
    }

    #[test]
    fn commands_are_found_whatever_their_case() {
        for (line, name) in [
            ("PING", "ping"),
            ("Cl.Throttle a 1 1 1", "cl.throttle"),
            ("client SETNAME a", "client|setname"),
            ("COMMAND", "command"),
            ("command Docs ping", "command|docs"),
        ] {
            assert_eq!(found(line).unwrap(), name);
        }
    }

    #[test]
    fn what_is_none_says_so_in_the_words_of_redis() {
        for (line, says) in [
            ("FOO a bc", "ERR unknown command 'FOO', with args beginning with: 'a' 'bc' "),
            ("client|id", "ERR unknown command 'client|id', with args beginning with: "),
            (
                "CLIENT MAINT_NOTIFICATIONS ON",
                "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.",
            ),
            ("CLIENT", "ERR wrong number of arguments for 'client' command"),
            ("CLIENT SETNAME", "ERR wrong number of arguments for 'client|setname' command"),
            ("echo", "ERR wrong number of arguments for 'echo' command"),
            ("gcra a", "ERR wrong number of arguments for 'gcra' command"),
            (
                "cl.throttle a",
                "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> \
                 <period> [<quantity>]",
            ),
        ] {
            assert_eq!(found(line).unwrap_err(), says);
        }
        let long = format!("FOO {} {}", "a".repeat(127), "b".repeat(100));
        let said = found(&long).unwrap_err();
        assert!(said.ends_with(&format!("'{}' 'b' ", "a".repeat(127))), "{said}");
    }

    #[test]
    fn the_table_is_sound() {
        let mut names: Vec<_> = TABLE.0.iter().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.0.len());
        for command in TABLE.0 {
            assert!(command.words.0 <= command.words.1 && command.words.1 <= MAX_WORDS);
            assert!(command.summary.ends_with('.') && command.name == command.name.to_lowercase());
            if let Some(container) = command.container() {
                assert!(TABLE.named(container.as_bytes()).is_some(), "{container}");
            }
        }
    }
}
