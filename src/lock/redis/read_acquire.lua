-- Lets a reader in, unless a writer holds the name or it is a writer's turn.
-- KEYS[1]  the writer's hold
-- KEYS[2]  the readers' holds
-- KEYS[3]  who waits
-- KEYS[4]  when the last writer was let in
-- KEYS[5]  the fence counter, not used; all in one hash slot
-- ARGV[1]  the token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  for how long a waiter that is not seen counts as alive, in milliseconds
-- Answers  1 if the token holds the name now, nil if not

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now_us))
-- In already if the answer to an earlier try was lost.
if prolong(KEYS[2], ARGV[1], ARGV[2]) then
  return 1
end
local me = 'r:' .. ARGV[1]
local arrived_us = arrival(KEYS[3], me)
local granted_us = tonumber(redis.call('GET', KEYS[4]) or '0')
local writer_waits = who_waits(KEYS[3], ARGV[3], granted_us)
local writers_turn = writer_waits and arrived_us >= granted_us
if redis.call('EXISTS', KEYS[1]) == 1 or writers_turn then
  wait(KEYS[3], me, arrived_us, ARGV[3])
  return false
end
redis.call('HDEL', KEYS[3], me)
hold(KEYS[2], ARGV[1], ARGV[2])
return 1
