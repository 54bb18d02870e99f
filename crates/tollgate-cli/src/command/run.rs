//! `run`: runs a command when a limit admits it, and in a slot where there are slots.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tollgate::{Ask, Decision, Error, Hold, HoldName, Receipt, Verdict};

use super::slot::Slot;
use crate::args::{Run, SubjectArgs};
use crate::input;
use crate::show::{self, duration, say};
use crate::store::BlockingLimiter;
use crate::subject_limits::SubjectLimits;

/// The turn did not come within `--wait`; the code of `timeout`.
const LATE: u8 = 124;
/// The turn never comes.
const NEVER: u8 = 125;
/// The command cannot be run; the code of `env`.
const NOT_RUNNABLE: u8 = 126;
/// The command was not found; the code of `env`.
const NOT_FOUND: u8 = 127;
/// A shell adds this to the number of a signal.
const KILLED: i32 = 128;

/// The longest pause between two checks. An administrator may have reset the count or refunded
/// units meanwhile, and the machine may have been suspended. A check costs nothing.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// The first and the longest pause between two checks for a slot, which may come free at any time.
const FIRST_SLOT_PAUSE: Duration = Duration::from_millis(50);
const LAST_SLOT_PAUSE: Duration = Duration::from_secs(1);

/// How long to try to give back a slot that the store may have placed, and the pause between.
const GIVE_BACK_FOR: Duration = Duration::from_secs(1);
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &Run) -> Result<u8> {
    let which = which(args)?;
    let counts = SubjectLimits::read(&which)?;
    let cost = input::costs(&args.cost, false)?;
    let wait = args.wait.as_deref().map(input::wait).transpose()?;
    let Some((program, arguments)) = args.command.split_first() else {
        bail!("no command is given: write it after `--`");
    };
    let takes_slots = input::slots(counts.parts()).is_some();
    let is_plain = cost.plain().is_some();
    let mut ask = counts.ask().cost(cost);
    if takes_slots {
        ask = ask.named(HoldName::random());
    }
    // A caller that tries once does not wait, and takes no place that it would have to leave.
    if wait.is_none_or(|wait| !wait.is_zero()) {
        // Several subjects may lie in several slots of a cluster, which keep no line together.
        let stands = takes_slots && is_plain && counts.parts().len() == 1;
        ask = if stands { ask.in_line() } else { ask.waiting() };
    }
    let counter = BlockingLimiter::open(&args.place, &which, &counts)?;
    let interrupts = Interrupts::listen()?;
    let turn = Waiting {
        counter: &counter,
        ask,
        deadline: wait.map(|wait| (wait, Instant::now())),
        told: show::says_waits(),
        takes_slots,
    }
    .turn(&interrupts)?;
    let (receipt, slot) = match turn {
        Turn::Came(receipt, slot) => (receipt, slot),
        Turn::Gone(code) => return Ok(code),
    };
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(slot) = &slot {
        command.env("TOLLGATE_FENCE", slot.fence().to_string());
    }
    match interrupts.spawn(&mut command) {
        Ok(Started::Child(child)) => match slot {
            Some(mut slot) => {
                let status = interrupts.wait_for(child, slot.pause(), || slot.tend())?;
                slot.release();
                code_of(status)
            }
            None => {
                // The command may run for a long time, so close the file or connection first.
                drop(counter);
                code_of(interrupts.wait_for(child, None, || None)?)
            }
        },
        Ok(Started::Interrupted(signal)) => {
            give_back(&counter, receipt.as_ref(), slot.map(|slot| *slot))?;
            killed_by(signal)
        }
        Err(error) => {
            give_back(&counter, receipt.as_ref(), slot.map(|slot| *slot))?;
            let name = program.to_string_lossy();
            say(&format!("error: `{}` cannot be run: {error}", input::shown(&name)));
            let found = error.kind() != io::ErrorKind::NotFound;
            Ok(if found { NOT_RUNNABLE } else { NOT_FOUND })
        }
    }
}

/// The subject and its limits: with `--at-once`, its slots are among them.
fn which(args: &Run) -> Result<SubjectArgs> {
    let mut which = args.which.clone();
    let Some(at_once) = &args.at_once else { return Ok(which) };
    let slots = input::cost(at_once, false).context("`--at-once`")?;
    if which.subject.is_none() {
        bail!("no subject is given for `--at-once`: name one, as in `run encode --at-once 2`");
    }
    let mut text = format!("{slots} at once");
    if let Some(hold) = &args.hold {
        if input::wait(hold)?.is_zero() {
            bail!("a hold of `{}` is over immediately: give 1ms and more", input::shown(hold));
        }
        text.push_str(&format!(" hold {hold}"));
    }
    which.limit.push(text);
    Ok(which)
}

/// How a wait ended.
enum Turn<'c> {
    /// The check was charged, and a slot taken where there are some: the command may run.
    Came(Option<Receipt>, Option<Box<Slot<'c>>>),
    /// Nothing was charged: exit with this code.
    Gone(u8),
}

