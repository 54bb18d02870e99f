//! The faults after which another node is asked, or looked for.

use crate::fault::Fault;

/// Whether the fault came before anything was sent, so that another node may be asked.
pub(super) fn is_unsent(fault: &Fault) -> bool {
    matches!(fault, Fault::Unreachable { .. } | Fault::Breaker { .. } | Fault::NotPrimary)
}

/// Whether another node may answer meanwhile, after a fault that is no reason to ask it this time.
pub(super) fn may_be_elsewhere(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Closed { .. }
            | Fault::Deadline { .. }
            | Fault::ClusterDown
            | Fault::ReadOnly
            | Fault::MasterDown
            | Fault::Loading
    )
}
