//! Reads the files beside policies line by line: lists of values, and tiers of keys.

use std::borrow::Cow;
use std::collections::HashSet;

use tollgate::ParseError;

use crate::field::Field;
use crate::key_table::Keys;
use crate::list::ValueList;
use crate::network::parse_network;
use crate::pattern::{MAX_PATTERN_BYTES, Pattern};
use crate::tiers::{TierFile, Tiers};

/// The most invalid lines that are reported.
const MAX_REPORTED: usize = 5;

/// The most tiers of a file.
const MAX_TIERS: usize = 256;

/// The invalid lines of a file.
struct BadLines<'f> {
    file: &'f str,
    first: Vec<String>,
    more: usize,
}

impl<'f> BadLines<'f> {
    fn new(file: &'f str) -> Self {
        Self { file, first: Vec::new(), more: 0 }
    }

    fn add(&mut self, number: u64, what: &str, remedy: &str) {
        if self.first.len() == MAX_REPORTED {
            self.more += 1;
            return;
        }
        self.first.push(format!("{}, line {number}: {what}: {remedy}", self.file));
    }

    fn add_error(&mut self, number: u64, error: &ParseError) {
        self.add(number, error.what(), error.remedy());
    }

    /// The error of all of them.
    fn end(mut self) -> Result<(), String> {
        if self.more > 0 {
            self.first.push(format!("and {} more lines", self.more));
        }
        if self.first.is_empty() { Ok(()) } else { Err(self.first.join("; ")) }
    }
}

impl ValueList {
    /// Parses a value of this field from each line. Empty lines, and lines that begin with `#`, are
    /// ignored. `file` is the name of the list.
    ///
    /// For `ip` a line is a network or an address, and text after `#` or `;` is a comment. For
    /// others it is a whole value as fronts provide it; an API key is `hash:` and its digits.
    ///
    /// # Examples
    /// ```
    /// use tollgate_policy::{Field, ValueList};
    /// let list = ValueList::parse(&Field::Ip, "drop.txt", "# bad\n203.0.113.0/24 ; SBL1\n")?;
    /// assert_eq!(list.len(), 1);
    /// let text = "203.0.113.0/24\n10.0.0.1/8\n";
    /// let error = ValueList::parse(&Field::Ip, "drop.txt", text).unwrap_err();
    /// assert!(error.starts_with("drop.txt, line 2: `10.0.0.1/8` has bits beyond its prefix"));
    /// let list = ValueList::parse(&Field::User, "staff.txt", "ann\nbob\n")?;
    /// assert!(list.holds("bob") && !list.holds("mallory"));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// The first invalid lines, with their numbers and the corrections.
    pub fn parse(field: &Field, file: &str, text: &str) -> Result<Self, String> {
        let mut bad = BadLines::new(file);
        let lines = || (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
        if *field == Field::Ip {
            let mut networks = Vec::new();
            for (number, line) in lines() {
                let said = line.split(['#', ';']).next().unwrap_or_default().trim();
                if said.is_empty() {
                    continue;
                }
                match parse_network(said) {
                    Ok(network) => networks.push(network),
                    Err(error) => bad.add_error(number, &error),
                }
            }
            bad.end()?;
            return Ok(Self::of_networks(file, networks));
        }
        let mut values = Keys::with_room(text.len());
        for (number, line) in lines().filter(|(_, line)| !is_skipped(line)) {
            match key_of(field, line) {
                Ok(key) => values.push(&key, 0),
                Err(error) => bad.add_error(number, &error),
            }
        }
        bad.end()?;
        // A value that is there twice says the same twice.
        let values = values.into_table();
        Ok(Self::of_values(file, values, hash_of(text)))
    }
}

impl Tiers {
    /// Parses the tiers of a file with the columns `key` and `tier` (RFC 4180). Empty lines, and
    /// lines that begin with `#`, are ignored. `file` is the name of the file.
    ///
    /// Keys are whole values of the field `by`, as fronts provide them; an API key is `hash:` and
    /// its digits.
    ///
    /// # Errors
    /// The first invalid lines, with their numbers and the corrections.
    pub fn parse(by: &Field, file: &str, text: &str) -> Result<Self, String> {
        let mut bad = BadLines::new(file);
        let mut tiers: Vec<(Box<str>, u64)> = Vec::new();
        let mut keys = Keys::with_room(text.len());
        let mut quotes = Quotes::new(text);
        let mut has_head = false;
        let lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
        for (number, line) in (1..).zip(lines).filter(|(_, line)| !is_skipped(line)) {
            let (key, tier) = match quotes.columns(line) {
                Ok(columns) => columns,
                Err(what) => {
                    bad.add(number, &what, "a line has a key and its tier, e.g. `acme,gold`");
                    continue;
                }
            };
            if !std::mem::replace(&mut has_head, true) {
                if (&*key, &*tier) != ("key", "tier") {
                    bad.add(number, "this is not the head of a file of tiers", "write `key,tier`");
                }
                continue;
            }
            let tier = tier_number(&mut tiers, &tier, number);
            match tier.and_then(|tier| Ok((key_of(by, &key)?, tier))) {
                Ok((key, tier)) => keys.push(&key, tier),
                Err(error) => bad.add_error(number, &error),
            }
        }
        if !has_head {
            bad.add(1, "there is no head", "begin the file with `key,tier`");
        }
        bad.end()?;
        let added = keys.len();
        let keys = keys.into_table();
        if keys.len() < added {
            return Err(repeated(by, file, text));
        }
        let (name, by, hash) = (file.into(), by.clone(), hash_of(text));
        Ok(Self::of_file(TierFile { name, by, tiers, keys, hash }))
    }
}

/// The keys that a file of sound lines has twice.
fn repeated(by: &Field, file: &str, text: &str) -> String {
    let (mut bad, mut quotes, mut seen) = (BadLines::new(file), Quotes::new(text), HashSet::new());
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !is_skipped(line));
    for (number, line) in lines.skip(1) {
        let Ok((key, _)) = quotes.columns(line) else { continue };
        if key_of(by, &key).is_ok_and(|key| !seen.insert(key.into_owned())) {
            bad.add(number, &format!("`{key}` is given twice"), "give each key once");
        }
    }
    bad.end().err().unwrap_or_default()
}

