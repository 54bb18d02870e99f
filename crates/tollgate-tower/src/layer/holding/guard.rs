//! The hold of one request, and its used units.

use std::sync::Arc;

use http::{HeaderMap, Request, Response};
use tollgate::Cost;
use tollgate_policy::Commits;

use super::spent::Spent;

/// Settles the hold of a request when it is dropped.
pub(super) struct Guard {
    settle: Option<Settle>,
    stage: Stage,
    /// Where the response says what was used, for a request that reserves.
    commits: Commits,
    /// The units that the service reports.
    spent: Option<Spent>,
    /// The numbers in headers of the response.
    said: Vec<(Arc<str>, u64)>,
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Used {
    Units(Cost),
    /// Nobody said it.
    Unsaid,
}

/// The function that settles a hold, wherever it is called: also without a runtime.
type Settle = Box<dyn FnOnce(Used) + Send + Sync>;

impl Guard {
    pub(super) fn new(commits: Commits, settle: impl FnOnce(Used) + Send + Sync + 'static) -> Self {
        Self {
            settle: Some(Box::new(settle)),
            stage: Stage::Waiting,
            commits,
            spent: None,
            said: Vec::new(),
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

    /// Reads what the head of the response says. Its headers are for this layer, and are removed
    /// unless they are to be kept.
    pub(super) fn read<B>(&mut self, response: &mut Response<B>, keep: bool) {
        if let Some(spent) = response.extensions().get::<Spent>() {
            self.spent = Some(spent.clone());
        }
        let number = |name: &Arc<str>| Some((Arc::clone(name), number(response.headers(), name)?));
        self.said = self.commits.headers().filter_map(number).collect();
        if !keep {
            for name in self.commits.headers() {
                response.headers_mut().remove(&**name);
            }
        }
    }

    /// So many bytes of the body are passed on.
    pub(super) fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// The used units: of each the service's report goes before that of the headers and the bytes.
    fn used(&self) -> Used {
        let spent = self.spent.as_ref().and_then(Spent::used);
        let said = |name: &str| {
            let found = self.said.iter().find(|(known, _)| **known == *name);
            found.map(|(_, number)| *number)
        };
        let units = match self.stage {
            Stage::Waiting => Some(Cost::from(0)),
            Stage::Failed => Some(spent.unwrap_or(Cost::from(0))),
            Stage::AtWork => match (spent, self.commits.used(said, self.bytes)) {
                // A plain 0 is nothing of any unit.
                (Some(spent), Some(said)) if spent != 0 => Some(beside(&spent, &said)),
                (spent, said) => spent.or(said),
            },
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

/// The amounts of a cost, and those that another has of further units.
fn beside(cost: &Cost, more: &Cost) -> Cost {
    let known = cost.amounts();
    let further = more.amounts().iter().filter(|(unit, _)| known.named(unit).is_none());
    known.iter().chain(further).map(|(unit, amount)| (*unit, amount)).collect()
}

/// The number in the only line of a header.
fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    let mut lines = headers.get_all(name).iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    line.to_str().ok()?.trim().parse().ok()
}
