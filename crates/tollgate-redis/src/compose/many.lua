-- How a script for several questions ends: they are answered in turn, each as if it came alone.
local count = #KEYS / $KEYS
if count % 1 ~= 0 or #ARGV ~= $ARGS * count then
  return redis.error_reply('TOLLGATE this script takes $KEYS keys and $ARGS arguments a question')
end
local replies = {}
for i = 0, count - 1 do
  local ran, reply = pcall(check, $EACH)
  replies[i + 1] = ran and reply or failure(reply)
end
return replies
