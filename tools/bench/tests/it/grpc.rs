//! `grpc`: the program that is measured.

use crate::{bench, said_by};

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut command = bench(&["grpc", "--program", "none/tollgate"]);
    for peer in ["TOLLGATE_PEER_LIMITADOR", "TOLLGATE_PEER_ENVOY"] {
        command.env_remove(peer);
    }
    let (code, _, err) = said_by(command);
    // Without an installed h2load, the output names it.
    let says = ["none/tollgate cannot be started", "install it (apt-get install nghttp2-client)"];
    assert!(code == 2 && says.iter().any(|says| err.contains(says)), "{err}");
}
