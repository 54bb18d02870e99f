//! `judge`: it finds the broken limiters that its questions can show, and calls none of ours so.

mod broken;
mod disturbed;
mod ours;
mod recorded;
mod served;
mod servers;
mod usage;
