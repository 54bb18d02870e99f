-- The twin of concurrency/mod.rs. It has no state: the driver takes the slots of the open holds
-- from the remaining ones.

local function concurrency_judge(slots)
  return slots, 0, 0
end

-- cold

local function concurrency_numbers(slots, hold)
  return slots, hold
end