/// True for a line that says nothing.
fn is_skipped(line: &str) -> bool {
    line.is_empty() || line.starts_with('#') || line.trim().is_empty()
}

/// Splits lines into two columns.
struct Quotes {
    /// Whether a line may have quotes.
    has_some: bool,
    reader: csv_core::Reader,
    /// The unquoted columns of a line, one behind the other.
    out: Vec<u8>,
}

impl Quotes {
    fn new(text: &str) -> Self {
        // Looking once at all of it is faster than at each line.
        let has_some = text.contains('"');
        Self { has_some, reader: csv_core::Reader::new(), out: Vec::new() }
    }

    /// The key and the tier of a line, or what is wrong with it.
    fn columns<'l>(&mut self, line: &'l str) -> Result<(Cow<'l, str>, Cow<'l, str>), String> {
        // The library reads half as fast, and few files have quotes.
        if !self.has_some || !line.contains('"') {
            let comma = memchr::memchr(b',', line.as_bytes());
            return match comma.map(|at| line.split_at(at)) {
                Some((key, tier)) if !tier[1..].contains(',') => {
                    Ok((Cow::Borrowed(key.trim()), Cow::Borrowed(tier[1..].trim())))
                }
                _ => Err(columns_text(line.split(',').count())),
            };
        }
        self.reader.reset();
        self.out.clear();
        self.out.resize(line.len(), 0);
        let mut ends = [0; 2];
        let (first, _, written, ended) =
            self.reader.read_record(line.as_bytes(), &mut self.out, &mut ends);
        // The end of the line is the end of the record.
        let out = self.out.get_mut(written..).unwrap_or_default();
        let more = ends.get_mut(ended..).unwrap_or_default();
        let (last, ..) = self.reader.read_record(&[], out, more);
        if [first, last].contains(&csv_core::ReadRecordResult::OutputEndsFull) {
            return Err("over 2 columns".to_owned());
        }
        let [key, tier] = ends;
        let text = |from: usize, until: usize| {
            let bytes = self.out.get(from..until).unwrap_or_default();
            Cow::Owned(String::from_utf8_lossy(bytes).trim().to_owned())
        };
        if tier == 0 { Err(columns_text(1)) } else { Ok((text(0, key), text(key, tier))) }
    }
}

fn columns_text(count: usize) -> String {
    if count == 1 { "1 column".to_owned() } else { format!("{count} columns") }
}

/// The number of a tier, which is new with its first line.
fn tier_number(tiers: &mut Vec<(Box<str>, u64)>, tier: &str, line: u64) -> Result<u16, ParseError> {
    // The first byte tells most apart without a call.
    let first = tier.as_bytes().first();
    let mut each = tiers.iter();
    let known = each.position(|(it, _)| it.as_bytes().first() == first && **it == *tier);
    let at = known.map_or_else(
        || {
            let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
            if tier.is_empty() || tier.len() > 64 || !tier.bytes().all(sound) {
                let what = format!("`{tier}` is not the name of a tier");
                let remedy = "a name is 1 to 64 letters, digits, `_`, `-` or `.`";
                return Err(ParseError::whole(tier, what, remedy));
            }
            if tiers.len() == MAX_TIERS {
                let what = format!("there are more than {MAX_TIERS} tiers");
                return Err(ParseError::whole(tier, what, "let more keys share one"));
            }
            tiers.push((tier.into(), line));
            Ok(tiers.len() - 1)
        },
        Ok,
    )?;
    Ok(u16::try_from(at).unwrap_or(u16::MAX))
}

