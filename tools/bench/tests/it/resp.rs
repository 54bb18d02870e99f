//! `resp`: the program that is measured, and the peers that are left out.

use crate::{bench, said_by};

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut command = bench(&["resp", "--program", "none/tollgate"]);
    for peer in ["TOLLGATE_PEER_REDIS_CELL", "TOLLGATE_PEER_THROTTLECRAB"] {
        command.env_remove(peer);
    }
    let (code, _, err) = said_by(command);
    // Without an installed redis-server, the output names it.
    let says = ["none/tollgate cannot be started", "no redis-server can be started"];
    assert!(code == 2 && says.iter().any(|says| err.contains(says)), "{err}");
}
