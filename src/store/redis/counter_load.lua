-- Loads an item's counter from the ledger, unless a later load was here first.
-- KEYS[1]  the counter, a hash
-- ARGV[1]  the epoch of this load
-- ARGV[2]  units left by the ledger
-- Answers 1 when it was loaded, 0 when a later or the same load stands there.
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'available', ARGV[2])
return 1
