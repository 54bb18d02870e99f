//! The implementation of each command; each returns its exit code.

use anyhow::Result;

use crate::args::{Command, Config};
use crate::show::Output;

mod admin;
mod advise;
mod check;
mod config;
mod count;
mod diff;
mod doctor;
mod explain;
mod hash_key;
mod health;
pub(crate) mod help;
mod hold;
mod import;
#[cfg(feature = "judge")]
mod judge;
mod lab;
mod local_share;
mod log;
mod queue;
mod replay;
pub(crate) mod run;
mod scripts;
mod serve;
mod slot;
mod top;

/// Runs a command.
pub(crate) fn perform(command: Command, out: &mut Output) -> Result<u8> {
    match command {
        Command::Serve(args) => serve::serve(&args, out),
        Command::HashKey(args) => hash_key::hash_key(&args, out),
        Command::Health(args) => health::health(&args, out),
        Command::Admin(args) => admin::admin(&args, out),
        Command::Top(args) => top::top(&args, out),
        Command::Check(args) => check::check(&args, out),
        Command::Peek(args) => check::peek(&args, out),
        Command::Charge(args) => hold::charge(&args, out),
        Command::Reserve(args) => hold::reserve(&args, out),
        Command::Commit(args) => hold::commit(&args, out),
        Command::Run(args) => run::run(&args),
        Command::Reset(args) => count::reset(&args, out),
        Command::Adjust(args) => count::adjust(&args, out),
        Command::Credit(args) => hold::credit(&args, out),
        Command::Inspect(args) => count::inspect(&args, out),
        Command::Explain(args) => explain::explain(&args, out),
        Command::Advise(args) => advise::advise(&args, out),
        Command::Replay(args) => replay::replay(&args, out),
        Command::Diff(args) => diff::diff(&args, out),
        Command::Lab(args) => lab::lab(&args, out),
        #[cfg(feature = "judge")]
        Command::Judge(args) => judge::judge(&args, out),
        Command::Queue(args) => queue::queue(&args, out),
        Command::Scripts(args) => scripts::scripts(&args, out),
        Command::Doctor(args) => doctor::doctor(&args, out),
        Command::Config(Config::Check(args)) => config::check(&args, out),
        Command::Config(Config::Import(args)) => import::import(&args, out),
        Command::Config(Config::Schema) => config::print_schema(out),
        Command::Man(args) => help::man(&args, out),
        Command::Help(args) => help::help(&args, out),
        Command::Completions { shell } => help::completions(shell, out),
    }
}
