-- Grants a lock to an owner, or one more entry to the owner that has it.
-- KEYS[1]  the lock: a hash of its owner, its fence and one field per entry
-- KEYS[2]  the fence counter, in the same hash slot
-- ARGV[1]  the owner
-- ARGV[2]  the entry: the owner itself when it comes for the first time
-- ARGV[3]  the lease in milliseconds
-- ARGV[4]  how long the counter is kept without an acquire, in milliseconds
-- Answers  the fence as a decimal string if the lock is the owner's now, nil if it is not

local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then
  return false
end
local fence = redis.call('HGET', KEYS[1], 'fence')
if not owner then
  -- Whoever comes again and finds the lock free has lost it.
  if ARGV[1] ~= ARGV[2] then
    return false
  end
  fence = mint_fence(KEYS[2], ARGV[4])
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', fence)
end
-- A field of its own instead of a count, so that a repeated command is no further entry.
redis.call('HSET', KEYS[1], 'entry:' .. ARGV[2], 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return fence
