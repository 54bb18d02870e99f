-- What was raised, as the error of a reply.
local function failure(is)
  if type(is) == 'table' then
    return is
  end
  -- What a command answered begins with its kind, and what Lua has to say does not.
  local is_of_command = string.find(tostring(is), '^%u+ ')
  return redis.error_reply((is_of_command and '' or 'ERR ') .. tostring(is))
end
