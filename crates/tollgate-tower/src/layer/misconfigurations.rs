//! Misconfigurations that are detectable at run time, each reported once.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use http::header::HeaderName;
use tollgate::engine::MAX_REPEATS;
use tollgate_policy::Field;

use crate::identity::Remark;

/// A misconfiguration. `docs/mistakes.md` explains each.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Misconfiguration {
    /// A request passed the same limits twice; it was decided once.
    LayeredTwice,
    /// The server provides no peer address: such requests have no `ip`, and get status 503 unless
    /// a policy says what happens without.
    NoPeer,
    /// An anomaly in the headers that contain client addresses.
    Address(Remark),
    /// An identity from a function is a full IPv6 address.
    WholeIpv6,
    /// Policies read fields that this layer does not provide.
    FieldNotSupplied(Vec<Field>),
    /// Many layers were dropped after one or two requests each.
    MadeForEachRequest,
    /// A trusted proxy sends no usable request id in this header: each such request is charged.
    NoRequestId(HeaderName),
    /// A trusted proxy sends one request id again and again in this header: its requests are
    /// charged as those without one.
    OverusedRequestId(HeaderName),
}

impl Misconfiguration {
    /// The number of kinds; each is reported once.
    const KINDS: usize = 13;

    fn kind(&self) -> usize {
        match self {
            Self::LayeredTwice => 0,
            Self::NoPeer => 1,
            Self::WholeIpv6 => 2,
            Self::FieldNotSupplied(_) => 3,
            Self::MadeForEachRequest => 4,
            Self::NoRequestId(_) => 11,
            Self::OverusedRequestId(_) => 12,
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
                "a request met the same limits twice, and was decided once: the layer is applied \
                 both outside and inside. Keep one",
            ),
            Self::NoPeer => {
                f.write_str(
                    "the server gives no address of a client, so clients cannot be distinguished: \
                     over a unix socket let the proxy send it in the header that is read; with \
                     axum \
                     serve `app.into_make_service_with_connect_info::<SocketAddr>()`",
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
                "many layers were dropped after one or two requests, each with separate counts: \
                 make the layer once, not for each request or connection",
            ),
            Self::NoRequestId(name) => write!(
                f,
                "a trusted proxy sends no `{name}` of 1 to 256 bytes, or several: a request that \
                 it \
                 asks about twice is charged twice. Let the proxy set one, and write over its \
                 clients'",
            ),
            Self::OverusedRequestId(name) => write!(
                f,
                "a trusted proxy sent one id in `{name}` more than {MAX_REPEATS} times, like a \
                 constant: requests under it are charged again. Let the proxy make an id \
                 for each request",
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
        // Read first: work done on every request must not write to shared memory.
        if let Some(reported) = self.reported.get(misconfiguration.kind())
            && !reported.load(Ordering::Relaxed)
            && !reported.swap(true, Ordering::Relaxed)
        {
            self.notify(&misconfiguration);
        }
    }

    /// Reports a misconfiguration even if one of its kind was reported before, for those that a
    /// reload can cause.
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

/// The number of consecutive layers that were dropped after at most two requests.
static SHORT_LIVED: AtomicU32 = AtomicU32::new(0);

/// The number of such layers above which this is not a coincidence.
const MANY_SHORT_LIVED: u32 = 32;

/// Records that a layer with this number of `requests` was dropped. True when too many were
/// short-lived.
pub(super) fn one_is_gone(requests: u64) -> bool {
    match requests {
        // A layer without requests belongs to a router built for another purpose, such as a test.
        0 => false,
        1 | 2 => (SHORT_LIVED.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(MANY_SHORT_LIVED),
        _ => {
            SHORT_LIVED.store(0, Ordering::Relaxed);
            false
        }
    }
}
