//! Reads the failure rule of a policy, and the number of nodes that a share can be taken from.

use tollgate::Share;

use super::keys::{Keys, Reader};
use crate::on_failure::OnFailure;
use crate::source::{Node, Value};

/// The most nodes of a file.
const MAX_NODES: u32 = 1_000_000;

/// The keys of a failure rule that is a table.
pub(crate) const LOCAL_KEYS: [&str; 1] = ["local"];

pub(super) const REMEDY: &str = "say what to answer when the store cannot: \
     `on_failure = \"allow\"`, `\"deny\"`, or a share for each node, e.g. `{ local = \"25 %\" }`";

/// A file's setting for its nodes.
#[derive(Clone, Copy)]
pub(super) enum Nodes {
    Unsaid,
    /// It was reported.
    Wrong,
    Number(u32),
}

impl Nodes {
    pub(super) fn number(self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(number),
            Self::Unsaid | Self::Wrong => None,
        }
    }
}

pub(super) fn nodes(reader: &mut Reader<'_>, keys: &Keys<'_>) -> Nodes {
    let Some(node) = keys.get("nodes") else { return Nodes::Unsaid };
    let number = reader.whole(node, "nodes", 1, MAX_NODES.into());
    number.and_then(|number| u32::try_from(number).ok()).map_or(Nodes::Wrong, Nodes::Number)
}

pub(super) fn rule(reader: &mut Reader<'_>, node: &Node, nodes: Nodes) -> Option<OnFailure> {
    match &node.value {
        Value::Text(word) if word == "allow" => Some(OnFailure::Allow),
        Value::Text(word) if word == "deny" => Some(OnFailure::Deny),
        Value::Text(word) if word == "local" => match nodes {
            Nodes::Number(number) => Share::of_nodes(number).map(OnFailure::Local),
            Nodes::Wrong => None,
            Nodes::Unsaid => {
                let remedy = "write the number of nodes at the top, e.g. `nodes = 4`, or the share \
                              itself, e.g. `on_failure = { local = \"25 %\" }`";
                reader.error(node.at, "`local` needs a share", remedy);
                None
            }
        },
        Value::Table(_) => {
            let keys = reader.keys(node, "on_failure", &LOCAL_KEYS)?;
            let right = "write the share of this node, e.g. `{ local = \"25 %\" }` or `\"1/4\"`";
            let share = reader.required(&keys, keys.at, "local", right)?;
            let text =
                reader.text(share, "local", "a share in quotes, e.g. `\"25 %\"` or `\"1/4\"`")?;
            let read = text.parse().map_err(|error| reader.refused(share, text, &error));
            read.ok().map(OnFailure::Local)
        }
        _ => {
            reader.error(node.at, "`on_failure` is neither `allow`, `deny` nor `local`", REMEDY);
            None
        }
    }
}
