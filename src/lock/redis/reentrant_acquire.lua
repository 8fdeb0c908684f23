-- Grants a lock to an owner, or one more entry to the owner that has it. After waiters.lua.
-- KEYS[1]  the lock: a hash of its owner, its fence, its channel and one field per entry
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue; all three in one hash slot
-- ARGV[1]  the owner
-- ARGV[2]  the entry: the owner itself when it comes for the first time
-- ARGV[3]  the lease in milliseconds
-- ARGV[4]  how many fences it would like
-- ARGV[5]  the channel on which its process listens, or ''
-- ARGV[6]  '1' if it is to be in the queue when it is refused
-- Answers  the fence as a decimal string, a space and how many others wait, if the lock is the
--          owner's now; nil if it is not

local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then
  if ARGV[6] == '1' then
    local channel = redis.call('HGET', KEYS[1], 'channel')
    if join(KEYS[3], ARGV[2], false, ARGV[3], ARGV[4], ARGV[5]) and channel ~= '' then
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
  fence = mint_fence(KEYS[2], ARGV[4])
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', fence, 'channel', ARGV[5])
end
-- A field of its own instead of a count, so that a repeated command is no further entry.
redis.call('HSET', KEYS[1], 'entry:' .. ARGV[2], 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
redis.call('HDEL', KEYS[3], ARGV[2])
return fence .. ' ' .. redis.call('HLEN', KEYS[3])