/// A whole value of a field, in the form in which fronts provide it.
fn key_of<'t>(field: &Field, text: &'t str) -> Result<Cow<'t, str>, ParseError> {
    let is_free = matches!(field, Field::Custom(_) | Field::Header(_) | Field::User | Field::Route);
    // A million of these are read at a time: none is copied that need not be.
    if is_free
        && (1..=MAX_PATTERN_BYTES).contains(&text.len())
        && memchr::memchr(b'*', text.as_bytes()).is_none()
    {
        return Ok(Cow::Borrowed(text));
    }
    if *field == Field::ApiKey
        && let Some(digits) = text.strip_prefix("hash:")
        && digits.len() == 32
        // All of them are looked at, which takes less time than looking for the end.
        && digits.bytes().fold(true, |sound, b| sound & matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    {
        return Ok(Cow::Borrowed(digits));
    }
    let refuse = |remedy: &str| {
        // A key in clear is a secret, and stays out of the message.
        let shown = if *field == Field::ApiKey { "this" } else { &format!("`{text}`") };
        Err(ParseError::whole(text, format!("{shown} is not a whole value of `{field}`"), remedy))
    };
    match Pattern::parse(field, text)? {
        Pattern::Hashed(hash) => Ok(Cow::Owned(hash.into())),
        Pattern::Exact(_) if *field == Field::ApiKey => {
            refuse("write `hash:` and the digits that `tollgate hash-key` prints")
        }
        Pattern::Exact(value) => Ok(Cow::Owned(value.into())),
        _ => refuse("write each value whole: patterns are for `when` itself"),
    }
}

