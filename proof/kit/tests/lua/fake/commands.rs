//! The commands that the scripts call.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::{Error, Lua, MultiValue, Result, Value};

use smallvec::SmallVec;

use super::held::{Data, Stored};
use super::sorted;

/// Gives the scripts `redis.call`, `redis.pcall` and `redis.error_reply`.
pub(super) fn install(lua: &Lua, data: &Rc<RefCell<Data>>) -> Result<()> {
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
    let shared = Rc::clone(data);
    redis.set(
        "acl_check_cmd",
        lua.create_function(move |_, args: MultiValue| {
            let words = words(args)?;
            // Redis 7.0 reads a key that is not there.
            assert!(words.len() > 1, "a command without a key");
            let data = shared.borrow();
            Ok(data.denied.as_deref().is_none_or(|name| !words[0].eq_ignore_ascii_case(name)))
        })?,
    )?;
    lua.globals().set("redis", redis)
}

/// An argument of a command; most are short, and scripts call millions of commands.
pub(super) type Word = SmallVec<[u8; 64]>;

type Words = SmallVec<[Word; 6]>;

/// The arguments of a command, as Redis takes them.
fn words(args: MultiValue) -> Result<Words> {
    args.into_iter()
        .map(|value| match value {
            Value::String(text) => Ok(Word::from_slice(&text.as_bytes())),
            Value::Integer(number) => Ok(Word::from_slice(number.to_string().as_bytes())),
            Value::Number(number) => Ok(Word::from_slice(number.to_string().as_bytes())),
            other => Err(Error::runtime(format!("Lua redis lib command arguments: {other:?}"))),
        })
        .collect()
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

pub(super) type Answer = core::result::Result<Value, String>;

#[expect(clippy::too_many_lines, reason = "an arm for each command")]
fn command(data: &mut Data, lua: &Lua, words: &[Word]) -> Result<Answer> {
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
    if name.starts_with('Z') {
        return sorted::command(data, lua, words);
    }
    if name.starts_with('H') {
        return hashed(data, lua, words);
    }
    let key = &words[1];
    let held = data.keys.get(key);
    // The entry that Redis means by an index, which may count from the end.
    let place = |length: usize, index: i64| -> Option<usize> {
        let length = i64::try_from(length).unwrap();
        let index = if index < 0 { length + index } else { index };
        usize::try_from(index).ok().filter(|index| *index < usize::try_from(length).unwrap())
    };
    match (name, held) {
        ("GET", None) => Ok(Ok(Value::Boolean(false))),
        ("GET", Some(Stored::Text(bytes))) => Ok(Ok(text(bytes)?)),
        ("SET", _) => {
            assert_eq!(words.get(3).map(Word::as_slice), Some(b"PX".as_slice()), "without a TTL");
            let lifetime = u64::try_from(integer(4)).unwrap();
            assert!(lifetime > 0);
            data.keys.put(key, Stored::Text(words[2].to_vec()));
            data.live(key, lifetime);
            ok()
        }
        ("DEL", _) => {
            let found = data.keys.remove(key);
            data.deleted |= found;
            Ok(Ok(Value::Integer(found.into())))
        }
        ("TYPE", held) => {
            let table = lua.create_table()?;
            let kind = match held {
                None => "none",
                Some(Stored::Text(_)) => "string",
                Some(Stored::List(_)) => "list",
                Some(Stored::Sorted(_)) => "zset",
                Some(Stored::Hash(_)) => "hash",
            };
            table.set("ok", kind)?;
            Ok(Ok(Value::Table(table)))
        }
        ("RENAME", _) => {
            data.keys.rename(key, &words[2]);
            ok()
        }
        ("EXISTS", held) => Ok(Ok(Value::Integer(held.is_some().into()))),
        ("PTTL", _) => Ok(Ok(Value::Integer(data.pttl(key)))),
        ("PEXPIRE", None) if data.evicted.iter().any(|gone| **gone == **key) => {
            Ok(Ok(Value::Integer(0)))
        }
        ("PEXPIRE", held) => {
            assert!(held.is_some(), "PEXPIRE of nothing");
            assert!(integer(2) > 0);
            data.live(key, integer(2).unsigned_abs());
            Ok(Ok(Value::Integer(1)))
        }
        ("LRANGE", None) => Ok(Ok(Value::Table(lua.create_table()?))),
        ("LRANGE", Some(Stored::List(list))) => {
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
        ("LINDEX", Some(Stored::List(list))) => Ok(Ok(match place(list.len(), integer(2)) {
            Some(index) => text(&list[index])?,
            None => Value::Boolean(false),
        })),
        ("RPUSH", None) => {
            data.keys.put(key, Stored::List(words[2..].iter().map(|row| row.to_vec()).collect()));
            Ok(Ok(Value::Integer(1)))
        }
        ("RPUSH" | "LTRIM" | "LSET", Some(Stored::List(_))) => {
            let Some(Stored::List(list)) = data.keys.get_mut(key) else { unreachable!("a list") };
            match name {
                "RPUSH" => {
                    list.extend(words[2..].iter().map(|row| row.to_vec()));
                    return Ok(Ok(Value::Integer(1)));
                }
                "LTRIM" => {
                    assert_eq!(integer(3), -1);
                    list.drain(..usize::try_from(integer(2)).unwrap());
                }
                _ => {
                    let index = place(list.len(), integer(2)).expect("an index within the list");
                    list[index] = words[3].to_vec();
                }
            }
            ok()
        }
        ("GET" | "LRANGE" | "LINDEX" | "RPUSH" | "LTRIM" | "LSET", _) => {
            Ok(Err(WRONG_TYPE.to_owned()))
        }
        _ => panic!("a script calls {name}"),
    }
}

/// The commands of hashes that the scripts call.
fn hashed(data: &mut Data, lua: &Lua, words: &[Word]) -> Result<Answer> {
    let key = &words[1];
    let mut fields = match data.keys.get(key) {
        None => BTreeMap::new(),
        Some(Stored::Hash(fields)) => fields.clone(),
        Some(_) => return Ok(Err(WRONG_TYPE.to_owned())),
    };
    let value = |field: &Word| -> Result<Value> {
        Ok(match fields.get(field.as_slice()) {
            Some(value) => Value::String(lua.create_string(value)?),
            None => Value::Boolean(false),
        })
    };
    match std::str::from_utf8(&words[0]).unwrap() {
        "HGET" => Ok(Ok(value(&words[2])?)),
        "HMGET" => {
            let table = lua.create_table()?;
            for (i, field) in words[2..].iter().enumerate() {
                table.raw_set(i + 1, value(field)?)?;
            }
            Ok(Ok(Value::Table(table)))
        }
        "HSET" => {
            for pair in words[2..].chunks_exact(2) {
                fields.insert(pair[0].to_vec(), pair[1].to_vec());
            }
            data.keys.put(key, Stored::Hash(fields));
            Ok(Ok(Value::Integer(1)))
        }
        name => panic!("a script calls {name}"),
    }
}
