-- These are done: nonce, ids.
local found = {}
local scores = redis.call('ZMSCORE', out, unpack(ARGV, 2, #ARGV - $TAIL))
for place, score in ipairs(scores) do
  local id = ARGV[place + 1]
  if score and not found[id] then
    found[#found + 1], found[id] = id, true
  end
end
if #found > 0 then
  remove({unpack(found)})
  count('done', #found)
end
return {nonce, #found}
