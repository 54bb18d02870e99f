-- Looks: nonce, 'settings'; 'stats'; 'waiting', 'out', 'done' or 'dead' and how many; 'take' and the
-- id of a dead job; 'grave' and the same, which stays; 'forget' and the same, and which job was accepted
-- once under the last of the keys.
local was = call('HMGET', meta, 'form', 'refused', 'known', 'delivered', 'redelivered', 'done',
  'too_old', 'died', 'paused')
local other = other_form(was[1])
if other then
  return other
end
if ARGV[2] == 'settings' then
  local said = call('HMGET', meta, 'offering', 'working')
  return {nonce, said[1] or '', said[2] or ''}
end
if ARGV[2] == 'stats' then
  local waiting, oldest = depth(false), ''
  local from = waiting > 0 and first()
  if from then
    oldest = string.format('%.0f', clock() - 1000 * tonumber(string.match(from, '^%d+')))
  end
  local is_out, is_dead = call('ZCARD', out), call('LLEN', dead)
  local answer = {nonce, waiting, is_out, is_dead, oldest, accepted()}
  for place = 2, 8 do
    answer[#answer + 1] = tonumber(was[place] or 0)
  end
  answer[#answer + 1] = was[9] and 1 or 0
  return answer
end
if ARGV[2] == 'waiting' or ARGV[2] == 'out' then
  local many, answer = tonumber(ARGV[3]), {nonce, string.format('%.0f', clock())}
  if many > 0 and ARGV[2] == 'waiting' then
    show(many, answer)
    for place = 3, #answer do
      answer[place][3] = whose(answer[place][1])
    end
  elseif many > 0 then
    for _, found in ipairs(by_due(many, '+inf')) do
      local number, is_held, why = try(found[1])
      local fields, due = body(found[1]), string.format('%.0f', found[2])
      if fields then
        local client = whose(found[1])
        answer[#answer + 1] = {found[1], number, is_held and 1 or 0, due, why, fields, client}
      end
    end
  end
  return answer
end
if ARGV[2] == 'done' then
  return kept(tonumber(ARGV[3]))
end
local ids = {ARGV[3]}
if ARGV[2] == 'dead' then
  if tonumber(ARGV[3]) == 0 then
    return {nonce}
  end
  ids = call('LRANGE', dead, 0, tonumber(ARGV[3]) - 1)
end
local answer = {nonce}
for _, id in ipairs(ids) do
  local grave = call('HGET', graves, id)
  if grave then
    local number, why, fields, client, once = unpack(cmsgpack.unpack(grave))
    answer[#answer + 1] = {id, number, why, fields, client or '', once or ''}
    if ARGV[2] == 'forget' then
      -- Another may have been accepted under it since.
      local of = string.match(call('GET', KEYS[#KEYS]) or '', '^%S+')
      if of == ARGV[4] then
        call('DEL', KEYS[#KEYS])
      end
    end
    if ARGV[2] == 'take' or ARGV[2] == 'forget' then
      call('LREM', dead, 1, id)
      call('HDEL', graves, id)
    end
  end
end
return answer
