//! The effect of a local share of a limit while the store is away: for `explain` and `config`.

use serde::Serialize;
use tollgate::{Limit, LimitKind, ParseError, Share};

/// The bound of one node alone, and that of several nodes together.
#[derive(Debug, Serialize)]
pub(crate) struct LocalShare {
    share: String,
    limit: String,
    /// `None` for a limit that is not a rate.
    worst_window: Option<u64>,
    window: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_window_of_nodes: Option<u128>,
    #[serde(skip)]
    kind: LimitKind,
}

impl LocalShare {
    /// # Errors
    /// The limit has no such share.
    pub(crate) fn new(limit: &Limit, share: Share, nodes: Option<u32>) -> Result<Self, ParseError> {
        let shared = limit.share(share)?;
        let is_rate = limit.kind() == LimitKind::Rate;
        let worst_window = is_rate.then(|| shared.strategy().traits(shared.quota()).worst_window);
        let of_nodes = worst_window.zip(nodes);
        Ok(Self {
            share: share.to_string(),
            limit: shared.to_string(),
            worst_window,
            window: shared.quota().period.to_string(),
            kind: limit.kind(),
            nodes,
            worst_window_of_nodes: of_nodes
                .map(|(most, nodes)| u128::from(nodes) * u128::from(most)),
        })
    }

    /// In one line.
    pub(crate) fn text(&self) -> String {
        let Self { share, limit, worst_window, window, kind, .. } = self;
        let Some(worst_window) = worst_window else {
            return match kind {
                LimitKind::Ban => "each node counts the denials of its own share".to_owned(),
                _ => format!("a share of {share} takes no slot: an acquire is denied"),
            };
        };
        let one = format!("a share of {share} is {limit}: at most {worst_window} in any {window}");
        match self.nodes.zip(self.worst_window_of_nodes) {
            Some((1, _)) => one,
            Some((nodes, all)) => format!("{one}, and {all} by {nodes} nodes together"),
            None => format!("{one}, and as many by each other node"),
        }
    }
}
