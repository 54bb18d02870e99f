-- Looks: nonce, 'settings'; 'stats'; 'dead' and how many; 'take' and the id of a dead job.
if ARGV[2] == 'settings' then
  local said = redis.call('HMGET', meta, 'offering', 'working')
  return {nonce, said[1] or '', said[2] or ''}
end
if ARGV[2] == 'stats' then
  local is_out = redis.call('ZCARD', out)
  local waiting = redis.call('XLEN', jobs) - is_out
  local oldest = ''
  if waiting > 0 then
    local from = '(' .. (redis.call('HGET', meta, 'last') or '0-0')
    local first = redis.call('XRANGE', jobs, from, '+', 'COUNT', 1)[1]
    if first then
      oldest = string.format('%.0f', now - 1000 * tonumber(string.match(first[1], '^%d+')))
    end
  end
  local was = redis.call('HMGET', meta, 'accepted', 'refused', 'known', 'delivered', 'redelivered',
    'done', 'too_old', 'died')
  local answer = {nonce, waiting, is_out, redis.call('LLEN', dead), oldest}
  for place = 1, 8 do
    answer[#answer + 1] = tonumber(was[place] or 0)
  end
  return answer
end
local ids = {ARGV[3]}
if ARGV[2] == 'dead' then
  if tonumber(ARGV[3]) == 0 then
    return {nonce}
  end
  ids = redis.call('LRANGE', dead, 0, tonumber(ARGV[3]) - 1)
end
local answer = {nonce}
for _, id in ipairs(ids) do
  local grave = redis.call('HGET', graves, id)
  if grave then
    local number, why, fields = unpack(cmsgpack.unpack(grave))
    answer[#answer + 1] = {id, number, why, fields}
    if ARGV[2] == 'take' then
      redis.call('LREM', dead, 1, id)
      redis.call('HDEL', graves, id)
    end
  end
end
return answer
