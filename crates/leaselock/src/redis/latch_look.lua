-- Looks whether the count is down to zero, and leaves word that this one waits if it is not. After
-- clock.lua.
-- KEYS[1]  what is left
-- KEYS[2]  who waits, in the same hash slot: a sorted set of 'token channel' by the time of the last look
-- ARGV[1]  the token, unique to this wait
-- ARGV[2]  the channel on which its process listens, or ''
-- Answers  1 at zero, 0 if not

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 1
end
if ARGV[2] ~= '' then
  redis.call('ZADD', KEYS[2], text(now_us), ARGV[1] .. ' ' .. ARGV[2])
  -- Those that were not seen for so long have given up; when all have, nothing is left behind.
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now_us - 2 * WAITER_ALIVE_MS * 1000))
  redis.call('PEXPIRE', KEYS[2], 4 * WAITER_ALIVE_MS)
end
return 0
