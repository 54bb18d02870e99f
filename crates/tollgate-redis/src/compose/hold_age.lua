-- How long before its end a hold of the sorted set was placed. Beside one that was renewed it lies
-- in a separate key; that of a named one ends with its fencing number, since another hold of the
-- name may be open meanwhile. Of the others with a name it is as long as they were asked for.
-- Answers also that key and that number. Nothing where only the id of the hold may say it.
local function span_of(key, member)
  local id = string.gsub(string.sub(member, 1, 16), '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end)
  local asked, fence = nil, ''
  if string.find(member, '^%u') then
    id = '4e' .. string.sub(id, 3)
    asked, fence = string.match(redis.call('GET', key .. '@' .. id) or '', '^o%u (%d+) (%d+) ')
    if not asked then
      return nil
    end
  end
  local own = key .. '@' .. id .. '+'
  local span, of = string.match(redis.call('GET', own) or '', '^(%d+) ?(%d*)$')
  return tonumber(of == fence and span or asked), own, fence
end
