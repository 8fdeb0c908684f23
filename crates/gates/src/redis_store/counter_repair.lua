-- Sets an item's counter to the figure by ledger and queue, if neither has changed since it
-- was looked at.
-- KEYS[1]  the counter, a hash
-- KEYS[2]  what is queued of the item, a hash; missing for a part of a split counter
-- ARGV[1]  the epoch that was seen
-- ARGV[2]  the units that were seen
-- ARGV[3]  the queued units that were seen
-- ARGV[4]  units left by the ledger
-- ARGV[5]  the version of the item's stock at which it had them; missing for a part of a split
--          counter
-- Answers 1 when it was set, 0 when something had changed.
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available')
local queued = KEYS[2] and redis.call('HGET', KEYS[2], 'units') or '0'
if seen[1] ~= ARGV[1] or seen[2] ~= ARGV[2] or queued ~= ARGV[3] then
  return 0
end
redis.call('HSET', KEYS[1], 'available', ARGV[4] - ARGV[3])
if ARGV[5] then
  -- The figure includes every change up to that version, also one that arrives later.
  redis.call('HSET', KEYS[1], 'version', ARGV[5])
end
return 1
