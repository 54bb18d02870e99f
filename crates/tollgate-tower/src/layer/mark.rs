//! The mark on a decided request: the authority that decided it, so that no other layer decides it
//! again.

use http::Extensions;
use smallvec::SmallVec;
use tollgate_policy::DecisionMark;

/// The first gate of this process, with its first policies, has decided the request. Most processes
/// have no other gate. A zero-sized mark needs no allocation, which would be a measurable part of
/// the cost of a request (`docs/benchmarks.md`).
#[derive(Clone)]
struct ByFirst;

/// Other gates have decided the request.
#[derive(Clone)]
struct ByOthers(SmallVec<[DecisionMark; 1]>);

/// True when any gate has decided the request.
#[inline]
pub(super) fn is_on(extensions: &Extensions) -> bool {
    extensions.get::<ByFirst>().is_some() || extensions.get::<ByOthers>().is_some()
}

/// True when the same gate as `own`, or the same policies over the same store, have decided it.
#[cold]
pub(super) fn is_alike(extensions: &Extensions, own: DecisionMark) -> bool {
    let first = extensions.get::<ByFirst>().and_then(|ByFirst| DecisionMark::first());
    let others = extensions.get::<ByOthers>().into_iter().flat_map(|ByOthers(marks)| marks);
    first.iter().chain(others).any(|mark| mark.is_alike(own))
}

#[inline]
pub(super) fn put(extensions: &mut Extensions, mark: DecisionMark) {
    if mark.is_first() {
        extensions.insert(ByFirst);
    } else {
        put_another(extensions, mark);
    }
}

#[inline(never)]
fn put_another(extensions: &mut Extensions, mark: DecisionMark) {
    match extensions.get_mut::<ByOthers>() {
        Some(ByOthers(marks)) => marks.push(mark),
        None => {
            extensions.insert(ByOthers(SmallVec::from_buf([mark])));
        }
    }
}

/// Removes all marks.
pub(super) fn remove(extensions: &mut Extensions) {
    extensions.remove::<ByFirst>();
    extensions.remove::<ByOthers>();
}
