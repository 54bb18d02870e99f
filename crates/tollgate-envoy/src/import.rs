//! Policies of Tollgate from the rules of others, and what of them has no equal.

mod limitador;
mod made;
mod rules;

pub use limitador::limitador;
pub use made::Imported;
pub use rules::rules;
