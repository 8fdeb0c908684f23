-- Checks whether the number is down to zero; if not, adds this waiter to the queue. After clock.lua.
-- KEYS[1]  the number
-- KEYS[2]  the queue of waiting contenders, in the same hash slot: a sorted set of 'token channel' by the time of the last attempt
-- ARGV[1]  the token, unique to this wait
-- ARGV[2]  the channel on which its process listens, or ''
-- Answers  1 at zero, 0 if not

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 1
end
if ARGV[2] ~= '' then
  redis.call('ZADD', KEYS[2], text(now_us), ARGV[1] .. ' ' .. ARGV[2])
  -- Waiters without an attempt for this long have given up; when all have, nothing is left behind.
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now_us - 2 * WAITER_ALIVE_MS * 1000))
  redis.call('PEXPIRE', KEYS[2], 4 * WAITER_ALIVE_MS)
end
return 0
