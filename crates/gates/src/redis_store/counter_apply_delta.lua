-- Applies to an item's counter what the ledger did by itself, unless the counter was loaded from a
-- ledger that knew of it already.
-- KEYS[1]  the counter, a hash: epoch, available, version, b:<buyer> -> units
-- ARGV[1]  the version of the item's stock that the change made
-- ARGV[2]  units that came back to the stock; negative when they were taken
-- ARGV[3]  and all further ones: a buyer, and units that came back from it
-- Answers 1 when the change was added, 0 when the counter is not loaded, or has the change already.
local version = redis.call('HGET', KEYS[1], 'version')
if not version or tonumber(version) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'available', ARGV[2])
for i = 3, #ARGV, 2 do
  -- Orders that came by another gate are not counted here.
  local bought = redis.call('HINCRBY', KEYS[1], 'b:' .. ARGV[i], -ARGV[i + 1])
  if bought <= 0 then
    redis.call('HDEL', KEYS[1], 'b:' .. ARGV[i])
  end
end
return 1