/// The hash of a file, by which a changed one is noticed: the same in each process of a build.
pub(crate) fn hash_of(text: &str) -> u64 {
    use core::hash::BuildHasher as _;
    foldhash::fast::FixedState::default().hash_one(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_line_by_line_and_tells_the_bad_ones_by_number() {
        let text = "\u{20}# none\r\n10.0.0.0/8 # own\r\n\r\n  2001:db8::/32;x\n::ffff:192.0.2.7\n";
        let list = ValueList::parse(&Field::Ip, "l", text).unwrap();
        assert_eq!((list.len(), list.file()), (3, "l"));
        for (value, is_in) in [
            ("10.255.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("11.0.0.1", false),
            ("192.0.2.7", true),
            ("2001:db8:1::/64", true),
            ("2001::/16", false),
            ("here", false),
        ] {
            assert_eq!(list.holds(value), is_in, "{value}");
        }
        let bad = format!("10.0.0.0/8\n{}", "nobody\n".repeat(9));
        let error = ValueList::parse(&Field::Ip, "l", &bad).unwrap_err();
        assert!(
            error.starts_with("l, line 2: `nobody` is not an address or a network: write it as")
        );
        assert!(error.contains("l, line 6: ") && error.ends_with("; and 4 more lines"), "{error}");
        assert!(ValueList::parse(&Field::Ip, "l", "").unwrap().is_empty());
        assert!(ValueList::parse(&Field::Ip, "l", "10.0.0.0/8 10.1.0.0/16").is_err());
    }

    #[test]
    fn a_list_of_values_has_whole_ones_in_the_form_of_their_field() {
        let parse = |field: &str, text: &str| {
            ValueList::parse(&Field::parse_condition(field).unwrap(), "l", text)
        };
        let list = parse("header.user-agent", "# bots\n\n a;b/1.0 (+#x) \r\nc\nc\n").unwrap();
        assert_eq!((list.len(), list.to_string().as_str()), (2, "l (2 values)"));
        assert!(list.holds("a;b/1.0 (+#x)") && list.holds("c"));
        assert!(!list.holds("a") && !list.holds("# bots") && !list.holds(""));
        let hosts = parse("host", "A.example.com\n").unwrap();
        assert!(hosts.holds("a.example.com"));
        let digits = "BA7816bf8f01cfea414140de5dae2223";
        let keys = parse("api_key", &format!("hash:{digits}\n")).unwrap();
        assert!(keys.holds(&digits.to_lowercase()) && !keys.holds(digits));
        for (field, text, what) in [
            (
                "user",
                "ann\nb*\n",
                "l, line 2: `b*` is not a whole value of `user`: write each value",
            ),
            ("path", "/a/\n", "l, line 1: no path is ever like `/a/`: fronts give"),
            ("host", "*.a.com\n", "l, line 1: `*.a.com` is not a whole value of `host`"),
            (
                "api_key",
                "k-17\n",
                "l, line 1: this is not a whole value of `api_key`: write `hash:`",
            ),
            ("api_key", "hash:17\n", "l, line 1: this is not the hash of an API key"),
        ] {
            let error = parse(field, text).unwrap_err();
            assert!(error.starts_with(what), "{error}");
        }
        let secret = parse("api_key", "k-17\n").unwrap_err();
        assert!(!secret.contains("k-17"), "{secret}");
    }

    #[test]
    fn tiers_are_read_line_by_line_and_the_bad_ones_are_told_by_number() {
        let parse = |by: &str, text: &str| Tiers::parse(&Field::parse(by).unwrap(), "t.csv", text);
        let text = "key,tier\r\n# ours\nacme, gold\n\n\"a, \"\"b\"\"\",free\nc,gold\n";
        let tiers = parse("field.tenant", text).unwrap();
        assert_eq!(tiers.to_string(), "t.csv (3 keys) by field.tenant");
        let tier =
            |tiers: &Tiers, by: &str, key: &str| tiers.tier_of(&[(by, key)]).map(str::to_owned);
        let of = |key: &str| tier(&tiers, "field.tenant", key);
        assert_eq!(of("acme").as_deref(), Some("gold"));
        assert_eq!(of("a, \"b\"").as_deref(), Some("free"));
        assert_eq!((of("key"), of("# ours"), of("")), (None, None, None));
        let named: Vec<_> = tiers.named().iter().map(|(name, line)| (&**name, *line)).collect();
        assert_eq!(named, [("gold", 3), ("free", 5)]);
        let otherwise = tiers.clone().otherwise("free");
        assert_eq!(tier(&otherwise, "field.tenant", "other").as_deref(), Some("free"));
        assert_eq!(tier(&otherwise, "user", "acme").as_deref(), Some("free"), "no key");
        let ips = parse("ip", "key,tier\n2001:DB8:0::1,a\n192.0.2.7,b\n").unwrap();
        assert_eq!(tier(&ips, "ip", "2001:db8::1").as_deref(), Some("a"));
        assert_eq!(tier(&ips, "ip", "192.0.2.7").as_deref(), Some("b"));
        let digits = "ba7816bf8f01cfea414140de5dae2223";
        let keys = parse("api_key", &format!("key,tier\nhash:{digits},a\n")).unwrap();
        assert_eq!(tier(&keys, "api_key", digits).as_deref(), Some("a"));
        for (by, text, what) in [
            ("user", "", "t.csv, line 1: there is no head: begin the file with `key,tier`"),
            ("user", "a,b\n", "t.csv, line 1: this is not the head of a file of tiers"),
            ("user", "key,tier\na\n", "t.csv, line 2: 1 column: a line has a key and its tier"),
            ("user", "key,tier\na,b,c\n", "t.csv, line 2: 3 columns"),
            ("user", "key,tier\n\"a\",b,c\n", "t.csv, line 2: over 2 columns"),
            ("user", "key,tier\n\"a,b\"\n", "t.csv, line 2: 1 column"),
            ("user", "key,tier\n\"a,b\n\",c\n", "t.csv, line 2: 1 column"),
            ("user", "key,tier\na,b\n\na,c\n", "t.csv, line 4: `a` is given twice"),
            ("host", "key,tier\na,b\nA,c\nkey,b\n", "t.csv, line 3: `A` is given twice"),
            ("user", "key,tier\n,b\n", "t.csv, line 2: an empty value matches nothing"),
            ("user", "key,tier\na,\n", "t.csv, line 2: `` is not the name of a tier"),
            ("user", "key,tier\na*,b\n", "t.csv, line 2: `a*` is not a whole value of `user`"),
            ("ip", "key,tier\n10.0.0.0/8,b\n", "t.csv, line 2: `10.0.0.0/8` is not a whole"),
            ("api_key", "key,tier\nk-17,b\n", "t.csv, line 2: this is not a whole value of"),
        ] {
            let error = parse(by, text).unwrap_err();
            assert!(error.starts_with(what), "{error}");
        }
        let many: String = (0..9).map(|n| format!("a{n},b c\n")).collect();
        let error = parse("user", &format!("key,tier\n{many}")).unwrap_err();
        assert!(error.contains("line 6: ") && error.ends_with("; and 4 more lines"), "{error}");
        let many: String = (0..257).map(|n| format!("a{n},t{n}\n")).collect();
        let error = parse("user", &format!("key,tier\n{many}")).unwrap_err();
        assert!(error.starts_with("t.csv, line 258: there are more than 256 tiers"), "{error}");
    }
}
