#!lua


local call, nonce = redis.call, ARGV[1]
local out, meta, untils, tries = KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- What time it is: one time for all that a script does.
local time
local function clock()
  time = time or redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- The shelf of a queue whose jobs lie in a stream:
-- jobs     those that wait and those that are out; its group `workers` has delivered the latter
-- done     those that were done and are kept: their fields after `@id` and `@deliveries`
local jobs, done, dead, graves = KEYS[1], KEYS[6], KEYS[7], KEYS[8]
local FORM = 'stream'

-- What the queue was made with by who offered first.
local function made_with()
  return call('HGET', meta, 'offering')
end

-- How many wait; with those that are out, when `all`.
local function depth(all)
  local there = call('XLEN', jobs)
  return all and there or there - call('ZCARD', out)
end

-- Adds a job of these words of ARGV. The server makes ids that grow also when its clock goes back.
local function put(from, to)
  return call('XADD', jobs, '*', unpack(ARGV, from, to))
end

local function put_last()
end

-- What the scripts of a queue share. All keys have one hash tag. Where the jobs lie is up to the
-- shelf (`stream.lua`, `list.lua`), which names the keys; beside it there are:
-- out      of each job that is out, when it comes back, in microseconds
-- meta     the form, the settings, what there was, and the rate at which jobs leave
-- untils   of each that has a deadline, when it is too old
-- tries    of each that is out: how often it was delivered, `h` while it is held, why it failed;
--          nothing for one that is held for the first time
-- dead     the ids of dead jobs, the oldest first
-- graves   the dead jobs
--
-- A script has those of these functions that it calls: each is a paragraph.

-- The answer to who asks for the queue in another form than it was made in.
local function other_form(form)
  return form and form ~= FORM and {nonce, 'form', form} or nil
end

-- By which call the queue was made. A remembered id lies beside it and names that call, so that it
-- is not known to a queue of the same name that is made after this one was removed.
local function born()
  return call('HGET', meta, 'born') or ''
end

local function bear()
  call('HSETNX', meta, 'born', nonce)
end

-- The window of ten seconds at work, how many left in it and in the one before; from what `meta`
-- has of them.
local function drain(now, at, left, before)
  at, left, before = tonumber(at or 0), tonumber(left or 0), tonumber(before or 0)
  local window = math.floor(now / 10000000)
  if window > at then
    before = window == at + 1 and left or 0
    at, left = window, 0
  end
  return at, left, before
end

local function count(what, by)
  if by > 0 then
    call('HINCRBY', meta, what, by)
  end
end

-- Says to who waits that there may be something to take. Who may not say it offers all the same.
local function ring()
  redis.pcall('PUBLISH', string.sub(meta, 1, -5) .. 'wake', '')
end

-- Adds jobs, each as if it came alone: nonce, settings, bound, 1 for a bound of all, us of
-- remembering; then of each job how many words it has, and these. A job that is to be accepted
-- once, or has a deadline, says `WORDS KEY US`: which of the keys after the fourth it is remembered
-- at, or 0; us of the deadline, or nothing.
-- Answers how long to wait where it is full, or -1, and the depth there was before; then of each
-- job its id, `=ID` where it is known, or nothing where it is full.
local settings, bound, all = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local made = made_with()
if made ~= settings then
  local other = other_form(call('HGET', meta, 'form')) or made and {nonce, 'settings', made}
  if other then
    return other
  end
  call('HSET', meta, 'form', FORM, 'offering', settings, 'all', ARGV[4])
  bear()
end
local depth = depth(all)
local answer, place = {nonce, -1, depth}, 3
local added, refused, known = 0, 0, 0
local at, last = 6, #ARGV - 0
while at <= last do
  local words = tonumber(ARGV[at])
  local id, key, deadline, now
  if not words then
    words, key, deadline = string.match(ARGV[at], '^(%d+) (%d+) (%d*)$')
    words, now = tonumber(words), clock()
    key = key ~= '0' and KEYS[4 + key]
    local until_us, of
    id, until_us, of = string.match(key and call('GET', key) or '', '^(%S+) (%d+) ?(%S*)$')
    if id and (tonumber(until_us) <= now or of ~= born()) then
      id = nil
    end
  end
  if id then
    known = known + 1
    id = '=' .. id
  elseif depth + added >= bound then
    refused = refused + 1
    id = ''
  else
    id = put(at + 1, at + words)
    added = added + 1
    if deadline and deadline ~= '' then
      call('HSET', untils, id, string.format('%.0f', now + deadline))
    end
    if key and tonumber(ARGV[5]) > 0 then
      local until_us = string.format('%.0f', now + ARGV[5])
      call('SET', key, id .. ' ' .. until_us .. ' ' .. born(), 'PX', math.ceil(tonumber(ARGV[5]) / 1000))
    end
  end
  place, at = place + 1, at + words + 1
  answer[place] = id
end
if added > 0 then
  put_last()
  ring()
end
if refused + known > 0 then
  count('refused', refused)
  count('known', known)
  if refused > 0 then
    local now = clock()
    local is = call('HMGET', meta, 'window', 'left', 'before')
    local _, left, before = drain(now, is[1], is[2], is[3])
    if left + before > 0 then
      answer[2] = math.ceil((10000000 + now % 10000000) / (left + before))
    end
  end
end
return answer
