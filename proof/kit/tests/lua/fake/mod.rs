//! The parts of Redis that the scripts call, in process: exact enough to run whole scripts a
//! million times.
//!
//! Nothing expires by itself: a state that has expired means the same as a fresh one, as the
//! comparisons with the engine show. [`Fake::forget`] drops what has expired. Every write must
//! carry a lifetime, and every integer must fit where it is packed; both are asserted.

mod commands;
mod held;
mod packing;
mod sorted;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Error, Function, HookTriggers, Lua, Value, VmState};
use tollgate_redis::Script;

use held::Data;
pub(crate) use held::{Snapshot, Stored};

/// The message of a script that ran too long.
pub(crate) const TOO_LONG: &str = "the script runs too long";

/// So many instructions between two questions whether a script runs too long.
const STRIDE: u32 = 10_000;

/// And this many questions, in one call.
const PATIENCE: u32 = 500;

/// A reply as a client sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    List(Vec<Self>),
    Error(String),
}

impl Reply {
    /// The integers of a list, after its first element.
    pub(crate) fn integers(&self) -> Vec<i64> {
        let Self::List(list) = self else { panic!("not a list: {self:?}") };
        let number = |reply: &Self| match reply {
            Self::Int(number) => *number,
            other => panic!("not an integer: {other:?}"),
        };
        list[1..].iter().map(number).collect()
    }

    /// A list; each packed answer is as it would be for a question alone: the nonce as text, and
    /// then numbers.
    pub(crate) fn unpack_reply(self) -> Self {
        let Self::List(mut list) = self else { return self };
        for reply in &mut list {
            if let Self::Text(packed) = reply {
                let mut numbers = tollgate_redis::compose::unpack_reply(packed).expect("numbers");
                let nonce = numbers.next().expect("a nonce");
                let numbers: Vec<Self> = numbers.map(Self::Int).collect();
                *reply = Self::List([vec![Self::Text(nonce.to_string().into())], numbers].concat());
            }
        }
        Self::List(list)
    }
}

