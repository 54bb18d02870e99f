//! What of Redis the scripts call, in process: exact enough to run whole scripts a million times.
//!
//! Nothing expires by itself: a state that has expired means the same as a fresh one, which is
//! what the comparisons with the engine show. [`Fake::forget`] drops what has expired. Every write
//! must carry a lifetime, and every integer must fit where it is packed; both are asserted.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::rc::Rc;

use mlua::{Error, Function, HookTriggers, Lua, MultiValue, Result, Value, VmState};
use tollgate_redis::Script;

/// What a key holds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Held {
    Text(Vec<u8>),
    List(VecDeque<Vec<u8>>),
}

#[derive(Default, Debug)]
struct Data {
    keys: HashMap<Vec<u8>, Held>,
    lifetimes: HashMap<Vec<u8>, Lifetime>,
    now_us: u64,
    calls: u64,
    /// The rows of lists that they have read.
    rows: u64,
    /// The lifetimes that the last script set, and whether it deleted anything.
    written: HashMap<Vec<u8>, u64>,
    deleted: bool,
    /// How often the script may still be asked whether it runs too long; none: for ever.
    patience: Option<u32>,
}

/// How long a key lies, in milliseconds, and after which of them it is gone.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Lifetime {
    ms: u64,
    until_ms: u64,
}

impl Data {
    fn live(&mut self, key: &[u8], ms: u64) {
        let until_ms = self.now_us / 1_000 + ms;
        self.lifetimes.insert(key.to_vec(), Lifetime { ms, until_ms });
        self.written.insert(key.to_vec(), ms);
    }

    /// As PTTL answers.
    fn pttl(&self, key: &[u8]) -> i64 {
        let left = |lifetime: &Lifetime| {
            i64::try_from(lifetime.until_ms.saturating_sub(self.now_us / 1_000)).unwrap()
        };
        let none = if self.keys.contains_key(key) { -1 } else { -2 };
        self.lifetimes.get(key).map_or(none, left)
    }
}

/// What a script that ran too long says.
pub(crate) const TOO_LONG: &str = "the script runs too long";

/// So many instructions between two questions whether a script runs too long.
const STRIDE: u32 = 10_000;

/// And so many questions, in one call.
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

    /// A list of which each packed answer is as it would be for a question alone: the nonce as
    /// text, and then numbers.
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

/// What was held at some time.
#[derive(PartialEq, Debug)]
pub(crate) struct Snapshot {
    keys: HashMap<Vec<u8>, Held>,
    lifetimes: HashMap<Vec<u8>, Lifetime>,
}

pub(crate) struct Fake {
    lua: Lua,
    data: Rc<RefCell<Data>>,
    scripts: HashMap<String, Function>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let lua = Lua::new();
        let data = Rc::new(RefCell::new(Data::default()));
        install(&lua, &data).unwrap();
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

    /// The lifetimes that the last call set, in milliseconds.
    pub(crate) fn written(&self) -> HashMap<Vec<u8>, u64> {
        self.data.borrow().written.clone()
    }

    /// True when the last call wrote or deleted anything.
    pub(crate) fn wrote(&self) -> bool {
        let data = self.data.borrow();
        data.deleted || !data.written.is_empty()
    }

    pub(crate) fn lifetime(&self, key: &str) -> Option<u64> {
        self.data.borrow().lifetimes.get(key.as_bytes()).map(|lifetime| lifetime.ms)
    }

    /// How many milliseconds a key still lies, by the server's clock.
    pub(crate) fn left_ms(&self, key: &str) -> Option<u64> {
        u64::try_from(self.data.borrow().pttl(key.as_bytes())).ok()
    }

    /// Drops what has expired, and says which keys those were.
    pub(crate) fn forget(&self) -> Vec<String> {
        let mut data = self.data.borrow_mut();
        let now_ms = data.now_us / 1_000;
        let gone = data.lifetimes.extract_if(|_, lifetime| lifetime.until_ms < now_ms);
        let gone: Vec<Vec<u8>> = gone.map(|(key, _)| key).collect();
        for key in &gone {
            data.keys.remove(key);
        }
        gone.into_iter().map(|key| String::from_utf8(key).unwrap()).collect()
    }

