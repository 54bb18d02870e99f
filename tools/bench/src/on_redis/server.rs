//! A connection that sends scripts in packs and reads what they cost the server.

use std::time::Duration;

use redis::{ConnectionLike as _, Value};
use tollgate::StoreError;
use tollgate_redis::compose::unpack_reply;
use tollgate_redis::usage::cpu_s;
use tollgate_redis::{Keys, Script};

/// A server that answers wrongly measures nothing: this share of the answers must be as expected.
/// Not all, for a window may end while a run lasts.
const SHARE: f64 = 0.99;

/// How long a server may take for an answer: long enough for the last of many pipelined ones.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How many keys one command removes.
const BATCH: usize = 1_000;

/// A server that is measured. Its keys are removed when it is dropped.
pub(crate) struct Server {
    connection: redis::Connection,
    pub(crate) keys: Keys,
    written: Vec<String>,
}

/// A script with its questions, packed.
pub(crate) struct Probe {
    pub(crate) name: String,
    packs: Vec<Vec<u8>>,
    depth: usize,
    admits: bool,
    answers: Answers,
    checks: usize,
    pub(crate) times_us: Vec<f64>,
    /// The time within the script, in microseconds of the clock.
    pub(crate) scripts_us: Vec<f64>,
}

/// How a question is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answers {
    /// As a check: how much was granted.
    Check,
    /// As this many checks in one call: a list of their answers.
    Checks(usize),
    /// As an offer to a queue: an id at the end, or nothing there.
    Offer,
}

impl Answers {
    /// How many questions one call asks.
    fn each(self) -> usize {
        match self {
            Self::Checks(count) => count,
            Self::Check | Self::Offer => 1,
        }
    }

    /// How many questions of a call were admitted, or were not.
    fn count(self, answer: &Value, admitted: bool) -> usize {
        let is_expected = |of: Self, answer| usize::from(of.is_admitted(answer) == admitted);
        match (self, answer) {
            (Self::Checks(_), Value::Array(list)) => {
                list.iter().map(|answer| is_expected(Self::Check, answer)).sum()
            }
            _ => is_expected(self, answer),
        }
    }

    fn is_admitted(self, answer: &Value) -> bool {
        match (self, answer) {
            (Self::Check, Value::Int(verdict)) => *verdict == 1,
            (Self::Check, Value::BulkString(packed)) => {
                unpack_reply(packed).and_then(|mut numbers| numbers.nth(1)).is_some_and(|of| of > 0)
            }
            (Self::Check, Value::Array(list)) => match list[..] {
                [Value::Int(verdict), ..] => verdict == 1,
                [_, Value::Int(granted), ..] => granted > 0,
                _ => false,
            },
            // After the nonce, how long to wait, and the depth there was.
            (Self::Offer, Value::Array(list)) => match &list[..] {
                [_, Value::Int(_), Value::Int(_), Value::BulkString(id)] => !id.is_empty(),
                _ => false,
            },
            _ => false,
        }
    }
}

/// The questions of a probe.
pub(crate) struct Questions<'q> {
    pub(crate) script: &'q Script,
    /// The keys of each call.
    pub(crate) keys: &'q [Vec<String>],
    pub(crate) args: &'q [String],
    pub(crate) admits: bool,
    pub(crate) answers: Answers,
    /// How many calls in one pack.
    pub(crate) depth: usize,
    /// How many questions in one run.
    pub(crate) checks: usize,
}

pub(crate) fn failed(error: redis::RedisError) -> StoreError {
    StoreError::permanent(format!("the server that is measured: {error}")).because(error)
}

impl Server {
    pub(crate) fn connect(url: &str, keys: Keys) -> Result<Self, StoreError> {
        let client = redis::Client::open(url).map_err(failed)?;
        Ok(Self { connection: client.get_connection().map_err(failed)?, keys, written: Vec::new() })
    }