/// A wait for admission.
struct Waiting<'c> {
    counter: &'c BlockingLimiter,
    ask: Ask<'c>,
    /// The longest time to wait, and since when.
    deadline: Option<(Duration, Instant)>,
    /// Whether to print the time of the next attempt on stderr.
    told: bool,
    /// Whether a limit counts slots, which are taken and given back.
    takes_slots: bool,
}

impl<'c> Waiting<'c> {
    fn turn(&self, interrupts: &Interrupts) -> Result<Turn<'c>> {
        let turn = self.turn_in_line(interrupts);
        if self.takes_slots
            && !matches!(turn, Ok(Turn::Came(..)))
            && let Ok(named) = self.ask.clone().named_hold(self.counter.limiter.limits())
        {
            // Those behind move up immediately. Without an answer the place ends by itself.
            let _ = self.counter.wait(self.counter.limiter.release(&named));
        }
        turn
    }

    fn turn_in_line(&self, interrupts: &Interrupts) -> Result<Turn<'c>> {
        let mut pauses =
            SlotPauses::new(self.ask.clone().named_hold(self.counter.limiter.limits()).ok());
        loop {
            let asked = Instant::now();
            let (decision, hold, ahead) = self.attempt()?;
            let wait = match decision.verdict() {
                Verdict::Allow => {
                    let slot = hold.map(|hold| Box::new(Slot::new(self.counter, hold, asked)));
                    return Ok(Turn::Came(decision.receipt(), slot));
                }
                Verdict::Never => {
                    say(&format!("error: {decision}: it would wait for ever"));
                    return Ok(Turn::Gone(NEVER));
                }
                Verdict::NotYet(wait) => wait,
            };
            let until_slot = decision.is_until_hold();
            let left = self.deadline.map(|(longest, since)| {
                let left = longest.saturating_sub(since.elapsed());
                (longest, left, if until_slot { left.is_zero() } else { wait > left })
            });
            if let Some((longest, _, true)) = left {
                self.say_late(&decision, wait, longest);
                return Ok(Turn::Gone(LATE));
            }
            if self.told {
                let binding = decision.binding();
                let (subject, limit) = (binding.subject(), binding.limit());
                match until_slot {
                    false => {
                        say(&format!(
                            "waiting for {subject}: retry in {} ({limit})",
                            duration(wait)
                        ));
                    }
                    true if pauses.is_first() => {
                        let ahead =
                            if ahead > 0 { format!(", {ahead} ahead") } else { String::new() };
                        say(&format!(
                            "waiting for {subject}: every slot is taken ({limit}){ahead}"
                        ));
                    }
                    true => {}
                }
            }
            // A place in line ends unless it is asked for again.
            let mut pause = wait.min(if self.takes_slots { pauses.longest } else { ASK_AGAIN });
            if until_slot {
                pause = pauses.next(ahead).min(pause).min(left.map_or(pause, |(_, left, _)| left));
            }
            if let Some(signal) = interrupts.within(pause)? {
                return Ok(Turn::Gone(killed_by(signal)?));
            }
            self.counter.catch_up();
        }
    }

    /// Asks once.
    fn attempt(&self) -> Result<(Decision<'c>, Option<Hold>, usize)> {
        let limiter = &self.counter.limiter;
        if !self.takes_slots {
            return Ok((self.counter.wait(limiter.check(self.ask.clone()))?, None, 0));
        }
        let acquire = || self.counter.wait(limiter.hold(self.ask.clone().acquire()));
        let held = match (acquire(), self.ask.clone().named_hold(limiter.limits())) {
            // The answer was lost, and with it perhaps a slot: under one name both are one.
            (Err(Error::Store(error)), Ok(named)) if error.is_ambiguous() => {
                acquire().inspect_err(|_| self.give_back_in_doubt(&named))?
            }
            (held, _) => held?,
        };
        Ok((held.decision, held.hold, held.ahead))
    }

    /// Gives back what the store may have placed. A hold that cannot be given back expires by
    /// itself.
    fn give_back_in_doubt(&self, named: &Hold) {
        let since = Instant::now();
        while self.counter.wait(self.counter.limiter.release(named)).is_err()
            && since.elapsed() < GIVE_BACK_FOR
        {
            std::thread::sleep(GIVE_BACK_PAUSE);
            self.counter.catch_up();
        }
    }

    fn say_late(&self, decision: &Decision<'_>, wait: Duration, longest: Duration) {
        let subject = decision.binding().subject();
        if decision.is_until_hold() {
            let longest = duration(longest);
            say(&format!("error: no slot of {subject} came free within --wait {longest}"));
            return;
        }
        say(&format!(
            "error: the turn of {subject} comes in {} at the earliest, too late for --wait {}",
            duration(wait),
            duration(longest),
        ));
    }
}

/// The pauses between two checks for a slot. A client far behind in line asks less often, and keeps
/// its place.
struct SlotPauses {
    next: Duration,
    longest: Duration,
    ahead: Option<usize>,
}

impl SlotPauses {
    fn new(hold: Option<Hold>) -> Self {
        let longest = hold.map_or(ASK_AGAIN, |hold| hold.place_kept() / 3);
        Self { next: FIRST_SLOT_PAUSE, longest, ahead: None }
    }

