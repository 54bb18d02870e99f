//! The console: one page for administrators, and the figures that it shows.

mod history;
mod overview;
mod page;
mod peers;

pub(crate) use history::History;
pub(crate) use overview::{Overview, Sources};
pub(crate) use page::{is_page, page};
pub(crate) use peers::Peers;
