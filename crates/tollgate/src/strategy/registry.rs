//! The registry of strategies. To add one, add a folder beside this file and a line at its end.

use super::{Cell, Charge, Descriptor, Judgement, LuaSpec, Recorded, Shape, Step, WithStep};
use crate::limit::{Quota, QuotaError};
use crate::time::Time;

/// Generates the registry: the public name of each strategy, and an enum of compiled steps.
macro_rules! strategies {
    ($($variant:ident = $folder:ident in $path:literal),+ $(,)?) => {
        $(#[path = $path] pub(crate) mod $folder;)+

        /// The algorithm of a limit.
        ///
        /// ```
        /// use tollgate::Strategy;
        /// assert_eq!(Strategy::Gcra.name(), "gcra");
        /// assert_eq!(Strategy::named("sliding_log"), Some(Strategy::SlidingLog));
        /// ```
        #[doc(alias(
            "algorithm",
            "GCRA",
            "token bucket",
            "leaky bucket",
            "sliding window",
            "sliding log",
            "fixed window",
            "debounce",
            "pacing"
        ))]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        pub enum Strategy {
            $(
                #[doc = concat!("`", stringify!($folder), "`")]
                $variant,
            )+
        }

        impl Strategy {
            /// Every strategy, in the order of the registry.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(crate) const fn descriptor(self) -> &'static Descriptor {
                match self {
                    $(Self::$variant => &$folder::DESCRIPTOR,)+
                }
            }

            pub(crate) fn compile(self, quota: &Quota) -> Result<Compiled, QuotaError> {
                Ok(match self {
                    $(Self::$variant => Compiled::$variant($folder::compile(quota)?),)+
                })
            }
        }

        /// A strategy with fixed numbers.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub(crate) enum Compiled {
            $($variant($folder::Step),)+
        }

        impl Compiled {
            /// Calls `work` with the step of this strategy.
            #[inline(always)]
            pub(crate) fn with_step<W: WithStep>(&self, work: W) -> W::Answer {
                match self { $(Self::$variant(step) => work.with_step(step),)+ }
            }
        }

        impl Step for Compiled {
            #[inline]
            fn shape(&self) -> Shape {
                match self { $(Self::$variant(step) => step.shape(),)+ }
            }
            #[inline]
            fn capacity(&self) -> u64 {
                match self { $(Self::$variant(step) => step.capacity(),)+ }
            }
            #[inline]
            fn judge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Judgement {
                match self { $(Self::$variant(step) => step.judge(cell, now, cost),)+ }
            }
            #[inline]
            fn charge(&self, cell: &mut Cell<'_>, now: Time, cost: u64) -> Recorded {
                match self { $(Self::$variant(step) => step.charge(cell, now, cost),)+ }
            }
            fn deny(&self, cell: &mut Cell<'_>, now: Time) {
                match self { $(Self::$variant(step) => step.deny(cell, now),)+ }
            }
            fn repair(&self, cell: &mut Cell<'_>, now: Time) {
                match self { $(Self::$variant(step) => step.repair(cell, now),)+ }
            }
            fn fresh_at_us(&self, cell: &mut Cell<'_>) -> u64 {
                match self { $(Self::$variant(step) => step.fresh_at_us(cell),)+ }
            }
            fn refund(&self, cell: &mut Cell<'_>, now: Time, charge: Charge) {
                match self { $(Self::$variant(step) => step.refund(cell, now, charge),)+ }
            }
            fn spent_until_us(&self, at_us: u64, cost: u64) -> u64 {
                match self { $(Self::$variant(step) => step.spent_until_us(at_us, cost),)+ }
            }
            fn grant(&self, cell: &mut Cell<'_>, now: Time, units: u64) {
                match self { $(Self::$variant(step) => step.grant(cell, now, units),)+ }
            }
            fn most(&self) -> Option<u64> {
                match self { $(Self::$variant(step) => step.most(),)+ }
            }
            fn with_capacity(&self, most: u64) -> Self {
                match self { $(Self::$variant(step) => Self::$variant(step.with_capacity(most)),)+ }
            }
            fn around(&self, now: Time) -> Self {
                match self { $(Self::$variant(step) => Self::$variant(step.around(now)),)+ }
            }
            fn lua_spec(&self) -> LuaSpec {
                match self { $(Self::$variant(step) => step.lua_spec(),)+ }
            }
            fn is_sound(&self, words: &[u64]) -> bool {
                match self { $(Self::$variant(step) => step.is_sound(words),)+ }
            }
            fn migrate(&self, cell: &mut Cell<'_>, was: &Self, old: &mut Cell<'_>, now: Time) {
                match (self, was) {
                    $((Self::$variant(step), Self::$variant(was)) => {
                        step.migrate(cell, was, old, now);
                    })+
                    // Another strategy starts fresh; the engine reports it in the decision.
                    _ => {}
                }
            }
        }
    };
}

strategies! {
    Uniform = uniform in "uniform/mod.rs",
    FixedWindow = fixed_window in "fixed_window/mod.rs",
    SlidingLog = sliding_log in "sliding_log/mod.rs",
    SlidingWindow = sliding_window in "sliding_window/mod.rs",
    TokenBucket = token_bucket in "token_bucket/mod.rs",
    Gcra = gcra in "gcra/mod.rs",
    Concurrency = concurrency in "concurrency/mod.rs",
    Ban = ban in "ban/mod.rs",
}
