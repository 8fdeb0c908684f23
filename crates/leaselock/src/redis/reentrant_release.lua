-- Ends one entry; with the last one the lock is free, or the next process has it. After waiters.lua.
-- KEYS[1]  the lock
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue; all three in one hash slot
-- ARGV[1]  the entry
-- Answers  1 if ended, 0 if the entry is gone

if redis.call('HDEL', KEYS[1], 'entry:' .. ARGV[1]) == 0 then
  -- Perhaps it only waited.
  redis.call('HDEL', KEYS[3], ARGV[1])
  return 0
end
-- Owner, fence and channel are left.
if redis.call('HLEN', KEYS[1]) == 3 then
  redis.call('DEL', KEYS[1])
  local handed_on = hand_on(KEYS[3], redis.call('HGETALL', KEYS[3]), function(token, lease_ms, fences, channel)
    local fence = mint_fence(KEYS[2], fences)
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'owner', token, 'fence', fence, 'channel', channel, 'entry:' .. token, 1)
    redis.call('PEXPIRE', KEYS[1], lease_ms)
    return fence
  end)
  if not handed_on then
    redis.call('DEL', KEYS[1])
  end
end
return 1
