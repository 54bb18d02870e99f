-- Whether a command, or one of its subcommands, may be called: the server has it, and the user has the
-- right to it. Always with a key: Redis 7.0 looks for it where SET has none, and crashes.
local function may(name, sub)
  local is_there, is_allowed = pcall(redis.acl_check_cmd, name, sub or KEYS[1], KEYS[1])
  return is_there and is_allowed
end

-- An error that names what may not be called, of all that this script calls; nothing where all may
-- be. It is asked before anything is written: a refusal half way would leave a part.
local function refusal()
  local lacks = ''
  for name, sub in string.gmatch('$RIGHTS', '([^ |]+)|?(%S*)') do
    if not may(name, sub ~= '' and sub) then
      lacks = lacks .. ' ' .. name .. (sub ~= '' and '|' .. sub or '')
    end
  end
  return lacks ~= '' and redis.error_reply('NOPERM TOLLGATE' .. lacks)
end
