//! The registry of strategies. To add one, add a folder beside this file and a line here.

use super::{Cell, Charge, Descriptor, Judgement, LuaSpec, Recorded, Shape, Step, WithStep};
use crate::limit::{Quota, QuotaError};
use crate::time::Time;

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
