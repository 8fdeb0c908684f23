-- Loads an item's counter from the ledger, unless a later load was here first.
-- KEYS[1]  the counter, a hash
-- KEYS[2]  what is queued of the item, a hash; missing for a part of a split counter
-- ARGV[1]  the epoch of this load
-- ARGV[2]  units left by the ledger
-- ARGV[3]  units that were queued before the ledger was read
-- Answers 1 when it was loaded, 0 when a later or the same load stands there. Queued units are not
-- in the ledger yet; those that got there in between are subtracted twice rather than not at all.
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) >= tonumber(ARGV[1]) then
  return 0
end
local queued = tonumber(ARGV[3])
if KEYS[2] then
  queued = math.max(queued, tonumber(redis.call('HGET', KEYS[2], 'units') or '0'))
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'available', ARGV[2] - queued)
return 1
