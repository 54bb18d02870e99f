-- Whether all of these commands may be called: the server has them, and the user has the right to
-- each. Always with a key: Redis 7.0 looks for it where SET has none, and crashes.
local function are_allowed(...)
  for i = 1, select('#', ...) do
    if not redis.acl_check_cmd(select(i, ...), KEYS[1], KEYS[1]) then
      return false
    end
  end
  return true
end
local function may(...)
  local are_there, is_so = pcall(are_allowed, ...)
  return are_there and is_so
end

-- An error that names what may not be called, of all that this script calls; nothing where all may
-- be. It is asked before anything is written: a refusal half way would leave a part.
local function refusal()
  local are_there, may_all = pcall(function()
    local may, key = redis.acl_check_cmd, KEYS[1]
    return $MAY
  end)
  if are_there and may_all then
    return nil
  end
  local lacks = ''
  for right in string.gmatch('$RIGHTS', '%S+') do
    local name, sub = string.match(right, '^([^|]+)|?(.*)$')
    local word = sub ~= '' and sub or KEYS[1]
    local is_there, is_allowed = pcall(redis.acl_check_cmd, name, word, KEYS[1])
    if not (is_there and is_allowed) then
      lacks = lacks .. ' ' .. right
    end
  end
  return redis.error_reply('NOPERM TOLLGATE' .. lacks)
end