    /// Says that these keys are ours, to be removed at the end.
    pub(crate) fn owns<'k>(&mut self, keys: impl IntoIterator<Item = &'k String>) {
        self.written.extend(keys.into_iter().cloned());
    }

    pub(crate) fn ask(&mut self, command: &redis::Cmd) -> Result<Value, StoreError> {
        self.connection.req_command(command).map_err(failed)
    }

    /// Loads the script and packs the questions; asks each once, so that the measured ones have
    /// their state in place.
    pub(crate) fn probe(
        &mut self,
        name: &str,
        questions: &Questions<'_>,
    ) -> Result<Probe, StoreError> {
        let Questions { script, keys, args, admits, answers, depth, checks } = questions;
        self.ask(redis::cmd("SCRIPT").arg("LOAD").arg(script.text()))?;
        let question = |keys: &Vec<String>| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(script.sha()).arg(keys.len()).arg(&keys[..]).arg(&args[..]);
            command.get_packed_command()
        };
        // In turn, and the last pack starts from the beginning.
        let packs = keys.len().div_ceil(*depth);
        let mut asked = keys.iter().cycle();
        let packs: Vec<Vec<u8>> =
            (0..packs).map(|_| asked.by_ref().take(*depth).flat_map(question).collect()).collect();
        self.owns(keys.iter().flatten());
        let (depth, checks) = (*depth, (*checks).max(*depth));
        let name = name.to_owned();
        let (admits, answers) = (*admits, *answers);
        let probe = Probe {
            name,
            packs,
            depth,
            admits,
            answers,
            checks,
            times_us: Vec::new(),
            scripts_us: Vec::new(),
        };
        for pack in &probe.packs {
            self.send(&probe, pack)?;
        }
        Ok(probe)
    }

    /// One run: the cost of a check for the server.
    pub(crate) fn run(&mut self, probe: &mut Probe) -> Result<(), StoreError> {
        let packed = probe.depth * probe.answers.each();
        let packs = probe.checks.div_ceil(packed);
        let in_script = self.in_scripts()?;
        let before = self.cpu()?;
        let mut expected = 0;
        for pack in probe.packs.iter().cycle().take(packs) {
            expected += self.send(probe, pack)?;
        }
        let asked = (packs * packed) as f64;
        let seconds = self.cpu()? - before;
        let in_script = self.in_scripts()? - in_script;
        if (expected as f64) < asked * SHARE {
            let verdict = if probe.admits { "admitted" } else { "denied" };
            return Err(StoreError::permanent(format!(
                "only {expected} of {asked} checks of {} were {verdict}: nothing was measured",
                probe.name
            )));
        }
        probe.times_us.push(seconds * 1e6 / asked);
        probe.scripts_us.push(in_script / asked);
        Ok(())
    }

    /// Sends a pack. Answers how many were answered as expected.
    fn send(&mut self, probe: &Probe, pack: &[u8]) -> Result<usize, StoreError> {
        let answers = self.connection.req_packed_commands(pack, 0, probe.depth).map_err(failed)?;
        let mut expected = 0;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                return Err(StoreError::permanent(format!("{}: {error:?}", probe.name)));
            }
            expected += probe.answers.count(answer, probe.admits);
        }
        Ok(expected)
    }

    /// The processor time that the server has used, in seconds: of the thread that answers where
    /// the server reports it (from 7.0 on).
    pub(crate) fn cpu(&mut self) -> Result<f64, StoreError> {
        let info: String =
            redis::cmd("INFO").arg("cpu").query(&mut self.connection).map_err(failed)?;
        cpu_s(&info)
            .ok_or_else(|| StoreError::permanent("the server does not report its usage: INFO cpu"))
    }

    /// The time that the server was in scripts, in microseconds.
    fn in_scripts(&mut self) -> Result<f64, StoreError> {
        let info: String =
            redis::cmd("INFO").arg("commandstats").query(&mut self.connection).map_err(failed)?;
        let of = |line: &str| {
            let (_, rest) = line.strip_prefix("cmdstat_evalsha:")?.split_once("usec=")?;
            rest.split_once(',')?.0.parse().ok()
        };
        // Before the first call it reports none.
        Ok(info.lines().find_map(of).unwrap_or(0.0))
    }

    /// The name that the server reports.
    pub(crate) fn name(&mut self) -> Result<String, StoreError> {
        let info: String =
            redis::cmd("INFO").arg("server").query(&mut self.connection).map_err(failed)?;
        let of = |name| info.lines().find_map(|line: &str| line.strip_prefix(name)).map(str::trim);
        // Valkey calls itself Redis 7.2, and its own version another name.
        let valkey = of("valkey_version:").map(|version| format!("Valkey {version}"));
        let redis = || of("redis_version:").map(|version| format!("Redis {version}"));
        Ok(valkey.or_else(redis).unwrap_or_else(|| "a server without a version".to_owned()))
    }

    /// Microseconds since the epoch.
    pub(crate) fn now_us(&mut self) -> Result<u64, StoreError> {
        let (seconds, micros): (u64, u64) =
            redis::cmd("TIME").query(&mut self.connection).map_err(failed)?;
        Ok(seconds * 1_000_000 + micros)
    }

    /// Puts a list there, for an hour.
    pub(crate) fn fill(&mut self, key: &String, entries: &[Vec<u8>]) -> Result<(), StoreError> {
        const HOUR_MS: u64 = 3_600_000;
        self.owns([key]);
        for batch in entries.chunks(BATCH) {
            self.ask(redis::cmd("RPUSH").arg(key).arg(batch))?;
        }
        self.ask(redis::cmd("PEXPIRE").arg(key).arg(HOUR_MS)).map(drop)
    }

    /// The bytes of a key, looking at all of it.
    pub(crate) fn bytes(&mut self, key: &str) -> Result<u64, StoreError> {
        let mut command = redis::cmd("MEMORY");
        command.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
        command.query(&mut self.connection).map_err(failed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for keys in self.written.chunks(BATCH) {
            // A count whose numbers changed may have left a mark beside it.
            let keys: Vec<String> =
                keys.iter().flat_map(|key| [key.clone(), Keys::reset(key)]).collect();
            // Nobody can receive an error here, and all of them expire by themselves.
            let _ = self.connection.req_command(redis::cmd("UNLINK").arg(keys));
        }
    }
}

impl Probe {
    /// The median of the runs.
    pub(crate) fn median_us(&self) -> f64 {
        let mut times = self.times_us.clone();
        times.sort_unstable_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    }
}
