-- How a script for several questions ends: they are answered in turn, each as if it came alone.
local count = #KEYS / $KEYS
if count % 1 ~= 0 or #ARGV ~= $ARGS * count then
  return redis.error_reply('TOLLGATE this script takes $KEYS keys and $ARGS arguments a question')
end
local replies = {}
for i = 0, count - 1 do
  local ran, reply = pcall(check, $EACH)
  if not ran and type(reply) ~= 'table' then
    -- What a command answered begins with its kind, and what Lua has to say does not.
    local is_of_command = string.find(tostring(reply), '^%u+ ')
    reply = redis.error_reply((is_of_command and '' or 'ERR ') .. tostring(reply))
  end
  replies[i + 1] = reply
end
return replies
