-- Grants a lock to an owner, or one more entry to the owner that has it. After waiters.lua and
-- mint_fence.lua.
-- KEYS[1]  the lock: a hash of its owner, its fence, its channel and one field per entry
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue
-- KEYS[4]  what its waiters said; all four in one hash slot
-- ARGV[1]  the owner
-- ARGV[2]  the entry: the owner itself when it comes for the first time
-- ARGV[3]  the lease in milliseconds
-- ARGV[4]  how long the counter is kept without an acquire, in milliseconds
-- ARGV[5]  how many fences it would like
-- ARGV[6]  the channel on which its process listens, or ''
-- ARGV[7]  '1' if it waits when it is refused
-- Answers  the fence as a decimal string and how many others wait, if the lock is the owner's now;
--          nil if it is not

local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then
  if ARGV[7] == '1' and ARGV[6] ~= '' then
    local channel = redis.call('HGET', KEYS[1], 'channel')
    if join(KEYS[3], KEYS[4], ARGV[2], ARGV[3], ARGV[5], ARGV[6]) and channel ~= '' then
      -- It should not go on handing over inside its process.
      redis.call('PUBLISH', channel, owner .. ' wanted')
    end
  end
  return false
end
local fence = redis.call('HGET', KEYS[1], 'fence')
if not owner then
  -- Whoever comes again and finds the lock free has lost it.
  if ARGV[1] ~= ARGV[2] then
    return false
  end
  fence = mint_fence(KEYS[2], ARGV[4], ARGV[5])
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', fence, 'channel', ARGV[6])
end
-- A field of its own instead of a count, so that a repeated command is no further entry.
redis.call('HSET', KEYS[1], 'entry:' .. ARGV[2], 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
leave(KEYS[3], KEYS[4], ARGV[2])
return {fence, redis.call('ZCARD', KEYS[3])}
