//! `judge`: it finds the broken limiters that its questions can show, and calls none of ours so.

mod broken;
mod ours;
mod served;
mod usage;
