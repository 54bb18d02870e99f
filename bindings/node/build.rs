//! Tells the linker that Node has the functions which the module calls.

fn main() {
    napi_build::setup();
}