    pub(crate) fn at(&self, now_us: u64) {
        self.data.borrow_mut().now_us = now_us;
    }

    pub(crate) fn clear(&self) {
        let mut data = self.data.borrow_mut();
        data.keys.clear();
        data.lifetimes.clear();
    }

    /// All that is held, with how long.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let data = self.data.borrow();
        Snapshot { keys: data.keys.clone(), lifetimes: data.lifetimes.clone() }
    }

    /// Holds what it held then.
    pub(crate) fn restore(&self, snapshot: Snapshot) {
        let mut data = self.data.borrow_mut();
        (data.keys, data.lifetimes) = (snapshot.keys, snapshot.lifetimes);
    }

    /// Forgets the compiled scripts.
    pub(crate) fn flush_scripts(&mut self) {
        self.scripts.clear();
        self.lua.gc_collect().unwrap();
    }

    pub(crate) fn put(&self, key: &str, held: Held) {
        self.data.borrow_mut().keys.insert(key.into(), held);
    }

    pub(crate) fn get(&self, key: &str) -> Option<Held> {
        self.data.borrow().keys.get(key.as_bytes()).cloned()
    }

    pub(crate) fn keys(&self) -> HashMap<Vec<u8>, Held> {
        self.data.borrow().keys.clone()
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
    pub(crate) fn call(&mut self, script: &Script, keys: &[String], args: &[String]) -> Reply {
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
        globals.set("KEYS", keys.to_vec()).unwrap();
        globals.set("ARGV", args.to_vec()).unwrap();
        {
            let mut data = self.data.borrow_mut();
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

fn install(lua: &Lua, data: &Rc<RefCell<Data>>) -> Result<()> {
    let redis = lua.create_table()?;
    let shared = Rc::clone(data);
    redis.set(
        "call",
        lua.create_function(move |lua, args: MultiValue| {
            match command(&mut shared.borrow_mut(), lua, &words(args)?)? {
                Ok(value) => Ok(value),
                Err(text) => Err(Error::runtime(text)),
            }
        })?,
    )?;
    let shared = Rc::clone(data);
    redis.set(
        "pcall",
        lua.create_function(move |lua, args: MultiValue| {
            match command(&mut shared.borrow_mut(), lua, &words(args)?)? {
                Ok(value) => Ok(value),
                Err(text) => {
                    let table = lua.create_table()?;
                    table.set("err", text)?;
                    Ok(Value::Table(table))
                }
            }
        })?,
    )?;
    redis.set(
        "error_reply",
        lua.create_function(|lua, text: String| {
            let table = lua.create_table()?;
            table.set("err", text)?;
            Ok(table)
        })?,
    )?;
    lua.globals().set("redis", redis)?;
    let packing = lua.create_table()?;
    packing.set("pack", lua.create_function(pack)?)?;
    packing.set("unpack", lua.create_function(unpack)?)?;
    lua.globals().set("struct", packing)?;
    // What is packed comes back; how it looks is Redis's affair.
    let kept: Rc<RefCell<Vec<Vec<Value>>>> = Rc::default();
    let shared = Rc::clone(&kept);
    let messages = lua.create_table()?;
    messages.set(
        "pack",
        lua.create_function(move |_, list: Vec<Value>| {
            shared.borrow_mut().push(list);
            Ok((shared.borrow().len() - 1).to_string())
        })?,
    )?;
    messages.set(
        "unpack",
        lua.create_function(move |_, number: String| {
            Ok(kept.borrow()[number.parse::<usize>().unwrap()].clone())
        })?,
    )?;
    lua.globals().set("cmsgpack", messages)
}

/// The arguments of a command, as Redis takes them.
fn words(args: MultiValue) -> Result<Vec<Vec<u8>>> {
    args.into_iter()
        .map(|value| match value {
            Value::String(text) => Ok(text.as_bytes().to_vec()),
            Value::Integer(number) => Ok(number.to_string().into_bytes()),
            Value::Number(number) => Ok(format!("{number}").into_bytes()),
            other => Err(Error::runtime(format!("Lua redis lib command arguments: {other:?}"))),
        })
        .collect()
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

type Answer = core::result::Result<Value, String>;

fn command(data: &mut Data, lua: &Lua, words: &[Vec<u8>]) -> Result<Answer> {
    data.calls += 1;
    let name = std::str::from_utf8(&words[0]).unwrap();
    let integer = |i: usize| -> i64 { std::str::from_utf8(&words[i]).unwrap().parse().unwrap() };
    let text = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    let ok = || -> Result<Answer> {
        let table = lua.create_table()?;
        table.set("ok", "OK")?;
        Ok(Ok(Value::Table(table)))
    };
    if name == "TIME" {
        let now = data.now_us;
        let table = lua.create_table()?;
        table.set(1, (now / 1_000_000).to_string())?;
        table.set(2, (now % 1_000_000).to_string())?;
        return Ok(Ok(Value::Table(table)));
    }
    let key = &words[1];
    let held = data.keys.get_mut(key);
    // The entry that Redis means by an index, which may count from the end.
    let place = |length: usize, index: i64| -> Option<usize> {
        let length = i64::try_from(length).unwrap();
        let index = if index < 0 { length + index } else { index };
        usize::try_from(index).ok().filter(|index| *index < usize::try_from(length).unwrap())
    };
    match (name, held) {
        ("GET", None) => Ok(Ok(Value::Boolean(false))),
        ("GET", Some(Held::Text(bytes))) => Ok(Ok(text(bytes)?)),
        ("SET", _) => {
            assert_eq!(words.get(3).map(Vec::as_slice), Some(b"PX".as_slice()), "without a TTL");
            let lifetime = u64::try_from(integer(4)).unwrap();
            assert!(lifetime > 0);
            data.keys.insert(key.clone(), Held::Text(words[2].clone()));
            data.live(key, lifetime);
            ok()
        }
        ("DEL", held) => {
            let found = i64::from(held.is_some());
            data.keys.remove(key);
            data.lifetimes.remove(key);
            data.deleted |= found == 1;
            Ok(Ok(Value::Integer(found)))
        }
        ("TYPE", held) => {
            let table = lua.create_table()?;
            let kind = match held {
                None => "none",
                Some(Held::Text(_)) => "string",
                Some(Held::List(_)) => "list",
            };
            table.set("ok", kind)?;
            Ok(Ok(Value::Table(table)))
        }
        ("EXISTS", held) => Ok(Ok(Value::Integer(held.is_some().into()))),
        ("PTTL", _) => Ok(Ok(Value::Integer(data.pttl(key)))),
        ("PEXPIRE", held) => {
            assert!(held.is_some(), "PEXPIRE of nothing");
            assert!(integer(2) > 0);
            data.live(key, integer(2).unsigned_abs());
            Ok(Ok(Value::Integer(1)))
        }
        ("LRANGE", None) => Ok(Ok(Value::Table(lua.create_table()?))),
        ("LRANGE", Some(Held::List(list))) => {
            let table = lua.create_table()?;
            let (first, last) = (integer(2), integer(3));
            let length = i64::try_from(list.len()).unwrap();
            let first = if first < 0 { (length + first).max(0) } else { first };
            let last = if last < 0 { length + last } else { last };
            let count = usize::try_from((last - first + 1).max(0)).unwrap();
            let rows = list.iter().skip(usize::try_from(first).unwrap()).take(count);
            for (i, row) in rows.enumerate() {
                table.raw_set(i + 1, lua.create_string(row)?)?;
                data.rows += 1;
            }
            Ok(Ok(Value::Table(table)))
        }
        ("LINDEX", None) => Ok(Ok(Value::Boolean(false))),
        ("LINDEX", Some(Held::List(list))) => Ok(Ok(match place(list.len(), integer(2)) {
            Some(index) => text(&list[index])?,
            None => Value::Boolean(false),
        })),
        ("RPUSH", None) => {
            data.keys.insert(key.clone(), Held::List(words[2..].iter().cloned().collect()));
            Ok(Ok(Value::Integer(1)))
        }
        ("RPUSH", Some(Held::List(list))) => {
            list.extend(words[2..].iter().cloned());
            Ok(Ok(Value::Integer(1)))
        }
        ("LTRIM", Some(Held::List(list))) => {
            assert_eq!(integer(3), -1);
            list.drain(..usize::try_from(integer(2)).unwrap());
            ok()
        }
        ("LSET", Some(Held::List(list))) => {
            let index = place(list.len(), integer(2)).expect("an index within the list");
            list[index].clone_from(&words[3]);
            ok()
        }
        ("GET" | "LRANGE" | "LINDEX" | "RPUSH" | "LTRIM" | "LSET", _) => {
            Ok(Err(WRONG_TYPE.to_owned()))
        }
        _ => panic!("a script calls {name}"),
    }
}

/// One letter of a format with its width.
fn formats(format: &str) -> Vec<(char, usize)> {
    let mut letters = format.strip_prefix('>').expect("big endian").chars().peekable();
    let mut all = Vec::new();
    while let Some(letter) = letters.next() {
        let mut width = 0;
        while let Some(digit) = letters.peek().and_then(|c| c.to_digit(10)) {
            width = width * 10 + digit as usize;
            letters.next();
        }
        all.push((letter, width));
    }
    all
}

fn pack(lua: &Lua, args: MultiValue) -> Result<mlua::String> {
    let mut args = args.into_iter();
    let Some(Value::String(format)) = args.next() else { return Err(Error::runtime("format")) };
    let mut bytes = Vec::new();
    for (letter, width) in formats(&format.to_str()?) {
        let value = args.next().ok_or_else(|| Error::runtime("too few values"))?;
        match (letter, value) {
            ('c', Value::String(text)) => {
                assert_eq!(text.as_bytes().len(), width);
                bytes.extend_from_slice(&text.as_bytes());
            }
            ('I', value) => {
                let number = match value {
                    Value::Integer(number) => number as f64,
                    Value::Number(number) => number,
                    other => return Err(Error::runtime(format!("{other:?} is no number"))),
                };
                let fits = number >= 0.0
                    && number.fract() == 0.0
                    && number < 2f64.powi(i32::try_from(8 * width).unwrap())
                    && number < 2f64.powi(53);
                if !fits {
                    return Err(Error::runtime(format!("{number} does not fit {width} bytes")));
                }
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // as shown
                bytes.extend_from_slice(&(number as u64).to_be_bytes()[8 - width..]);
            }
            ('i', value) => {
                assert_eq!(width, 8);
                let number = match value {
                    Value::Integer(number) => number as f64,
                    Value::Number(number) => number,
                    // Lua takes digits for the number that they are.
                    Value::String(text) => text.to_str()?.parse().map_err(Error::runtime)?,
                    other => return Err(Error::runtime(format!("{other:?} is no number"))),
                };
                if number.fract() != 0.0 || number.abs() >= 2f64.powi(53) {
                    return Err(Error::runtime(format!("{number} is not whole")));
                }
                #[allow(clippy::cast_possible_truncation)] // as shown
                bytes.extend_from_slice(&(number as i64).to_be_bytes());
            }
            (letter, value) => return Err(Error::runtime(format!("{letter} of {value:?}"))),
        }
    }
    lua.create_string(&bytes)
}

fn unpack(lua: &Lua, args: MultiValue) -> Result<MultiValue> {
    let mut args = args.into_iter();
    let (Some(Value::String(format)), Some(Value::String(bytes))) = (args.next(), args.next())
    else {
        return Err(Error::runtime("bad argument to unpack"));
    };
    let mut from = match args.next() {
        Some(Value::Integer(from)) => usize::try_from(from).unwrap() - 1,
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a position
        Some(Value::Number(from)) => from as usize - 1,
        _ => 0,
    };
    let bytes = bytes.as_bytes();
    let mut values = Vec::new();
    for (letter, width) in formats(&format.to_str()?) {
        let Some(part) = bytes.get(from..from + width) else {
            return Err(Error::runtime("data string too short"));
        };
        from += width;
        values.push(match letter {
            'c' => Value::String(lua.create_string(part)?),
            _ => {
                let number = part.iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
                #[allow(clippy::cast_precision_loss)] // Lua has doubles
                Value::Number(number as f64)
            }
        });
    }
    values.push(Value::Integer(i64::try_from(from).unwrap() + 1));
    Ok(MultiValue::from_vec(values))
}
