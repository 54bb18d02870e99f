//! Policies of Tollgate from the rules of others, and the rules without an equal.

mod limitador;
mod made;
mod rules;

pub use limitador::limitador;
pub use made::Imported;
pub use rules::rules;
