//! The command line of Tollgate.
fn main() {}
