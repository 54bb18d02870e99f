-- A count's records of requests, in two hashes: the younger ids at the key, the older ones at the
-- key with `-`. A field is an id of 16 bytes; its value is the question (8 bytes), when it expires,
-- the answer and, once that was repeated, a byte for how often, which the first versions do not
-- read. The field without a name says how many are in each hash, when the last of each expires, and
-- until when the key lies. When the younger hash is full, the older one goes.

-- Remembers an answer until `stop`. Answers how many ids go before their time, and for how long the
-- key has to lie from now on, if that changes. Or an error, and nothing is changed: `after` names the
-- commands that write what was answered, where nobody has looked whether they may be called. HSET is
-- the first to write, so its own refusal changes nothing. `more` is nil, or of an id that was repeated
-- too often, how many ids the younger hash has more then.
local function remember(key, asked, about, now, stop, answer, after, more)
  local young, old, young_stop, old_stop, lies = 0, 0, 0, 0, 0
  if about then
    young, old, young_stop, old_stop, lies = struct.unpack('>I4I4I7I7I7', about)
  end
  local forgotten, longer = 0, stop > lies
  local turns = not more and (young >= $HALF or young >= 64 and old_stop <= now)
  if after then
    local lacks = ''
    -- The usual id needs no more than what follows it.
    after = after .. ((longer or turns) and ' PEXPIRE' or '') .. (turns and ' RENAME HSET' or '')
    for name in string.gmatch(after, '%S+') do
      local is_there, is_allowed = pcall(redis.acl_check_cmd, name, key, key)
      if not (is_there and is_allowed) then
        lacks = lacks .. ' ' .. string.lower(name)
      end
    end
    if lacks ~= '' then
      return nil, nil, redis.error_reply('NOPERM TOLLGATE' .. lacks)
    end
  end
  if turns then
    if old_stop > now then
      forgotten = old
    end
    redis.call('RENAME', key, key .. '-')
    young, old, young_stop, old_stop, lies = 0, young, 0, young_stop, 0
  end
  longer = stop > lies
  young_stop = math.max(young_stop, stop)
  if longer then
    -- For twice as long, so that not each id has to say it again.
    lies = math.max(2 * stop - now, old_stop)
  end
  redis.call('HSET', key, string.sub(asked, 1, 16),
    string.sub(asked, 17) .. struct.pack('>I7', stop) .. cmsgpack.pack(answer)
      .. (more and string.char($REPEATS) or ''), '',
    struct.pack('>I4I4I7I7I7', young + (more or 1), old, young_stop, old_stop, lies))
  return forgotten, longer and lies - now
end

-- The record under an id: the answer, which is then counted as repeated; -1 if it is that of
-- another question; nil for none. Then what the key says of itself. An answer that was repeated too
-- often is not given: it is remembered until `stop` at least, and the third is then true, the
-- fourth for how long the key has to lie, as of `remember`. The first may be an error, too.
local function recall(key, asked, now, stop)
  local id, place = string.sub(asked, 1, 16), key
  local found = redis.call('HMGET', key, id, '')
  local value, about = found[1], found[2]
  if not value and about and struct.unpack('>I7', about, 16) > now then
    place = key .. '-'
    value = redis.call('HGET', place, id)
  end
  local ends = value and struct.unpack('>I7', value, 9)
  if not value or ends <= now then
    return nil, about
  end
  if string.sub(value, 1, 8) ~= string.sub(asked, 17) then
    return -1, about
  end
  local answer, repeats = cmsgpack.unpack(string.sub(value, 16))
  if not repeats or repeats < $REPEATS then
    redis.call('HSET', place, id,
      string.sub(value, 1, repeats and -2 or -1) .. string.char((repeats or 0) + 1))
    return answer, about
  end
  local _, lies, lacks = remember(key, asked, about, now, math.max(ends, stop), answer, '',
    place == key and 0 or 1)
  return lacks, about, true, lies
end
