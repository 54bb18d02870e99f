//! The commands of sorted sets that the scripts call.

use std::collections::BTreeSet;

use mlua::{Lua, Result, Value};

use super::commands::{Answer, Word};
use super::held::{Data, Stored};

pub(super) fn command(data: &mut Data, lua: &Lua, words: &[Word]) -> Result<Answer> {
    let text = |i: usize| std::str::from_utf8(&words[i]).unwrap();
    let integer = |i: usize| -> i64 { text(i).parse().unwrap() };
    let key = &words[1];
    let mut members = match data.keys.get(key) {
        None => BTreeSet::new(),
        Some(Stored::Sorted(members)) => members.clone(),
        Some(_) => panic!("{} of another kind", text(0)),
    };
    let find = |members: &BTreeSet<(u64, Vec<u8>)>, wanted: &[u8]| {
        members.iter().find(|(_, member)| member == wanted).cloned()
    };
    let with_scores = words.len() > 4 && text(4) == "WITHSCORES";
    let rows = |each: &mut dyn Iterator<Item = &(u64, Vec<u8>)>| -> Result<Answer> {
        let table = lua.create_table()?;
        for (score, member) in each {
            table.raw_push(lua.create_string(member)?)?;
            if with_scores {
                table.raw_push(score.to_string())?;
            }
        }
        Ok(Ok(Value::Table(table)))
    };
    let answer = match text(0) {
        "ZSCORE" => {
            return Ok(Ok(match find(&members, &words[2]) {
                Some((score, _)) => Value::String(lua.create_string(score.to_string())?),
                None => Value::Boolean(false),
            }));
        }
        "ZCARD" => i64::try_from(members.len()).unwrap(),
        "ZRANGE" => {
            let length = i64::try_from(members.len()).unwrap();
            let index = |at: i64| if at < 0 { length + at } else { at };
            let (first, last) = (index(integer(2)).max(0), index(integer(3)));
            let count = usize::try_from((last - first + 1).max(0)).unwrap();
            let first = usize::try_from(first).unwrap();
            return rows(&mut members.iter().skip(first).take(count));
        }
        "ZRANGEBYSCORE" => {
            let bound = |place, none| match text(place) {
                "-inf" | "+inf" => none,
                number => number.parse().unwrap(),
            };
            let range: core::ops::RangeInclusive<u64> = bound(2, 0)..=bound(3, u64::MAX);
            return rows(&mut members.iter().filter(|(score, _)| range.contains(score)));
        }
        "ZADD" => {
            let old = find(&members, &words[3]);
            let is_new = old.is_none();
            if let Some(old) = &old {
                members.remove(old);
            }
            members.insert((text(2).parse().unwrap(), words[3].to_vec()));
            i64::from(is_new)
        }
        "ZREM" => match find(&members, &words[2]) {
            Some(old) => i64::from(members.remove(&old)),
            None => 0,
        },
        "ZREMRANGEBYSCORE" => {
            assert_eq!(text(2), "-inf");
            let (most, before): (u64, usize) = (text(3).parse().unwrap(), members.len());
            members.retain(|(score, _)| *score > most);
            i64::try_from(before - members.len()).unwrap()
        }
        name => panic!("a script calls {name}"),
    };
    if members.is_empty() {
        data.keys.remove(key);
    } else {
        data.keys.put(key, Stored::Sorted(members));
    }
    Ok(Ok(Value::Integer(answer)))
}
