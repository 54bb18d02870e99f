-- Adds jobs, each as if it came alone: nonce, settings, bound, 1 for a bound of all, us of
-- remembering, the bound for each client or 0; then of each job how many words it has, and these. A
-- job that is to be accepted once, has a deadline or a client, says `WORDS KEY US CLIENT`: which of
-- the keys after the sixth it is remembered at, or 0; us of the deadline, or nothing; and the
-- client with a blank before it, or nothing. `WORDS+` says that one word more follows: what a job that
-- was dead was accepted once under before. Plain jobs need three keys alone; the two arguments before
-- the jobs are left out then.
-- Answers how long to wait where it is full, or -1, and the depth there was before; then of each
-- job its id, `=ID` where it is known, nothing where it is full, or `!N` where N of its client are
-- as many as may be.
local call, $JOBS, out, meta = redis.call, KEYS[1], KEYS[2], KEYS[3]
local settings, bound, all = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local was = call('HMGET', meta, $MADE)
local made, depth = was[1], $DEPTH
local first, last = #KEYS == 3 and 5 or 7, #ARGV - $TAIL

-- First what floods bring, before this script makes its functions, which take longer: a queue that
-- is there and is full refuses all, unless some may be known. Where the server refuses to count it,
-- the rest gives the reason.
if made == settings and depth >= bound and #KEYS <= 6 then
  local answer, at, refused = {ARGV[1], -1, depth}, first, 0
  while at <= last do
    local words, before = tonumber(ARGV[at]), ''
    if not words then
      words, before = string.match(ARGV[at], '^(%d+)(%+?)')
    end
    at, refused = at + words + #before + 1, refused + 1
    answer[3 + refused] = ''
  end
  if was[2] then
$UNTIL_ROOM
    answer[2] = until_room(was)
  end
  -- A number is made a text again, which takes as long as a command of its own.
  if type(redis.pcall('HINCRBY', meta, 'refused', refused == 1 and '1' or refused)) == 'number' then
    return answer
  end
end
$THEN
-- Or all have room, and are plain: one command writes them, which the server refuses as a whole.
known(was)
if made == settings and may_say() then
  local at, added = first, 0
  while at and at <= last do
    local words = tonumber(ARGV[at])
    at, added = words and at + words + 1, added + 1
  end
  local id = at and depth + added <= bound and put(redis.pcall, first + 1, first + ARGV[first])
  if type(id) == 'string' then
    local answer = {nonce, -1, depth, id}
    at = first + ARGV[first] + 1
    while at <= last do
      answer[#answer + 1] = put(call, at + 1, at + ARGV[at])
      at = at + ARGV[at] + 1
    end
    put_last()
    if may_wait(was, depth, all) then
      ring()
    end
    return answer
  end
end
$THEN
local remembered = {}
for place = 7, #KEYS do
  remembered[KEYS[place]] = call('GET', KEYS[place])
end
typed(math.min(6, #KEYS))
local lacks = refusal()
if lacks then
  return lacks
end
if made ~= settings then
  local other = other_form(call('HGET', meta, 'form')) or made and {nonce, 'settings', made}
  if other then
    return other
  end
  call('HSET', meta, 'form', FORM, 'offering', settings, 'all', ARGV[4])
  bear()
  share()
end
local answer, place = {nonce, -1, depth}, 3
local added, refused, known = 0, 0, 0
local at, per_client = first, first == 7 and tonumber(ARGV[6])
while at <= last do
  local words = tonumber(ARGV[at])
  local id, key, deadline, client, now, before
  if not words then
    words, before, key, deadline, client =
      string.match(ARGV[at], '^(%d+)(%+?) (%d+) (%d*) ?(.*)$')
    words, now = tonumber(words), clock()
    before = before == '+' and ARGV[at + words + 1]
    key = key ~= '0' and KEYS[6 + key]
    client = client ~= '' and client
    local until_us, of
    id, until_us, of = string.match(remembered[key or ''] or '', '^(%S+) (%d+) ?(%S*)$')
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
  elseif client and per_client > 0 and counted(client, all) >= per_client then
    refused = refused + 1
    id = '!' .. counted(client, all)
  else
    id = put(write, at + 1, at + words)
    added = added + 1
    if client then
      call('HSET', clients, id, 'w' .. client)
      of_client('w' .. client, 1)
    end
    if deadline and deadline ~= '' then
      call('HSET', untils, id, string.format('%.0f', now + deadline))
    end
    if key and tonumber(ARGV[5]) > 0 then
      local until_us = string.format('%.0f', now + ARGV[5])
      remembered[key] = id .. ' ' .. until_us .. ' ' .. born()
      call('SET', key, remembered[key], 'PX', $PX)
      -- The key is that of `meta`, but for its end, and `once:`.
      local once = string.sub(key, #meta + 2)
      if string.sub(once, 1, 1) ~= '@' then
        call('HSET', onces, id, id .. ' ' .. once)
      end
    end
    if before then
      call('HSET', onces, id, before)
    end
  end
  place, at = place + 1, at + words + (before and 2 or 1)
  answer[place] = id
end
if added > 0 then
  put_last()
  if may_wait(was, depth, all) then
    ring()
  end
end
count('refused', refused)
count('known', known)
if refused > 0 then
  answer[2] = until_room(was)
end
return answer
