//! What the answers say.
