-- Sets an item's counter to the ledger's figure, if nobody changed it since it was looked at.
-- KEYS[1]  the counter, a hash
-- ARGV[1]  the epoch that was seen
-- ARGV[2]  the units that were seen
-- ARGV[3]  units left by the ledger
-- Answers 1 when it was set, 0 when it had changed.
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available')
if seen[1] ~= ARGV[1] or seen[2] ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], 'available', ARGV[3])
return 1
