//! The arguments of commands, as `COMMAND DOCS` describes them. Options are read by them, too.

/// An argument, as `COMMAND DOCS` describes it.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// The word before it.
    pub(super) token: Option<&'static str>,
    pub(super) flags: &'static [&'static str],
    /// The arguments of a block.
    pub(super) arguments: &'static [Self],
}

/// The word between the subjects of a check.
pub(super) const AND: &str = "AND";

/// The word before the id of a request, or of a hold that its caller names.
pub(super) const ID: &str = "ID";

/// The words before the question of a hold that its caller named: limits, or a policy.
pub(super) const ON: &str = "ON";
pub(super) const POLICY: &str = "POLICY";

/// The kind of an argument that is a word alone.
pub(super) const PURE_TOKEN: &str = "pure-token";

pub(super) const fn argument(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, token: None, flags: &[], arguments: &[] }
}

pub(super) const fn optional(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, token: None, flags: &["optional"], arguments: &[] }
}

pub(super) const fn several(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, token: None, flags: &["optional", "multiple"], arguments: &[] }
}

pub(super) const fn after(token: &'static str, name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, token: Some(token), flags: &["optional"], arguments: &[] }
}

pub(super) const fn word(token: &'static str, name: &'static str) -> Argument {
    Argument { name, kind: PURE_TOKEN, token: Some(token), flags: &[], arguments: &[] }
}

pub(super) const SUBJECT: Argument = argument("subject", "string");
pub(super) const LIMITS: Argument =
    Argument { flags: &["multiple"], ..argument("limit", "string") };

/// A further subject, after [`AND`].
pub(super) const MORE: Argument = Argument {
    name: "more",
    kind: "block",
    token: Some(AND),
    flags: &["optional", "multiple", "multiple_token"],
    arguments: &[SUBJECT, LIMITS],
};

pub(super) const COST: Argument = after("COST", "units", "string");
pub(super) const SHARD: Argument = after("SHARD", "name", "string");
pub(super) const DEADLINE: Argument = after("DEADLINE", "milliseconds", "integer");
pub(super) const ON_FAILURE: Argument = Argument {
    name: "rule",
    kind: "oneof",
    token: Some("ONFAILURE"),
    flags: &["optional"],
    arguments: &[word("ALLOW", "allow"), word("DENY", "deny"), word("LOCAL", "local")],
};
/// The word before the headers of the response that an answer includes.
pub(super) const RESPONDING: &str = "RESPONSE";
pub(super) const RESPONSE: Argument = Argument {
    name: "headers",
    kind: "oneof",
    token: Some(RESPONDING),
    flags: &["optional"],
    arguments: &[
        word("DRAFT", "draft"),
        word("LEGACY", "legacy"),
        word("BOTH", "both"),
        word("NONE", "none"),
    ],
};
pub(super) const RECEIPT: Argument = after("RECEIPT", "receipt", PURE_TOKEN);

/// The kind of cost that a peek judges.
pub(super) const KIND: Argument = Argument {
    name: "kind",
    kind: "oneof",
    token: Some("KIND"),
    flags: &["optional"],
    arguments: &[word("CHECK", "check"), word("RESERVE", "reserve"), word("ACQUIRE", "acquire")],
};

pub(super) const TTL: Argument = after("TTL", "milliseconds", "integer");
pub(super) const AT_END: Argument = Argument {
    name: "at_end",
    kind: "oneof",
    token: Some("ATEND"),
    flags: &["optional"],
    arguments: &[word("CHARGE", "charge"), word("NOTHING", "nothing")],
};

/// How the caller waits where it is denied.
pub(super) const WAITING: Argument = Argument {
    name: "waiting",
    kind: "oneof",
    token: Some("WAITING"),
    flags: &["optional"],
    arguments: &[AGAIN, word("IN_LINE", "in_line")],
};

pub(super) const AGAIN: Argument = word("AGAIN", "again");

/// The id that a caller gives to its hold.
pub(super) const NAME: Argument = after(ID, "id", "string");

/// The hold as it was answered, or the id that its caller gave it.
pub(super) const HOLD: Argument = Argument {
    arguments: &[argument("hold", "string"), Argument { flags: &[], ..NAME }],
    ..argument("which", "oneof")
};

/// The question of the id: its limits, or its policy.
pub(super) const ASKED_ON: Argument = Argument {
    name: "asked",
    kind: "block",
    token: Some(ON),
    flags: &["optional"],
    arguments: &[SUBJECT, LIMITS],
};
pub(super) const ASKED_POLICY: Argument =
    Argument { token: Some(POLICY), arguments: &[POLICY_NAME, FIELDS], ..ASKED_ON };

pub(super) const POLICY_NAME: Argument = argument("policy", "string");
pub(super) const FIELDS: Argument = Argument {
    name: "field",
    kind: "block",
    token: None,
    flags: &["optional", "multiple"],
    arguments: &[argument("name", "string"), argument("value", "string")],
};

pub(super) const LOGIN: &[Argument] =
    &[argument("username", "string"), argument("password", "string")];
