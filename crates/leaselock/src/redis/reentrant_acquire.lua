-- Grants a lock to an owner, or one more entry to the owner that has it. After waiters.lua.
-- KEYS[1]  the lock: a hash of its owner, its fence, its channel and one field per entry
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue; all three in one hash slot
-- ARGV[1]  the entry: the owner itself when it comes for the first time
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  how many fences it would like
-- ARGV[4]  the channel on which its process listens, or ''
-- ARGV[5]  not used: a contender that comes while the lock is free need not queue
-- ARGV[6]  '1' if it is to be in the queue when it is refused
-- ARGV[7]  not used, as ARGV[5]
-- ARGV[8]  the owner
-- ARGV[9]  the number of this attempt
-- Answers  the fence as a decimal string, a space and how many others wait, if the lock is the
--          owner's now; nil if it is not

local entry, lease_ms, fences, channel, me = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[8]
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= me then
  if ARGV[6] == '1' then
    local told_at = redis.call('HGET', KEYS[1], 'channel')
    if join(KEYS[3], entry, false, lease_ms, fences, channel, ARGV[9]) and told_at ~= '' then
      -- It should not go on handing over inside its process.
      redis.call('PUBLISH', told_at, owner .. ' wanted')
    end
  end
  return false
end
local fence = redis.call('HGET', KEYS[1], 'fence')
if not owner then
  -- A retry that finds the lock free has lost it.
  if me ~= entry then
    return false
  end
  fence = mint_fence(KEYS[2], fences)
  redis.call('HSET', KEYS[1], 'owner', me, 'fence', fence, 'channel', channel)
end
-- A field of its own instead of a count, so that a repeated command is no further entry.
redis.call('HSET', KEYS[1], 'entry:' .. entry, 1)
if redis.call('PTTL', KEYS[1]) < tonumber(lease_ms) then
  redis.call('PEXPIRE', KEYS[1], lease_ms)
end
redis.call('HDEL', KEYS[3], entry)
return fence .. ' ' .. redis.call('HLEN', KEYS[3])
