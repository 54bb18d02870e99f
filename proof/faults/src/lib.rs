//! Faults of real servers, made on purpose under load, and judged from the callers' view.
//!
//! A [`Run`](run::Run) starts servers, sends checks, lets a [`Fault`](fault::Fault) happen, and
//! waits until all is well again. Every call is recorded, and the [history
//! checker](tollgate_proof::history) says whether the promises held. The counts at the end show the
//! charges too: so it is known how many were lost or doubled.

pub mod bare;
pub mod clock;
mod command;
pub mod cut;
pub mod fault;
pub mod load;
pub mod noise;
pub mod run;
pub mod show;
mod slots;
mod wait;
pub mod world;
