-- Prolongs the lease of a lock if the entry is in it. Never creates it.
-- KEYS[1]  the lock
-- ARGV[1]  the entry
-- ARGV[2]  the lease in milliseconds
-- Answers  1 if renewed, 0 if the entry is gone

if redis.call('HEXISTS', KEYS[1], 'entry:' .. ARGV[1]) == 0 then
  return 0
end
-- Another entry may have a longer lease.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
