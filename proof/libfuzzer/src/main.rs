//! libFuzzer before one target, whose name is in the environment (`TOLLGATE_FUZZ_TARGET`): one
//! program for all of them takes a tenth of the time to build.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tollgate_fuzz::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("TOLLGATE_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| panic!("TOLLGATE_FUZZ_TARGET: no target `{name}`"))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
