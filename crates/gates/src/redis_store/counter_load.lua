-- Writes an item's units from the ledger, if the counter is still marked as being loaded so.
-- KEYS[1]  the counter, a hash
-- KEYS[2]  what is queued of the item, a hash; missing for a part of a split counter
-- ARGV[1]  the epoch of this load
-- ARGV[2]  units left by the ledger
-- ARGV[3]  units that were queued before the ledger was read
-- ARGV[4]  the version of the item's stock that the ledger was read at
-- Answers 1 when it was loaded, 0 when the mark is gone or another one. Queued units are not in the
-- ledger yet; those that got there in between are subtracted twice rather than not at all.
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available')
if seen[1] ~= ARGV[1] or seen[2] then
  return 0
end
local queued = tonumber(ARGV[3])
if KEYS[2] then
  queued = math.max(queued, tonumber(redis.call('HGET', KEYS[2], 'units') or '0'))
end
redis.call('HSET', KEYS[1], 'available', ARGV[2] - queued, 'version', ARGV[4])
return 1
