//! The mark on a request that was decided: by whom, so that nobody decides it again.

use http::Extensions;
use smallvec::SmallVec;
use tollgate_policy::DecisionMark;

/// The first gate of this process has decided it, by the policies that it began with. Most
/// processes have no other, and a mark without a size takes no memory of its own: an allocation is
/// a part of what a request costs that can be measured (`docs/benchmarks.md`).
#[derive(Clone)]
struct ByFirst;

/// Others have decided it.
#[derive(Clone)]
struct ByOthers(SmallVec<[DecisionMark; 1]>);

/// True when somebody has decided the request.
#[inline]
pub(super) fn is_on(extensions: &Extensions) -> bool {
    extensions.get::<ByFirst>().is_some() || extensions.get::<ByOthers>().is_some()
}

/// True when the same policies over the same store as `own` have decided it, or the same gate.
#[cold]
pub(super) fn is_alike(extensions: &Extensions, own: DecisionMark) -> bool {
    let first = extensions.get::<ByFirst>().and_then(|ByFirst| DecisionMark::first());
    let others = extensions.get::<ByOthers>().into_iter().flat_map(|ByOthers(marks)| marks);
    first.iter().chain(others).any(|mark| mark.is_alike(own))
}

/// Notes who has decided it.
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

/// Forgets who has decided it.
pub(super) fn remove(extensions: &mut Extensions) {
    extensions.remove::<ByFirst>();
    extensions.remove::<ByOthers>();
}
