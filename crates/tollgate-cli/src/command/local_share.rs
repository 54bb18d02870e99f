//! What a local share of a limit comes to while the store is away: for `explain` and `config`.

use serde::Serialize;
use tollgate::{Limit, ParseError, Share};

/// What one node admits by itself, and what several of them do together.
#[derive(Debug, Serialize)]
pub(crate) struct LocalShare {
    share: String,
    limit: String,
    worst_window: u64,
    window: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_window_of_nodes: Option<u128>,
}

impl LocalShare {
    /// # Errors
    /// The limit has no such share.
    pub(crate) fn new(limit: &Limit, share: Share, nodes: Option<u32>) -> Result<Self, ParseError> {
        let shared = limit.share(share)?;
        let worst_window = shared.strategy().traits(shared.quota()).worst_window;
        Ok(Self {
            share: share.to_string(),
            limit: shared.to_string(),
            worst_window,
            window: shared.quota().period.to_string(),
            nodes,
            worst_window_of_nodes: nodes.map(|nodes| u128::from(nodes) * u128::from(worst_window)),
        })
    }

    /// In one line.
    pub(crate) fn text(&self) -> String {
        let Self { share, limit, worst_window, window, .. } = self;
        let one = format!("a share of {share} is {limit}: at most {worst_window} in any {window}");
        match self.nodes.zip(self.worst_window_of_nodes) {
            Some((1, _)) => one,
            Some((nodes, all)) => format!("{one}, and {all} by {nodes} nodes together"),
            None => format!("{one}, and as many by each other node"),
        }
    }
}
