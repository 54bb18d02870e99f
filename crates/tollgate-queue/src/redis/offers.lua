-- Offers that came together, each of one plain job of as many words: three keys of each, then the
-- arguments of each. Answers each as `offer.lua` would, in their order.
local count = #KEYS / 3
local each = #ARGV / count
if count % 1 ~= 0 or each % 1 ~= 0 then
  return redis.error_reply('TOLLGATE this script takes 3 keys an offer, and as many arguments of each')
end
local answers = {}
-- Answers those for the queue of this one, under its settings, by one look at the queue. Those that
-- it leaves out go alone.
local function together(from)
  local first = each * from
  local settings, bound, all = ARGV[first + 2], tonumber(ARGV[first + 3]), ARGV[first + 4] == '1'
  turn_to(3 * from)
  local was = call('HMGET', meta, $MADE)
  if was[1] ~= settings then
    return
  end
  known(was)
  local before = depth(all)
  local there, refused = before, {}
  for i = from, count - 1 do
    local at = each * i
    if not answers[i + 1] and KEYS[3 * i + 3] == meta and ARGV[at + 2] == settings then
      if there >= bound then
        refused[#refused + 1] = i
      else
        local id = (there > before or may_say()) and put(redis.pcall, at + 6, at + each - $TAIL)
        if type(id) ~= 'string' then
          break
        end
        answers[i + 1] = {ARGV[at + 1], -1, there, id}
        there = there + 1
      end
    end
  end
  if there > before then
    put_last()
    if may_wait(was, before, all) then
      ring()
    end
  end
  if #refused > 0 then
    local after = until_room(was)
    call('HINCRBY', meta, 'refused', #refused)
    for _, i in ipairs(refused) do
      answers[i + 1] = {ARGV[each * i + 1], after, there, ''}
    end
  end
end
$OFFER
for i = 0, count - 1 do
  if not answers[i + 1] then
    pcall(together, i)
  end
  if not answers[i + 1] then
    local keys = {unpack(KEYS, 3 * i + 1, 3 * i + 3)}
    local ran, answer = pcall(offer, keys, {unpack(ARGV, each * i + 1, each * i + each)})
    answers[i + 1] = ran and answer or failure(answer)
  end
end
return answers
