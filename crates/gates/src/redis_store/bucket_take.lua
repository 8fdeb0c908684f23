-- Takes units from one bucket: as many as it has, at most the number asked for.
-- KEYS[1]  the bucket, a hash
-- ARGV[1]  the epoch that the caller knows
-- ARGV[2]  units
-- Answers the units taken, or -1 when the bucket is not the load of that epoch.
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available')
if seen[1] ~= ARGV[1] or not seen[2] then
  return -1
end
local taken = math.min(tonumber(seen[2]), tonumber(ARGV[2]))
if taken <= 0 then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'available', -taken)
return taken
