-- How long a state may lie, in milliseconds: a second longer than it counts.
local function lifetime(reset)
  reset = reset + 1000999
  return $LIFETIME
end