    /// Whether there was none yet.
    fn is_first(&self) -> bool {
        self.ahead.is_none()
    }

    fn next(&mut self, ahead: usize) -> Duration {
        if self.ahead != Some(ahead) {
            // The line moves.
            (self.next, self.ahead) = (FIRST_SLOT_PAUSE, Some(ahead));
        }
        let turns = u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1);
        let pause = self.next.saturating_mul(turns).min(self.longest);
        self.next = (self.next * 2).min(LAST_SLOT_PAUSE);
        pause
    }
}

/// Refunds the charge of a command that did not run, and gives its slot back.
fn give_back(
    counter: &BlockingLimiter,
    receipt: Option<&Receipt>,
    slot: Option<Slot<'_>>,
) -> Result<()> {
    if let Some(slot) = slot {
        slot.release();
    }
    if let Some(receipt) = receipt {
        let refund = counter.wait(counter.limiter.refund(receipt));
        refund.context("the charge could not be given back")?;
    }
    Ok(())
}

/// A command's exit code, or 128 + the signal that killed it.
fn code_of(status: ExitStatus) -> Result<u8> {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ok(u8::try_from(code)?),
        (None, Some(signal)) => killed_by(signal),
        (None, None) => bail!("the command ended without an exit code: {status}"),
    }
}

fn killed_by(signal: i32) -> Result<u8> {
    Ok(u8::try_from(KILLED + signal)?)
}

/// The result of starting a command.
enum Started {
    Child(Child),
    /// A signal arrived first, and nothing was started.
    Interrupted(i32),
}

/// Signals end a wait; once the command runs, they are for the command. A terminal sends Ctrl-C to
/// both processes, so it is not passed on. Signals sent only to this process are passed on.
struct Interrupts {
    pending: Receiver<i32>,
    child: Arc<Mutex<Option<Pid>>>,
}

impl Interrupts {
    fn listen() -> Result<Self> {
        let ignored = ignored_signals();
        let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| ignored >> (s - 1) & 1 == 0);
        let mut signals = Signals::new(heeded)?;
        let (sender, pending): (Sender<i32>, _) = mpsc::channel();
        let child = Arc::new(Mutex::new(None));
        let of_thread = Arc::clone(&child);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                let child = lock(&of_thread);
                match *child {
                    Some(pid) if signal != SIGINT => {
                        if let Some(signal) = Signal::from_named_raw(signal) {
                            // The command may just have ended; then there is no process to signal.
                            let _ = kill_process(pid, signal);
                        }
                    }
                    Some(_) => {}
                    None => drop(sender.send(signal)),
                }
            }
        })?;
        Ok(Self { pending, child })
    }

    /// Waits this long. Returns a signal that arrived meanwhile.
    fn within(&self, wait: Duration) -> Result<Option<i32>> {
        match self.pending.recv_timeout(wait) {
            Ok(signal) => Ok(Some(signal)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the handler of signals has ended"),
        }
    }

    /// Starts the command, unless a signal arrived before. Under the lock no signal is lost, or
    /// sent to no process.
    fn spawn(&self, command: &mut Command) -> io::Result<Started> {
        let mut running = lock(&self.child);
        if let Ok(signal) = self.pending.try_recv() {
            return Ok(Started::Interrupted(signal));
        }
        let child = command.spawn()?;
        *running = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Started::Child(child))
    }

    /// Waits for the command. Its process id is cleared before the system may reuse it. After
    /// `pause`, `tend` is called, and again after the pause that it returns.
    fn wait_for(
        &self,
        mut child: Child,
        mut pause: Option<Duration>,
        mut tend: impl FnMut() -> Option<Duration>,
    ) -> Result<ExitStatus> {
        let pid = *lock(&self.child);
        if let Some(pid) = pid {
            let (sender, ended) = mpsc::channel();
            // Nobody receives it if this process ends first.
            let waiting = move || sender.send(wait_until_ended(pid)).unwrap_or_default();
            std::thread::Builder::new().name("command".to_owned()).spawn(waiting)?;
            loop {
                let ended = match pause {
                    Some(pause) => ended.recv_timeout(pause),
                    None => ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
                };
                match ended {
                    Ok(waited) => break waited.context("the command cannot be waited for")?,
                    Err(RecvTimeoutError::Timeout) => pause = tend(),
                    Err(RecvTimeoutError::Disconnected) => bail!("the wait for the command ended"),
                }
            }
        }
        *lock(&self.child) = None;
        Ok(child.wait()?)
    }
}

/// Waits until a process has ended, which it leaves to be collected.
fn wait_until_ended(pid: Pid) -> rustix::io::Result<()> {
    loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            done => return done.map(drop),
        }
    }
}

/// The signals that were ignored when this process started, as bits from 1. `nohup` ignores some,
/// and shells do so for background jobs. They stay ignored, here and in the command. If the system
/// does not report them, none counts as ignored.
pub(crate) fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// The value is sound even if a thread panicked while it held the lock.
fn lock(child: &Mutex<Option<Pid>>) -> MutexGuard<'_, Option<Pid>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}
