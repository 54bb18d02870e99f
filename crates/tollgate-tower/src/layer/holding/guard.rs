//! The hold of one request, and its used units.

use http::{HeaderMap, Request, Response};
use tollgate_policy::Commit;

use super::spent::Spent;

/// Settles the hold of a request when it is dropped.
pub(super) struct Guard {
    settle: Option<Settle>,
    stage: Stage,
    /// Where the response says what was used, for a request that reserves.
    commit: Option<Commit>,
    /// The units that the service reports.
    spent: Option<Spent>,
    /// The units that a header of the response reports.
    said: Option<u64>,
    /// The bytes of the body that were passed on.
    bytes: u64,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// The service was not called yet.
    Waiting,
    AtWork,
    /// The service has ended with an error.
    Failed,
}

/// The units that a request has used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Used {
    Units(u64),
    /// Nobody said it.
    Unsaid,
}

/// The function that settles a hold, wherever it is called: also without a runtime.
type Settle = Box<dyn FnOnce(Used) + Send + Sync>;

impl Guard {
    pub(super) fn new(
        commit: Option<Commit>,
        settle: impl FnOnce(Used) + Send + Sync + 'static,
    ) -> Self {
        Self {
            settle: Some(Box::new(settle)),
            stage: Stage::Waiting,
            commit,
            spent: None,
            said: None,
            bytes: 0,
        }
    }

    /// The service is called now. It may say what it uses by the [`Spent`] of the request.
    pub(super) fn begin<B>(&mut self, request: &mut Request<B>) {
        self.stage = Stage::AtWork;
        // Layers around each other hear the same.
        let spent = request.extensions_mut().get_or_insert_with(Spent::default);
        self.spent = Some(spent.clone());
    }

    pub(super) fn fail(&mut self) {
        self.stage = Stage::Failed;
    }

    /// Reads what the head of the response says. The header is for this layer, and is removed
    /// unless it is to be kept.
    pub(super) fn read<B>(&mut self, response: &mut Response<B>, keep: bool) {
        if let Some(spent) = response.extensions().get::<Spent>() {
            self.spent = Some(spent.clone());
        }
        if let Some(Commit::Header(name)) = &self.commit {
            self.said = number(response.headers(), name);
            if !keep {
                response.headers_mut().remove(&**name);
            }
        }
    }

    /// So many bytes of the body are passed on.
    pub(super) fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// The used units: the service's report goes before that of the header.
    fn used(&self) -> Used {
        let spent = self.spent.as_ref().and_then(Spent::units);
        let units = match (&self.stage, &self.commit) {
            (Stage::Waiting, _) => Some(0),
            (Stage::Failed, _) => Some(spent.unwrap_or(0)),
            (Stage::AtWork, Some(Commit::Bytes)) => Some(spent.unwrap_or(self.bytes)),
            (Stage::AtWork, _) => spent.or(self.said),
        };
        units.map_or(Used::Unsaid, Used::Units)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let used = self.used();
        if let Some(settle) = self.settle.take() {
            settle(used);
        }
    }
}

/// The number in the only line of a header.
fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    let mut lines = headers.get_all(name).iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    line.to_str().ok()?.trim().parse().ok()
}
