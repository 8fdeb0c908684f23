-- Takes units from an item's counter, once per request. All checks first, writes last.
-- KEYS[1]  the counter, a hash
-- KEYS[2]  the requests that took from it, a hash: request -> first, or again
-- ARGV[1]  the epoch that the caller knows
-- ARGV[2]  units
-- ARGV[3]  the request, named with that epoch and the units
-- ARGV[4]  how long requests are remembered, in milliseconds
-- Answers 1 when they were taken, 2 when this request had taken them before, 0 when too few are
-- left, -1 when the counter is not the load of that epoch.
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available')
if seen[1] ~= ARGV[1] or not seen[2] then
  return -1
end
if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then
  -- From now on two tries count on these units, so neither may give them back.
  redis.call('HSET', KEYS[2], ARGV[3], 'again')
  return 2
end
if tonumber(seen[2]) < tonumber(ARGV[2]) then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'available', '-' .. ARGV[2])
redis.call('HSET', KEYS[2], ARGV[3], 'first')
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
