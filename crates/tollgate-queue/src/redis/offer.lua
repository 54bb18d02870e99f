-- Adds jobs, each as if it came alone: nonce, settings, bound, 1 for a bound of all, us of
-- remembering, the bound for each client or 0; then of each job how many words it has, and these. A
-- job that is to be accepted once, has a deadline or a client, says `WORDS KEY US CLIENT`: which of
-- the keys after the sixth it is remembered at, or 0; us of the deadline, or nothing; and the
-- client with a blank before it, or nothing. `WORDS+` says that one word more follows: what a job that
-- was dead was accepted once under before.
-- Answers how long to wait where it is full, or -1, and the depth there was before; then of each
-- job its id, `=ID` where it is known, nothing where it is full, or `!N` where N of its client are
-- as many as may be.
local settings, bound, all = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
-- Whether the whole call is written by one command, which the server refuses as a whole: jobs
-- without extras, of which all or none fit into a queue that exists.
local function is_one_write(is_made, depth)
  local at, jobs, last = 7, 0, #ARGV - $TAIL
  while is_made and at <= last do
    local words = tonumber(ARGV[at])
    is_made = words
    at, jobs = at + (words or 0) + 1, jobs + 1
  end
  return is_made and (depth >= bound or depth + jobs <= bound and puts_alone())
end
local remembered = {}
for place = 7, #KEYS do
  remembered[KEYS[place]] = call('GET', KEYS[place])
end
local made = made_with()
local depth = depth(all)
if not is_one_write(made == settings, depth) then
  typed(6)
  local lacks = refusal()
  if lacks then
    return lacks
  end
end
if made ~= settings then
  local other = other_form(call('HGET', meta, 'form')) or made and {nonce, 'settings', made}
  if other then
    return other
  end
  call('HSET', meta, 'form', FORM, 'offering', settings, 'all', ARGV[4])
  bear()
end
local answer, place = {nonce, -1, depth}, 3
local added, refused, known = 0, 0, 0
local at, last, per_client = 7, #ARGV - $TAIL, tonumber(ARGV[6])
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
    id = put(at + 1, at + words)
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
