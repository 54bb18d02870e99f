-- How a script for one question begins: its arguments are checked before anything is read.
if #KEYS ~= $KEYS or #ARGV ~= $ARGS then
  return redis.error_reply('TOLLGATE this script takes $KEYS keys and $ARGS arguments')
end
