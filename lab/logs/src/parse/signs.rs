//! Signs in a request that its client is a robot or a scanner.

/// Words in the agents of programs that visit sites by themselves, in lower case: crawlers and
/// monitors name themselves so, and `+http` begins the address of their page. The last five are
/// scanners.
const ROBOTS: [&[u8]; 10] = [
    b"bot", b"crawl", b"spider", b"slurp", b"+http", b"nikto", b"nmap", b"sqlmap", b"masscan",
    b"zgrab",
];

/// A brand of phones whose name has one of these words.
const PHONE: &[u8] = b"cubot";

/// Signs of a request about its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Signs {
    /// Its agent names a robot.
    pub names_robot: bool,
    /// It was answered by 400, 401, 403, 404 or 405, as guesses and scans are.
    pub was_refused: bool,
}

impl Signs {
    /// The signs of a request with this status and this agent.
    pub(super) fn of(status: &[u8], agent: &[u8]) -> Self {
        let was_refused = matches!(status, b"400" | b"401" | b"403" | b"404" | b"405");
        Self { names_robot: names_robot(agent), was_refused }
    }
}

/// Whether an agent names a robot.
fn names_robot(agent: &[u8]) -> bool {
    let is_at = |at: usize, word: &[u8]| {
        agent.get(at..at + word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word))
    };
    let is_robot = |at: usize, byte: u8| {
        // Most letters begin no word.
        if !matches!(byte, b'b' | b'c' | b's' | b'+' | b'n' | b'm' | b'z') {
            return false;
        }
        let found = ROBOTS.iter().any(|word| word.first() == Some(&byte) && is_at(at, word));
        found && !(byte == b'b' && at.checked_sub(2).is_some_and(|at| is_at(at, PHONE)))
    };
    agent.iter().enumerate().any(|(at, byte)| is_robot(at, byte.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn robots_name_themselves_and_people_do_not() {
        for robot in [
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help)",
            "Baiduspider-image",
            "Mozilla/5.0+(compatible; UptimeRobot/2.0)",
            "Tiny Tiny RSS/1.11 (+http://tt-rss.org/)",
            "sqlmap/1.7",
        ] {
            assert!(names_robot(robot.as_bytes()), "{robot}");
        }
        for person in [
            "Mozilla/5.0 (Linux; Android 10; CUBOT X20 PRO) AppleWebKit/537.36",
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "curl/8.5.0",
            "-",
            "",
            "b",
        ] {
            assert!(!names_robot(person.as_bytes()), "{person}");
        }
    }

    #[test]
    fn refusals_are_those_of_the_client() {
        let refused = |status: &str| Signs::of(status.as_bytes(), b"").was_refused;
        assert!(["400", "401", "403", "404", "405"].into_iter().all(refused));
        // Every word begins with a letter that is looked for.
        assert!(ROBOTS.iter().all(|word| names_robot(word)));
        assert!(!["200", "304", "429", "500", "4040", "", "-"].into_iter().any(refused));
    }
}
