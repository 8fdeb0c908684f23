-- Lets a writer in when nobody holds the name and no reader's turn is left.
-- KEYS[1]  the writer's hold
-- KEYS[2]  the readers' holds
-- KEYS[3]  who waits
-- KEYS[4]  when the last writer was let in
-- KEYS[5]  the fence counter; all in one hash slot
-- ARGV[1]  the token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  for how long a waiter that is not seen counts as alive, in milliseconds
-- Answers  the fence as a decimal string if the token holds the name now, nil if not

local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
  -- Ours already: the answer to an earlier try was lost. Repeat it, with a lease from now on.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return string.sub(held, #ARGV[1] + 2)
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now_us))
local me = 'w:' .. ARGV[1]
local granted_us = tonumber(redis.call('GET', KEYS[4]) or '0')
local _, early_reader = who_waits(KEYS[3], ARGV[3], granted_us)
if held or early_reader or redis.call('ZCARD', KEYS[2]) > 0 then
  wait(KEYS[3], me, arrival(KEYS[3], me), ARGV[3])
  return false
end
local fence = mint_fence(KEYS[5])
redis.call('HDEL', KEYS[3], me)
redis.call('SET', KEYS[4], text(now_us), 'PX', FENCE_KEPT_MS)
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence, 'PX', ARGV[2])
return fence
