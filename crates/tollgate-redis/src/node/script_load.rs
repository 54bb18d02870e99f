//! The command that loads a script, and the question what the user may not call of it.

use redis::{Cmd, Value};

use super::reply_errors::refused;
use crate::fault::{ChargeState, Fault};
use crate::script::Script;

/// Answers which of the commands in its arguments may not be called on its key, in a text. Asking
/// runs none of them. Always with a key: Redis 7.0 looks for it where SET has none, and crashes.
const MISSING: &str = "\
local lacks = {}
for _, full in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(full, '[^|]+') do
    words[#words + 1] = word
  end
  words[#words + 1] = KEYS[1]
  local is_there, is_allowed = pcall(redis.acl_check_cmd, unpack(words))
  if not (is_there and is_allowed) then
    lacks[#lacks + 1] = full
  end
end
return table.concat(lacks, ' ')";

/// The command that loads a script.
pub(super) fn command(script: &Script) -> Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script.text());
    command
}

/// Whether the reply to [`command`] confirms the script.
pub(super) fn loaded(script: &Script, answer: &Value) -> Result<(), Fault> {
    match answer {
        Value::BulkString(sha) if sha == script.sha().as_bytes() => Ok(()),
        Value::ServerError(error) => Err(refused(error)),
        _ => Err(Fault::Garbled { charge: ChargeState::NotCharged }),
    }
}

/// The command that asks what the user may not call of a script on a key.
pub(super) fn ask_missing(script: &Script, key: &[u8]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(MISSING).arg(1).arg(key).arg(script.needed());
    command
}

/// The commands in the reply to [`ask_missing`]; empty where there are none, or the user may not
/// ask.
pub(super) fn missing(answer: Value) -> String {
    match answer {
        Value::BulkString(names) => String::from_utf8(names).unwrap_or_default(),
        _ => String::new(),
    }
}
