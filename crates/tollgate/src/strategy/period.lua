-- a * b / c rounded down, and the remainder: exact, where a product would not be. For 0 <= a <= c <
-- 2^45 and 0 <= b < 2^49.
local function mul_div(a, b, c)
  local product = a * b
  if product < 9007199254740992 then
    local rest = product % c
    return (product - rest) / c, rest
  end
  -- Seven bits of b at a time, from the top: no sum reaches 2^53.
  local quotient, rest, weight = 0, 0, 4398046511104
  repeat
    local low = b % weight
    local sum = rest * 128 + a * ((b - low) / weight)
    rest = sum % c
    quotient = quotient * 128 + (sum - rest) / c
    b, weight = low, weight / 128
  until weight < 1
  return quotient, rest
end
