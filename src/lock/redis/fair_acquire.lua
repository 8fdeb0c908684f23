-- Grants a lock to the one that has waited longest.
-- KEYS[1]  the lock
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue: a sorted set of tokens by arrival
-- KEYS[4]  when each of them was last seen: a hash; all four in one hash slot
-- ARGV[1]  the token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  how long the counter is kept without an acquire, in milliseconds
-- ARGV[4]  for how long a waiter that is not seen counts as alive, in milliseconds
-- Answers  the fence as a decimal string if the lock is ours now, nil if it is not our turn

local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
  -- Ours already: the answer to an earlier try was lost. Repeat it, with a lease from now on.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return string.sub(held, #ARGV[1] + 2)
end

-- The server's clock orders the queue: those of the waiters need not agree.
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local alive_us = tonumber(ARGV[4]) * 1000
redis.call('ZADD', KEYS[3], 'NX', string.format('%.0f', now_us), ARGV[1])
redis.call('HSET', KEYS[4], ARGV[1], string.format('%.0f', now_us))

-- Those who went away without a word, at the head of the queue.
local head = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
while head ~= ARGV[1] do
  local seen_us = tonumber(redis.call('HGET', KEYS[4], head) or '0')
  if seen_us + alive_us > now_us then
    break
  end
  redis.call('ZREM', KEYS[3], head)
  redis.call('HDEL', KEYS[4], head)
  head = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
end

if held or head ~= ARGV[1] then
  -- When all of them are gone, nothing is left behind.
  redis.call('PEXPIRE', KEYS[3], ARGV[4] * 4)
  redis.call('PEXPIRE', KEYS[4], ARGV[4] * 4)
  return false
end
local fence = mint_fence(KEYS[2], ARGV[3])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence, 'PX', ARGV[2])
return fence
