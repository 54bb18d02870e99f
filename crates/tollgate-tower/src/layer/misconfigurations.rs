//! Mistakes in a set-up that can be seen while it runs, each reported once.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use tollgate_policy::Field;

use crate::identity::Remark;

/// A misconfiguration in a set-up. `docs/mistakes.md` explains each.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Misconfiguration {
    /// A request met the same limits twice; it was decided once.
    LayeredTwice,
    /// The server tells no peer address: such requests get 500.
    NoPeer,
    /// Something is odd about the headers that name clients.
    Address(Remark),
    /// An identity of your own gave a whole IPv6 address.
    WholeIpv6,
    /// Policies look at fields that this layer does not tell.
    FieldNotSupplied(Vec<Field>),
    /// Many layers were dropped after one or two requests.
    MadeForEachRequest,
}

impl Misconfiguration {
    /// The kinds, so that each is reported once.
    const KINDS: usize = 11;

    fn kind(&self) -> usize {
        match self {
            Self::LayeredTwice => 0,
            Self::NoPeer => 1,
            Self::WholeIpv6 => 2,
            Self::FieldNotSupplied(_) => 3,
            Self::MadeForEachRequest => 4,
            Self::Address(remark) => match remark {
                Remark::HeaderFromUntrustedPeer => 5,
                Remark::NoHeader => 6,
                Remark::Unreadable => 7,
                Remark::OnlyProxies => 8,
                Remark::TooFewHops => 9,
                Remark::TooManyHops => 10,
            },
        }
    }
}

impl fmt::Display for Misconfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LayeredTwice => f.write_str(
                "a request met the same limits twice, and was decided once: the layer stands both \
                 outside and inside. Keep one",
            ),
            Self::NoPeer => {
                f.write_str(
                    "the server tells no peer address, so that clients cannot be told apart: with \
                     axum serve `app.into_make_service_with_connect_info::<SocketAddr>()`",
                )?;
                if cfg!(not(feature = "axum")) {
                    f.write_str(
                        ", and build tollgate-tower with its feature `axum`, which is off here",
                    )?;
                }
                Ok(())
            }
            Self::Address(remark) => remark.fmt(f),
            Self::WholeIpv6 => f.write_str(
                "an identity of your own is a whole IPv6 address, of which one customer has 2^64: \
                 use `Identity::client`, which counts the /64",
            ),
            Self::FieldNotSupplied(fields) => {
                f.write_str("policies look at ")?;
                for (i, field) in fields.iter().enumerate() {
                    write!(f, "{}`{field}`", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(", which this layer does not tell: it is absent from every request")
            }
            Self::MadeForEachRequest => f.write_str(
                "many layers were dropped after one or two requests, each with counts of its own: \
                 make the layer once, not for each request or connection",
            ),
        }?;
        f.write_str(" (docs/mistakes.md, or `tollgate help mistakes`)")
    }
}

pub(super) type OnMisconfiguration = Arc<dyn Fn(&Misconfiguration) + Send + Sync>;

/// Reports each misconfiguration once.
pub(super) struct Misconfigurations {
    reported: [AtomicBool; Misconfiguration::KINDS],
    told: Option<OnMisconfiguration>,
}

impl Misconfigurations {
    pub(super) fn new(told: Option<OnMisconfiguration>) -> Self {
        Self { reported: [const { AtomicBool::new(false) }; Misconfiguration::KINDS], told }
    }

    /// Reports a misconfiguration, unless one of its kind was reported before.
    #[inline]
    pub(super) fn report(&self, misconfiguration: Misconfiguration) {
        // Read first: what happens with every request must not write to shared memory.
        if let Some(reported) = self.reported.get(misconfiguration.kind())
            && !reported.load(Ordering::Relaxed)
            && !reported.swap(true, Ordering::Relaxed)
        {
            self.notify(&misconfiguration);
        }
    }

    /// Reports a misconfiguration again, for those that a reload can bring anew.
    pub(super) fn report_anew(&self, misconfiguration: &Misconfiguration) {
        self.notify(misconfiguration);
    }

    #[cold]
    fn notify(&self, misconfiguration: &Misconfiguration) {
        match &self.told {
            Some(told) => told(misconfiguration),
            None => tracing::warn!(target: "tollgate", "{misconfiguration}"),
        }
    }
}

/// How many layers in a row were dropped after at most two requests.
static SHORT_LIVED: AtomicU32 = AtomicU32::new(0);

/// So many of them are no accident.
const MANY_SHORT_LIVED: u32 = 32;

/// A layer is gone that has decided `requests`. True when it was one too many that were short.
pub(super) fn one_is_gone(requests: u64) -> bool {
    match requests {
        // One that was never asked is a router that was built for something else, as for a test.
        0 => false,
        1 | 2 => (SHORT_LIVED.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(MANY_SHORT_LIVED),
        _ => {
            SHORT_LIVED.store(0, Ordering::Relaxed);
            false
        }
    }
}
