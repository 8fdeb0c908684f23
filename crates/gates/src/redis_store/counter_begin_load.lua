-- Marks an item's counter as being loaded under an epoch, before the ledger is read for it: from
-- here on no gate takes from an older load, and no older load is written any more.
-- KEYS[1]  the counter, a hash: epoch, available, version, b:<buyer> -> units
-- ARGV[1]  the epoch of this load
-- ARGV[2]  the epoch whose load was waited for in vain; empty when none was
-- Answers load; later when a later epoch stands there; kept when the load that was waited for is
-- complete by now. Then units of it may be on their way into the ledger, so it stays as it is, and
-- only its epoch changes. A second call without ARGV[2] deletes what the first call kept.
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available')
if seen[1] and tonumber(seen[1]) > tonumber(ARGV[1]) then
  return 'later'
end
if seen[1] == ARGV[2] and seen[2] then
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
  return 'kept'
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
return 'load'