pub(crate) struct Fake {
    lua: Lua,
    data: Rc<RefCell<Data>>,
    scripts: HashMap<String, Function>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let lua = Lua::new();
        // The live part is some megabytes: it may grow fivefold before it is collected.
        lua.gc_set_pause(500);
        let data = Rc::new(RefCell::new(Data::default()));
        commands::install(&lua, &data).unwrap();
        packing::install(&lua).unwrap();
        // As Redis does: a global that does not exist is an error.
        let strict = "setmetatable(_G, {__index = function(_, name)
            error(\"Script attempted to access nonexistent global variable '\" .. name .. \"'\")
        end})";
        lua.load(strict).exec().unwrap();
        Self { lua, data, scripts: HashMap::new() }
    }

    /// Ends every script that runs for very long, or takes much memory.
    pub(crate) fn bounded(self) -> Self {
        self.data.borrow_mut().patience = Some(PATIENCE);
        let data = Rc::clone(&self.data);
        let triggers = HookTriggers::new().every_nth_instruction(STRIDE);
        let hook = move |_: &Lua, _: &mlua::Debug<'_>| {
            let mut data = data.borrow_mut();
            data.patience = data.patience.map(|left| left.saturating_sub(1));
            match data.patience {
                Some(0) => Err(Error::runtime(TOO_LONG)),
                _ => Ok(VmState::Continue),
            }
        };
        self.lua.set_global_hook(triggers, hook).unwrap();
        self.lua.set_memory_limit(256 << 20).unwrap();
        self
    }

    /// How long the last call lets a key lie, in milliseconds; none where it set nothing.
    pub(crate) fn written(&self, key: &str) -> Option<u64> {
        self.data.borrow().written(key.as_bytes())
    }

    /// How long a key would have lain without the last call, in milliseconds.
    pub(crate) fn lay(&self, key: &str) -> Option<u64> {
        self.data.borrow().lay(key.as_bytes())
    }

    /// True when the last call wrote or deleted anything.
    pub(crate) fn wrote(&self) -> bool {
        let data = self.data.borrow();
        data.deleted || !data.written.is_empty()
    }

    pub(crate) fn lifetime(&self, key: &str) -> Option<u64> {
        self.data.borrow().keys.lifetime(key.as_bytes()).map(|lifetime| lifetime.ms)
    }

    /// How many milliseconds a key still lies, by the server's clock.
    pub(crate) fn left_ms(&self, key: &str) -> Option<u64> {
        u64::try_from(self.data.borrow().pttl(key.as_bytes())).ok()
    }

    /// Drops what has expired, and says which keys those were.
    pub(crate) fn forget(&self) -> Vec<String> {
        let mut data = self.data.borrow_mut();
        let now_ms = data.now_us / 1_000;
        let gone = data.keys.expire(now_ms).into_iter();
        gone.map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    /// Drops a key as a server does that has no memory left.
    pub(crate) fn evict(&self, key: &str) {
        let mut data = self.data.borrow_mut();
        data.keys.remove(key.as_bytes());
        data.evicted.push(key.as_bytes().into());
    }

    /// Takes the right to a command away, or gives back what was taken.
    pub(crate) fn deny(&self, name: Option<&str>) {
        self.data.borrow_mut().denied = name.map(|name| name.as_bytes().to_vec());
    }

    pub(crate) fn at(&self, now_us: u64) {
        self.data.borrow_mut().now_us = now_us;
    }

    pub(crate) fn clear(&self) {
        self.data.borrow_mut().keys = Snapshot::default();
    }

    /// The contents, with their lifetimes.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.data.borrow().keys.clone()
    }

    /// Holds what it held then.
    pub(crate) fn restore(&self, snapshot: Snapshot) {
        self.data.borrow_mut().keys = snapshot;
    }

    /// Forgets the compiled scripts but these.
    pub(crate) fn keep_scripts<'s>(&mut self, kept: impl IntoIterator<Item = &'s Script>) {
        let mut kept: Vec<&str> = kept.into_iter().map(Script::sha).collect();
        kept.sort_unstable();
        self.scripts.retain(|sha, _| kept.binary_search(&sha.as_str()).is_ok());
    }

    pub(crate) fn put(&self, key: &str, held: Stored) {
        self.data.borrow_mut().keys.put(key.as_bytes(), held);
    }

    pub(crate) fn get(&self, key: &str) -> Option<Stored> {
        self.data.borrow().keys.get(key.as_bytes()).cloned()
    }

    /// The content of each key, without its lifetime.
    pub(crate) fn keys(&self) -> HashMap<Vec<u8>, Stored> {
        self.data.borrow().keys.keys()
    }

    /// How many commands the scripts have called.
    pub(crate) fn calls(&self) -> u64 {
        self.data.borrow().calls
    }

    /// How many commands they have called, and how many rows of lists those have answered.
    pub(crate) fn traffic(&self) -> u64 {
        let data = self.data.borrow();
        data.calls + data.rows
    }

    /// Runs a script; a fault in it is an error reply, as in Redis.
    pub(crate) fn call(
        &mut self,
        script: &Script,
        keys: &[String],
        args: &[impl AsRef<[u8]>],
    ) -> Reply {
        let function = match self.scripts.get(script.sha()) {
            Some(function) => function.clone(),
            None => {
                // The first line is Redis's own.
                let text = script.text().split_once('\n').map_or("", |(_, rest)| rest);
                let text = format!("\n{text}");
                match self.lua.load(text).into_function() {
                    Ok(function) => {
                        self.scripts.insert(script.sha().to_owned(), function.clone());
                        function
                    }
                    Err(error) => return Reply::Error(format!("ERR compiling: {error}")),
                }
            }
        };
        let globals = self.lua.globals();
        let keys = self.lua.create_sequence_from(keys.iter().map(String::as_str)).unwrap();
        globals.raw_set("KEYS", keys).unwrap();
        let args = args.iter().map(|arg| self.lua.create_string(arg).unwrap());
        globals.raw_set("ARGV", self.lua.create_sequence_from(args).unwrap()).unwrap();
        {
            let mut data = self.data.borrow_mut();
            data.before = data.keys.clone();
            data.written.clear();
            data.deleted = false;
            data.patience = data.patience.map(|_| PATIENCE);
        }
        match function.call::<Value>(()) {
            Ok(value) => reply(&value),
            Err(error) => Reply::Error(format!("ERR {error}")),
        }
    }
}

fn reply(value: &Value) -> Reply {
    match value {
        Value::Nil | Value::Boolean(false) => Reply::Nil,
        Value::Boolean(true) => Reply::Int(1),
        #[allow(clippy::cast_possible_truncation)] // as Redis does
        Value::Number(number) => Reply::Int(*number as i64),
        Value::Integer(number) => Reply::Int(*number),
        Value::String(text) => Reply::Text(text.as_bytes().to_vec()),
        Value::Table(table) => {
            if let Ok(Some(text)) = table.raw_get::<Option<String>>("err") {
                return Reply::Error(text);
            }
            let mut list = Vec::new();
            for i in 1.. {
                match table.raw_get::<Value>(i).unwrap() {
                    Value::Nil => break,
                    value => list.push(reply(&value)),
                }
            }
            Reply::List(list)
        }
        other => panic!("a script answers {other:?}"),
    }
}
