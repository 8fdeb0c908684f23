-- Adds units to an item's counter, if it is still the load from which they were taken.
-- KEYS[1]  the counter, a hash
-- ARGV[1]  the epoch that the caller saw
-- ARGV[2]  units
-- Answers 1 when they were added, 0 when the counter was loaded again since: the ledger that it
-- was loaded from knows them already.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'available', ARGV[2])
return 1
